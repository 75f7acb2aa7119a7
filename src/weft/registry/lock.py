"""weft.lock: every upstream tool as it was approved, and what to do when a server lists another one.

A pin is a hash of the whole tool object as the server lists it. It cannot see that a server behaves differently behind
the same words; nothing that is read from outside can.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from weft.errors import InputError, json_pointer, nearest
from weft.expr.jcs import hash_of
from weft.ports import is_array, is_object
from weft.registry.drift import Change, Impact, tool_changes, worst

try:
    import fcntl
except ImportError:  # Windows has none; there two writers at once may cost one of two records.
    fcntl = None

FILE = "weft.lock"
FORMAT = 1
MOST_BYTES = 256 << 20
Mode = Literal["tofu", "warn", "enforce"]
Why = Literal["changed", "new", "no-lock", "launch", "unreadable"]
Tool: TypeAlias = "dict[str, Any]"


@dataclass(frozen=True, slots=True)
class Pin:
    """A tool as it was approved: its hash, and the object that was hashed."""

    sha256: str
    tool: Tool

    @classmethod
    def of(cls, tool: Tool) -> Pin:
        """Return the pin of a tool as its server lists it."""
        return cls(hash_of(tool), tool)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPin:
    """A server as it was approved: its tools, and for a child how it is started."""

    tools: Mapping[str, Pin] = field(default_factory=dict[str, Pin])
    argv: tuple[str, ...] | None = None
    executable: str | None = None

    @classmethod
    def of(
        cls, tools: Iterable[Tool], *, argv: Sequence[str] | None = None, executable: str | None = None
    ) -> ServerPin:
        """Return the pin of a server; `argv` has references in the place of secrets, `executable` is a sha256."""
        return cls(
            tools={str(tool["name"]): Pin.of(tool) for tool in tools},
            argv=None if argv is None else tuple(argv),
            executable=executable,
        )

    def to_json(self) -> dict[str, Any]:
        """Return it as it stands in the file."""
        told: dict[str, Any] = {}
        if self.argv is not None:
            told["argv"] = list(self.argv)
        if self.executable is not None:
            told["executable"] = self.executable
        pins = {name: {"sha256": pin.sha256, "tool": pin.tool} for name, pin in self.tools.items()}
        return {**told, "tools": pins}


@dataclass(frozen=True, slots=True)
class Lock:
    """What was approved, by the keys of servers."""

    servers: Mapping[str, ServerPin] = field(default_factory=dict[str, ServerPin])

    def with_server(self, key: str, pin: ServerPin) -> Lock:
        """Return the lock with a server approved as it is now."""
        return Lock({**self.servers, key: pin})

    def with_tools(self, key: str, tools: Iterable[Tool]) -> Lock:
        """Return the lock with more tools of a server approved; the others stay as they were."""
        known = self.servers.get(key, ServerPin())
        return self.with_server(key, replace(known, tools={**known.tools, **ServerPin.of(tools).tools}))

    def to_text(self) -> str:
        """Return the file: equal locks, equal bytes."""
        told = {"lockVersion": FORMAT, "servers": {key: pin.to_json() for key, pin in self.servers.items()}}
        return json.dumps(told, indent=2, sort_keys=True, ensure_ascii=True, allow_nan=False) + "\n"


@dataclass(frozen=True, slots=True)
class NoLock:
    """A lock that cannot be relied on, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Quarantined:
    """A tool that is not as it was approved: why, and what changed."""

    name: str
    why: Why
    message: str
    changes: tuple[Change, ...] = ()

    @property
    def impact(self) -> Impact | None:
        """How much the changes matter together; None when it is not known what they are."""
        return worst(self.changes)

    def to_json(self) -> dict[str, Any]:
        """Return it as `--json` prints it."""
        return {
            "name": self.name,
            "why": self.why,
            "message": self.message,
            "changes": [change.to_json() for change in self.changes],
        }


