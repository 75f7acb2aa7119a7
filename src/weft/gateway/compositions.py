"""Compositions as a service: templates, documents that callers send, and what becomes of their runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from time import time
from typing import Any

from weft.errors import DeadlineExceeded, DocumentInvalid, InputError, StoreError, WeftError
from weft.gateway.admitting import RunLimits
from weft.gateway.asked import Request, read_request
from weft.gateway.callers import Inside
from weft.gateway.draft import Draft, check_input, overridden, promised, read_beside
from weft.gateway.drafts import Compiled, Drafts
from weft.gateway.following import Hear, Recording
from weft.gateway.journalled import Journals
from weft.gateway.needs import lacking, require
from weft.gateway.origins import origin_of
from weft.gateway.outcome import as_ended, outcome
from weft.gateway.outlook import outlook
from weft.gateway.policy import ToolFacts
from weft.gateway.templates import Library, Templates
from weft.ir.normalise import is_workflow
from weft.patterns.contract import Call
from weft.patterns.keys import principal_of
from weft.patterns.workflow_plan import RunTold, Watch, WorkflowPlan
from weft.ports import Caller, Principal, Store
from weft.run.engine import Engine
from weft.telemetry import Telemetry
from weft.telemetry.logs import Log
from weft.workflows.recorded import ENDED, Run, new_run
from weft.workflows.template import Template, encoded

METHOD = "compositions/execute"
UNDOING = 60.0
"""How many seconds what a cancelled run undoes is waited for."""
CANCELLING = 20.0
"""The same for a journalled run, whose owner may be another process, which looks a few times in each lease."""
LOOK_AGAIN = 1.0
"""After how many seconds it is looked again whether a run of another process has ended."""
_log = Log("gateway")


class Compositions(Templates):
    """Runs templates and workflow documents for callers, within what each may call."""

    def __init__(
        self,
        engine: Engine,
        drafts: Drafts,
        telemetry: Telemetry,
        library: Library,
        *,
        stores: Callable[[], Iterable[Store]] = tuple,
        limits: RunLimits | None = None,
    ) -> None:
        """Make it; `stores` are those in which workflows are journalled."""
        self._journals = Journals(stores)
        super().__init__(drafts, library)
        self._engine = engine
        self._telemetry = telemetry
        self._limits = limits or RunLimits()
        self._beginning: dict[str, Run] = {}
        self._running: dict[str, Recording] = {}
        drafts.kept.of(Watch).begin = _follower
        drafts.kept.of(Watch).origin = origin_of
        # Who takes over what another process began is the recovery of the registry's workflows, too.
        drafts.live.kept.of(Watch).resume = self._resumed

    async def keep_alive(self) -> None:
        """Say again and again that this process works on its runs, until cancelled."""
        await self._library.runs.keep_alive()

    # Checking.

    async def validate(self, principal: Principal, body: Any) -> dict[str, Any]:
        """Tell whether a document, or a template, can run for a caller; with every reason why not."""
        try:
            if is_workflow(body):
                draft, template = await read_beside(body), None
            else:
                draft, template = await self._meant(principal, read_request(body))
            servers = {} if template is None else template.servers
            problems = await self._drafts.problems(principal, draft, servers=servers)
            problems += [] if template is None else lacking(self._drafts, principal, template)
        except DocumentInvalid as error:
            problems = list(error.problems)
        errors = [one.to_json() for one in problems if one.severity == "error"]
        warnings = [one.to_json() for one in problems if one.severity != "error"]
        return {"valid": not errors, "errors": errors, "warnings": warnings}

    async def _meant(self, principal: Principal, request: Request) -> tuple[Draft, Template | None]:
        if request.template_id is None:
            return await read_beside(request.composition, ("composition",)), None
        found = (await self._library.shelf.get(principal.tenant, request.template_id)).template
        return await read_beside(found.composition, ("composition",)), found

    # Running.

    async def execute(self, caller: Caller, body: Any, *, hear: Hear | None = None) -> dict[str, Any]:
        """Run a template or a document, or say what would be done; a workflow that fails is a result, too.

        `hear` is told what happens, as `follow` tells it.

        Raises:
            DocumentInvalid, InputError, NotFound: it cannot be run at all.
        """
        request = read_request(body)
        principal = caller.principal
        draft, template = await self._meant(principal, request)
        draft = overridden(draft, request.options)
        servers = {} if template is None else template.servers
        compiled = await self._drafts.compiled(principal, draft, servers=servers)
        if template is not None:
            require(self._drafts, principal, template)
        check_input(draft, request.input)
        if request.options.dry_run:
            told = {"user_id": principal.subject, "tenant": principal.tenant, "agent": principal.agent_name}
            plan = outlook(draft.workflow, request.input, {**told, "request_id": None})
            return {"dry_run": True, "plan": plan}
        self._limits.admit(principal, [*self._beginning.values(), *(one.run for one in self._running.values())])
        run = new_run(
            principal,
            draft.tool.name,
            template=None if template is None else template.id,
            started=time(),
            input_bytes=len(encoded(request.input)),
        )
        steps = [step.id for step in draft.workflow.steps]
        durable = draft.workflow.store is not None
        # Whoever does not wait has nothing but the record.
        self._beginning[run.run_id] = run
        try:
            begun = await (self._begun(run) if request.options.wait else self._library.runs.begin(run))
        finally:
            del self._beginning[run.run_id]
        recording = Recording(begun, steps=steps, hear=hear, durable=durable, gives=promised(draft))
        self._running[run.run_id] = recording
        work = asyncio.create_task(self._run(compiled, request, caller, recording))
        recording.task = work
        if request.options.wait:
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                # Whoever waited went away: a durable run goes on without.
                if not durable:
                    recording.stop()
                    await asyncio.wait({work})
                raise
        # It is no background work of the engine, of which the oldest makes room: this run was promised to somebody.
        return {"run_id": run.run_id, "status": "running"}

    async def _run(self, compiled: Compiled, request: Request, caller: Caller, recording: Recording) -> dict[str, Any]:
        active = self._telemetry.begin(METHOD, compiled.name, caller.meta)
        secrets = set[str]()
        inside = Inside(
            caller,
            active.meta,
            facts=ToolFacts(compiled.name),
            trace_id=active.trace_id,
            secrets=secrets,
            through=compiled.through,
            run=recording,
        )
        warnings: list[str] = []
        error: WeftError | None = None
        try:
            result = await self._engine.run(
                compiled.name,
                request.input,
                caller=inside,
                timeout=_patience(request, recording),
                snapshot=compiled.snapshot,
            )
            warnings = result.warnings
            active.end("ok", spans=result.tracing(), size=result.spans)
        except WeftError as failed:
            error = failed
            active.end("error", error=failed.message)
        except asyncio.CancelledError:
            active.end("cancelled")
        if recording.told is None and recording.goes_on:
            # Nobody waits for it any longer, and it goes on.
            self._finish_later(recording)
            told = RunTold(compiled.name)
            return outcome(told, recording.run, error, warnings=warnings, trace_id=active.trace_id)
        if recording.begun and not recording.durable and (error is None or isinstance(error, DeadlineExceeded)):
            await self._undone(recording)
        if recording.told is None and error is None:
            recording.ended(RunTold(compiled.name, "cancelled"))
        return await self._finished(recording, error, warnings, active.trace_id)

    async def _undone(self, recording: Recording) -> None:
        """Wait for what a run undoes that was cut short."""
        recording.ending = True
        try:
            await recording.over(UNDOING)
        except asyncio.CancelledError:
            if recording.told is None:
                self._finish_later(recording)
                raise

    def _finish_later(self, recording: Recording) -> None:
        def finish() -> None:
            self._engine.detach(self._finished(recording, None, [], ""))

        recording.on_end = finish

    async def _finished(
        self, recording: Recording, error: WeftError | None, warnings: list[str], trace_id: str
    ) -> dict[str, Any]:
        try:
            return await self._ended(recording, error, warnings, trace_id)
        finally:
            # Until it is recorded how it ended, those who follow it hear that from here.
            self._running.pop(recording.run.run_id, None)

    async def _resumed(self, plan: WorkflowPlan, call: Call, value: Any, id: str) -> Recording | None:
        """Follow a run that another process began, if it was recorded."""
        try:
            run = await self._library.runs.adopt(principal_of(call.root).tenant, id)
        except StoreError:
            return None
        if run is None:
            return None
        gives = getattr(call.root.context, "gives", None)
        recording = Recording(run, steps=[stage.id for stage in plan.stages], durable=True, gives=gives)
        recording.begun = True
        self._running[run.run_id] = recording
        self._finish_later(recording)
        return recording

    async def _begun(self, run: Run) -> Run:
        try:
            return await self._library.runs.begin(run)
        except StoreError as error:
            # A run is worth more than its record.
            _log.warning(f"a run is not recorded: {error.message}", run=run.run_id)
            return run

    async def _ended(
        self, recording: Recording, error: WeftError | None, warnings: list[str], trace_id: str
    ) -> dict[str, Any]:
        told, ended = as_ended(recording, error)
        try:
            if recording.run.at and await self._library.runs.end(ended):
                await self._library.book.add(ended)
        except StoreError as failed:
            _log.warning(f"the end of a run is not recorded: {failed.message}", run=ended.run_id)
        self._telemetry.metrics.workflow_ended(ended.status, [step.status for step in told.steps])
        recording.close(ended)
        return outcome(told, ended, told.error, warnings=warnings, trace_id=trace_id)

    async def close(self, *, drain: float = 5.0) -> None:
        """Wait for what runs, at most so many seconds; then cancel what is left."""
        tasks = {one.task for one in self._running.values() if one.task is not None}
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=drain)
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # Runs.

    async def runs(
        self,
        principal: Principal,
        *,
        template: str | None = None,
        status: str | None = None,
        limit: int = 50,
        before: str | None = None,
    ) -> dict[str, Any]:
        """Return the newest runs of the caller's tenant, a page of them."""
        page = await self._library.runs.list(
            principal.tenant, template=template, status=status, limit=limit, before=before
        )
        return page.to_json()

    async def run(self, principal: Principal, run_id: str) -> dict[str, Any]:
        """Return all that is known of a run."""
        return (await self._library.runs.get(principal.tenant, run_id)).to_json()

    async def cancel(self, principal: Principal, run_id: str) -> dict[str, Any]:
        """End a run that is under way in this process, or one that is journalled, wherever it is.

        Raises:
            NotFound: there is no such run.
            InputError: it has ended, or another process runs it.
        """
        if await self._cancel_journalled(principal, run_id):
            return await self.run(principal, run_id)
        recording = self._here(principal, run_id)
        if recording is None or recording.task is None or recording.told is not None:
            if recording is not None and recording.task is not None:
                await asyncio.wait({recording.task})
            found = await self._library.runs.get(principal.tenant, run_id)
            told = f"run {run_id} is {found.status}" + (" elsewhere" if found.status == "running" else "")
            raise InputError(told, code="RunNotRunning")
        recording.stop()
        # Whoever asked for it may go away: what is being undone is not to be cancelled for that.
        await asyncio.wait({recording.task})
        return await self.run(principal, run_id)

    async def _cancel_journalled(self, principal: Principal, run_id: str) -> bool:
        """Ask the owner of a run, whoever that is, to end it; tell whether there was one, once it has ended."""
        if not await self._journals.cancel(principal, run_id):
            return False
        if (recording := self._here(principal, run_id)) is not None:
            recording.stop()
        clock = self._engine.clock
        late = clock.now() + CANCELLING
        while (await self._library.runs.get(principal.tenant, run_id)).status not in ENDED and clock.now() < late:
            await clock.sleep(0.1)
        return True

    def is_here(self, principal: Principal, run_id: str) -> bool:
        """Tell whether a run of the caller's tenant is under way in this process."""
        return self._here(principal, run_id) is not None

    async def follow(self, principal: Principal, run_id: str, after: int = 0) -> AsyncGenerator[dict[str, Any]]:
        """Yield what happens in a run, from its beginning or an event on; of one that is not here, how it ends."""
        recording = self._here(principal, run_id)
        if recording is not None:
            async for event in recording.events(after):
                yield event
            return
        while (run := await self._library.runs.get(principal.tenant, run_id)).status not in ENDED:
            if run.status == "interrupted" and not await self._journals.has(principal, run_id):
                break
            await self._engine.clock.sleep(LOOK_AGAIN)
        yield {"id": after + 1, "event": "run_ended", "data": run.to_json()}

    def _here(self, principal: Principal, run_id: str) -> Recording | None:
        recording = self._running.get(run_id)
        return recording if recording is not None and recording.run.tenant == principal.tenant else None


def _patience(request: Request, recording: Recording) -> float | None:
    """Return how long a run is waited for; one that goes on by itself is ended by its own time, and may undo then."""
    timeout = request.options.timeout
    return timeout if timeout is None or not recording.durable else timeout + UNDOING


def _follower(plan: WorkflowPlan, call: Call, value: Any) -> Recording | None:
    """Return who follows a workflow that begins: the outermost of a run has somebody."""
    recording = getattr(call.root.context, "run", None)
    return recording.taken() if isinstance(recording, Recording) else None
