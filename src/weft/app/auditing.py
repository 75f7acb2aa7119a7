"""The audit log of a gateway: opened as weft.yaml says before weft listens, and looked after while it serves."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from weft.config.governance import Audit
from weft.errors import InputError
from weft.telemetry.audit import AuditLog, append_checkpoint, key_of
from weft.telemetry.auditchain import Checkpoint

_PUT_ASIDE = re.compile(r"\.\d{12,}$")


def audit_of(given: Audit | None, *, worker: int | None, redact: Callable[[str], str]) -> AuditLog | None:
    """Return the log, opened, or None when there is to be none; each of several workers has its own file.

    Raises:
        InputError: the log or its key cannot be used.
    """
    if given is None:
        return None
    key = key_of(given.key_path, create=True)
    path = numbered(given.file.absolute(), worker)
    return AuditLog(path, key, when_full=given.when_full, rotate=given.rotate, redact=redact)


class Auditing:
    """The log of one process, from its opening to its end; `log` is None when there is to be none."""

    def __init__(self, given: Audit | None, *, worker: int | None = None, redact: Callable[[str], str]) -> None:
        """Open the log.

        Raises:
            InputError: the log or its key cannot be used.
        """
        self.log = audit_of(given, worker=worker, redact=redact)
        self._every = 0.0 if given is None else given.checkpoint_every
        self._checkpoints = None
        if given is not None and given.checkpoints is not None:
            self._checkpoints = numbered(given.checkpoints.absolute(), worker)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Keep a first checkpoint, and begin to bring records to the disk.

        Raises:
            InputError: checkpoints cannot be kept.
        """
        if self.log is None:
            return
        try:
            self._keep(self.log.checkpoint())
        except OSError as error:
            told = f"cannot add checkpoints of the audit log to {self._checkpoints}: {(error.strerror or '').lower()}"
            raise InputError(told, code="UnwritableFile", hint="see audit.checkpoints") from error
        work = self.log.keep(checkpoint_every=self._every, export=self._keep)
        self._task = asyncio.create_task(work, name="audit log")

    async def close(self) -> None:
        """Keep a last checkpoint and let the log go."""
        log, self.log = self.log, None
        if log is None:
            return
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            with suppress(OSError):
                self._keep(log.checkpoint())
        log.close()

    def _keep(self, checkpoint: Checkpoint) -> None:
        if self._checkpoints is not None:
            append_checkpoint(self._checkpoints, checkpoint)


def numbered(path: Path, worker: int | None) -> Path:
    """Return the path of one worker's file: `audit.log` is `audit.0.log` for the first of several."""
    return path if worker is None else path.with_name(f"{path.stem}.{worker}{path.suffix}")


def key_beside(log: Path) -> Path:
    """Return where the key of a log is unless it is said: `audit.log.key`, which all workers share, or `audit.key`."""
    name = Path(_PUT_ASIDE.sub("", log.name))
    shared = Path(f"{Path(name.stem).stem}{name.suffix}") if Path(name.stem).suffix[1:].isdigit() else name
    places = [log.with_name(one) for one in (f"{name}.key", f"{shared}.key", "audit.key")]
    return next((place for place in places if place.exists()), places[0])
