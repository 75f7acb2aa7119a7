"""flaky: a news source that fails when it is told to, to see what a composition makes of it."""

from __future__ import annotations

import asyncio
import os
from typing import Annotated, Literal, TypedDict

from pydantic import Field

from weft.demo.serving import Tools, reads, serve, undoes
from weft.demo.shelf import Shelf
from weft.errors import ToolFailed

Mood = Literal["well", "fail", "hang", "die"]
HANGING = 3600.0


class NewsItem(TypedDict):
    """What the news source gives; the link is to what it reports on, if that can be read."""

    headline: str
    summary: str
    link: str
    published: str
    score: float


class Changed(TypedDict):
    """What the next searches will do."""

    mood: Mood
    calls: int


class Flaky:
    """The tools of the news source."""

    def __init__(self, data: str) -> None:
        self._shelf = Shelf(data, collections=("news",))
        self._mood: Mood = "well"
        self._calls = 0

    async def news_search(self, query: Annotated[str, Field(description="Words to search for.")]) -> list[NewsItem]:
        """Search the city's news; it fails, hangs or dies when `news_mood` told it to."""
        await self._suffer()
        return [
            {
                "headline": one.document.title,
                "summary": one.excerpt,
                "link": one.document.link or one.document.url,
                "published": one.document.date,
                "score": one.score,
            }
            for one in self._shelf.search(query, limit=5)
        ]

    def news_mood(
        self,
        mood: Annotated[Mood, Field(description="well: answer; fail: say no; hang: never answer; die: crash.")],
        calls: Annotated[int, Field(description="For how many searches; 0 is until told otherwise.", ge=0)] = 0,
    ) -> Changed:
        """Tell the news source how to behave from now on; for demonstrations and tests."""
        self._mood, self._calls = mood, calls
        return {"mood": mood, "calls": calls}

    async def _suffer(self) -> None:
        mood = self._mood
        if self._calls:
            self._calls -= 1
            self._mood = self._mood if self._calls else "well"
        if mood == "fail":
            raise ToolFailed("news_search", "the news archive is closed for repairs")
        if mood == "hang":
            await asyncio.sleep(HANGING)
        if mood == "die":
            os._exit(1)


def tools(data: str) -> Tools:
    """Return the tools over a data file."""
    flaky = Flaky(data)
    return [reads(flaky.news_search), undoes(flaky.news_mood)]


def main() -> None:
    """Serve them."""
    serve("news", "A news source that fails when it is told to.", tools)


if __name__ == "__main__":
    main()
