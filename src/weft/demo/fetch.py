"""fetch: pages by their address. Those of the demo, files of one folder, and what this machine itself serves."""

from __future__ import annotations

import asyncio
import re
import urllib.error
import urllib.request
from html.parser import HTMLParser
from pathlib import Path
from typing import Annotated, Any, TypedDict
from urllib.parse import unquote, urlsplit

from pydantic import Field

from weft.demo.serving import Tools, reads, serve
from weft.demo.shelf import CORPUS, Shelf
from weft.errors import ToolFailed

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
MOST = 1_000_000
PATIENCE = 10.0
SPACES = re.compile(r"\s+")


class Page(TypedDict):
    """A page as text."""

    url: str
    title: str
    content: str
    truncated: bool


class Fetch:
    """The tools of the fetcher."""

    def __init__(self, data: str, files: Path = CORPUS.parent) -> None:
        self._shelf = Shelf(data)
        self._files = files.resolve()

    async def fetch(
        self,
        url: Annotated[str, Field(description="demo://wiki/mowing, a file:// page of the demo, or http://127.0.0.1..")],
        max_length: Annotated[int, Field(description="Characters at most.", ge=1, le=MOST)] = 20_000,
    ) -> Page:
        """Fetch a page and return it as text; it never leaves this machine."""
        title, text = await self._read(url)
        return {"url": url, "title": title, "content": text[:max_length], "truncated": len(text) > max_length}

    async def _read(self, url: str) -> tuple[str, str]:
        parts = urlsplit(url)
        match parts.scheme:
            case "demo":
                return self._demo(url)
            case "file":
                return self._file(Path(unquote(parts.path)))
            case "http" if parts.hostname in LOOPBACK:
                return await asyncio.to_thread(_http, url)
            case "http" | "https":
                raise _no(f"{url} is not on this machine, and the demo does not go out")
            case _:
                raise _no(f"{url!r} is no address; give demo://.., file://.. or http://127.0.0.1..")

    def _demo(self, url: str) -> tuple[str, str]:
        found = self._shelf.get(url.removesuffix(".pdf"))
        if found is None:
            raise _no(f"there is nothing at {url}")
        return found.title, found.text

    def _file(self, path: Path) -> tuple[str, str]:
        if not path.resolve().is_relative_to(self._files):
            raise _no(f"{path} is not below {self._files}")
        try:
            return path.name, path.read_bytes()[:MOST].decode(errors="replace")
        except OSError as error:
            raise _no(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from None


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: it could lead away from this machine."""

    def redirect_request(self, *_given: Any, **_named: Any) -> None:
        return None


def _http(url: str) -> tuple[str, str]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _Stay())
    try:
        with opener.open(url, timeout=PATIENCE) as answer:
            text = answer.read(MOST).decode(answer.headers.get_content_charset() or "utf-8", errors="replace")
            return _readable(text) if answer.headers.get_content_type() == "text/html" else (url, text)
    except urllib.error.HTTPError as error:
        with error:
            raise _no(f"{url} answered {error.code}") from None
    except (OSError, ValueError, LookupError) as error:
        raise _no(f"{url} cannot be fetched: {error}") from None


class _Text(HTMLParser):
    """Takes what a reader sees of a page, and its title."""

    def __init__(self) -> None:
        super().__init__()
        self.title = ""
        self.words: list[str] = []
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag if tag in ("title", "script", "style") else self._inside

    def handle_endtag(self, tag: str) -> None:
        self._inside = "" if tag == self._inside else self._inside

    def handle_data(self, data: str) -> None:
        if self._inside == "title":
            self.title += data
        elif not self._inside:
            self.words.append(data)


def _readable(html: str) -> tuple[str, str]:
    page = _Text()
    page.feed(html)
    page.close()
    return page.title.strip(), SPACES.sub(" ", " ".join(page.words)).strip()


def _no(why: str) -> ToolFailed:
    return ToolFailed("fetch", why)


def tools(data: str) -> Tools:
    """Return the tools over a data file."""
    return [reads(Fetch(data).fetch)]


def main() -> None:
    """Serve them."""
    serve("fetch", "Pages by their address, as text.", tools)


if __name__ == "__main__":
    main()
