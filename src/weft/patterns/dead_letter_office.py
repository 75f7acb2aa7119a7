"""The office: sends letters, whatever becomes of the calls that they are about."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final

from weft.errors import StoreError, WeftError
from weft.patterns.contract import Call, Step, Value, perform
from weft.patterns.dead_letter_letters import Letter, Sender
from weft.patterns.dead_letter_spool import Spool
from weft.patterns.keys import Keys

MARGIN: Final = 5.0
"""So many seconds longer than the tool may take, nobody else sends the letter."""


class Office:
    """Sends the letters of one pattern."""

    def __init__(self, sender: Sender, step: Step, spool: Spool | None, timeout: float) -> None:
        self._sender = sender
        self._step = step
        self._spool = spool
        self._timeout = timeout

    def letter(self, keys: Keys, value: Value, failures: Sequence[WeftError], call: Call) -> Letter:
        """Return the letter of a call; the same call, made again under the same keys, has the same one."""
        id = keys.below(self._sender.place).next("deadLetter", value)[:32]
        return self._sender.letter(id, value, failures, call)

    def send(self, letter: Letter, call: Call) -> asyncio.Future[str | None]:
        """Send a letter, whatever becomes of the call; the future has what went wrong."""
        done: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()

        async def work() -> None:
            wrong: str | None = "there was no time left for it"
            try:
                wrong = await self._send(letter, call)
            finally:
                if not done.done():
                    done.set_result(wrong)

        call.root.detach(work())
        return done

    async def _send(self, letter: Letter, call: Call) -> str | None:
        signals = call.root.signals
        kept = await self._kept(letter)
        wrong = "there was no time left for it"
        try:
            wrong = await deliver(self._step, letter, call.apart(), self._timeout)
            return wrong
        finally:
            if wrong is None:
                signals.count("dead_letters", outcome="delivered")
                call.note(deadLetter="delivered")
            else:
                signals.count("dead_letters" if kept else "dead_letter_lost", outcome="spooled" if kept else "lost")
                signals.event(
                    "dead_letter_spooled" if kept else "dead_letter_lost", id=letter.id, tool=letter.tool, reason=wrong
                )
                call.note(deadLetter="spooled" if kept else "lost")
            if kept is not None and self._spool is not None:
                await settled(self._spool, kept, wrong)

    async def _kept(self, letter: Letter) -> Letter | None:
        """Keep the letter before it is sent, so that a crash does not lose it; return it, if it is kept."""
        if self._spool is None:
            return None
        with contextlib.suppress(StoreError):
            return await self._spool.keep(letter, self._timeout + MARGIN)
        return None


async def settled(spool: Spool, letter: Letter, wrong: str | None) -> None:
    """Forget a letter that its tool has taken; keep one for later that it has not."""
    # Where that fails the letter stays as it is: at worst the tool is given it again, under the same id.
    with contextlib.suppress(StoreError):
        await (spool.forget(letter) if wrong is None else spool.put_off(letter.refused(wrong)))


async def deliver(step: Step, letter: Letter, call: Call, timeout: float) -> str | None:
    """Give a letter to its tool, in time; return what went wrong."""
    clock = call.root.clock
    limit = clock.now() + timeout
    try:
        async with clock.timeout_at(limit):
            await perform(step, letter.payload, call.until(limit).keyed(Keys(letter.id)))
    except TimeoutError:
        return f"'{letter.tool}' did not answer within {timeout:g} seconds"
    except Exception as error:
        return str(error) or type(error).__name__
    return None
