"""Documents in SQLite with full-text search, and those that are bundled: written for weft, none of them real."""

from __future__ import annotations

import json
import re
import sqlite3
from dataclasses import dataclass
from pathlib import Path

MEMORY = ":memory:"
CORPUS = Path(__file__).with_name("corpus.json")
WORD = re.compile(r"\w{3,}")
STOP = frozenset({
    "about", "and", "are", "but", "can", "for", "from", "has", "have", "how", "into", "its", "not", "now", "one", "our",
    "than", "that", "the", "their", "them", "there", "they", "this", "was", "were", "what", "when", "where", "which",
    "who", "will", "with", "you", "your",
})  # fmt: skip
TABLES = """
CREATE TABLE IF NOT EXISTS documents (
    id INTEGER PRIMARY KEY, collection TEXT NOT NULL, url TEXT NOT NULL UNIQUE, title TEXT NOT NULL, text TEXT NOT NULL,
    date TEXT NOT NULL, authors TEXT NOT NULL, link TEXT NOT NULL
);
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(
    title, text, content='documents', content_rowid='id', tokenize='porter unicode61'
);
CREATE TRIGGER IF NOT EXISTS added AFTER INSERT ON documents BEGIN
    INSERT INTO words(rowid, title, text) VALUES (new.id, new.title, new.text);
END;
"""
FIELDS = "id, collection, url, title, text, date, authors, link"
RANKED = f"""
SELECT {", ".join(f"documents.{one}" for one in FIELDS.split(", "))}, -bm25(words, 3.0, 1.0),
       snippet(words, 1, '', '', ' ... ', 24)
FROM words JOIN documents ON documents.id = words.rowid
WHERE words MATCH ? AND (? = '' OR collection = ?)
ORDER BY 9 DESC, documents.id LIMIT ?
"""


@dataclass(frozen=True, slots=True)
class Document:
    """One document: where it stands, what it says, and what it reports on if it is about another."""

    collection: str
    url: str
    title: str
    text: str
    date: str = ""
    authors: tuple[str, ...] = ()
    link: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """A document that a search found; the score is between 0 and 1."""

    document: Document
    score: float
    excerpt: str


class Shelf:
    """A place for documents: put, get, search."""

    def __init__(self, data: str = MEMORY, *, collections: tuple[str, ...] = ()) -> None:
        """Open the file, or memory; an empty one is given the bundled documents, or those of some collections."""
        # Tools may run in any thread of their server, but one at a time.
        self._db = sqlite3.connect(data, isolation_level=None, check_same_thread=False)
        self._db.executescript(TABLES)
        if self._db.execute("SELECT count(*) FROM documents").fetchone() == (0,):
            for one in corpus():
                if not collections or one.collection in collections:
                    self.put(one)

    def put(self, document: Document) -> None:
        """Add a document.

        Raises:
            ValueError: there is one at its place already.
        """
        row = (document.collection, document.url, document.title, document.text, document.date)
        with self._db:
            try:
                self._db.execute(
                    "INSERT INTO documents (collection, url, title, text, date, authors, link) VALUES (?,?,?,?,?,?,?)",
                    (*row, json.dumps(document.authors), document.link),
                )
            except sqlite3.IntegrityError:
                raise ValueError(f"there is a document at {document.url} already") from None

    def get(self, url: str) -> Document | None:
        """Return the document at a place."""
        row = self._db.execute(f"SELECT {FIELDS} FROM documents WHERE url = ?", (url,)).fetchone()
        return None if row is None else _document(row)

    def search(self, query: str, *, limit: int, collection: str = "") -> list[Found]:
        """Return the documents that have words of the query, the best first.

        The score says how many of the words a document has and, less so, how it ranks among those that were found.
        """
        words = words_of(query)
        if not words:
            return []
        match = " OR ".join(f'"{word}"' for word in words)
        rows = self._db.execute(RANKED, (match, collection, collection, limit)).fetchall()
        having = [{id_ for (id_,) in self._having(word)} for word in words]
        best = max((row[8] for row in rows), default=0.0) or 1.0
        found = [
            Found(_document(row), round(_share(row[0], having) * (0.6 + 0.4 * row[8] / best), 2), row[9])
            for row in rows
        ]
        return sorted(found, key=lambda one: -one.score)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _having(self, word: str) -> list[tuple[int]]:
        return self._db.execute("SELECT rowid FROM words WHERE words MATCH ?", (f'"{word}"',)).fetchall()


def _share(id_: int, having: list[set[int]]) -> float:
    return sum(id_ in one for one in having) / len(having)


def _document(row: tuple[int, str, str, str, str, str, str, str]) -> Document:
    _, collection, url, title, text, date, authors, link = row[:8]
    return Document(collection, url, title, text, date, tuple(json.loads(authors)), link)


def words_of(text: str) -> list[str]:
    """Return the words of a text that say what it is about, each once."""
    return [word for word in dict.fromkeys(WORD.findall(text.lower())) if word not in STOP]


def corpus() -> list[Document]:
    """Return the bundled documents; the first part of a document's address is its collection."""
    return [
        Document(one["url"].split("/")[2], one["url"], one["title"], one["text"], one["date"], tuple(one["authors"]),
                 one.get("link", ""))
        for one in json.loads(CORPUS.read_text(encoding="utf-8"))
    ]  # fmt: skip
