"""How a workflow runs: each step as soon as what it waits for has ended, as many at once as may be."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from weft.errors import BudgetSpent, ExecutionFailed, TimedOut, WeftError, WorkflowFailed
from weft.patterns.contract import Call, Value
from weft.patterns.keys import principal_of
from weft.patterns.workflow_doing import Declined, do_step, undo_step
from weft.patterns.workflow_ledger import Ledger
from weft.patterns.workflow_plan import Done, Follower, RunTold, Stage, StepTold, WorkflowPlan


class WorkflowRun:
    """One run of a workflow, from wherever its ledger says that it stands."""

    def __init__(
        self, plan: WorkflowPlan, value: Value, call: Call, *, ledger: Ledger, follower: Follower | None = None
    ) -> None:
        self.plan = plan
        self.told = RunTold(plan.name, steps=[StepTold(stage.id) for stage in plan.stages])
        self._call = call
        self._ledger = ledger
        self._follower = follower
        self._now = call.root.clock.now
        self._began = self._now()
        self._scope: dict[str, Value] = {"input": value}
        if plan.uses_context:
            self._scope["context"] = _context(call, ledger.id)
        self._left = [len(stage.waits.hard) + (1 if stage.waits.first else 0) for stage in plan.stages]
        self._first = {stage.index: len(stage.waits.first) for stage in plan.stages if stage.waits.first}
        self._ready = deque(stage.index for stage in plan.stages if not self._left[stage.index])
        self._done: list[Done] = []
        """What was done, in the order in which it ended."""
        self._tasks = dict[asyncio.Task[None], int]()
        self._woken: asyncio.Future[None] | None = None
        self._fatal: tuple[str, WeftError] | None = None

    async def run(self) -> Value:
        """Run to the end, and return what the workflow gives.

        Raises:
            WorkflowFailed: a step failed, and the workflow with it.
        """
        plan, clock = self.plan, self._call.root.clock
        try:
            await self._restore()
            if plan.timeout is None:
                await self._drive()
            else:
                limit = clock.now() + plan.timeout
                try:
                    async with clock.timeout_at(limit):
                        await self._drive()
                except TimeoutError:
                    self._fatal = ("", TimedOut(f"Workflow timeout: it was not done after {plan.timeout * 1000:.0f}ms"))
        except asyncio.CancelledError:
            await self._leave()
            raise
        return await self._end()

    async def _restore(self) -> None:
        """Take over what the ledger says was done before."""
        for done in await self._ledger.restored(self.plan):
            told = self.told.steps[done.stage.index]
            told.status, told.error, told.because, told.lost = done.status, done.error, done.because, done.lost
            told.began = told.ended = 0.0
            told.attempts = done.attempts
            if done.status == "succeeded":
                self._keep(done)
            self._ready = deque(index for index in self._ready if index != done.stage.index)
            self._pass_on(done.stage, well=done.status == "succeeded")

    # Forward.

    async def _drive(self) -> None:
        """Do steps until none is left; one that is alone is done right here, without a task of its own."""
        plan, ready, tasks = self.plan, self._ready, self._tasks
        try:
            while (ready or tasks) and self._fatal is None:
                if not tasks and len(ready) == 1:
                    await self._one(plan.stages[ready.popleft()])
                    continue
                while ready and len(tasks) < plan.at_once:
                    index = ready.popleft()
                    task = asyncio.create_task(self._one(plan.stages[index]))
                    tasks[task] = index
                    task.add_done_callback(self._ended)
                self._woken = asyncio.get_running_loop().create_future()
                await self._woken
        finally:
            if tasks:
                await self._stop()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            if self._woken is not None and not self._woken.done():
                self._woken.set_exception(error)
            return
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    async def _stop(self) -> None:
        """Cancel what is under way, and wait until it has ended."""
        under_way = dict(self._tasks)
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        for index in under_way.values():
            told = self.told.steps[index]
            if told.status == "running":
                told.status, told.ended = "cancelled", self._now() - self._began
                self._tell(told)

    async def _one(self, stage: Stage) -> None:
        """Do one step, or skip it, and let those go on that wait for it."""
        told = self.told.steps[stage.index]
        try:
            skipped = self._skipped(stage)
            if skipped is None:
                told.status, told.began = "running", self._now() - self._began
                self._tell(told)
                done = await do_step(stage, self._scope, self._call, self._ledger, self.plan.backoff, told, self._tell)
                await self._ledger.ended(done)
                self._keep(done)
                told.status = "succeeded"
            else:
                self._call.skip(stage.step)
                await self._skip(stage, told, *skipped)
        except Declined as declined:
            await self._skip(stage, told, str(declined), False)
        except WeftError as error:
            await self._failed(stage, told, error)
        told.ended = self._now() - self._began
        self._tell(told)
        self._pass_on(stage, well=told.status == "succeeded")

    def _skipped(self, stage: Stage) -> tuple[str, bool] | None:
        """Return why a step is not done, and whether that is for want of one that failed; None when it is done."""
        steps, waits = self.told.steps, stage.waits
        for index in waits.needed:
            if (other := steps[index]).status != "succeeded":
                return f"it needs the result of '{other.id}', which {_became(other)}", _is_lost(other)
        for index in waits.ordered:
            if _is_lost(other := steps[index]):
                return f"it depends on '{other.id}', which {_became(other)}", True
        if waits.first and not any(steps[index].status == "succeeded" for index in waits.first):
            lost = any(_is_lost(steps[index]) for index in waits.first)
            return "none of the steps that it waits for succeeded", lost
        if stage.when is not None and not stage.when(self._scope):
            return "its condition does not hold", False
        return None

    async def _skip(self, stage: Stage, told: StepTold, reason: str, lost: bool) -> None:
        told.status, told.because, told.lost = "skipped", reason, lost
        await self._ledger.ended(Done(stage, "skipped", because=reason, lost=lost))

    async def _failed(self, stage: Stage, told: StepTold, error: WeftError) -> None:
        told.status, told.error = "failed", error.to_json()
        if isinstance(error, BudgetSpent) or not (stage.optional or self.plan.keeps_going):
            self._fatal = self._fatal or (stage.id, error)
            return
        await self._ledger.ended(Done(stage, "failed", error=told.error, attempts=told.attempts))
        self._call.root.warn(f"Step '{stage.id}' failed: {error.message}")

    def _keep(self, done: Done) -> None:
        self._done.append(done)
        self.told.results[done.stage.key] = done.output
        for name in done.stage.names:
            self._scope[name] = done.output

    def _pass_on(self, stage: Stage, *, well: bool) -> None:
        """Make those ready that waited for nothing else."""
        for index in self.plan.dependants[stage.index]:
            if stage.index in self.plan.stages[index].waits.first:
                left = self._first[index]
                if left <= 0:
                    continue
                # The first that succeeds is enough; of those that do not, the last decides.
                self._first[index] = 0 if well else left - 1
                if self._first[index]:
                    continue
            self._left[index] -= 1
            if not self._left[index]:
                self._ready.append(index)

    # The end.

    async def _end(self) -> Value:
        plan, told = self.plan, self.told
        failed = [step for step in told.steps if step.status == "failed"]
        if self._fatal is None and plan.keeps_going and failed and not self._done:
            first = failed[0]
            self._fatal = (first.id, ExecutionFailed((first.error or {}).get("message", "every step failed")))
        if self._fatal is None:
            try:
                told.output = self._output()
            except WeftError as error:
                self._fatal = ("", error)
        if self._fatal is not None:
            return await self._fail(*self._fatal)
        told.status = "partial" if failed else "succeeded"
        await self._close()
        return told.output

    def _output(self) -> Value:
        output = self.plan.output
        if output is None:
            return self.told.results
        if not isinstance(output, tuple):
            return output.render(self._scope)
        made: dict[str, Value] = {}
        for name, field in output:
            try:
                made[name] = field.render(self._scope)
            except ExecutionFailed as error:
                if not self.plan.keeps_going or error.code != "UnresolvedReference":
                    raise
                # What succeeded is told all the same.
                made[name] = None
                self._call.root.warn(f"The output has no '{name}': {error.message}")
        return made

    async def _fail(self, step: str, error: WeftError) -> Value:
        told = self.told
        told.status = "failed"
        if self.plan.rolls_back and self._done:
            await self._ledger.turn_back(step, error)
            await self._roll_back()
        at = f" at step '{step}'" if step else ""
        undone = [one.id for one in told.steps if one.status == "undone"]
        left = [one.id for one in told.steps if one.status == "undo_failed"]
        tail = f"; undone: {', '.join(undone)}" if undone else ""
        tail += f"; could not be undone: {', '.join(left)}" if left else ""
        message = f"Workflow '{self.plan.name}' failed{at}: {error.message}{tail}"
        if isinstance(error, BudgetSpent):
            told.error = error
        else:
            told.error = failed = WorkflowFailed(message, workflow=told.to_json(), cause=error.to_json())
            kept = any(one.status in ("succeeded", "undo_failed") for one in told.steps)
            failed.retryable = error.retryable if not kept or error.retryable == "no" else "unknown-outcome"
            failed.hint = error.hint
            failed.__cause__ = error
        await self._close()
        raise told.error

    async def _roll_back(self) -> None:
        """Undo what was done, the last first; what cannot be undone does not keep the rest from it."""
        told = self.told
        told.status = "rolled_back"
        for done in reversed(self._done):
            step = told.steps[done.stage.index]
            if done.stage.undo is None:
                step.because = "nothing undoes it"
                continue
            try:
                await undo_step(done, self._scope, self._call, self._ledger)
            except WeftError as error:
                step.status, step.error = "undo_failed", error.to_json()
                told.status = "rollback_failed"
                self._call.root.warn(f"Step '{step.id}' could not be undone: {error.message}")
            else:
                step.status = "undone"
            await self._ledger.undone(done, step)
            self._tell(step)

    async def _close(self) -> None:
        self.told.duration = self._now() - self._began
        await self._ledger.closed(self.told)
        if self._follower is not None:
            self._follower.ended(self.told)

    async def _leave(self) -> None:
        """End a run that nobody waits for any longer."""
        for told in self.told.steps:
            if told.status == "running":
                told.status, told.ended = "cancelled", self._now() - self._began
        self.told.status = "cancelled"
        self.told.duration = self._now() - self._began
        if self.plan.rolls_back and self._done and not self._ledger.durable:
            self._call.root.detach(self._undo_apart())
        elif self._follower is not None:
            self._follower.ended(self.told)

    async def _undo_apart(self) -> None:
        self._call = self._call.apart()
        await self._roll_back()
        if self._follower is not None:
            self._follower.ended(self.told)

    def _tell(self, told: StepTold) -> None:
        if self._follower is not None:
            self._follower.step(told)


def _is_lost(told: StepTold) -> bool:
    return told.status == "failed" or told.lost


def _became(told: StepTold) -> str:
    return {"failed": "failed", "skipped": "was skipped", "cancelled": "was cancelled"}.get(told.status, "did not run")


def _context(call: Call, id: str) -> dict[str, Any]:
    """Return what a workflow may know of its caller."""
    principal = principal_of(call.root)
    return {
        "user_id": principal.subject,
        "tenant": principal.tenant,
        "agent": principal.agent_name,
        "request_id": id,
    }
