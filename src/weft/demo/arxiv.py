"""arxiv: papers by words, in the shape of a preprint server's answers."""

from __future__ import annotations

from typing import Annotated, TypedDict

from pydantic import Field

from weft.demo.serving import Tools, reads, serve
from weft.demo.shelf import Document, Shelf
from weft.errors import ToolFailed

WITH_PDF = "2023-06"


class Paper(TypedDict):
    """What the search for papers gives; older papers come without a PDF."""

    paper_title: str
    arxiv_id: str
    abstract: str
    authors: list[str]
    published_date: str
    abs_url: str
    pdf_url: str | None
    score: float


class Arxiv:
    """The tools of the papers source."""

    def __init__(self, data: str) -> None:
        self._shelf = Shelf(data, collections=("arxiv",))

    def arxiv_search(
        self,
        query: Annotated[str, Field(description="Words of titles and abstracts.")],
        max_results: Annotated[int, Field(description="How many at most.", ge=1, le=20)] = 5,
    ) -> list[Paper]:
        """Search papers and return titles, abstracts, authors and a score between 0 and 1, the best first."""
        return [_paper(one.document, one.score) for one in self._shelf.search(query, limit=max_results)]

    def arxiv_paper(self, arxiv_id: Annotated[str, Field(description="Such as 2305.00101.")]) -> Paper:
        """Return one paper by its id."""
        found = self._shelf.get(f"demo://arxiv/{arxiv_id}")
        if found is None:
            raise ToolFailed("arxiv_paper", f"there is no paper {arxiv_id!r}; arxiv_search gives ids")
        return _paper(found, 1.0)


def _paper(paper: Document, score: float) -> Paper:
    return {
        "paper_title": paper.title,
        "arxiv_id": paper.url.rpartition("/")[2],
        "abstract": paper.text,
        "authors": list(paper.authors),
        "published_date": paper.date,
        "abs_url": paper.url,
        "pdf_url": f"{paper.url}.pdf" if paper.date >= WITH_PDF else None,
        "score": score,
    }


def tools(data: str) -> Tools:
    """Return the tools over a data file."""
    arxiv = Arxiv(data)
    return [reads(arxiv.arxiv_search), reads(arxiv.arxiv_paper)]


def main() -> None:
    """Serve them."""
    serve("arxiv", "Papers by words.", tools)


if __name__ == "__main__":
    main()
