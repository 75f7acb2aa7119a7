"""One property for a field that several actions take: what each says of it, and for which it is required."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from weft.groups.strategies.definitions import text_of
from weft.groups.strategies.fields import Use, union
from weft.ports import Schema, is_array, is_object

_ENDS: Final = (".", "!", "?", ":", ";")
_SHOWN: Final = 60
_MOST_EXAMPLES: Final = 5


def merged(uses: Sequence[Use], *, taken_by_others: bool) -> dict[str, Any]:
    """Return the property, with its tier at the end of its description.

    `taken_by_others`: an action that does not name the field takes it all the same, with whatever value.
    """
    forms = [use.form for use in uses]
    shape = union([*forms, {}] if taken_by_others else forms)
    told = (_texts(uses), _forms(uses), _defaults(uses), tier(uses))
    description = " ".join(part for part in told if part)
    return {**shape, **({"description": description} if description else {}), **_agreed(uses)}


def tier(uses: Sequence[Use]) -> str:
    """Return for which actions a field is required, and for which it is there."""
    needs = ", ".join(use.action for use in uses if use.action is not None and use.required)
    takes = ", ".join(use.action for use in uses if use.action is not None and not use.required)
    common = uses[0] if uses[0].action is None else None
    if common is not None and common.required:
        return "(always required)"
    if common is not None or not takes:
        return f"Required for: {needs}" if needs else ""
    return f"Required for: {needs}. For: {takes}" if needs else f"For: {takes}"


def forms_of(uses: Sequence[Use]) -> str:
    """Return the forms of a field in words, each with its actions: `integer (create), string (list, search)`."""
    words = told_apart(uses)
    return with_actions((words[use.text], use) for use in uses)


def told_apart(uses: Iterable[Use]) -> dict[str, str]:
    """Return each form in words, by its text; forms that are the same in a word with the keywords in which they differ.

    So a `string` beside another becomes `string with maxLength 3`.
    """
    forms = {use.text: use.form for use in uses}
    alike: dict[str, list[str]] = {}
    for text, form in forms.items():
        alike.setdefault(in_words(form), []).append(text)
    told: dict[str, str] = {}
    for word, texts in alike.items():
        same = frozenset[tuple[str, str]].intersection(*(_said(forms[text]) for text in texts))
        for text in texts:
            own = [f"{key} {_cut(held)}" for key, held in sorted(_said(forms[text]) - same)]
            told[text] = f"{word} with {', '.join(own)}" if own else word
    return told


def _said(form: Schema) -> frozenset[tuple[str, str]]:
    return frozenset((key, text_of(held)) for key, held in form.items())


def in_words(form: Schema) -> str:
    """Return in a word or two what a form takes."""
    if isinstance(ref := form.get("$ref"), str):
        return ref.rsplit("/", 1)[-1]
    if "const" in form:
        return _cut(_json(form["const"]))
    if is_array(choices := form.get("enum")):
        return _cut("one of " + ", ".join(map(_json, choices)))
    for keyword in ("anyOf", "oneOf"):
        if is_array(forms := form.get(keyword)):
            return _cut(" or ".join(dict.fromkeys(in_words(one) if is_object(one) else "any" for one in forms)))
    kind: object = form.get("type")
    if kind == "array" and is_object(items := form.get("items")) and items:
        return _cut(f"array of {in_words(items)}")
    if is_array(kind):
        return " or ".join(map(str, kind))
    return str(kind) if kind is not None else _cut(_json(form)) if form else "any"


def _texts(uses: Sequence[Use]) -> str:
    """Return what the actions say of a field: once when they agree, else each with its actions."""
    said = [(text, use) for use in uses if (text := _description(use))]
    by_text = _grouped(said)
    if len(by_text) < 2:
        return next(iter(by_text), "")
    told = ((_ended(text), ", ".join(keys)) for text, keys in by_text.items())
    return " ".join(f"{keys}: {text}" if keys else text for text, keys in told)


def _forms(uses: Sequence[Use]) -> str:
    return f"Forms: {forms_of(uses)}." if len({use.text for use in uses}) > 1 else ""


def _defaults(uses: Sequence[Use]) -> str:
    if _same(uses, "default"):
        return ""
    told = with_actions((_cut(_json(use.schema["default"])), use) for use in uses if "default" in use.schema)
    return f"Default: {told}." if told else ""


def _agreed(uses: Sequence[Use]) -> dict[str, Any]:
    """Return what else all say alike; of examples, those of all."""
    first = uses[0].schema
    agreed = {name: first[name] for name in ("title", "default") if name in first and _same(uses, name)}
    given = [one for use in uses if is_array(held := use.schema.get("examples")) for one in held]
    examples = list({text_of(one): one for one in given}.values())[:_MOST_EXAMPLES]
    return agreed | ({"examples": examples} if examples else {})


def _same(uses: Sequence[Use], keyword: str) -> bool:
    return len({text_of(use.schema[keyword]) if keyword in use.schema else None for use in uses}) == 1


def with_actions(said: Iterable[tuple[str, Use]]) -> str:
    """Return what is said, each with the actions that say it."""
    return ", ".join(f"{text} ({', '.join(keys)})" if keys else text for text, keys in _grouped(said).items())


def _grouped(said: Iterable[tuple[str, Use]]) -> Mapping[str, list[str]]:
    """Return each text with the actions that say it; what is common to all belongs to none."""
    found: dict[str, list[str]] = {}
    for text, use in said:
        keys = found.setdefault(text, [])
        if use.action is not None:
            keys.append(use.action)
    return found


def _description(use: Use) -> str:
    text: object = use.schema.get("description")
    return text.strip() if isinstance(text, str) else ""


def _ended(text: str) -> str:
    return text if text.endswith(_ENDS) else text + "."


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return "..."