@dataclass(frozen=True, slots=True)
class Verdict:
    """Which tools of a server may be served.

    `quarantined` are those that may not; in mode warn they are admitted all the same, and these are its warnings.
    `new` are tools that no lock knows (in mode tofu: to be recorded), `missing` those that the server no longer lists.
    """

    admitted: tuple[Tool, ...]
    quarantined: tuple[Quarantined, ...] = ()
    new: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Whether the server is exactly as it was approved."""
        return not (self.quarantined or self.new or self.missing)


def judge(
    lock: Lock | NoLock | None,
    server_key: str,
    tools: Sequence[Tool],
    mode: Mode,
    *,
    argv: Sequence[str] | None = None,
    executable: str | None = None,
) -> Verdict:
    """Return which tools of a server may be served.

    tofu trusts a tool when it is first seen, warn serves all and tells, enforce serves only what was approved. A
    changed tool is held back alone. Without a lock that can be read, enforce serves nothing; nor does tofu when the
    file is there and broken, since to trust anew is what whoever broke it wants. `argv` is the command line as the
    settings write it, empty for a server with a URL; None compares nothing.
    """
    if not isinstance(lock, Lock):
        return _without_lock(lock, tools, mode)
    known = lock.servers.get(server_key, ServerPin())
    if (fault := _launch_fault(known, argv, executable)) is not None:
        held = tuple(Quarantined(str(tool["name"]), "launch", fault) for tool in tools)
        return Verdict(tuple(tools) if mode == "warn" else (), held)
    admitted: list[Tool] = []
    held_back: list[Quarantined] = []
    new: list[str] = []
    for tool in tools:
        name = str(tool["name"])
        pin, made = known.tools.get(name), _made(tool)
        if made is None:
            found = Quarantined(name, "unreadable", "it is nested too deeply to be compared")
        elif pin is None:
            new.append(name)
            found = _unapproved(name, known) if mode != "tofu" else None
        else:
            found = _changed(name, pin, made)
        if found is not None:
            held_back.append(found)
        if found is None or mode == "warn":
            admitted.append(tool)
    listed = {str(tool["name"]) for tool in tools}
    missing = tuple(sorted(name for name in known.tools if name not in listed))
    return Verdict(tuple(admitted), tuple(held_back), tuple(new), missing)


def _without_lock(lock: NoLock | None, tools: Sequence[Tool], mode: Mode) -> Verdict:
    names = tuple(str(tool["name"]) for tool in tools)
    if lock is None and mode == "tofu":
        return Verdict(tuple(tools), (), names)
    reason = lock.reason if lock is not None else f"there is no {FILE}; run `weft lock` and read what it writes"
    held = tuple(Quarantined(name, "no-lock", reason) for name in names)
    return Verdict(tuple(tools) if mode == "warn" else (), held)


def _made(tool: Tool) -> Pin | None:
    try:
        return Pin.of(tool)
    except RecursionError:
        return None


def _changed(name: str, pin: Pin, made: Pin) -> Quarantined | None:
    if made.sha256 == pin.sha256:
        return None
    try:
        changes = tool_changes(pin.tool, made.tool)
    except RecursionError:
        return Quarantined(name, "changed", "it is not the tool that was approved, and too deep to say what changed")
    told = f"it is not the tool that was approved ({worst(changes)})"
    return Quarantined(name, "changed", told, changes)


def _unapproved(name: str, known: ServerPin) -> Quarantined:
    close = nearest(name, known.tools)
    told = "nobody has approved it yet" + (f"; it is named much like {close!r}" if close else "")
    return Quarantined(name, "new", told)


def _launch_fault(known: ServerPin, argv: Sequence[str] | None, executable: str | None) -> str | None:
    if known.argv is not None and argv is not None and tuple(argv) != known.argv:
        return "its command line is not the one that was approved"
    if known.executable is not None and executable != known.executable:
        return "its program is not the file that was approved" if executable else "its program cannot be read"
    return None


def shadowed(servers: Mapping[str, Iterable[Tool]]) -> dict[str, tuple[str, ...]]:
    """Return the names that tools of several servers share, with those servers: each needs a name of its own."""
    found: dict[str, list[str]] = {}
    for key, tools in servers.items():
        for tool in tools:
            found.setdefault(str(tool["name"]), []).append(key)
    return {name: tuple(keys) for name, keys in sorted(found.items()) if len(keys) > 1}


def executable_of(command: str, *, cwd: Path | None = None, path: str | None = None) -> Path | None:
    """Return the program that a command starts; it is searched on `path`, or on the PATH of this process."""
    if os.sep in command:
        return (cwd or Path()) / command
    found = shutil.which(command, path=path)
    return None if found is None else Path(found)


def executable_hash(command: str, *, cwd: Path | None = None, path: str | None = None) -> str | None:
    """Return the sha256 of the program that a command starts, or None when it cannot be read."""
    try:
        with (executable_of(command, cwd=cwd, path=path) or Path()).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def open_lock(path: Path) -> Lock | NoLock | None:
    """Return a lock as `judge` takes it: None when there is no file, NoLock when it cannot be relied on."""
    try:
        return read_lock(path)
    except InputError as error:
        return None if error.code == "LockMissing" else NoLock(error.message)


def read_lock(path: Path) -> Lock:
    """Return what a lock file says.

    Raises:
        InputError: it is missing (LockMissing), or not as weft wrote it (LockCorrupt).
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise _corrupt(path, f"it has over {MOST_BYTES} bytes")
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise InputError(f"there is no {path}", code="LockMissing", hint="`weft lock` writes it") from None
    except OSError as error:
        raise _corrupt(path, (error.strerror or str(error)).lower()) from error
    except (ValueError, RecursionError) as error:
        raise _corrupt(path, f"it is not JSON: {error}") from None
    return _lock_of(value, path)


