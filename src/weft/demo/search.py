"""search: a web search over the bundled pages, with an answer such as web searches give."""

from __future__ import annotations

from typing import Annotated, TypedDict

from pydantic import Field

from weft.demo.serving import Tools, reads, serve
from weft.demo.shelf import Shelf

MOST = 20


class WebSearchResult(TypedDict):
    """What a web search gives."""

    title: str
    link: str
    snippet: str
    displayLink: str
    date: str


class Search:
    """The tools of the web search."""

    def __init__(self, data: str) -> None:
        self._shelf = Shelf(data, collections=("web",))

    def search(
        self,
        query: Annotated[str, Field(description="What to search for.")],
        limit: Annotated[int, Field(description="How many results at most.", ge=1, le=MOST)] = 10,
        since: Annotated[str, Field(description="Only pages of this date or later, such as 2023-06.")] = "",
    ) -> list[WebSearchResult]:
        """Search the web pages of the demo and return titles, links and snippets, the best first."""
        found = [one for one in self._shelf.search(query, limit=MOST) if one.document.date >= since]
        return [
            {
                "title": one.document.title,
                "link": one.document.url,
                "snippet": one.excerpt,
                "displayLink": "web.demo",
                "date": one.document.date,
            }
            for one in found[:limit]
        ]


def tools(data: str) -> Tools:
    """Return the tools over a data file."""
    return [reads(Search(data).search)]


def main() -> None:
    """Serve them."""
    serve("search", "A web search over bundled pages.", tools)


if __name__ == "__main__":
    main()
