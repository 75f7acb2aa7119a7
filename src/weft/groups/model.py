"""Tools, prompts and resources, and the groups that hold them: what MCP has, as objects that know where they stand.

    Named
    ├── GroupItem            what groups hold; it may stand in many
    │   ├── Group
    │   ├── Tool
    │   ├── Prompt
    │   ├── Resource
    │   └── ResourceTemplate
    └── PromptArgument

What a thing says of itself is frozen; where it stands grows as groups take it in. Two things are equal only when they
are the same one: a tool of another server may have the same name and say the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Final

from weft.errors import InputError, shown
from weft.ports import Schema

MAX_NAMES: Final = 1_000
"""Ways to one thing that `qualified_names` tells."""


def is_name(value: object) -> bool:
    """Tell whether a value can be a name."""
    return isinstance(value, str) and value != ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Icon:
    """A picture that clients may show."""

    src: str
    mime_type: str | None = None
    sizes: Sequence[str] = ()
    theme: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True, eq=False)
class Named:
    """Anything that has a name."""

    kind: ClassVar[str] = "thing"

    name: str
    _: KW_ONLY
    title: str | None = None
    description: str | None = None
    meta: Mapping[str, Any] | None = None
    icons: Sequence[Icon] = ()
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    """What the wire object had that this model does not know, as it was."""

    def __post_init__(self) -> None:
        if not is_name(self.name):
            told = f"the name of a {self.kind} must be a non-empty text, not {shown(self.name)}"
            raise InputError(told, code="InvalidName")

    @property
    def holders(self) -> Sequence[Named]:
        """What it stands in, in the order in which it came there."""
        return ()

    @property
    def qualified_name(self) -> str:
        """The dotted way to it from a root, always by the first holder: `platform.users.create`."""
        names, one = [self.name], self
        while holders := one.holders:
            one = holders[0]
            names.append(one.name)
        return ".".join(reversed(names))

    @property
    def qualified_names(self) -> tuple[str, ...]:
        """Every dotted way to it, `qualified_name` first.

        Raises:
            InputError: `TooManyNames`; with each layer of groups that share what they hold, the ways multiply.
        """
        names: dict[str, None] = {}
        found = 0
        ways: list[tuple[Named, str]] = [(self, self.name)]
        while ways:
            one, way = ways.pop()
            if not one.holders:
                names[way] = None
                found += 1
            if found > MAX_NAMES:
                told = f"{self.kind} {self.qualified_name!r} has more than {MAX_NAMES:,} qualified names"
                raise InputError(
                    told, code="TooManyNames", hint="`qualified_name` is the first, `roots` where all begin"
                )
            ways.extend((holder, f"{holder.name}.{way}") for holder in reversed(one.holders))
        return tuple(names)


@dataclass(frozen=True, slots=True, eq=False)
class GroupItem(Named):
    """What groups hold."""

    _parents: list[Group] = field(default_factory=list["Group"], init=False, repr=False)

    @property
    def parents(self) -> tuple[Group, ...]:
        """The groups that hold it, in the order in which they took it in."""
        return tuple(self._parents)

    @property
    def holders(self) -> Sequence[Named]:
        return self.parents

    @property
    def roots(self) -> tuple[Group, ...]:
        """Every group in no other group from which it can be reached, each once; of such a group, that group."""
        return tuple(one for one in _upwards(self) if isinstance(one, Group) and not one.parents)

    @property
    def identity(self) -> str:
        """What tells it from others of its kind in one group."""
        return self.name


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Tool(GroupItem):
    """Something that a model can call."""

    kind: ClassVar[str] = "tool"

    input_schema: Schema = field(default_factory=lambda: {"type": "object"})
    output_schema: Schema | None = None
    annotations: Mapping[str, Any] | None = None
    """The hints, by their names in MCP: `readOnlyHint`."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PromptArgument(Named):
    """A value that a prompt is filled with; its qualified name goes by the prompt that it belongs to."""

    kind: ClassVar[str] = "prompt argument"

    required: bool = False
    _prompts: list[Prompt] = field(default_factory=list["Prompt"], init=False, repr=False)

    @property
    def holders(self) -> Sequence[Named]:
        return tuple(self._prompts)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Prompt(GroupItem):
    """A text that a user can ask for."""

    kind: ClassVar[str] = "prompt"

    arguments: Sequence[PromptArgument] = ()

    def __post_init__(self) -> None:
        # Not super(): a dataclass with slots is another class than the one that this function was written in.
        Named.__post_init__(self)
        for argument in self.arguments:
            argument._prompts.append(self)  # pyright: ignore[reportPrivateUsage]  # the two are one thing


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Resource(GroupItem):
    """Something that can be read; many may have one name, but not one URI."""

    kind: ClassVar[str] = "resource"

    uri: str
    size: int | None = None
    """Bytes, before any encoding."""

    mime_type: str | None = None
    annotations: Mapping[str, Any] | None = None
    """For whom it is and how much it matters, by the names of MCP: `audience`, `priority`."""

    @property
    def identity(self) -> str:
        return self.uri


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ResourceTemplate(GroupItem):
    """Resources whose URIs follow one template (RFC 6570)."""

    kind: ClassVar[str] = "resource template"

    uri_template: str
    mime_type: str | None = None
    annotations: Mapping[str, Any] | None = None

    @property
    def identity(self) -> str:
        return self.uri_template


