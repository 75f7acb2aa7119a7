"""Grouped tools as authors write them: `platform = w.group("platform")`, `@platform.action`."""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Self, get_args

from weft.errors import InputError, nearest
from weft.errors import shown as told
from weft.groups.action import DISCRIMINATOR, Action
from weft.groups.authoring.branch import LONGEST, ActionGroup, Draft
from weft.groups.authoring.built import Built
from weft.groups.authoring.common import Common, common_of
from weft.groups.authoring.options import icons_of, meta_of, middleware_of, response_of, tags_of, text_of
from weft.groups.authoring.showing import Shown, listed
from weft.groups.calling import Middleware
from weft.groups.rule import ResponseRule
from weft.groups.strategies.schema import Conflicts
from weft.ir.groups import Detail, Format
from weft.ports import Caller

_TOOL: Final = re.compile(r"[A-Za-z0-9_.-]+")
_ANYWHERE: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""What every client takes for the name of a tool; MCP itself takes more."""

_FIELD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


class GroupedTool(ActionGroup):
    """One tool of many actions. Its first use makes it ready, once; from then on it does not change."""

    def __init__(self, shown: Shown, draft: Draft, common: Common) -> None:
        around = draft.groups[""].middleware if draft.groups else ()
        super().__init__(draft, "", description=shown.description, middleware=around)
        self._shown = shown
        self._common = common
        self._built: Built | None = None

    @property
    def name(self) -> str:
        """The name of the tool."""
        return self._shown.name

    @property
    def discriminator(self) -> str:
        """The argument that says which action is meant."""
        return self._shown.discriminator

    @property
    def response(self) -> ResponseRule:
        """How much of a result a model gets."""
        return self._shown.response

    @property
    def frozen(self) -> bool:
        """Whether it is in use, so that nothing can be added."""
        return self._draft.frozen

    @property
    def actions(self) -> Mapping[str, Action]:
        """Its actions by their keys, so far; to look does not freeze it."""
        if self._built is not None:
            return self._built.actions
        with self._draft.writing:
            return MappingProxyType({one.key: one for one in listed(self._shown, self._draft, self._common)})

    @property
    def definition(self) -> dict[str, Any]:
        """The tool as `tools/list` has it, always the same object; to read it freezes the tool.

        Everybody who reads it has this object. Calls go by none of it.

        Raises:
            DocumentInvalid: it has no actions, or two of them have a field that cannot be one.
        """
        return self._ready().definition

    def common(self, model: Any = None, /, **fields: Any) -> Self:
        """Add fields that every action takes: a model, a JSON Schema, or types by name; `(type, default)` is optional.

        Raises:
            Frozen: the tool is in use.
        """
        with self._draft.writing:
            self._draft.check_open("common fields")
            self._common = _joined(self.name, self._common, model, fields)
        return self

    def filtered(self, *, tags: Collection[str] = (), exclude_tags: Collection[str] = ()) -> GroupedTool:
        """Return the same tool with fewer actions: with one of the tags, if any are given, and none of the others.

        Both are frozen, so that neither can get what the other lacks.
        """
        wanted, unwanted = tags_of("tags", tags), tags_of("exclude_tags", exclude_tags)
        self._ready()
        actions = {
            key: defined
            for key, defined in self._draft.actions.items()
            if (not wanted or wanted & defined.tags) and not unwanted & defined.tags
        }
        draft = Draft(self.name, actions, {**self._draft.groups}, frozen=True)
        return GroupedTool(self._shown, draft, self._common)

    async def execute(self, arguments: Mapping[str, Any] | None, *, caller: Caller | None = None) -> Any:
        """Run the action that the arguments name; return its value, or the outcome that it gave.

        Raises:
            WeftError: it failed, whether it raised that or returned it, or was called wrongly.
        """
        return await (self._built or self._ready()).execute(arguments, caller)

    async def call(self, arguments: Mapping[str, Any] | None, *, caller: Caller | None = None) -> dict[str, Any]:
        """Run the action that the arguments name; return the result as MCP has it, also when it fails."""
        return await (self._built or self._ready()).call(arguments, caller)

    async def call_whole(self, arguments: Mapping[str, Any] | None, *, caller: Caller | None = None) -> dict[str, Any]:
        """Do what `call` does, and leave it to others to take what `_select` and the limits leave of the result."""
        return await (self._built or self._ready()).call_whole(arguments, caller)

    def _ready(self) -> Built:
        if self._built is None:
            with self._draft.writing:
                if self._built is None:
                    before, self._draft.frozen = self._draft.frozen, True
                    try:
                        self._built = Built(self._shown, self._draft, self._common)
                    except BaseException:
                        # What was wrong with it can still be put right.
                        self._draft.frozen = before
                        raise
        return self._built


def group(
    name: str,
    *,
    title: str | None = None,
    description: str | None = None,
    common: Any = None,
    discriminator: str = DISCRIMINATOR,
    format: Format = "markdown",
    detail: Detail = "full",
    conflicts: Conflicts = "error",
    middleware: Sequence[Middleware] = (),
    response: ResponseRule | None = None,
    icons: Sequence[Mapping[str, Any]] = (),
    meta: Mapping[str, Any] | None = None,
) -> GroupedTool:
    """Return a tool that gets its actions next: `@it.action`, or in groups, `users = it.group("users")`.

    `conflicts` says what becomes of a field that two actions understand differently; `detail` is how much is told of
    each action: `brief` leaves the texts of fields to the action `help`, and `index` the fields altogether.

    Raises:
        InputError: a name or an option is none.
    """
    if not isinstance(name, str) or _TOOL.fullmatch(name) is None or len(name) > LONGEST:  # pyright: ignore[reportUnnecessaryIsInstance] (authors may write anything)
        expected = f"letters, digits, _, - and . , at most {LONGEST}"
        raise InputError(f"w.group: {told(name)} is no name of a tool: expected {expected}", code="InvalidName")
    if not isinstance(discriminator, str) or _FIELD.fullmatch(discriminator) is None:  # pyright: ignore[reportUnnecessaryIsInstance] (authors may write anything)
        expected = "a letter, then letters, digits, _ and -"
        raise InputError(f"w.group: {told(discriminator)} is no discriminator: expected {expected}", code="InvalidName")
    for option, value, choices in (
        ("format", format, Format),
        ("detail", detail, Detail),
        ("conflicts", conflicts, Conflicts),
    ):
        _check_choice(option, value, get_args(choices))
    try:
        shown = Shown(
            name=name,
            title=text_of("title", title),
            description=text_of("description", description),
            discriminator=discriminator,
            format=format,
            detail=detail,
            conflicts=conflicts,
            response=response_of(response),
            icons=icons_of(icons),
            meta=meta_of(meta),
        )
        around = middleware_of(middleware)
    except TypeError as error:
        raise TypeError(f"w.group({name!r}): {error}") from None
    if _ANYWHERE.fullmatch(name) is None:
        expected = "letters, digits, _ and -, at most 64"
        warnings.warn(f"w.group: some clients refuse a tool named {name!r}: they take {expected}", stacklevel=2)
    return GroupedTool(shown, Draft(name), _joined(name, Common({}), common, {})).use(*around)


def _check_choice(option: str, value: object, choices: Sequence[str]) -> None:
    if value not in choices:
        close = nearest(value, choices)
        hint = f"did you mean {close!r}?" if close else None
        told_of = f"w.group: {option} is {told(value)}: expected {' or '.join(choices)}"
        raise InputError(told_of, code="InvalidOption", hint=hint)


def _joined(tool: str, ours: Common, given: Any, fields: Mapping[str, Any]) -> Common:
    try:
        return ours.joined(common_of(given, fields))
    except TypeError as error:
        raise TypeError(f"w.group({tool!r}): {error}") from None
