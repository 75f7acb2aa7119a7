"""Which action a call means, and what is told to whoever did not say it well."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Collection, Mapping
from itertools import islice
from typing import Any, Final, TypeVar

from weft.errors import ExecutionFailed, nearest
from weft.groups.action import DISCRIMINATOR
from weft.groups.execution.sent import sent, sent_text

T = TypeVar("T")

MOST_CHOICES: Final = 40
"""So many actions are listed; of more, those that were most likely meant."""

_SEPARATORS: Final = re.compile(r"[\W_]+")


def resolve(
    actions: Mapping[str, T], arguments: Mapping[str, Any], *, tool: str, discriminator: str = DISCRIMINATOR
) -> tuple[str, T, dict[str, Any]]:
    """Return the key of the action that is meant, what stands under it, and the arguments without the discriminator.

    Raises:
        ExecutionFailed: `MissingAction` or `UnknownAction`, with the choices.
    """
    try:
        key = arguments[discriminator]
        found = actions[key]
    except (KeyError, TypeError):
        raise _unresolved(actions, arguments, tool, discriminator) from None
    own = dict(arguments)
    del own[discriminator]
    return key, found, own


def _unresolved(
    actions: Collection[str], arguments: Mapping[str, Any], tool: str, discriminator: str
) -> ExecutionFailed:
    if discriminator not in arguments:
        return _missing(actions, arguments, tool, discriminator)
    given: Any = arguments[discriminator]
    if not isinstance(given, str):
        choices = list(islice(actions, MOST_CHOICES))
        what = f"'{discriminator}' of '{tool}' must be a string, the name of an action, not {sent_text(given)}"
        return _error(f"{what}. {_listed(choices, actions)}", "UnknownAction", discriminator, choices, sent=sent(given))
    return _unknown(actions, given, tool, discriminator)


def _missing(actions: Collection[str], arguments: Mapping[str, Any], tool: str, discriminator: str) -> ExecutionFailed:
    choices = list(islice(actions, MOST_CHOICES))
    what = f"'{tool}' needs '{discriminator}', which says what it is to do."
    # The name of the field itself may be mistyped: then what stands under it is an action.
    typo = nearest(discriminator, [name for name, one in arguments.items() if isinstance(one, str) and one in actions])
    if typo is None:
        return _error(f"{what} {_listed(choices, actions)}", "MissingAction", discriminator, choices)
    what += f" '{typo}' was sent; did you mean '{discriminator}'? {_listed(choices, actions)}"
    return _error(what, "MissingAction", discriminator, choices, suggestion=arguments[typo])


def _unknown(actions: Collection[str], given: str, tool: str, discriminator: str) -> ExecutionFailed:
    inside = [key for key in actions if key.startswith(f"{given}.")] if given else []
    if inside:
        choices = inside[:MOST_CHOICES]
        what = f"'{given}' is a group of '{tool}', not an action. {_listed(choices, inside)}"
        return _error(what, "UnknownAction", discriminator, choices, sent=given)
    meant = _meant(given, actions)
    choices = list(actions) if len(actions) <= MOST_CHOICES else _near(given, actions, meant)
    close = f"; did you mean '{meant}'?" if meant else "."
    what = f"'{tool}' has no action {sent_text(given)}{close} {_listed(choices, actions)}"
    return _error(what, "UnknownAction", discriminator, choices, sent=sent(given), suggestion=meant)


def _meant(given: str, actions: Collection[str]) -> str | None:
    """Return the action that was most likely meant: spelled otherwise, mistyped, or without its group."""
    folded: dict[str, list[str]] = {}
    for key in actions:
        folded.setdefault(_folded(key), []).append(key)
    same = folded.get(_folded(given), ())
    if len(same) == 1:
        return same[0]
    ending = [key for key in actions if key.endswith(f".{given}")] if given else []
    if ending:
        return ending[0] if len(ending) == 1 else None
    return nearest(given, actions)


def _folded(key: str) -> str:
    return _SEPARATORS.sub("", key).casefold()


def _near(given: str, actions: Collection[str], meant: str | None) -> list[str]:
    """Return those of many actions that are most like what was sent: the same name, the same group, a like name."""
    group = f"{given.partition('.')[0]}."
    found = [key for key in (meant,) if key is not None]
    found += [key for key in actions if given and key.endswith(f".{given}")]
    found += [key for key in actions if "." in given and key.startswith(group)]
    first = [key for key in actions if key[:1] == given[:1]]
    found += difflib.get_close_matches(given[:80], first[:200], n=10, cutoff=0.4)
    found += islice(actions, MOST_CHOICES // 4)
    return list(dict.fromkeys(found))[:MOST_CHOICES]


def _listed(choices: Collection[str], actions: Collection[str]) -> str:
    names = ", ".join(choices)
    if not actions:
        return "It has no actions"
    if len(choices) < len(actions):
        return f"It has {len(actions):,} actions, among them {names}"
    return f"Its actions: {names}" if len(choices) > 1 else f"Its only action: {names}"


def _error(
    message: str, code: str, field: str, choices: list[str], *, suggestion: str | None = None, **more: Any
) -> ExecutionFailed:
    # Only what was meant is shown as an example: a model may do at once what an example says.
    hint = None if suggestion is None else f"send {json.dumps({field: suggestion}, ensure_ascii=False)} and its fields"
    error = ExecutionFailed(message, code=code, hint=hint)
    error.origin = "caller"
    error.add(field=field, **more, choices=choices, **({} if suggestion is None else {"suggestion": suggestion}))
    return error
