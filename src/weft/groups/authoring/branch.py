"""Groups of actions while they are written: `@users.action`, groups in groups, middleware."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import RLock
from typing import Any, Final, Self, TypedDict, TypeVar, Unpack, overload

from weft.errors import DocumentInvalid, Frozen, InputError, Problem, nearest, shown
from weft.groups.authoring.options import flag_of, middleware_of, tags_of, text_of
from weft.groups.authoring.params import Params
from weft.groups.authoring.signatures import docstring_of, params_of
from weft.groups.calling import Middleware

F = TypeVar("F", bound=Callable[..., Any])

LONGEST: Final = 128
"""Characters of a name: more is cut or refused by clients."""

_PART: Final = re.compile(r"[A-Za-z0-9_-]+")


class Told(TypedDict, total=False):
    """What may be said of an action."""

    title: str | None
    description: str | None
    """Without one, it is the docstring."""
    reads_only: bool | None
    destructive: bool | None
    idempotent: bool | None
    open_world: bool | None
    tags: Collection[str]
    middleware: Sequence[Middleware]
    params: Any
    """A pydantic model or a JSON Schema, in place of the function's hints."""
    threaded: bool
    """Runs a function that is not async in a thread, so that others need not wait for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Defined:
    """An action as it was written."""

    key: str
    group: str
    """The dotted name of its group; empty for one that stands in none."""
    function: Callable[..., Any]
    params: Params
    title: str | None
    description: str | None
    annotations: dict[str, bool]
    tags: frozenset[str]
    middleware: tuple[Middleware, ...]
    threaded: bool


@dataclass(slots=True)
class Draft:
    """All that was written of one tool so far."""

    tool: str
    actions: dict[str, Defined] = field(default_factory=dict[str, Defined])
    groups: dict[str, ActionGroup] = field(default_factory=dict[str, "ActionGroup"])
    frozen: bool = False
    writing: RLock = field(default_factory=RLock)
    """Held by who adds something and by who makes the tool ready, so that nothing comes in between."""

    def check_open(self, what: str) -> None:
        """Check that something may still be added.

        Raises:
            Frozen: the tool is in use.
        """
        if self.frozen:
            raise Frozen(self.tool, what)

    def middleware_of(self, defined: Defined) -> tuple[Middleware, ...]:
        """Return what stands around an action: of the tool, of its groups from the outermost on, and its own."""
        parts = defined.group.split(".") if defined.group else []
        paths = ["", *(".".join(parts[: end + 1]) for end in range(len(parts)))]
        return (*(one for path in paths for one in self.groups[path].middleware), *defined.middleware)


class ActionGroup:
    """A group of actions, whose keys begin with its name: `users.create`."""

    def __init__(self, draft: Draft, path: str, *, description: str | None, middleware: Sequence[Middleware]) -> None:
        self._draft = draft
        self._path = path
        self._description = text_of("a description", description)
        self._middleware = middleware_of(middleware)
        draft.groups[path] = self

    @property
    def path(self) -> str:
        """Its name with those of the groups around it; empty for the tool itself."""
        return self._path

    @property
    def description(self) -> str | None:
        """What it says of itself."""
        return self._description

    @property
    def middleware(self) -> tuple[Middleware, ...]:
        """What stands around every action of it, the first outermost."""
        return self._middleware

    def group(self, name: str, description: str | None = None, *, middleware: Sequence[Middleware] = ()) -> ActionGroup:
        """Return a group in this one; with its name alone, also one that is there already.

        Raises:
            Frozen: the tool is in use.
        """
        with self._draft.writing, _said_of(self._draft.tool):
            self._draft.check_open("groups")
            path = self._key(name)
            known = self._draft.groups.get(path)
            if known is None:
                return ActionGroup(self._draft, path, description=description, middleware=middleware)
            if description is not None or middleware:
                raise _twice("groups", path)
            return known

    def use(self, *middleware: Middleware) -> Self:
        """Put middleware around every action of it, also those that come later; the first is outermost.

        Raises:
            Frozen: the tool is in use.
        """
        with self._draft.writing, _said_of(self._draft.tool):
            self._draft.check_open("middleware")
            self._middleware = (*self._middleware, *middleware_of(middleware))
        return self

    @overload
    def action(self, function: F) -> F: ...
    @overload
    def action(self, *, name: str | None = None, **told: Unpack[Told]) -> Callable[[F], F]: ...

    def action(self, function: Any = None, *, name: str | None = None, **told: Unpack[Told]) -> Any:
        """Make an action of a function, and return the function as it was: `@users.action`, `@users.action(tags=..)`.

        Raises:
            Frozen: the tool is in use.
        """

        def defined(inner: F) -> F:
            given = name or getattr(inner, "__name__", "<lambda>")
            if given == "<lambda>":
                raise TypeError("w.group: a function without a name needs one: .action(name='double')(..)")
            self.add(given, inner, **told)
            return inner

        return defined if function is None else defined(function)

    def add(self, key: str, function: Callable[..., Any], /, **told: Unpack[Told]) -> Self:
        """Add an action; a dotted key puts it into groups, which are made if need be.

        Raises:
            Frozen: the tool is in use.
        """
        with self._draft.writing:
            self._draft.check_open("actions")
            *groups, name = key.split(".") if isinstance(key, str) else [key]  # pyright: ignore[reportUnnecessaryIsInstance] (authors may write anything)
            home: ActionGroup = self
            for part in groups:
                home = home.group(part)
            home._define(name, function, **told)
        return self

    def _define(self, name: str, function: Callable[..., Any], **told: Unpack[Told]) -> None:
        key = self._key(name)
        if key in self._draft.actions:
            raise _twice("actions", key)
        with _said_of(self._draft.tool, key):
            for unknown in told.keys() - Told.__annotations__.keys():
                close = nearest(unknown, Told.__annotations__)
                hint = f"did you mean {close!r}?" if close else f"there are {', '.join(Told.__annotations__)}"
                raise TypeError(f"nothing is said of an action by {unknown!r}; {hint}")
            self._draft.actions[key] = _defined(key, self.path, function, **told)

    def _key(self, name: str) -> str:
        if not isinstance(name, str) or _PART.fullmatch(name) is None:  # pyright: ignore[reportUnnecessaryIsInstance] (authors may write anything)
            expected = "letters, digits, _ and -"
            raise InputError(f"{shown(name)} is no name of an action: expected {expected}", code="InvalidName")
        key = f"{self.path}.{name}" if self.path else name
        if len(key) > LONGEST:
            raise InputError(f"the name {shown(key)} is longer than {LONGEST} characters", code="InvalidName")
        return key


def _defined(
    key: str,
    group: str,
    function: Callable[..., Any],
    *,
    title: str | None = None,
    description: str | None = None,
    tags: Collection[str] = (),
    middleware: Sequence[Middleware] = (),
    params: Any = None,
    threaded: bool = False,
    reads_only: bool | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
    open_world: bool | None = None,
) -> Defined:
    if not callable(function):
        raise TypeError(f"an action is a function, not {shown(function)}")
    hints = {
        "readOnlyHint": flag_of("reads_only", reads_only),
        "destructiveHint": flag_of("destructive", destructive),
        "idempotentHint": flag_of("idempotent", idempotent),
        "openWorldHint": flag_of("open_world", open_world),
    }
    return Defined(
        key=key,
        group=group,
        function=function,
        params=params_of(function, params),
        title=text_of("title", title),
        description=text_of("description", description) or docstring_of(function),
        annotations={hint: value for hint, value in hints.items() if value is not None},
        tags=tags_of("tags", tags),
        middleware=middleware_of(middleware),
        threaded=flag_of("threaded", threaded) or False,
    )


@contextmanager
def _said_of(tool: str, key: str | None = None) -> Generator[None]:
    """Say of which tool and action a mistake is; a group in a group has said it already."""
    try:
        yield
    except TypeError as error:
        where = f"w.group({tool!r})" if key is None else f"w.group({tool!r}), action {key!r}"
        raise error if str(error).startswith("w.group") else TypeError(f"{where}: {error}") from None


def _twice(what: str, key: str) -> DocumentInvalid:
    return DocumentInvalid([Problem(code="DuplicateName", message=f"two {what} are named {key!r}", value=key)])
