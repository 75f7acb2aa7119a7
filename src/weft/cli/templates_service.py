"""Where templates are: in this process on weft.yaml, or at a gateway over HTTP; commands do not see the difference."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from weft.cli.output import show_problems, warn
from weft.errors import InputError

if TYPE_CHECKING:
    from weft.app.workshop import Workshop
    from weft.config import Config
    from weft.gateway.following import Hear

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """What the command line says about the place."""

    config: Path | None
    url: str | None
    headers: tuple[str, ...]


class Templates(Protocol):
    """What commands ask for; each call is one question."""

    def cards(self, **choice: str | None) -> list[dict[str, Any]]:
        """Return the cards of all templates that fit."""
        ...

    def get(self, id: str) -> dict[str, Any]:
        """Return a template, and which of its tools are missing."""
        ...

    def create(self, template: dict[str, Any]) -> dict[str, Any]:
        """Keep a new one."""
        ...

    def update(self, id: str, template: dict[str, Any]) -> dict[str, Any]:
        """Put another in its place."""
        ...

    def delete(self, id: str) -> None:
        """Forget one."""
        ...

    def stats(self, id: str) -> dict[str, Any]:
        """Return what its runs tell."""
        ...

    def runs(self, *, template: str | None, status: str | None, limit: int) -> dict[str, Any]:
        """Return the newest runs."""
        ...

    def execute(self, body: dict[str, Any], display: Display) -> dict[str, Any]:
        """Run something to its end."""
        ...


class Display(Protocol):
    """Whoever shows how a run goes."""

    def hear(self, event: dict[str, Any]) -> None:
        """Take note of an event."""
        ...

    def draw(self) -> None:
        """Show how it stands now."""
        ...

    def stop(self) -> None:
        """Show how it ended, where it was stopped in its middle."""
        ...


def place_options(function: F) -> F:
    """Give a command the options that say where templates are."""
    options = (
        click.option(
            "-c", "--config", type=click.Path(path_type=Path), help="Its servers and stores.  [default: ./weft.yaml]"
        ),
        click.option("--url", metavar="URL", help="A running gateway instead, such as http://127.0.0.1:15000."),
        click.option("--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="Sent along, with --url."),
    )
    for option in reversed(options):
        function = option(function)
    return function


def templates_at(where: Where) -> Templates:
    """Return the templates of a place.

    Raises:
        InputError: two places are named, or weft.yaml cannot be used.
    """
    if where.url is None:
        if where.headers:
            raise InputError("--header goes with --url", code="NoUrl")
        return Here(where.config)
    if where.config is not None:
        raise InputError("-c and --url are two places", code="TwoPlaces", hint="give one of them")
    from weft.cli.templates_remote import There

    return There(where.url, where.headers)


class Here:
    """The templates of weft.yaml, in this process."""

    def __init__(self, path: Path | None) -> None:
        from weft.config import load_config

        self._config: Config = load_config(path, os.environ)
        show_problems(self._config.problems)

    @property
    def keeps(self) -> bool:
        """Whether what is written here outlives the command."""
        from weft.app.workshop import keeps

        return keeps(self._config)

    def cards(self, **choice: str | None) -> list[dict[str, Any]]:
        return self._asked(lambda it: it.compositions.templates(_me(), **choice))

    def get(self, id: str) -> dict[str, Any]:
        return self._asked(lambda it: it.compositions.template(_me(), id), connect=True)

    def create(self, template: dict[str, Any]) -> dict[str, Any]:
        self._check_keeps()
        return self._asked(lambda it: it.compositions.create(_me(), template))

    def update(self, id: str, template: dict[str, Any]) -> dict[str, Any]:
        self._check_keeps()
        return self._asked(lambda it: it.compositions.update(_me(), id, template))

    def delete(self, id: str) -> None:
        self._check_keeps()
        self._asked(lambda it: it.compositions.delete(_me(), id))

    def stats(self, id: str) -> dict[str, Any]:
        return self._asked(lambda it: it.compositions.stats(_me(), id))

    def runs(self, *, template: str | None, status: str | None, limit: int) -> dict[str, Any]:
        return self._asked(lambda it: it.compositions.runs(_me(), template=template, status=status, limit=limit))

    def execute(self, body: dict[str, Any], display: Display) -> dict[str, Any]:
        try:
            return self._asked(lambda it: _executed(it, body, display), connect=True)
        except KeyboardInterrupt:
            # What was begun is undone by now, if it was to be.
            display.stop()
            raise

    def _check_keeps(self) -> None:
        if self.keeps:
            return
        name = self._config.compositions.store
        lines = f"stores: {{{name}: {{type: sqlite, path: weft.db}}}}"
        told = "templates are kept in memory here, and would be gone at once"
        raise InputError(told, code="NotKept", hint=f"write into weft.yaml `{lines}`, or use --url for a gateway")

    def _asked(self, ask: Callable[[Workshop], Any], *, connect: bool = False) -> Any:
        async def asked() -> Any:
            from weft.app.workshop import workshop

            async with workshop(self._config, connect=connect) as it:
                for warning in it.warnings:
                    warn(warning)
                return await ask(it)

        # What a registry in Python prints must not stand in the result.
        with redirect_stdout(sys.stderr):
            return asyncio.run(asked())


TICK = 0.1


async def _executed(it: Workshop, body: dict[str, Any], display: Display) -> dict[str, Any]:
    from weft.gateway.callers import Nobody

    async def ticking() -> None:
        while True:
            await asyncio.sleep(TICK)
            display.draw()

    hear: Hear = display.hear
    ticks = asyncio.create_task(ticking())
    try:
        return await it.compositions.execute(Nobody(), body, hear=hear)
    finally:
        ticks.cancel()
        await asyncio.gather(ticks, return_exceptions=True)


def _me() -> Any:
    from weft.ports import ANONYMOUS

    return ANONYMOUS
