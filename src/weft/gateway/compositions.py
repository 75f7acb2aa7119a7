"""Compositions as a service: templates, documents that callers send, and what becomes of their runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from time import time
from typing import Any

import orjson

from weft.errors import DocumentInvalid, ExecutionFailed, InputError, StoreError, WeftError, shown
from weft.expr.schemas import compile_schema
from weft.gateway.asked import Options, Request, read_request
from weft.gateway.callers import Inside
from weft.gateway.drafts import Compiled, Draft, Drafts, read_draft
from weft.gateway.following import Recording
from weft.gateway.outlook import outlook
from weft.gateway.policy import ToolFacts
from weft.ir.normalise import is_workflow
from weft.patterns.workflow_plan import RunTold, Watch
from weft.plan.typeflow import declared_input
from weft.ports import Caller, Principal, is_object
from weft.run.engine import Engine
from weft.telemetry import Telemetry
from weft.telemetry.logs import Log
from weft.workflows.book import StatisticsBook
from weft.workflows.learning import suggestions
from weft.workflows.recorded import Run, new_run
from weft.workflows.runs import Runs
from weft.workflows.shelf import Shelf
from weft.workflows.template import Template, read_template

METHOD = "compositions/execute"
MOST_RUNNING = 1000
_log = Log("gateway")


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """Where templates, runs and statistics are kept."""

    shelf: Shelf
    runs: Runs
    book: StatisticsBook


class Compositions:
    """Runs templates and workflow documents for callers, within what each may call."""

    def __init__(self, engine: Engine, drafts: Drafts, telemetry: Telemetry, library: Library) -> None:
        self._engine = engine
        self._drafts = drafts
        self._telemetry = telemetry
        self._library = library
        self._running: dict[str, Recording] = {}
        drafts.kept.of(Watch).begin = lambda plan, call, value: getattr(call.root.context, "run", None)

    # Templates.

    async def templates(
        self, principal: Principal, *, category: str | None = None, tag: str | None = None, search: str | None = None
    ) -> list[dict[str, Any]]:
        """Return the templates that a caller sees, each with what its runs so far tell."""
        cards = await self._library.shelf.list(principal.tenant, category=category, tag=tag, search=search)
        found = await asyncio.gather(*(self._library.book.get(principal.tenant, card["id"]) for card in cards))
        return [
            _measured(card, known.usage_count, known.success_rate) for card, known in zip(cards, found, strict=True)
        ]

    async def template(self, principal: Principal, id: str) -> dict[str, Any]:
        """Return a template with its document, and what it lacks to run here."""
        found = await self._library.shelf.get(principal.tenant, id)
        known = await self._library.book.get(principal.tenant, id)
        told = _measured(found.to_json(), known.usage_count, known.success_rate)
        told["missing_tools"] = self._drafts.missing(principal, found.template.required_tools)
        return told

    async def create(self, principal: Principal, body: Any) -> dict[str, Any]:
        """Keep a new template.

        Raises:
            DocumentInvalid, InputError: it is not well-formed, or its id is taken.
        """
        made = await self._library.shelf.create(principal.tenant, self._sound(body))
        return made.to_json()

    async def update(self, principal: Principal, id: str, body: Any) -> dict[str, Any]:
        """Replace a template."""
        if is_object(body) and body.get("id", id) != id:
            told = f"the body is of template {shown(body['id'])}"
            raise InputError(told, code="WrongId", hint=f"leave the id out, or write {id!r}")
        made = await self._library.shelf.update(
            principal.tenant, self._sound({**body, "id": id} if is_object(body) else body)
        )
        return made.to_json()

    async def delete(self, principal: Principal, id: str) -> None:
        """Forget a template and its statistics."""
        await self._library.shelf.delete(principal.tenant, id)
        await self._library.book.forget(principal.tenant, id)

    def _sound(self, body: Any) -> Template:
        template = read_template(body)
        read_draft(template.composition, ("composition",))
        return template

    async def stats(self, principal: Principal, id: str) -> dict[str, Any]:
        """Return what the runs of a template tell, and what they suggest."""
        found = await self._library.shelf.get(principal.tenant, id)
        known = await self._library.book.get(principal.tenant, id)
        advice = [one.to_json() for one in suggestions(found.template.composition, known)]
        return {"template": id, **known.to_json(), "suggestions": advice}

    # Checking.

    async def validate(self, principal: Principal, body: Any) -> dict[str, Any]:
        """Tell whether a document, or a template, can run for a caller; with every reason why not."""
        try:
            if is_workflow(body):
                draft, template = read_draft(body), None
            else:
                draft, template = await self._meant(principal, read_request(body))
            problems = self._drafts.problems(principal, draft, servers={} if template is None else template.servers)
            lacking = [] if template is None else self._too_old(principal, template)
        except DocumentInvalid as error:
            problems, lacking = list(error.problems), []
        errors = [one.to_json() for one in problems if one.severity == "error"] + lacking
        warnings = [one.to_json() for one in problems if one.severity != "error"]
        return {"valid": not errors, "errors": errors, "warnings": warnings}

    def _too_old(self, principal: Principal, template: Template) -> list[dict[str, Any]]:
        least = template.validation.min_version
        if least is None:
            return []
        return [
            {
                "severity": "error",
                "code": "ToolTooOld",
                "pointer": "/validation/min_version",
                "message": f"Tool '{name}' is of version {version}, and the template needs {least}"
                + (f"; {template.servers[name]} provides it" if name in template.servers else ""),
                "value": version,
                "expected": f"{least} or newer",
            }
            for name, version in self._drafts.least(principal, template.required_tools, least)
        ]

    async def _meant(self, principal: Principal, request: Request) -> tuple[Draft, Template | None]:
        if request.template_id is None:
            return read_draft(request.composition, ("composition",)), None
        found = (await self._library.shelf.get(principal.tenant, request.template_id)).template
        return read_draft(found.composition, ("composition",)), found

    # Running.

    async def execute(self, caller: Caller, body: Any) -> dict[str, Any]:
        """Run a template or a document, or say what would be done; a workflow that fails is a result, too.

        Raises:
            DocumentInvalid, InputError, NotFound: it cannot be run at all.
        """
        request = read_request(body)
        principal = caller.principal
        draft, template = await self._meant(principal, request)
        draft = _overridden(draft, request.options)
        compiled = self._drafts.compiled(principal, draft, servers={} if template is None else template.servers)
        if template is not None and (old := self._too_old(principal, template)):
            raise InputError(old[0]["message"], code="ToolTooOld")
        _check_input(draft, request.input)
        if request.options.dry_run:
            told = {"user_id": principal.subject, "tenant": principal.tenant, "agent": principal.agent_name}
            plan = outlook(draft.workflow, request.input, {**told, "request_id": None})
            return {"dry_run": True, "plan": plan}
        if len(self._running) >= MOST_RUNNING:
            raise ExecutionFailed(f"{MOST_RUNNING} workflows are running already", code="TooManyRuns")
        run = new_run(
            principal,
            draft.tool.name,
            template=None if template is None else template.id,
            started=time(),
            input_bytes=len(orjson.dumps(request.input)),
        )
        recording = Recording(await self._begun(run))
        self._running[run.run_id] = recording
        work = asyncio.create_task(self._run(compiled, request, caller, recording))
        recording.task = work
        if request.options.wait:
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                # Whoever waited went away; a run that somebody cancelled has ended by itself.
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)
                raise
        self._engine.detach(_to_its_end(work))
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
                timeout=request.options.timeout,
                snapshot=compiled.snapshot,
            )
            warnings = result.warnings
            active.end("ok", spans=result.tracing(), size=result.spans)
        except WeftError as failed:
            error = failed
            active.end("error", error=failed.message)
        except asyncio.CancelledError:
            active.end("cancelled")
            if recording.told is None:
                recording.ended(RunTold(compiled.name, "cancelled"))
        finally:
            self._running.pop(recording.run.run_id, None)
        return await self._ended(recording, error, warnings, active.trace_id)

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
        told = recording.told or RunTold(recording.run.name, "failed", error=error)
        recording.close(told.status)
        shown_error = error or told.error
        # A run that its deadline ended was cancelled from where it stands.
        late = error is not None and told.status in ("running", "cancelled")
        status = "failed" if late or told.status == "running" else told.status
        ended = recording.run.ended(
            status,
            duration_ms=told.duration * 1000,
            steps=[step.to_json() for step in told.steps],
            error=None if shown_error is None else _cause(shown_error),
        )
        try:
            if recording.run.at and await self._library.runs.end(ended):
                await self._library.book.add(ended)
        except StoreError as failed:
            _log.warning(f"the end of a run is not recorded: {failed.message}", run=ended.run_id)
        return _result(told, ended, shown_error, warnings, trace_id)

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
        """End a run that is under way in this process.

        Raises:
            NotFound: there is no such run.
            InputError: it has ended, or another process runs it.
        """
        found = await self._library.runs.get(principal.tenant, run_id)
        recording = self._here(principal, run_id)
        if recording is None or recording.task is None:
            told = f"run {run_id} is {found.status}" + (" elsewhere" if found.status == "running" else "")
            raise InputError(told, code="RunNotRunning")
        recording.task.cancel()
        await asyncio.gather(recording.task, return_exceptions=True)
        return await self.run(principal, run_id)

    async def follow(self, principal: Principal, run_id: str, after: int = 0) -> AsyncGenerator[dict[str, Any]]:
        """Yield what happens in a run, from its beginning or an event on; of one that has ended, how."""
        recording = self._here(principal, run_id)
        if recording is None:
            run = await self._library.runs.get(principal.tenant, run_id)
            yield {"id": after + 1, "event": "run_ended", "data": run.to_json()}
            return
        async for event in recording.events(after):
            yield event

    def _here(self, principal: Principal, run_id: str) -> Recording | None:
        recording = self._running.get(run_id)
        return recording if recording is not None and recording.run.tenant == principal.tenant else None


def _overridden(draft: Draft, options: Options) -> Draft:
    handling = draft.workflow.error_handling
    changes: dict[str, Any] = {}
    if options.max_concurrency is not None:
        changes["max_concurrency"] = options.max_concurrency
    if options.error_strategy is not None:
        changes["error_handling"] = handling.model_copy(update={"failure_strategy": options.error_strategy})
    return draft.changed(**changes) if changes else draft


def _check_input(draft: Draft, input: Mapping[str, Any]) -> None:
    schema = declared_input(draft.tool)
    wrong = [f"{one.pointer or 'the input'}: {one.message}" for one in compile_schema(schema).problems(input)]
    if wrong:
        raise InputError(f"the input does not fit: {'; '.join(wrong[:20])}", code="InvalidInput")


def _measured(told: dict[str, Any], usage: int, rate: float | None) -> dict[str, Any]:
    metadata: Mapping[str, Any] = told["metadata"]
    return {**told, "metadata": {**metadata, "usage_count": usage, "success_rate": rate}}


def _cause(error: WeftError) -> dict[str, Any]:
    return dict(getattr(error, "cause", None) or error.to_json())


def _result(told: RunTold, run: Run, error: WeftError | None, warnings: list[str], trace_id: str) -> dict[str, Any]:
    failed = [
        {"step": step.id, **(step.error or {})} for step in told.steps if step.status in ("failed", "undo_failed")
    ]
    if error is not None and not failed:
        failed = [{"step": None, **error.to_json()}]
    return {
        "success": run.status == "succeeded",
        "status": run.status,
        "results": told.results,
        "output": told.output,
        "errors": failed,
        "warnings": warnings,
        "duration": _go(told.duration),
        "duration_ms": round(told.duration * 1000, 3),
        "steps_executed": sum(1 for step in told.steps if step.began is not None and step.status != "skipped"),
        "steps": [step.to_json() for step in told.steps],
        "run_id": run.run_id,
        "trace_id": trace_id,
    }


def _go(seconds: float) -> str:
    """Return a duration as Go writes it: `1.5s`, `12.3ms`."""
    if seconds >= 60:
        minutes, left = divmod(round(seconds, 3), 60)
        hours, minutes = divmod(int(minutes), 60)
        return f"{f'{hours}h' if hours else ''}{minutes}m{left:g}s"
    return f"{round(seconds, 3):g}s" if seconds >= 1 else f"{round(seconds * 1000, 3):g}ms"


async def _to_its_end(work: asyncio.Task[dict[str, Any]]) -> None:
    await asyncio.gather(work, return_exceptions=True)
