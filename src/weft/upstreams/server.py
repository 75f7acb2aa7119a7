"""One upstream server: its life, what it offers, and the requests that it gets."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from weft.errors import DeadlineExceeded, UpstreamAuth, UpstreamDied, UpstreamUnavailable, WeftError, said_by
from weft.ports import Caller
from weft.upstreams.asking import offer_set
from weft.upstreams.bulkhead import Bulkhead
from weft.upstreams.child import RestartPolicy, Supervisor
from weft.upstreams.following import UPDATED, Following, session_stream, stands
from weft.upstreams.inventory import Admit, Inventory, Tools, take_inventory, updated
from weft.upstreams.loopclock import LoopClock
from weft.upstreams.probing import end_of
from weft.upstreams.results import outcome_of
from weft.upstreams.session import Session
from weft.upstreams.sessions import LEASED, Sessions
from weft.upstreams.spec import ServerSpec
from weft.upstreams.unanswered import Unanswered
from weft.upstreams.wires import Way, Wires

State: TypeAlias = Literal["starting", "ready", "degraded", "quarantined", "stopped"]
OnEvent: TypeAlias = Callable[["Server", str, dict[str, Any]], object]
"""Told what a server says of a resource that somebody watches: the server, the method, its params."""

ServerLog: TypeAlias = Callable[[str, str], object]
"""Told of a server, by its key, in one line."""

LONGEST_START = 60.0
LONGEST_WAIT = 300.0
"""For how long a server may ask to be left alone."""

TOOLS_CHANGED = {"method": "notifications/tools/list_changed"}

RECONNECT = RestartPolicy(within=0.0)
"""For servers over HTTP: no quarantine, as trying to connect costs nobody a process."""


class Server:
    """An upstream that is started, watched, and started again; what it offered last stays known while it is away."""

    def __init__(
        self,
        spec: ServerSpec,
        *,
        on_change: Callable[[], object],
        on_event: OnEvent,
        log: ServerLog,
        chatter: ServerLog | None = None,
        policy: RestartPolicy | None = None,
        outcomes: Counter[str] | None = None,
        admit: Admit | None = None,
    ) -> None:
        """Make a server; `on_change` is told when its state or inventory is another, `chatter` what a child mutters.

        `admit` says which of its tools are there for anybody; without it, all are.
        """
        self.spec = spec
        self.outcomes: Counter[str] = Counter() if outcomes is None else outcomes
        """How many requests have ended, by how: ok, tool_error, input_required, error, cancelled."""
        self.state: State = "starting"
        self.problem: str | None = None
        self.known = Inventory()
        """What it offered last, whatever its state."""
        self.connected_once = False
        self._on_change, self._on_event, self._log, self._admit = on_change, on_event, log, admit
        self._supervisor = Supervisor(
            spec.key, clock=LoopClock(), policy=policy or (RestartPolicy() if spec.command else RECONNECT)
        )
        mutter = chatter or log
        self._wires = Wires(spec, log=lambda line: mutter(spec.key, line))
        self._way = self._wires.first_way
        self._patience = spec.start_timeout
        self._gate = Bulkhead(spec.key, concurrency=spec.concurrency, queue=spec.queue)
        self._unanswered = Unanswered(spec.key)
        self._plain: Session | None = None
        self._sessions: Sessions | None = None
        self._following: Following | None = None
        self._watched: Counter[str] = Counter()
        self._settled = asyncio.Event()
        self._suspected = asyncio.Event()
        self._trouble: WeftError | None = None
        self._next_try = 0.0
        self._life: asyncio.Task[None] | None = None
        self._old: dict[asyncio.Task[None], tuple[Session, Sessions | None]] = {}

    @property
    def key(self) -> str:
        """Return the name by which the server is known."""
        return self.spec.key

    @property
    def inventory(self) -> Inventory:
        """What it offers; nothing while it is away, if it is to be hidden then."""
        if self.spec.on_unavailable == "hide" and self._plain is None:
            return replace(self.known, tools=(), prompts=(), resources=(), templates=())
        return self.known

    def lacks(self, tool: str) -> bool:
        """Tell whether it is sure that it has no such tool: it has told what it has, and that is not among it."""
        return self.connected_once and self.known.tool(tool) is None

    @property
    def in_flight(self) -> int:
        """How many requests it has now."""
        return self._gate.in_flight

    def start(self) -> None:
        """Begin to connect, and to keep connected."""
        self._life = asyncio.get_running_loop().create_task(self._live(), name=f"server {self.key}")

    async def settled(self) -> None:
        """Wait until it has connected, or failed to, for the first time."""
        await self._settled.wait()

    def recheck(self) -> None:
        """Have its tools asked for again, as if it had said that they changed; one that is away is asked anyway."""
        if self._following is not None:
            self._following.hear(TOOLS_CHANGED)

    async def request(
        self, method: str, params: Mapping[str, Any], *, deadline: float, caller: Caller | None = None
    ) -> dict[str, Any]:
        """Ask the server and return its result as it came.

        Its progress, log messages and questions go to the caller. A result that asks for input is returned to a caller
        that relays it, and to nobody in particular; any other caller is asked, and the request made again.

        Raises:
            NotFound: the tool is not admitted.
            UpstreamRefused: the server answered with an error.
            LimitExceeded: too many requests are in flight and waiting.
            InfrastructureError: there is no answer.
        """
        if self.spec.timeout is not None:
            deadline = min(deadline, asyncio.get_running_loop().time() + self.spec.timeout)
        outcome = "error"
        try:
            if self._plain is None:
                await self._awaited(deadline)
            if not self._gate.enter():
                await self._unanswered.turn(self._gate, deadline)
            try:
                result = await self._unanswered.run(caller, lambda who: self._ask(method, params, deadline, who))
            finally:
                self._gate.leave()
            outcome = outcome_of(result)
            return result
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        finally:
            self.outcomes[outcome] += 1

    async def _ask(
        self, method: str, params: Mapping[str, Any], deadline: float, caller: Caller | None
    ) -> dict[str, Any]:
        session = self._plain
        if session is None:
            raise self._away()
        if self._admit is not None and method == "tools/call":
            # Whoever calls may have found the tool while it was admitted.
            self.known.require(str(params.get("name")))
        try:
            if caller is None or self._sessions is None or not (offers := offer_set(caller.capabilities)):
                return await session.request(method, params, deadline=deadline, caller=caller)
            return await self._sessions.request(offers, method, params, deadline=deadline, caller=caller)
        except (UpstreamUnavailable, UpstreamDied, DeadlineExceeded):
            self._suspected.set()
            raise

    async def subscribe(self, uri: str) -> None:
        """Have the server tell of a resource, now and after each reconnect, until as many have unsubscribed.

        Raises:
            UpstreamRefused: the server refused.
        """
        self._watched[uri] += 1
        if self._watched[uri] == 1 and self._plain is not None and self._following is not None:
            try:
                await self._following.watch(self._plain, uri)
            except BaseException:
                self._forget(uri)
                raise

    async def unsubscribe(self, uri: str) -> None:
        """Take a subscription back."""
        if self._watched[uri] > 0:
            self._forget(uri)
            if not self._watched[uri] and self._plain is not None and self._following is not None:
                await self._following.unwatch(self._plain, uri)

    async def drain(self) -> None:
        """Close it once nothing is in flight."""
        await self._gate.idle()
        await self.close()

    async def close(self) -> None:
        """End it; what is in flight fails, and no process, connection or task is left."""
        if self._life is not None:
            self._life.cancel()
            await asyncio.wait({self._life})
        for task in list(self._old):
            task.cancel()
        for session, sessions in list(self._old.values()):
            await _end(session, sessions)
        if self._old:
            await asyncio.wait(self._old)
        await self._wires.close()
        self.state, self._trouble = "stopped", None
        self._settled.set()

    # Its life.

    async def _live(self) -> None:
        while True:
            reason = await self._one_life()
            pause = self._supervisor.died(reason)
            if not self.spec.command:
                # Gateways that lost a server together shall not return as one.
                pause *= random.uniform(0.5, 1.0)
            if self._trouble is not None and self._trouble.retry_after is not None:
                pause = max(pause, min(self._trouble.retry_after, LONGEST_WAIT))
            self._next_try = asyncio.get_running_loop().time() + pause
            self._turn("quarantined" if self._supervisor.quarantined else "degraded", reason)
            await asyncio.sleep(pause)

    async def _one_life(self) -> str:
        """Connect, stay connected as long as it lasts, and tell how it ended."""
        following = Following(
            reread=self._reread,
            watched=lambda: list(self._watched),
            updated=lambda params: self._tell(lambda: self._on_event(self, UPDATED, params)),
            suspect=self._suspected.set,
        )
        session: Session | None = None
        try:
            deadline = asyncio.get_running_loop().time() + self._patience
            session, way = await self._wires.connect(self._way, offers={}, heard=following.hear, deadline=deadline)
            await following.listen(session)
            found = await take_inventory(session.client, self.spec, deadline=deadline, admit=self._admitted)
            self._begin(session, way, following, found)
            following.read()
            return self._in_short(await end_of(session, self.spec, self._suspected))
        except Exception as error:  # whatever goes wrong with one server, it is tried again
            return self._reason(error)
        finally:
            await following.close()
            self._leave(session)

    def _begin(self, session: Session, way: Way, following: Following, found: Inventory) -> None:
        self._supervisor.started()
        self._trouble = None
        self._suspected.clear()
        session.on_gone = self._suspected.set
        self._patience = self.spec.start_timeout
        # A child that ended at the question for its era is not asked again.
        self._way = way if way.kind == "stdio" and way.era == "legacy" else self._wires.first_way
        self._plain, self._following, self.known = session, following, found
        self.connected_once = True
        if way.era == "legacy":
            leased = way.kind != "http"
            self._sessions = Sessions(
                self.key,
                lambda offers: self._open(offers, way),
                at_once=1 if leased else self.spec.concurrency,
                places=LEASED if leased else self.spec.concurrency,
                unanswered=self._unanswered,
            )
        self._turn("ready", None)

    async def _open(self, offers: Mapping[str, Any], way: Way) -> Session:
        """Open a session beside the plain one."""
        deadline = asyncio.get_running_loop().time() + self.spec.start_timeout
        session, _ = await self._wires.connect(way, offers=offers, heard=lambda _: None, deadline=deadline)
        if way.kind == "http":
            # Some servers ask there, rather than on the stream of the call that they ask for, and ask nobody when it
            # does not stand yet.
            stream = asyncio.Event()
            session.beside(session_stream(session, missed=_nothing, suspect=self._suspected.set, standing=stream))
            await stands(stream)
        return session

    def _leave(self, session: Session | None) -> None:
        """Let what is in flight end, and then close the connection."""
        sessions, self._plain, self._sessions, self._following = self._sessions, None, None, None
        if session is not None:
            task = asyncio.get_running_loop().create_task(_drained(session, sessions))
            self._old[task] = session, sessions
            task.add_done_callback(lambda done: self._old.pop(done, None))

    async def _reread(self, kinds: set[str]) -> None:
        session = self._plain
        if session is not None:
            deadline = asyncio.get_running_loop().time() + self.spec.start_timeout
            found = await updated(self.known, kinds, session.client, self.spec, deadline=deadline, admit=self._admitted)
            before, self.known = self.known, found
            if found != before:
                self._tell(self._on_change)

    async def _admitted(self, spec: ServerSpec, tools: Tools) -> Tools:
        if self._admit is None:
            return tools
        try:
            return await self._admit(spec, tools)
        except Exception as error:  # who cannot be judged is not served
            self._say(f"its tools are held back, since they cannot be judged: {said_by(error)}")
            return ()

    # What others are told.

    def _turn(self, state: State, problem: str | None) -> None:
        """Note a state: one line in the log and one word to the gateway for each new one."""
        self.problem = problem
        before, self.state = self.state, state
        self._settled.set()
        if before != state:
            self._say(f"{state}: {problem}" if problem else state)
            self._tell(self._on_change)

    def _tell(self, listener: Callable[[], object]) -> None:
        try:
            listener()
        except Exception as error:  # a listener's trouble is not the server's
            self._say(f"a listener failed: {said_by(error)}")

    def _say(self, line: str) -> None:
        self._log(self.key, line)

    def _reason(self, error: Exception) -> str:
        """Return why the server is away, in the words of an error, which is kept for those who call it meanwhile."""
        if isinstance(error, DeadlineExceeded):
            # Perhaps it only starts slowly.
            self._patience = min(max(LONGEST_START, self.spec.start_timeout), self._patience * 2)
        self._trouble = error if isinstance(error, WeftError) else None
        said = error.message if isinstance(error, WeftError) else said_by(error)
        return self._in_short(said)

    def _in_short(self, said: str) -> str:
        about = f"Upstream '{self.key}' "
        return said.removeprefix(f"{about}is unavailable: ").removeprefix(about)

    async def _awaited(self, deadline: float) -> None:
        """Wait for a server that is starting for the first time; any other that is away fails at once."""
        if self.state == "starting":
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    await self._settled.wait()
        if self._plain is None:
            raise self._away()

    def _away(self) -> WeftError:
        """Return the error of a call to a server that is away: why, and when it is tried next."""
        if self.state in ("starting", "stopped"):
            doing = "it is still starting" if self.state == "starting" else "weft has stopped it"
            return UpstreamUnavailable(self.key, doing)
        try:
            self._supervisor.check()
        except UpstreamUnavailable as error:
            return error
        left = max(0.0, self._next_try - asyncio.get_running_loop().time())
        when = f"it is tried again in {left:.1f} s" if left else "it is being tried again"
        if isinstance(self._trouble, UpstreamAuth):
            return UpstreamAuth(self.key, f"{self.problem}; {when}", status=self._trouble.status)
        return UpstreamUnavailable(self.key, f"{self.problem}; {when}", retry_after=left)

    def _forget(self, uri: str) -> None:
        self._watched[uri] -= 1
        if not self._watched[uri]:
            del self._watched[uri]


async def _drained(session: Session, sessions: Sessions | None) -> None:
    await session.drained()
    if sessions is not None:
        await sessions.drained()
    await _end(session, sessions)


async def _end(session: Session, sessions: Sessions | None) -> None:
    await session.close()
    if sessions is not None:
        await sessions.close()


async def _nothing() -> None:
    """Do nothing: only questions are heard on that stream."""
