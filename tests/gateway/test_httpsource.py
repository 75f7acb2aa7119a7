"""A registry from a service: asked for only when it changed, kept for when the service is down."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.upstreams.listening import listening
from weft.errors import DocumentInvalid
from weft.gateway.httpsource import Copy, HttpSource
from weft.gateway.sources import Loaded
from weft.gateway.watcher import Watcher
from weft.ir.read import read


class Service:
    """A registry service over real HTTP, which can break in every way."""

    def __init__(self) -> None:
        self.url = ""
        self.body = b'{"tools": []}'
        self.status = 200
        self.type = "application/json"
        self.etags = True
        self.asked = list[dict[str, str]]()
        self.answered = list[int]()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.asked.append(headers)
        etag = f'"{hashlib.sha256(self.body).hexdigest()}"' if self.etags else ""
        same = self.status == 200 and etag and headers.get("if-none-match") == etag
        status = 304 if same else self.status
        self.answered.append(status)
        told = [(b"content-type", self.type.encode()), *([(b"etag", etag.encode())] if etag else [])]
        await send({"type": "http.response.start", "status": status, "headers": told})
        await send({"type": "http.response.body", "body": b"" if same else self.body})


class Reader:
    """Serves what a watcher brings."""

    def __init__(self, url: str, **settings: Any) -> None:
        self.served = list[Any]()
        self.source = HttpSource(url, **settings)
        self.watcher = Watcher(self.source, self.apply)

    async def apply(self, loaded: Loaded) -> None:
        self.served.append(read(loaded.data, name=loaded.name, format=loaded.format).value)

    @property
    def problem(self) -> dict[str, Any] | None:
        return next(iter(self.watcher.status().get("reload_failed", {}).get("problems", [])), None)


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
def running(service: Service) -> Iterator[ExitStack]:
    with ExitStack() as stack:
        port = stack.enter_context(listening(service))
        service.url = f"http://127.0.0.1:{port}/registry"
        yield stack


@pytest.fixture
def url(service: Service, running: ExitStack) -> str:
    return service.url


@pytest.mark.req("REG-45")
async def test_an_unchanged_document_is_not_sent_again(service: Service, url: str) -> None:
    reader = Reader(url)
    await reader.watcher.start()
    assert [await reader.watcher.poll() for _ in range(2)] == ["unchanged", "unchanged"]
    assert service.answered == [200, 304, 304]
    service.body = b'{"tools": [], "agents": []}'
    assert await reader.watcher.poll() == "ok"
    assert reader.served == [{"tools": []}, {"tools": [], "agents": []}]
    assert reader.watcher.generation == 2


async def test_a_service_without_etags_is_compared_by_content(service: Service, url: str) -> None:
    service.etags = False
    reader = Reader(url)
    await reader.watcher.start()
    assert await reader.watcher.poll() == "unchanged"
    assert service.answered == [200, 200]
    assert len(reader.served) == 1


async def test_a_refresh_asks_for_the_whole_document(service: Service, url: str) -> None:
    reader = Reader(url)
    await reader.watcher.start()
    assert await reader.watcher.refresh() == "unchanged"
    assert service.answered == [200, 200]


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ((500, "application/json", b"{}"), "SourceUnavailable"),
        ((404, "application/json", b"{}"), "SourceUnavailable"),
        ((302, "application/json", b"{}"), "SourceUnavailable"),
        ((304, "application/json", b""), "SourceUnavailable"),
        ((200, "text/html; charset=utf-8", b"<html>please log in</html>"), "NotADocument"),
        ((200, "application/json", b"{" + b" " * 20_000 + b"}"), "TooLarge"),
        ((200, "application/json", b'{\n"tools": ['), "InvalidJson"),
    ],
)
async def test_a_bad_answer_leaves_the_last_good_document(
    service: Service, url: str, answer: tuple[int, str, bytes], code: str
) -> None:
    reader = Reader(url, limit=10_000)
    await reader.watcher.start()
    good, service.etags = service.body, False
    service.status, service.type, service.body = answer
    if service.status == 304:
        # An answer to a question that was not asked.
        assert await reader.watcher.refresh() == "failed"
    else:
        assert await reader.watcher.poll() == "failed"
    assert reader.problem is not None
    assert (reader.problem["code"], reader.problem["file"]) == (code, url)
    assert (len(reader.served), reader.watcher.generation) == (1, 1)
    service.status, service.type, service.body = 200, "application/json", good
    assert await reader.watcher.poll() == "unchanged"
    assert reader.problem is None


async def test_a_document_that_was_refused_stays_refused_while_it_is_unchanged(service: Service, url: str) -> None:
    reader = Reader(url)
    await reader.watcher.start()
    service.body = b"{"
    assert await reader.watcher.poll() == "failed"
    assert await reader.watcher.poll() == "failed"
    assert service.answered == [200, 200, 304]
    assert reader.problem is not None
    assert reader.problem["code"] == "InvalidJson"


@pytest.mark.req("REG-45")
async def test_a_service_that_is_down_at_the_start_is_stood_in_for_by_the_last_good_copy(
    service: Service, url: str, running: ExitStack, tmp_path: Path
) -> None:
    await Reader(url, cache=tmp_path).watcher.start()
    service.status = 503
    reader = Reader(url, cache=tmp_path)
    await reader.watcher.start()
    assert reader.served == [{"tools": []}]
    assert reader.problem is not None
    assert reader.problem["message"] == "the service answered 503"
    service.status = 200
    assert await reader.watcher.poll() == "unchanged"
    assert service.answered[-1] == 304
    assert reader.problem is None
    running.close()
    gone = Reader(url, cache=tmp_path)
    await gone.watcher.start()
    assert gone.served == [{"tools": []}]


async def test_only_good_documents_are_kept(service: Service, url: str, tmp_path: Path) -> None:
    reader = Reader(url, cache=tmp_path)
    await reader.watcher.start()
    service.body = b"{"
    assert await reader.watcher.poll() == "failed"
    service.status = 500
    again = Reader(url, cache=tmp_path)
    await again.watcher.start()
    assert again.served == [{"tools": []}]


async def test_without_a_copy_a_service_that_is_down_ends_the_start(service: Service, url: str, tmp_path: Path) -> None:
    service.status = 500
    with pytest.raises(DocumentInvalid, match="the service answered 500"):
        await Reader(url, cache=tmp_path).watcher.start()


def test_a_copy_that_is_damaged_or_of_another_address_is_no_copy(tmp_path: Path) -> None:
    copy = Copy(tmp_path, "http://a/registry")
    data = b'{"tools": []}'
    copy.write(data, {"hash": hashlib.sha256(data).hexdigest()})
    assert copy.read() is not None
    assert Copy(tmp_path, "http://b/registry").read() is None
    copy.path.write_bytes(copy.path.read_bytes()[:-3])
    assert copy.read() is None
    copy.path.write_bytes(b"[1]\n{}")
    assert copy.read() is None
    assert copy.path.stat().st_mode & 0o077 == 0


async def test_a_folder_that_cannot_be_written_costs_only_the_copy(url: str, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    reader = Reader(url, cache=tmp_path / "cache")
    await reader.watcher.start()
    assert reader.problem is None
    assert reader.watcher.generation == 1


async def test_a_service_that_fails_is_asked_again_sooner_and_ever_less_often(service: Service, url: str) -> None:
    reader = Reader(url, every=300.0)
    await reader.watcher.start()
    assert reader.source.every == 300.0
    service.status = 500
    waits = list[float]()
    for _ in range(9):
        await reader.watcher.poll()
        waits.append(reader.source.every)
    assert waits == [2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 300.0]
    for status, wait in ((200, 300.0), (500, 2.0)):
        service.status = status
        await reader.watcher.poll()
        assert reader.source.every == wait


async def test_secrets_in_an_address_or_a_header_are_sent_and_not_told(
    service: Service, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", logger="weft")
    service.status = 500
    reader = Reader(f"{url}?key=canary", headers={"Authorization": "Bearer canary"})
    assert await reader.watcher.poll() == "failed"
    assert service.asked[0]["authorization"] == "Bearer canary"
    assert "canary" not in orjson.dumps(reader.watcher.status()).decode()
    assert "canary" not in caplog.text + str([vars(record) for record in caplog.records])


async def test_yaml_is_known_by_its_content_type(service: Service, url: str) -> None:
    service.type, service.body = "application/yaml", b"tools: []\n"
    reader = Reader(url)
    await reader.watcher.start()
    assert reader.served == [{"tools": []}]


async def test_a_service_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        reader = Reader(f"http://127.0.0.1:{port}/", timeout=0.05)
        assert await asyncio.wait_for(reader.watcher.poll(), 30) == "failed"
    assert reader.problem is not None
    assert reader.problem["code"] == "SourceUnavailable"
