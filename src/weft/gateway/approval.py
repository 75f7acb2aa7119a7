"""The lock at run time: servers' tools are judged whenever they are listed, and what is held back is told once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from weft.errors import InputError
from weft.registry.hidden import suspicions
from weft.registry.lock import (
    Lock,
    Mode,
    NoLock,
    Quarantined,
    Tool,
    Verdict,
    executable_hash,
    executable_of,
    judge,
    open_lock,
    record,
)
from weft.telemetry.logs import Episodes, Log
from weft.upstreams.spec import ServerSpec

ArgvOf: TypeAlias = Callable[[ServerSpec], Sequence[str]]
"""Returns the command line of a server as the settings write it; it is empty for one with a URL."""

OnSecurity: TypeAlias = Callable[[str, str, str, str], object]
"""Told of an event: its name, the server, the tool, the reason."""

Stamp: TypeAlias = tuple[int, ...]

QUARANTINED = "tool-quarantined"
LOOK = 2.0
"""How often the file is looked at, in seconds: what `weft lock` approves is served about that soon."""

SETTLE, TRIES = 0.1, 5
MOST_CHANGES = 5
NOTHING = Verdict(())
WHOLE = ("no-lock", "launch")
"""Reasons that hold for all tools of a server."""


class Approval:
    """Holds servers to a lock file, which is read again when it changes."""

    def __init__(
        self, path: Path, mode: Mode, *, argv_of: ArgvOf, log: Log, on_security: OnSecurity | None = None
    ) -> None:
        """Read the lock; `argv_of` may be replaced, and `on_security` is told of each tool that is held back."""
        self.argv_of = argv_of
        self._path, self._on_security = path, on_security
        self._mode: Mode = mode
        self._log, self._episodes = log, Episodes(log)
        self._seen: Stamp = _stamp(path)
        self._lock: Lock | NoLock | None = open_lock(path)
        self._told_of = self._seen
        self._unrecorded: str | None = None
        self._verdicts: dict[str, Verdict] = {}
        self._programs: dict[str, tuple[object, str | None]] = {}
        self._one_at_a_time = asyncio.Lock()
        self._tell_problem()

    @property
    def problem(self) -> str | None:
        """Why the lock cannot be relied on, or not be added to."""
        if isinstance(self._lock, NoLock):
            return self._lock.reason
        if self._lock is None and self._mode != "tofu":
            return f"there is no {self._path}; run `weft lock` and read what it writes"
        return self._unrecorded

    async def admit(self, spec: ServerSpec, tools: Sequence[Tool]) -> Sequence[Tool]:
        """Return the tools of a server that may be served, of all that it lists, as they came."""
        async with self._one_at_a_time:
            # Off the event loop: files are read and hashed, and written when tools are trusted.
            verdict, trusted = await asyncio.to_thread(self._judged, spec, tools)
            before, self._verdicts[spec.key] = self._verdicts.get(spec.key, NOTHING), verdict
        self._tell_problem()
        self._tell_trusted(spec.key, trusted)
        self._tell_missing(spec.key, before, verdict)
        self._tell_held(spec.key, before, verdict)
        return verdict.admitted

    async def watch(self, recheck: Callable[[], object], *, every: float = LOOK) -> None:
        """Look at the file again and again, and have all servers judged anew when it is another, until cancelled."""
        while True:
            await asyncio.sleep(every)
            async with self._one_at_a_time:
                await asyncio.to_thread(self._read_again)
            self._tell_problem()
            if self._seen != self._told_of:
                self._told_of = self._seen
                recheck()

    def report(self) -> dict[str, dict[str, Any]]:
        """Return what is not as it was approved, by the keys of servers; those that are well are not in it."""
        return {key: self._told(verdict) for key, verdict in self._verdicts.items() if not verdict.same}

    def _told(self, verdict: Verdict) -> dict[str, Any]:
        told: dict[str, Any] = {}
        if verdict.quarantined:
            held = [
                {"name": one.name, "why": one.why, "impact": one.impact, "message": one.message}
                for one in verdict.quarantined
            ]
            told["unapproved" if self._mode == "warn" else "quarantined"] = held
        if verdict.missing:
            told["missing"] = list(verdict.missing)
        if verdict.missing and self._mode == "enforce":
            told["error"] = f"tools that were approved are gone: {', '.join(verdict.missing)}"
        return told

    # In a thread, one at a time.

    def _judged(self, spec: ServerSpec, tools: Sequence[Tool]) -> tuple[Verdict, Sequence[Tool]]:
        """Return the verdict, and the tools that are trusted with it for the first time."""
        lock = self._read_again()
        verdict = self._judge(lock, spec, tools, self._mode)
        if self._mode != "tofu" or not verdict.new:
            return verdict, ()
        names = {*verdict.new}
        new = [tool for tool in verdict.admitted if tool["name"] in names]
        try:
            lock = record(self._path, spec.key, new, argv=self.argv_of(spec))
            self._unrecorded = None
        except InputError as error:
            # What is not recorded would be trusted anew, whatever it is by then.
            self._unrecorded = error.message
            return self._judge(lock or Lock(), spec, tools, "enforce"), ()
        verdict = self._judge(lock, spec, tools, self._mode)
        admitted = {tool["name"] for tool in verdict.admitted}
        return verdict, [tool for tool in new if tool["name"] in admitted]

    def _judge(self, lock: Lock | NoLock | None, spec: ServerSpec, tools: Sequence[Tool], mode: Mode) -> Verdict:
        pin = lock.servers.get(spec.key) if isinstance(lock, Lock) else None
        program = self._program(spec) if pin is not None and pin.executable is not None else None
        return judge(lock, spec.key, tools, mode, argv=self.argv_of(spec), executable=program)

    def _read_again(self) -> Lock | NoLock | None:
        stamp = _stamp(self._path)
        if stamp != self._seen:
            self._lock, self._seen = self._settled(), stamp
        return self._lock

    def _settled(self) -> Lock | NoLock | None:
        """Read the file; one that was good may be gone or torn for a moment, while it is replaced."""
        lock = open_lock(self._path)
        for _ in range(TRIES if isinstance(self._lock, Lock) else 0):
            if isinstance(lock, Lock):
                break
            time.sleep(SETTLE)
            lock = open_lock(self._path)
        return lock

    def _program(self, spec: ServerSpec) -> str | None:
        """Return the hash of a child's program, made anew only when the file is another."""
        if not spec.command:
            return None
        where: dict[str, Any] = {"cwd": spec.cwd, "path": spec.env.get("PATH")}
        found = executable_of(spec.command[0], **where)
        sign = (found, () if found is None else _stamp(found))
        if self._programs.get(spec.key, ((), None))[0] != sign:
            self._programs[spec.key] = sign, executable_hash(spec.command[0], **where)
        return self._programs[spec.key][1]

    # What is told, when it was not told before.

    def _tell_problem(self) -> None:
        if self.problem is None:
            self._episodes.over("lock", "the lock can be used", file=str(self._path))
        else:
            self._episodes.trouble("lock", self.problem, mode=self._mode)

    def _tell_trusted(self, key: str, tools: Sequence[Tool]) -> None:
        for tool in tools:
            name = str(tool["name"])
            self._log.info(f"the tool {name} is trusted from now on: it was seen for the first time", server=key)
            for suspicion in suspicions(tool):
                self._log.warning(f"the tool {name}, which is trusted now: {suspicion}", server=key)

    def _tell_missing(self, key: str, before: Verdict, now: Verdict) -> None:
        say = self._log.error if self._mode == "enforce" else self._log.warning
        for name in now.missing:
            if name not in before.missing:
                say(f"the tool {name} was approved, and the server no longer lists it", server=key)

    def _tell_held(self, key: str, before: Verdict, now: Verdict) -> None:
        known = {one.name: one for one in before.quarantined}
        found = [one for one in now.quarantined if known.get(one.name) != one]
        fate = "served all the same" if self._mode == "warn" else "held back"
        whole = [one for one in found if one.why in WHOLE]
        if whole:
            self._log.warning(f"all tools are {fate}: {whole[0].message}", server=key, tools=len(whole))
        for one in found:
            if one.why not in WHOLE:
                self._log.warning(f"the tool {one.name} is {fate}: {_in_full(one)}", server=key)
            if self._mode != "warn" and self._on_security is not None:
                self._on_security(QUARANTINED, key, one.name, one.message)
        held, listed = {one.name for one in now.quarantined}, {tool["name"] for tool in now.admitted}
        for name in known:
            if name in listed and name not in held:
                self._log.info(f"the tool {name} is approved now", server=key)


def _in_full(one: Quarantined) -> str:
    told = [one.message, *(str(change) for change in one.changes[:MOST_CHANGES])]
    more = len(one.changes) - MOST_CHANGES
    return "; ".join([*told, f"and {more} more changes"] if more > 0 else told)


def _stamp(path: Path) -> Stamp:
    """Return what changes when a file does; nothing for one that is not there."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
