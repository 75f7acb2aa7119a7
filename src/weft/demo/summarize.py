"""summarize: the sentences that say most of what several documents say, by the ranks of a graph of sentences.

Sentences that share words point at each other; the rank of a sentence is that of a page in a web of such links (the
method known as TextRank). A sentence that says what a chosen one says already is passed over.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Annotated, NotRequired, TypedDict

from pydantic import Field

from weft.demo.serving import Tools, reads, serve
from weft.demo.shelf import words_of

SENTENCE = re.compile(r"[^.?!]+[.?!]+(?=\s|$)|[^.?!]+$")
DAMPING = 0.85
ROUNDS = 30
TOO_ALIKE = 0.7
MOST_SENTENCES = 400
STEM = 5


class Source(TypedDict):
    """A document that a report rests on."""

    title: str
    url: str


class Text(TypedDict):
    """A document to sum up."""

    content: str
    title: NotRequired[str]
    url: NotRequired[str]


class Report(TypedDict):
    """What several documents say, in a few sentences of theirs."""

    summary: str
    sources: list[Source]


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence, where it stands, and the stems of its words."""

    place: int
    text: str
    stems: frozenset[str]


def summarize(
    documents: Annotated[list[Text], Field(description="The documents, each with its text as content.")],
    sentences: Annotated[int, Field(description="How many sentences at most.", ge=1, le=50)] = 5,
) -> Report:
    """Sum documents up in the sentences that share most with all others, in the order in which they stand."""
    found = [text.strip() for one in documents for text in SENTENCE.findall(one["content"]) if text.strip()]
    read = [Sentence(place, text, _stems(text)) for place, text in enumerate(found[:MOST_SENTENCES])]
    chosen = _chosen(read, sentences)
    return {
        "summary": " ".join(one.text for one in sorted(chosen, key=lambda one: one.place)),
        "sources": [{"title": one.get("title", ""), "url": one.get("url", "")} for one in documents],
    }


def _chosen(read: list[Sentence], most: int) -> list[Sentence]:
    ranks = _ranks(read)
    chosen: list[Sentence] = []
    for one in sorted(read, key=lambda one: (-ranks[one.place], one.place)):
        if len(chosen) < most and all(_shared(one, other) < TOO_ALIKE for other in chosen):
            chosen.append(one)
    return chosen


def _ranks(read: list[Sentence]) -> list[float]:
    """Return the rank of each sentence: what flows into it from those that are like it, round after round."""
    links = [[0.0 if one is other else _likeness(one, other) for other in read] for one in read]
    totals = [sum(row) or 1.0 for row in links]
    ranks = [1.0] * len(read)
    for _ in range(ROUNDS):
        shares = [rank / total for rank, total in zip(ranks, totals, strict=True)]
        ranks = [
            1 - DAMPING + DAMPING * sum(link * share for link, share in zip(row, shares, strict=True)) for row in links
        ]
    return ranks


def _likeness(one: Sentence, other: Sentence) -> float:
    shared = len(one.stems & other.stems)
    # Long sentences share words by chance: the logarithms of their lengths make up for it.
    return shared / (math.log1p(len(one.stems)) + math.log1p(len(other.stems))) if shared else 0.0


def _shared(one: Sentence, other: Sentence) -> float:
    return len(one.stems & other.stems) / (min(len(one.stems), len(other.stems)) or 1)


def _stems(text: str) -> frozenset[str]:
    return frozenset(word[:STEM] for word in words_of(text))


def tools(_data: str) -> Tools:
    """Return the tools, which keep nothing."""
    return [reads(summarize)]


def main() -> None:
    """Serve them."""
    serve("summarize", "An extractive summariser.", tools)


if __name__ == "__main__":
    main()