def record(path: Path, key: str, tools: Iterable[Tool], *, argv: Sequence[str] | None = None) -> Lock | NoLock:
    """Add those tools of a server that the file does not have, and return what it says then.

    What somebody else pinned meanwhile stays as it is. `argv` is kept when the server is new.

    Raises:
        InputError: it cannot be written.
    """
    with alone(path):
        lock = open_lock(path)
        if isinstance(lock, NoLock):
            return lock
        before = lock or Lock()
        known = before.servers.get(key) or ServerPin(argv=tuple(argv) if argv else None)
        added = [tool for tool in tools if tool["name"] not in known.tools]
        after = before.with_server(key, known).with_tools(key, added)
        if after != lock:
            write_lock(path, after)
        return after


@contextmanager
def alone(path: Path) -> Generator[None]:
    """Wait until nobody else changes the lock file: workers may record, while somebody approves.

    Raises:
        InputError: its folder cannot be read.
    """
    try:
        folder = os.open(path.resolve().parent, os.O_RDONLY)
    except OSError as error:
        raise _unwritable(path, error) from error
    try:
        if fcntl is not None:
            fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def write_lock(path: Path, lock: Lock) -> None:
    """Write a lock file, whole or not at all; where it is a link, what it leads to.

    Raises:
        InputError: it cannot be written.
    """
    temporary, real = "", path.resolve()
    try:
        data = lock.to_text().encode()
        handle, temporary = tempfile.mkstemp(dir=real.parent, prefix=f".{real.name}.")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(real)
    except OSError as error:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        raise _unwritable(path, error) from error
    except RecursionError:
        raise InputError(f"cannot write {path}: a tool is nested too deeply", code="UnwritableFile") from None


def _lock_of(value: Any, path: Path) -> Lock:
    if not is_object(value) or not is_object(servers := value.get("servers")):
        raise _corrupt(path, "it has no servers")
    if value.get("lockVersion") != FORMAT:
        raise _corrupt(
            path, f"its lockVersion is {value.get('lockVersion')!r}, and this version of weft reads {FORMAT}"
        )
    return Lock({key: _server_pin(entry, ("servers", key), path) for key, entry in servers.items()})


def _server_pin(entry: Any, loc: tuple[str, ...], path: Path) -> ServerPin:
    tools = entry.get("tools") if is_object(entry) else None
    if not is_object(entry) or not is_object(tools):
        raise _corrupt(path, f"{json_pointer(loc)} has no tools")
    argv, executable = entry.get("argv"), entry.get("executable")
    if argv is not None and not (is_array(argv) and all(isinstance(word, str) for word in argv)):
        raise _corrupt(path, f"{json_pointer((*loc, 'argv'))} is not a list of texts")
    if executable is not None and not isinstance(executable, str):
        raise _corrupt(path, f"{json_pointer((*loc, 'executable'))} is not a sha256")
    pins = {name: _pin(name, pin, (*loc, "tools", name), path) for name, pin in tools.items()}
    return ServerPin(tools=pins, argv=None if argv is None else tuple(argv), executable=executable)


def _pin(name: str, pin: Any, loc: tuple[str, ...], path: Path) -> Pin:
    tool = pin.get("tool") if is_object(pin) else None
    if not is_object(pin) or not is_object(tool) or tool.get("name") != name:
        raise _corrupt(path, f"{json_pointer(loc)} does not hold the tool {name!r}")
    # Whoever edits the recorded tool must not be able to hide what a diff would show.
    made = Pin.of(tool)
    if pin.get("sha256") != made.sha256:
        raise _corrupt(path, f"{json_pointer(loc)}: the hash is not that of the tool beside it")
    return made


def _unwritable(path: Path, error: OSError) -> InputError:
    return InputError(f"cannot write {path}: {(error.strerror or str(error)).lower()}", code="UnwritableFile")


def _corrupt(path: Path, why: str) -> InputError:
    hint = "take the file from version control, or remove it and approve all tools again with `weft lock`"
    return InputError(f"{path} cannot be relied on: {why}", code="LockCorrupt", hint=hint)