@dataclass(frozen=True, slots=True, eq=False)
class Group(GroupItem):
    """Holds tools, prompts, resources and other groups, also such as stand in other groups."""

    kind: ClassVar[str] = "group"

    _held: dict[tuple[str, str], GroupItem] = field(
        default_factory=dict[tuple[str, str], GroupItem], init=False, repr=False
    )

    def add(self, *items: GroupItem) -> Group:
        """Take items in, and return this group; one that it holds already stays where it is.

        Raises:
            InputError: `Cycle`, `DuplicateName` or `WrongType`; then none of them is taken in.
        """
        new: dict[tuple[str, str], GroupItem] = {}
        above = _upwards(self)
        for item in items:
            self._check(item, above)
            key = (item.kind, item.identity)
            if (other := self._held.get(key, new.get(key))) is None:
                new[key] = item
            elif other is not item:
                told = f"group {self.qualified_name!r} holds another {item.kind} {shown(item.identity)} already"
                hint = "a group tells groups, tools and prompts apart by their names, and resources by their URIs"
                raise InputError(told, code="DuplicateName", hint=hint)
        self._held.update(new)
        for item in new.values():
            item._parents.append(self)
        return self

    def _check(self, item: object, above: Mapping[GroupItem, GroupItem | None]) -> None:
        """Refuse what no group can hold, and a group that this one stands in."""
        if not isinstance(item, GroupItem):
            hint = "it holds Group, Tool, Prompt, Resource and ResourceTemplate"
            raise InputError(f"group {self.qualified_name!r} cannot hold {shown(item)}", code="WrongType", hint=hint)
        if item is self:
            raise InputError(f"group {self.qualified_name!r} cannot hold itself", code="Cycle")
        if item in above:
            circle, below = [item.name], above[item]
            while below is not None:
                circle.append(below.name)
                below = above[below]
            path = " -> ".join([*circle, item.name])
            told = f"group {self.qualified_name!r} cannot hold {item.name!r}, in which it stands: {path}"
            raise InputError(told, code="Cycle")

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups in it, in the order in which they came; so for all that it holds."""
        return tuple(one for one in self._held.values() if isinstance(one, Group))

    @property
    def tools(self) -> tuple[Tool, ...]:
        return tuple(one for one in self._held.values() if isinstance(one, Tool))

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        return tuple(one for one in self._held.values() if isinstance(one, Prompt))

    @property
    def resources(self) -> tuple[Resource, ...]:
        return tuple(one for one in self._held.values() if isinstance(one, Resource))

    @property
    def resource_templates(self) -> tuple[ResourceTemplate, ...]:
        return tuple(one for one in self._held.values() if isinstance(one, ResourceTemplate))

    def walk(self) -> Iterator[GroupItem]:
        """Yield all that can be reached from here, each once, a group before what it holds."""
        seen: set[GroupItem] = set()
        ahead = list(reversed(self._held.values()))
        while ahead:
            one = ahead.pop()
            if one in seen:
                continue
            seen.add(one)
            yield one
            if isinstance(one, Group):
                ahead.extend(reversed(one._held.values()))


def _upwards(item: GroupItem) -> dict[GroupItem, GroupItem | None]:
    """Return an item and every group above it, each with what it was reached from; first parents come first."""
    found: dict[GroupItem, GroupItem | None] = {}
    ahead: list[tuple[GroupItem, GroupItem | None]] = [(item, None)]
    while ahead:
        one, below = ahead.pop()
        if one not in found:
            found[one] = below
            ahead.extend((parent, one) for parent in reversed(one.parents))
    return found
