"""The section of weft.yaml about groups: tools that are served as the actions of one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Strict, WithJsonSchema
from pydantic_core import PydanticCustomError

from weft.config.middleware import MiddlewareRules
from weft.config.server import Globs
from weft.config.settings import Count, Flag, Setting, Size, Text, described
from weft.errors import nearest, shown
from weft.groups.action import DISCRIMINATOR
from weft.ir.groups import GATHERING, Detail, Format
from weft.ir.names import FIELD_NAME, check_action_key, check_discriminator, check_group_name
from weft.ir.nodes import refuse
from weft.ports import is_array, is_object


def _word(text: str) -> str:
    if not text or text != text.strip():
        raise refuse("WrongValue", f"{shown(text)} is nobody's", value=shown(text), expected="a name without blanks")
    return text


GroupName = Annotated[str, AfterValidator(check_group_name)]
ActionKey = Annotated[str, AfterValidator(check_action_key)]
FieldName = Annotated[
    Text, AfterValidator(check_discriminator), WithJsonSchema({"type": "string", "pattern": FIELD_NAME})
]
Word = Annotated[Text, AfterValidator(_word)]
Words = Annotated[tuple[Word, ...], Strict(False)]


class ResultLimits(Setting):
    """How much of a result a model gets."""

    select: Flag = described(True, "Whether callers may say with `_select` which fields they want.")
    max_items: Count | None = described(None, "Items of a list; of what is cut a model is told.")
    max_text: Count | None = described(None, "Characters of one text.")
    max_bytes: Size | None = described(None, "The whole, as JSON.")


class Group(Setting):
    """Tools that are served as the actions of one tool."""

    title: Text | None = described(None, "Its name for people.")
    description: Text | None = described(None, "What a model is told about it, before its actions.")
    include: Globs = described((), "Globs of the names of tools that it has.")
    exclude: Globs = described((), "Globs of those that it does not have; they win.")
    servers: Words = described((), "Servers all of whose tools it has, as `name` or `name@1.2.0`.")
    tags: Words = described((), "A tool must have one of these tags.")
    exclude_tags: Words = described((), "A tool must have none of these.")
    actions: dict[ActionKey, Word] = described(
        {}, "Tools by the keys of their actions, such as `users.create`.  [default: the names of the tools]"
    )
    discriminator: FieldName = described(DISCRIMINATOR, "The argument that says which action is meant.")
    format: Format = described("markdown", "How the actions are described.")
    detail: Detail = described(
        "full",
        "All of each action; or a line and its fields, or only a line: `help` tells the rest.",
    )
    views: Words = described((), "The views that have it.  [default: all, and what has no name]")
    keep_tools: Flag = described(False, "Whether its tools stay in the list, too.")
    response: ResultLimits = described(ResultLimits(), "How much of a result a model gets.")
    middleware: MiddlewareRules = described((), "What stands around its actions, outermost first.")

    @classmethod
    def faults(cls, given: Mapping[str, Any]) -> Iterator[PydanticCustomError]:
        """Yield that it gathers nothing, and middleware that is for some tools only."""
        if not any(given.get(key) for key in GATHERING):
            yield refuse("MissingKey", "the group gathers nothing", expected=f"at least one of {', '.join(GATHERING)}")
        rules = given.get("middleware")
        for index, rule in enumerate(rules if is_array(rules) else ()):
            if is_object(rule) and rule.get("tools") is not None:
                told = "middleware of a group is for all of its actions"
                wanted = "no 'tools', or the rule in the middleware of weft.yaml"
                yield refuse("WrongKey", told, value=shown("tools"), expected=wanted, at=("middleware", index, "tools"))


def unknown_names(given: Mapping[str, Any]) -> Iterator[PydanticCustomError]:
    """Yield the servers and views of groups that weft.yaml does not have, all as they were written."""
    servers, views, groups = (given.get(key) for key in ("servers", "views", "groups"))
    keys = list(servers) if is_object(servers) else []
    known = {
        "server": [*dict.fromkeys([*(key.partition("@")[0] for key in keys), *keys])],
        "view": list(views) if is_object(views) else [],
    }
    for name, group in groups.items() if is_object(groups) else ():
        for what, names in known.items():
            written = group.get(f"{what}s") if is_object(group) else None
            for index, one in enumerate(written if is_array(written) else ()):
                if isinstance(one, str) and one not in names:
                    yield refuse(
                        f"Unknown{what.capitalize()}",
                        f"there is no {what} {shown(one)}",
                        value=shown(one),
                        expected=f"one of {', '.join(names)}" if names else f"a {what}, of which there are none",
                        suggestion=nearest(one, names),
                        at=("groups", name, f"{what}s", index),
                    )
