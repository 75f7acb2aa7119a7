"""The watcher: brings what a source has into service, and keeps the last good document when it has nothing good."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Final, Literal

from weft.errors import DocumentInvalid, Problem, WeftError, errors_in, said_by
from weft.gateway.sources import SAME, Loaded, Pause, Source
from weft.telemetry.logs import Episodes, Log

Result = Literal["ok", "unchanged", "failed"]

_PROBLEMS_TOLD: Final = 100
_PROBLEMS_LOGGED: Final = 5


class Watcher:
    """Looks at a source again and again, and hands what is new in it to `apply`, which raises when it is no good.

    The generation counts documents that came into service: it is 0 before the first.
    """

    def __init__(
        self,
        source: Source,
        apply: Callable[[Loaded], Awaitable[object]],
        *,
        what: str = "registry",
        on_result: Callable[[Result], object] | None = None,
        log: Log | None = None,
        pause: Pause = asyncio.sleep,
    ) -> None:
        self.generation = 0
        self.source = source
        self.problems: list[Problem] = []
        self._apply = apply
        self._on_result = on_result or _ignore
        self._what = what
        self._episodes = Episodes(log or Log(what))
        self._pause = pause
        self._one_at_a_time = asyncio.Lock()
        self._serving: str = ""
        self._refused: str = ""
        self._refusal: list[Problem] = []
        self._loaded_at: datetime | None = None
        self._failed_at: datetime | None = None

    async def start(self) -> None:
        """Bring the first document into service.

        Raises:
            DocumentInvalid: there is none that is good; its problems say why, and the log does not say it as well.
        """
        if await self._look(fully=True) == "failed":
            if not self.generation:
                raise DocumentInvalid(self.problems)
            self._log_failure()

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            await self._pause(self.source.every)
            await self.poll()

    async def poll(self) -> Result:
        """Look once, trusting the signs of an unchanged source."""
        return self._logged(await self._look(fully=False))

    async def refresh(self) -> Result:
        """Look now and fully, and try once more what was refused: what it needs may be there by now."""
        return self._logged(await self._look(fully=True))

    def _logged(self, result: Result) -> Result:
        if result == "failed":
            self._log_failure()
        return result

    async def _look(self, *, fully: bool) -> Result:
        async with self._one_at_a_time:
            try:
                loaded = await self.source.look(fully=fully)
                if loaded is None:
                    return "unchanged"
                if loaded == SAME:
                    return self._failed(self._refusal) if self._refused else self._well("unchanged")
                return await self._take(loaded, again=fully)
            except asyncio.CancelledError:
                self.source.forget()
                raise
            except DocumentInvalid as error:
                return self._failed(error.problems)
            except Exception as error:
                # A watcher that dies would leave an old registry in service for ever, and nobody would know.
                if not isinstance(error, WeftError):
                    self._episodes.log.error(f"loading the {self._what} broke", source=self.source.name)
                return self._failed([self._problem(error)])

    async def _take(self, loaded: Loaded, *, again: bool) -> Result:
        digest = loaded.hash
        if digest == self._refused and not again:
            return self._failed(self._refusal)
        if digest != self._serving:
            await self._bring(loaded, digest)
            if loaded.stale is None:
                return self._well("ok")
        self._refused = ""
        return self._well("unchanged") if loaded.stale is None else self._failed(loaded.stale.problems)

    async def _bring(self, loaded: Loaded, digest: str) -> None:
        try:
            await self._apply(loaded)
        except Exception as error:
            self._refused = digest
            self._refusal = error.problems if isinstance(error, DocumentInvalid) else [self._problem(error)]
            raise
        self._refused, self._serving = "", digest
        self.generation += 1
        self._loaded_at = datetime.now(UTC)
        await self._kept(loaded)

    async def _kept(self, loaded: Loaded) -> None:
        try:
            await self.source.keep(loaded)
        except OSError as error:
            self._episodes.trouble("copy", f"no copy of the {self._what} can be kept", error=said_by(error))
        else:
            self._episodes.over("copy", f"a copy of the {self._what} can be kept again")

    def _well(self, result: Result) -> Result:
        self.problems = []
        self._failed_at = None
        if result == "ok":
            self._episodes.forget("reload")
            facts = {"source": self.source.name, "generation": self.generation}
            self._episodes.log.info(f"the {self._what} is loaded", **facts)
        else:
            self._episodes.over("reload", f"the {self._what} is as it was again", source=self.source.name)
        self._on_result(result)
        return result

    def _failed(self, problems: list[Problem]) -> Result:
        self.problems = problems
        self._failed_at = datetime.now(UTC)
        self._on_result("failed")
        return "failed"

    def _log_failure(self) -> None:
        errors = [str(problem) for problem in errors_in(self.problems)]
        kept = "the last good one stays in service" if self.generation else "there is none to serve"
        self._episodes.trouble(
            "reload",
            f"the {self._what} cannot be loaded; {kept}",
            source=self.source.name,
            problems=errors[:_PROBLEMS_LOGGED],
            count=len(errors),
        )

    def _problem(self, error: Exception) -> Problem:
        if isinstance(error, WeftError):
            return Problem(code=error.code, message=error.message, file=self.source.name)
        return Problem(code="ReloadFailed", message=said_by(error), file=self.source.name)

    def status(self) -> dict[str, Any]:
        """Return what is served and what is wrong, for /readyz."""
        told: dict[str, Any] = {
            "source": self.source.name,
            "generation": self.generation,
            "loadedAt": _written(self._loaded_at),
            "hash": f"sha256:{self._serving}" if self._serving else None,
        }
        if self._failed_at is not None:
            shown = [problem.to_json() for problem in self.problems[:_PROBLEMS_TOLD]]
            failed = {"at": _written(self._failed_at), "problems": shown, "count": len(self.problems)}
            told["reload_failed"] = failed
        return told


def _written(when: datetime | None) -> str | None:
    return None if when is None else when.isoformat(timespec="seconds")


def _ignore(result: Result) -> None:
    pass
