"""A registry in a file: what is good comes into service, and the last good one stays while there is nothing good."""

from __future__ import annotations

import asyncio
import gc
import os
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from weft.app import snapshot_of
from weft.dsl.modules import read_module
from weft.errors import DocumentInvalid
from weft.gateway.sources import FileSource, Loaded
from weft.gateway.watcher import Watcher
from weft.ir.document import Document
from weft.ir.normalise import parse
from weft.ir.read import read
from weft.run.engine import Engine


def registry(field: str = "n", **more: Any) -> str:
    """Return a registry with one tool, which picks a field of its input and calls it `value`."""
    tool = {"name": "pick", "spec": {"schemaMap": {"mappings": {"value": {"path": f"$.{field}"}}}}}
    return orjson.dumps({"schemaVersion": "1.0", "tools": [tool], **more}).decode()


class Pauses:
    """Time that passes only for the watcher; while it does, something else may happen."""

    def __init__(self) -> None:
        self.count = 0
        self.meanwhile = list[Callable[[], None]]()

    async def __call__(self, seconds: float) -> None:
        self.count += 1
        if self.meanwhile:
            self.meanwhile.pop(0)()
        await asyncio.sleep(0)


class Gateway:
    """Serves what a watcher brings, with the real reader, checks and engine."""

    def __init__(self, path: Path, **settings: Any) -> None:
        self.pauses = Pauses()
        self.results = list[str]()
        self.changed = asyncio.Event()
        self.engine: Engine | None = None
        self.loaded: Loaded | None = None
        self.served = list[weakref.ref[Document]]()
        source = FileSource(path, pause=self.pauses, **settings)
        self.watcher = Watcher(source, self.apply, pause=self.pauses, on_result=self.results.append)

    async def apply(self, loaded: Loaded) -> None:
        folder = None if loaded.path is None else loaded.path.parent
        snapshot = snapshot_of(parse(read(loaded.data, name=loaded.name, format=loaded.format), folder=folder))
        self.served.append(weakref.ref(snapshot.document))
        self.loaded = loaded
        if self.engine is None:
            self.engine = Engine(snapshot)
        else:
            self.changed.set()
        self.engine.snapshot = snapshot

    async def call(self, value: dict[str, Any]) -> Any:
        assert self.engine is not None
        return await self.engine.execute("pick", value)

    @property
    def problems(self) -> list[dict[str, Any]]:
        return self.watcher.status().get("reload_failed", {}).get("problems", [])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "registry.json"
    path.write_text(registry())
    return path


@pytest.fixture
async def gateway(path: Path) -> Gateway:
    gateway = Gateway(path)
    await gateway.watcher.start()
    return gateway


def write(path: Path, text: str) -> None:
    """Write a file in its place, as careless programs do."""
    path.write_text(text)


def remove(path: Path) -> None:
    path.unlink()


def replace(path: Path, text: str) -> None:
    """Put a file in another's place at once, as careful programs do."""
    new = path.with_name("new")
    new.write_text(text)
    new.replace(path)


@pytest.mark.req("ALG-53", "REG-45")
@pytest.mark.parametrize("change", [replace, write])
async def test_a_changed_file_comes_into_service(
    gateway: Gateway, path: Path, change: Callable[[Path, str], object]
) -> None:
    assert await gateway.call({"n": 1}) == {"value": 1}
    change(path, registry("other"))
    assert await gateway.watcher.poll() == "ok"
    assert await gateway.call({"other": 2}) == {"value": 2}
    assert gateway.watcher.generation == 2
    assert gateway.results == ["ok", "ok"]


@pytest.mark.req("REG-45", "REG-63")
async def test_a_file_that_is_included_is_watched_like_the_one_that_names_it(tmp_path: Path) -> None:
    main, part, deep = (tmp_path / name for name in ("main.json", "part.json", "deep.json"))
    main.write_text('{"schemaVersion": "1.0", "$include": ["part.json"]}')
    part.write_text('{"$include": ["deep.json"]}')
    deep.write_text(registry())
    gateway = Gateway(main)
    await gateway.watcher.start()
    assert await gateway.call({"n": 1}) == {"value": 1}
    assert await gateway.watcher.poll() == "unchanged"
    deep.write_text(registry("other"))
    assert await gateway.watcher.poll() == "ok"
    assert await gateway.call({"other": 2}) == {"value": 2}
    os.utime(deep, (1, 1))
    assert await gateway.watcher.poll() == "unchanged"
    deep.unlink()
    assert await gateway.watcher.poll() not in ("ok", "unchanged")
    assert await gateway.call({"other": 3}) == {"value": 3}
    deep.write_text(registry("third"))
    assert await gateway.watcher.poll() == "ok"


