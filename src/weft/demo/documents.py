"""document-service: documents over SQLite with full-text search."""

from __future__ import annotations

from datetime import date
from typing import Annotated, TypedDict

from pydantic import Field

from weft.demo.serving import Tools, adds, reads, serve
from weft.demo.shelf import Document, Shelf
from weft.errors import ToolFailed


class DocumentHit(TypedDict):
    """What the search in documents gives."""

    id: str
    title: str
    excerpt: str
    collection: str
    modified: str
    author: str
    score: float


class StoredDocument(TypedDict):
    """A whole document."""

    id: str
    title: str
    text: str
    collection: str
    modified: str
    author: str


class Documents:
    """The tools of the document service."""

    def __init__(self, data: str) -> None:
        self._shelf = Shelf(data)

    def search_documents(
        self,
        query: Annotated[str, Field(description="Words to search for; any of them may match.")],
        collection: Annotated[str, Field(description="Search only here: web, arxiv, wiki, news. Empty: all.")] = "",
        limit: Annotated[int, Field(description="How many at most.", ge=1, le=50)] = 5,
    ) -> list[DocumentHit]:
        """Search documents by their words and return the best matches with an excerpt and a score between 0 and 1."""
        return [
            {
                "id": one.document.url,
                "title": one.document.title,
                "excerpt": one.excerpt,
                "collection": one.document.collection,
                "modified": one.document.date,
                "author": ", ".join(one.document.authors),
                "score": one.score,
            }
            for one in self._shelf.search(query, limit=limit, collection=collection)
        ]

    def get_document(
        self, id: Annotated[str, Field(description="What a search gave as id, such as demo://wiki/mowing.")]
    ) -> StoredDocument:
        """Return a whole document by its id."""
        found = self._shelf.get(id)
        if found is None:
            raise ToolFailed("get_document", f"there is no document {id!r}; search_documents gives ids")
        return _stored(found)

    def create_document(
        self,
        title: Annotated[str, Field(min_length=1)],
        text: Annotated[str, Field(min_length=1)],
        collection: Annotated[str, Field(description="Where to keep it.", pattern="^[a-z]+$")] = "notes",
        author: str = "",
    ) -> StoredDocument:
        """Store a new document; it can be found and fetched at once."""
        place = "-".join(word for word in title.lower().split() if word.isalnum()) or "untitled"
        made = Document(
            collection, f"demo://{collection}/{place}", title, text, date.today().isoformat(), (author,) * bool(author)
        )
        try:
            self._shelf.put(made)
        except ValueError as error:
            raise ToolFailed("create_document", f"{error}; give it another title") from None
        return _stored(made)


def _stored(document: Document) -> StoredDocument:
    return {
        "id": document.url,
        "title": document.title,
        "text": document.text,
        "collection": document.collection,
        "modified": document.date,
        "author": ", ".join(document.authors),
    }


def tools(data: str) -> Tools:
    """Return the tools over a data file."""
    documents = Documents(data)
    return [reads(documents.search_documents), reads(documents.get_document), adds(documents.create_document)]


def main() -> None:
    """Serve them."""
    serve("document-service", "Documents over SQLite with full-text search.", tools)


if __name__ == "__main__":
    main()
