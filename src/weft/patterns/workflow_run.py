"""How a workflow runs: each step as soon as what it waits for has ended, as many at once as may be."""

from __future__ import annotations

import asyncio

from weft.errors import BudgetSpent, ExecutionFailed, LimitExceeded, TimedOut, WeftError
from weft.patterns.contract import Call, Value
from weft.patterns.idempotent_records import error_of
from weft.patterns.workflow_doing import Declined, do_step
from weft.patterns.workflow_end import failure, output_of, roll_back
from weft.patterns.workflow_here import Here
from weft.patterns.workflow_ledger import Ledger, PutOff
from weft.patterns.workflow_order import Order
from weft.patterns.workflow_plan import Done, Follower, Named, RunTold, Stage, StepTold, WorkflowPlan
from weft.patterns.workflow_scope import context_of, why_skipped


class WorkflowRun:
    """One run of a workflow, from wherever its ledger says that it stands."""

    def __init__(
        self,
        plan: WorkflowPlan,
        value: Value,
        call: Call,
        *,
        ledger: Ledger,
        follower: Follower | None = None,
        spent: float = 0.0,
    ) -> None:
        """Make one; `spent` is for how many seconds others have worked on it."""
        self.plan = plan
        self.told = RunTold(plan.name, steps=[StepTold(stage.id) for stage in plan.stages])
        self._call = call
        self._ledger = ledger
        self._follower = follower
        self._now = call.root.clock.now
        self._began = self._now() - spent
        self._scope: dict[str, Value] = {"input": value}
        if plan.uses_context:
            # Whoever follows the run knows it by this.
            self._scope["context"] = context_of(call, follower.run_id if isinstance(follower, Named) else ledger.id)
        self._order = Order(plan)
        self._done: list[Done] = []
        """What was done, in the order in which it ended."""
        self._tasks = dict[asyncio.Task[None], int]()
        self._woken: asyncio.Future[None] | None = None
        self._fatal: tuple[str, WeftError] | None = None
        self._stopped = False
        self._broken: BaseException | None = None
        self._here = Here()

    def stop(self, error: WeftError) -> None:
        """End the run before its time, as cancelled: nothing more is begun, and what is under way is cancelled."""
        if self._fatal is None:
            self._fatal, self._stopped = ("", error), True
            self._wake()

    def abandon(self, why: Exception) -> None:
        """Do nothing more for the run, which is not one's own any more."""
        self._broken = self._broken or why
        self._wake()

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
                limit = self._began + plan.timeout
                try:
                    if clock.now() >= limit:
                        raise TimeoutError
                    async with clock.timeout_at(limit):
                        await self._drive()
                except TimeoutError:
                    self._cancelled()
                    late = TimedOut(f"Workflow timeout: it was not done after {plan.timeout * 1000:.0f}ms")
                    self._fatal = self._fatal or ("", late)
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
                told.status = done.undone or "succeeded"
            elif done.status == "failed":
                self._restore_failed(done)
            self._order.pass_on(done.stage, well=done.status == "succeeded")
        self._order.leave_out({index for index, told in enumerate(self.told.steps) if told.status != "waiting"})
        if (turned := self._ledger.turned) is not None:
            self._fatal = turned
            for told in self.told.steps:
                if told.id == turned[0]:
                    told.status, told.error = "failed", turned[1].to_json()

    def _restore_failed(self, done: Done) -> None:
        if done.made:
            self._done.append(done)
        if done.error is not None and not self._may_fail(done.stage):
            self._fatal = self._fatal or (done.stage.id, error_of(done.error))

    # Forward.

    async def _drive(self) -> None:
        """Do steps until none is left; one that is alone is done right here, without a task of its own."""
        plan, ready, tasks = self.plan, self._order.ready, self._tasks
        try:
            while True:
                if self._broken is not None:
                    raise self._broken
                if self._fatal is not None or not (ready or tasks):
                    return
                if not tasks and len(ready) == 1:
                    await self._alone(plan.stages[ready.popleft()])
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
            self._broken = self._broken or error
        self._wake()

    async def _alone(self, stage: Stage) -> None:
        """Do a step without a task of its own."""
        if not self._ledger.durable:
            await self._one(stage)
        elif not await self._here.do(self._one(stage)):
            self._left_off(stage.index)

    def _wake(self) -> None:
        self._here.cut()
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    async def _stop(self) -> None:
        """Cancel what is under way, and wait until it has ended."""
        under_way = dict(self._tasks)
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        for index in under_way.values():
            self._left_off(index)

    def _left_off(self, index: int) -> None:
        """Tell of a step that was cancelled; one that was only still being written has ended."""
        told = self.told.steps[index]
        if told.status == "running":
            told.status = "cancelled"
        elif told.ended is not None:
            return
        told.ended = self._now() - self._began
        self._tell(told)

    async def _one(self, stage: Stage) -> None:
        """Do one step, or skip it, and let those go on that wait for it."""
        told = self.told.steps[stage.index]
        try:
            skipped = why_skipped(stage, self.told.steps, self._scope)
            if skipped is None:
                told.status, told.began = "running", self._now() - self._began
                self._tell(told)
                done = await self._do(stage, told)
                try:
                    await self._ledger.ended(done)
                except LimitExceeded:
                    # It cannot be kept; but it was done, and may have to be undone.
                    self._done.append(done)
                    raise
                except asyncio.CancelledError:
                    # It is written all the same.
                    self._succeeded(done, told)
                    raise
                self._succeeded(done, told)
            else:
                self._call.skip(stage.step)
                await self._skip(stage, told, *skipped)
        except Declined as declined:
            await self._skip(stage, told, str(declined), False)
        except WeftError as error:
            await self._failed(stage, told, error)
        told.ended = self._now() - self._began
        self._tell(told)
        self._order.pass_on(stage, well=told.status == "succeeded")

    async def _do(self, stage: Stage, told: StepTold) -> Done:
        """Do a step; one of a run that may outlive its call has a time of its own."""
        call = self._call.apart() if self._ledger.durable else self._call
        doing = do_step(
            stage, self._scope, call, ledger=self._ledger, backoff=self.plan.backoff, told=told, tell=self._tell,
            partly=self._done.append,
        )  # fmt: skip
        if not self._ledger.durable:
            return await doing
        try:
            async with call.root.clock.timeout_at(call.deadline):
                return await doing
        except TimeoutError:
            raise TimedOut(f"step '{stage.id}' was not done before its deadline") from None

    async def _skip(self, stage: Stage, told: StepTold, reason: str, lost: bool) -> None:
        told.status, told.because, told.lost = "skipped", reason, lost
        if lost:
            self._call.root.warn(f"Step '{stage.id}' was skipped: {reason}")
        await self._ledger.ended(Done(stage, "skipped", because=reason, lost=lost))

    async def _failed(self, stage: Stage, told: StepTold, error: WeftError) -> None:
        if self._ledger.puts_off(error):
            raise PutOff(stage.id, error)
        told.status, told.error = "failed", error.to_json()
        if isinstance(error, BudgetSpent) or not self._may_fail(stage):
            self._fatal = self._fatal or (stage.id, error)
            return
        made = next((one.made for one in self._done if one.stage is stage), ())
        await self._ledger.ended(Done(stage, "failed", made=made, error=told.error, attempts=told.attempts))
        self._call.root.warn(f"Step '{stage.id}' failed: {error.message}")

    def _may_fail(self, stage: Stage) -> bool:
        return stage.optional or self.plan.keeps_going

    def _succeeded(self, done: Done, told: StepTold) -> None:
        self._keep(done)
        told.status = "succeeded"

    def _keep(self, done: Done) -> None:
        self._done.append(done)
        self.told.results[done.stage.key] = done.output
        for name in done.stage.names:
            self._scope[name] = done.output

    # The end.

    async def _end(self) -> Value:
        plan, told = self.plan, self.told
        # It is as well without those that may fail.
        needed = [told.steps[stage.index] for stage in plan.stages if not stage.optional]
        failed = [step for step in needed if step.status == "failed"]
        none = not any(step.status == "succeeded" for step in told.steps)
        if self._fatal is None and plan.keeps_going and failed and none:
            first = failed[0]
            self._fatal = (first.id, ExecutionFailed((first.error or {}).get("message", "every step failed")))
        if self._fatal is None:
            try:
                told.output = output_of(plan, told, self._scope, self._call.root)
            except WeftError as error:
                self._fatal = ("", error)
        if self._fatal is not None:
            return await self._fail(*self._fatal)
        told.status = "partial" if failed else "succeeded"
        await self._close()
        return told.output

    async def _fail(self, step: str, error: WeftError) -> Value:
        told = self.told
        told.status, told.failed = "cancelled" if self._stopped else "failed", step
        if self.plan.rolls_back and self._done:
            await self._ledger.turn_back(step, error, [one for one in self._done if one.status == "failed"])
            await self._rolled_back()
        told.duration = self._now() - self._began
        told.error = error if isinstance(error, BudgetSpent) else failure(told, step, error, stopped=self._stopped)
        await self._close()
        raise told.error

    async def _rolled_back(self) -> None:
        """Roll back, to the end also when nobody waits for it any longer."""
        if self._ledger.durable:
            return await self._roll_back()
        undoing = asyncio.create_task(self._roll_back())
        try:
            await asyncio.shield(undoing)
        except asyncio.CancelledError:
            self._call.root.detach(self._to_its_end(undoing))
            raise

    async def _to_its_end(self, undoing: asyncio.Task[None]) -> None:
        await undoing
        await self._close()

    async def _roll_back(self) -> None:
        await roll_back(self.told, self._done, self._scope, self._call, ledger=self._ledger, tell=self._tell)

    async def _close(self) -> None:
        self.told.duration = self._now() - self._began
        await self._ledger.closed(self.told)
        if self._follower is not None:
            self._follower.ended(self.told)

    async def _leave(self) -> None:
        """End a run that nobody waits for any longer."""
        self._cancelled()
        if self._ledger.durable:
            return  # Somebody else goes on with it.
        self.told.status = "cancelled"
        self.told.duration = self._now() - self._began
        if self.plan.rolls_back and self._done:
            self._call.root.detach(self._undo_apart())
        elif self._follower is not None:
            self._follower.ended(self.told)

    async def _undo_apart(self) -> None:
        self._call = self._call.apart()
        await self._roll_back()
        self.told.duration = self._now() - self._began
        if self._follower is not None:
            self._follower.ended(self.told)

    def _cancelled(self) -> None:
        """Tell of what was done without a task of its own that it was cancelled."""
        for told in self.told.steps:
            if told.status == "running":
                told.status, told.ended = "cancelled", self._now() - self._began
                self._tell(told)

    def _tell(self, told: StepTold) -> None:
        if self._follower is not None:
            self._follower.step(told)