async def test_a_file_that_nobody_touched_is_not_read(gateway: Gateway) -> None:
    pauses = gateway.pauses.count
    for _ in range(3):
        assert await gateway.watcher.poll() == "unchanged"
    assert gateway.pauses.count == pauses
    assert gateway.results == ["ok"]


async def test_touching_a_file_is_no_new_generation(gateway: Gateway, path: Path) -> None:
    loaded = gateway.loaded
    for touch in (path.touch, lambda: replace(path, registry()), lambda: write(path, registry())):
        touch()
        assert await gateway.watcher.poll() == "unchanged"
    assert gateway.loaded is loaded
    assert gateway.watcher.status()["generation"] == 1


async def test_a_half_written_file_is_waited_for(gateway: Gateway, path: Path) -> None:
    whole = registry("other")
    write(path, whole[:30])
    gateway.pauses.meanwhile = [lambda: write(path, whole[:60]), lambda: write(path, whole)]
    assert await gateway.watcher.poll() == "ok"
    assert gateway.results == ["ok", "ok"]


async def test_half_of_a_yaml_file_that_would_pass_for_a_whole_one_is_not_served(tmp_path: Path) -> None:
    path = tmp_path / "registry.yaml"
    whole = registry()
    write(path, whole[:-1] + ', "agents": []}')
    gateway = Gateway(path)
    half = 'schemaVersion: "1.0"\ntools: []\n'
    gateway.pauses.meanwhile = [lambda: write(path, half), lambda: write(path, whole)]
    await gateway.watcher.start()
    assert gateway.loaded is not None
    assert gateway.loaded.data == whole.encode()


async def test_a_file_that_is_written_all_the_time_is_reported_and_looked_at_again(
    gateway: Gateway, path: Path
) -> None:
    def grow(number: int) -> Callable[[], None]:
        return lambda: write(path, registry("other") + " " * number)

    write(path, registry("other"))
    gateway.pauses.meanwhile = [grow(number + 1) for number in range(FileSource.TRIES)]
    assert await gateway.watcher.poll() == "failed"
    assert gateway.problems[0]["code"] == "FileBusy"
    assert await gateway.watcher.poll() == "ok"


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ('{\n "tools": [\n', "InvalidJson", 3),
        ("", "EmptyDocument", None),
        ('{\n "schemaVersion": "1.0",\n "tool": []}', "UnknownKey", 3),
    ],
)
async def test_an_invalid_file_leaves_the_last_good_one_in_service(
    gateway: Gateway, path: Path, text: str, code: str, line: int | None
) -> None:
    replace(path, text)
    assert await gateway.watcher.poll() == "failed"
    assert await gateway.call({"n": 1}) == {"value": 1}
    problem = gateway.problems[0]
    assert (problem["code"], problem.get("line"), problem["file"]) == (code, line, str(path))
    assert gateway.watcher.generation == 1
    replace(path, registry("other"))
    assert await gateway.watcher.poll() == "ok"
    assert gateway.problems == []
    assert gateway.watcher.generation == 2


async def test_every_problem_of_an_invalid_file_is_told(gateway: Gateway, path: Path) -> None:
    calls = [{"name": f"t{n}", "spec": {"pipeline": {"steps": [{"operation": {"composition": "no"}}]}}} for n in "abc"]
    replace(path, orjson.dumps({"schemaVersion": "1.0", "tools": calls}).decode())
    assert await gateway.watcher.poll() == "failed"
    assert len(gateway.problems) >= 3
    assert all(problem["line"] == 1 for problem in gateway.problems)


async def test_the_last_good_file_put_back_ends_the_trouble(gateway: Gateway, path: Path) -> None:
    replace(path, "{")
    await gateway.watcher.poll()
    replace(path, registry())
    assert await gateway.watcher.poll() == "unchanged"
    assert gateway.problems == []
    assert gateway.watcher.generation == 1


