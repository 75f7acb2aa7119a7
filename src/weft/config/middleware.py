"""The section of weft.yaml about what stands around calls: middleware of weft's own, and one's own in Python."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, Strict, WithJsonSchema
from pydantic_core import PydanticCustomError

from weft.config.secrets import Secret
from weft.config.server import Globs
from weft.config.settings import FROM_ENV, Count, Flag, Setting, Text, described
from weft.errors import nearest, shown
from weft.expr.rules import compile_call_rule
from weft.groups.middleware.hiding import compile_pattern
from weft.groups.middleware.rates import FASTEST, RATES, SLOWEST
from weft.ir.nodes import AnyJson, expression, refuse
from weft.ports import is_array, is_object

KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "logged": (),
    "timed": (),
    "rateLimited": ("perSecond", "burst", "by"),
    "redacted": ("fields", "patterns", "keep", "arguments"),
    "onlyFor": ("scopes", "agents", "tenants", "subjects", "when"),
}
"""What comes with weft, each with the keys that it has beside `use` and `tools`."""

_OWN: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def is_own(use: str) -> bool:
    """Tell whether it is written `module:name`: a function of one's own."""
    return ":" in use


def _known(use: str) -> str:
    if use in KEYS or _OWN.fullmatch(use):
        return use
    told = f"{shown(use)} is not a function of a module" if is_own(use) else f"there is no middleware {shown(use)}"
    wanted = f"one of {', '.join(KEYS)}, or your own as my_module:my_middleware"
    close = None if is_own(use) else nearest(use, KEYS)
    raise refuse("UnknownMiddleware", told, value=shown(use), expected=wanted, suggestion=close)


def _number(value: Any) -> Any:
    """Take the digits that a variable holds for the number that they write."""
    return float(value) if isinstance(value, Secret) and re.fullmatch(r"\d{1,9}(\.\d{1,9})?", value) else value


def _bounded(rate: float) -> float:
    if SLOWEST <= rate <= FASTEST:
        return rate
    raise refuse("WrongValue", f"{rate!r} calls a second are no rate", value=shown(rate), expected=f"a number {RATES}")


def _named(name: str) -> str:
    if name.strip():
        return name
    raise refuse("WrongValue", "the name is empty", value=shown(name), expected="a name")


def _some(globs: tuple[str, ...]) -> tuple[str, ...]:
    if globs:
        return globs
    raise refuse("WrongValue", "it is for no tools", value="[]", expected="at least one glob, or no 'tools': for all")


def _as_written(value: Any) -> Any:
    """Return a value with references in the place of what they stand for."""
    if isinstance(value, Secret):
        return value.written
    if isinstance(value, str):
        return value.replace("${", "$${")
    if is_object(value):
        return {key: _as_written(item) for key, item in value.items()}
    return [_as_written(item) for item in value] if is_array(value) else value


Use = Annotated[
    Text,
    AfterValidator(_known),
    WithJsonSchema({"anyOf": [{"enum": list(KEYS)}, {"type": "string", "pattern": f"^{_OWN.pattern}$"}]}),
]
Rate = Annotated[
    float,
    AfterValidator(_bounded),
    BeforeValidator(_number),
    WithJsonSchema({"anyOf": [{"type": "number", "minimum": SLOWEST, "maximum": FASTEST}, FROM_ENV]}),
]
Names = Annotated[tuple[Annotated[Text, AfterValidator(_named)], ...], Strict(False)]
ToolGlobs = Annotated[Globs, AfterValidator(_some)]
Patterns = Annotated[tuple[Annotated[Text, AfterValidator(expression(compile_pattern))], ...], Strict(False)]
CallCondition = Annotated[Text, AfterValidator(expression(compile_call_rule))]
Given = Annotated[dict[str, AnyJson], PlainSerializer(_as_written)]


class MiddlewareRule(Setting):
    """Something that stands around calls; which keys it has, `use` says."""

    use: Use = described(
        ...,
        "`logged`, `timed`, `rateLimited`, `redacted`, `onlyFor`, or a function of yours: `my_module:my_middleware`.",
    )
    tools: ToolGlobs = described(("*",), "Globs of the tools that it is for.")
    per_second: Rate | None = described(None, "`rateLimited`: so many calls a second,")
    burst: Count | None = described(None, "so many of them at once.  [default: perSecond, rounded up]")
    by: Literal["caller", "tool", "all"] = described("caller", "`rateLimited`: what is counted apart.")
    fields: Names = described((), "`redacted`: names of fields whose values are hidden, beside those of secrets.")
    patterns: Patterns = described((), "`redacted`: regular expressions of what is hidden in texts.")
    keep: Names = described((), "`redacted`: names of fields that stay, though they look like those of secrets.")
    arguments: Flag = described(False, "`redacted`: whether tools do not get these either.")
    scopes: Names = described((), "`onlyFor`: scopes of which a caller needs all.")
    agents: Globs = described((), "`onlyFor`: globs of the names of agents.")
    tenants: Globs = described((), "`onlyFor`: globs of tenants.")
    subjects: Globs = described((), "`onlyFor`: globs of subjects.")
    when: CallCondition | None = described(
        None, "`onlyFor`: a CEL condition over `principal`, `tool` (`name`, `action`) and `arguments`."
    )
    given: Given | None = described(
        None, "What a function of your own is called with, to make the middleware.", alias="with"
    )

    @classmethod
    def faults(cls, given: Mapping[str, Any]) -> Iterator[PydanticCustomError]:
        """Yield the keys that this middleware does not have, and those without which it does nothing."""
        use = given.get("use")
        if not isinstance(use, str) or (use not in KEYS and not is_own(use)):
            return  # which keys it should have, nobody knows
        own = ("with",) if is_own(use) else KEYS[use]
        for name in given.keys() & {"with", *(key for keys in KEYS.values() for key in keys)} - set(own):
            user = next((other for other, keys in KEYS.items() if name in keys), "a function of your own")
            told = f"{use} has no {name!r}: that is for {user}"
            yield refuse("WrongKey", told, value=shown(name), expected=f"no {name!r}", at=(name,))
        if use == "rateLimited" and "perSecond" not in given:
            yield refuse("MissingKey", "missing key 'perSecond'", expected="rateLimited with 'perSecond'")
        if use == "onlyFor" and not any(given.get(name) for name in own):
            yield refuse("MissingKey", "it is for everybody", expected=f"onlyFor with one of {', '.join(own)}")


MiddlewareRules = Annotated[tuple[MiddlewareRule, ...], Strict(False)]
"""Outermost first."""