async def test_a_deleted_file_leaves_the_last_good_one_in_service(gateway: Gateway, path: Path) -> None:
    remove(path)
    assert [await gateway.watcher.poll() for _ in range(3)] == ["failed", "unchanged", "unchanged"]
    assert await gateway.call({"n": 1}) == {"value": 1}
    assert gateway.problems[0]["message"] == "cannot read the file: no such file or directory"
    write(path, registry())
    assert await gateway.watcher.poll() == "unchanged"
    assert gateway.problems == []


async def test_a_file_that_is_away_for_a_moment_is_no_trouble(gateway: Gateway, path: Path) -> None:
    remove(path)
    gateway.pauses.meanwhile = [lambda: write(path, registry("other"))]
    assert await gateway.watcher.poll() == "ok"
    assert gateway.results == ["ok", "ok"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
async def test_a_file_that_may_no_longer_be_read_leaves_the_last_good_one(gateway: Gateway, path: Path) -> None:
    permit(path, 0)
    assert await gateway.watcher.poll() == "failed"
    assert "permission denied" in gateway.problems[0]["message"]
    permit(path, 0o600)
    assert await gateway.watcher.poll() == "unchanged"
    assert gateway.problems == []


def permit(path: Path, mode: int) -> None:
    path.chmod(mode)


def to_folder(path: Path) -> None:
    path.mkdir()


def to_pipe(path: Path) -> None:
    os.mkfifo(path)


def to_loop(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize("become", [to_folder, to_pipe, to_loop])
async def test_what_is_no_file_any_more_is_reported_and_never_waited_for(
    gateway: Gateway, path: Path, become: Callable[[Path], None]
) -> None:
    remove(path)
    become(path)
    assert await asyncio.wait_for(gateway.watcher.poll(), 30) == "failed"
    assert gateway.problems[0]["code"] == "UnreadableFile"
    assert gateway.watcher.generation == 1


async def test_a_file_over_the_limit_is_not_read(path: Path) -> None:
    gateway = Gateway(path, limit=1000)
    await gateway.watcher.start()
    write(path, registry() + " " * 1000)
    assert [await gateway.watcher.poll() for _ in range(2)] == ["failed", "unchanged"]
    assert gateway.problems[0]["code"] == "TooLarge"


async def test_a_swap_of_folders_behind_a_link_is_seen(tmp_path: Path) -> None:
    """Kubernetes: registry.json -> ..data/registry.json, ..data -> a folder that is swapped at once."""
    for number, field in enumerate(("n", "m")):
        folder = tmp_path / f"..{number}"
        folder.mkdir()
        (folder / "registry.json").write_text(registry(field))
        os.utime(folder / "registry.json", ns=(0, 0))
    data = tmp_path / "..data"
    data.symlink_to("..0")
    path = tmp_path / "registry.json"
    path.symlink_to("..data/registry.json")
    gateway = Gateway(path)
    await gateway.watcher.start()
    new = tmp_path / "..data_tmp"
    new.symlink_to("..1")
    new.rename(data)
    assert await gateway.watcher.poll() == "ok"
    assert await gateway.call({"m": 2}) == {"value": 2}


async def test_a_change_without_any_sign_is_found_by_and_by(path: Path) -> None:
    now = [0.0]
    gateway = Gateway(path, fully_every=300.0, now=lambda: now[0])
    await gateway.watcher.start()
    loaded, gateway.loaded = gateway.loaded, None
    assert loaded is not None
    # As if the file system had not told: what was seen last is what is there now.
    write(path, registry("other"))
    await gateway.watcher.source.look()
    assert await gateway.watcher.poll() == "unchanged"
    now[0] = 301.0
    assert await gateway.watcher.poll() == "ok"


async def test_a_refresh_tries_again_what_was_refused(path: Path) -> None:
    refuse, applied = [True], list[Loaded]()

    async def apply(loaded: Loaded) -> None:
        if refuse[0]:
            raise DocumentInvalid([])
        applied.append(loaded)

    watcher = Watcher(FileSource(path, pause=Pauses()), apply)
    assert await watcher.refresh() == "failed"
    refuse[0] = False
    assert await watcher.poll() == "unchanged"
    assert await watcher.refresh() == "ok"
    assert await watcher.refresh() == "unchanged"
    assert len(applied) == 1


async def test_a_start_without_a_good_registry_says_every_problem(path: Path) -> None:
    write(path, '{"tools": 1, "agents": 2}')
    with pytest.raises(DocumentInvalid) as raised:
        await Gateway(path).watcher.start()
    assert len(raised.value.problems) >= 2


async def test_what_breaks_in_applying_does_not_end_the_watching(path: Path) -> None:
    faults: list[Exception] = [RuntimeError("a fault of our own")]

    async def apply(loaded: Loaded) -> None:
        if faults:
            raise faults.pop()

    watcher = Watcher(FileSource(path, pause=Pauses()), apply)
    assert await watcher.poll() == "failed"
    assert watcher.status()["reload_failed"]["problems"][0]["message"] == "RuntimeError: a fault of our own"
    write(path, registry("other"))
    assert await watcher.poll() == "ok"


async def test_a_refresh_that_is_cancelled_is_made_up_for_by_the_next_look(path: Path) -> None:
    applied, begun, never = list[Loaded](), asyncio.Event(), asyncio.Event()

    async def apply(loaded: Loaded) -> None:
        if not begun.is_set():
            begun.set()
            await never.wait()
        applied.append(loaded)

    watcher = Watcher(FileSource(path, pause=Pauses()), apply)
    refresh = asyncio.create_task(watcher.refresh())
    await begun.wait()
    refresh.cancel()
    await asyncio.gather(refresh, return_exceptions=True)
    assert await watcher.poll() == "ok"
    assert len(applied) == 1


async def test_the_watcher_runs_by_itself_until_it_is_cancelled(gateway: Gateway, path: Path) -> None:
    watching = asyncio.create_task(gateway.watcher.run())
    replace(path, registry("other"))
    await asyncio.wait_for(gateway.changed.wait(), 30)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    assert await gateway.call({"other": 2}) == {"value": 2}


async def test_trouble_is_logged_once_an_episode(
    gateway: Gateway, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="weft")
    for _ in range(5):
        replace(path, "{")
        await gateway.watcher.refresh()
    replace(path, "[")
    await gateway.watcher.poll()
    replace(path, registry("other"))
    await gateway.watcher.poll()
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING", "INFO"]
    assert "the last good one stays in service" in caplog.text


async def test_a_python_file_is_handed_on_with_its_path(tmp_path: Path) -> None:
    path = tmp_path / "tools.py"
    write(path, "import weft as w\n\npick = w.composition('pick', 'Picks.', w.tool('a'))\n")
    applied = list[Path]()

    async def apply(loaded: Loaded) -> None:
        assert loaded.path is not None
        applied.append(loaded.path)
        read_module(loaded.path)

    watcher = Watcher(FileSource(path, pause=Pauses()), apply)
    await watcher.start()
    write(path, path.read_text() + "\nother = w.composition('other', 'Others.', w.tool('b'))\n")
    assert await watcher.poll() == "ok"
    assert applied == [path, path]


@pytest.fixture
def collected() -> Iterator[None]:
    gc.collect()
    yield
    gc.collect()


@pytest.mark.usefixtures("collected")
async def test_reloads_under_load_fail_no_call_and_keep_no_old_registry(gateway: Gateway, path: Path) -> None:
    failed, stop = list[BaseException](), asyncio.Event()
    answered = 0

    async def load() -> None:
        nonlocal answered
        while not stop.is_set():
            try:
                assert await gateway.call({"n": 1, "other": 1}) == {"value": 1}
                answered += 1
            except Exception as error:
                failed.append(error)
            await asyncio.sleep(0)

    callers = [asyncio.create_task(load()) for _ in range(8)]
    for number in range(30):
        replace(path, "{" if number % 3 == 2 else registry("n" if number % 3 else "other"))
        await gateway.watcher.refresh()
    stop.set()
    await asyncio.gather(*callers)
    assert not failed
    assert answered > 30
    assert gateway.watcher.generation == 21
    assert gateway.results.count("failed") == 10
    gc.collect()
    assert len([one for one in gateway.served if one() is not None]) == 1


async def test_a_file_that_has_been_quiet_is_not_waited_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FileSource, "QUIET", -1.0)
    gateway = Gateway(path)
    await gateway.watcher.start()
    assert gateway.pauses.count == 0
    assert await gateway.call({"n": 1}) == {"value": 1}
