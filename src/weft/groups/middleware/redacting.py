"""Redacted: results, and the errors in their place, without secrets and without what else is not for a model to see."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from weft.errors import ToolFailed, WeftError
from weft.groups.calling import Handler, Middleware, ToolCall
from weft.groups.execution.results import Outcome
from weft.groups.middleware.cleaning import Cleaning
from weft.groups.middleware.hiding import Hiding, compile_pattern
from weft.groups.middleware.seen import is_result
from weft.ports import is_array, is_object

_AS_IT_IS: Final = frozenset({"resultType", "isError", "requestState"})
"""Of a result, what is not for a model."""


def redacted(
    *, fields: Iterable[str] = (), patterns: Iterable[str] = (), keep: Iterable[str] = (), arguments: bool = False
) -> Middleware:
    """Return middleware that hides secrets, the values of `fields` wherever they stand, and what fits a pattern.

    Names count in any case. Fields in `keep` stay, though they look like secrets; so do tokens of pages. With
    `arguments`, tools do not get these either.

    Raises:
        ExpressionInvalid: a pattern that is no regular expression, or fits the empty text.
        ValueError: a name that is empty.
    """
    hiding = Hiding(
        fields=_names("fields", fields),
        patterns=[compile_pattern(one) for one in _several(patterns)],
        keep=_names("keep", keep),
    )

    async def middleware(call: ToolCall, next: Handler) -> Any:
        if arguments:
            call.arguments = Cleaning(hiding, call.arguments).value(call.arguments)
        try:
            value = await next(call)
        except WeftError as error:
            _clean_error(error, hiding)
            raise
        return _cleaned(value, hiding)

    return middleware


def _cleaned(value: Any, hiding: Hiding) -> Any:
    if is_result(value):
        return _cleaned_result(value, hiding)
    if isinstance(value, WeftError):
        _clean_error(value, hiding)
        return value
    if not isinstance(value, Outcome):
        return Cleaning(hiding, value).value(value)
    cleaning = Cleaning(hiding, value.value, value.text, value.content, dict(value.meta))
    return replace(
        value,
        value=cleaning.value(value.value),
        text=cleaning.value(value.text),
        meta=cleaning.value(dict(value.meta)),
        content=None if value.content is None else [_block(one, cleaning) for one in value.content],
    )


def _cleaned_result(result: dict[str, Any], hiding: Hiding) -> dict[str, Any]:
    """Return a result without what is hidden; what is not for a model, such as `requestState`, stays as it is."""
    told = {name: item for name, item in result.items() if name not in _AS_IT_IS and name != "inputRequests"}
    cleaning = Cleaning(hiding, told)
    return {name: _top(name, item, cleaning) for name, item in result.items()}


def _top(name: str, item: Any, cleaning: Cleaning) -> Any:
    if name in _AS_IT_IS:
        return item
    if name == "content" and is_array(item):
        return [_block(one, cleaning) for one in item]
    if name == "inputRequests" and is_object(item):
        return {key: _question(one, cleaning) for key, one in item.items()}
    return cleaning.value(item, name)


def _question(asked: Any, cleaning: Cleaning) -> Any:
    """Return what a client is asked; of its parts only those that people and models read are cleaned."""
    params: object = asked.get("params") if is_object(asked) else None
    if not is_object(params):
        return asked
    read = {name: cleaning.value(params[name]) for name in ("message", "systemPrompt") if name in params}
    messages: object = params.get("messages")
    if is_array(messages):
        read["messages"] = [_message(one, cleaning) for one in messages]
    return {**asked, "params": {**params, **read}}


def _message(message: Any, cleaning: Cleaning) -> Any:
    if not is_object(message) or "content" not in message:
        return message
    content: object = message["content"]
    made = [_block(one, cleaning) for one in content] if is_array(content) else _block(content, cleaning)
    return {**message, "content": made}


def _block(block: Any, cleaning: Cleaning) -> Any:
    """Return a block of content; bytes of images, sounds and files are no texts."""
    if not is_object(block):
        return cleaning.value(block)
    bytes_in = "data" if block.get("type") in ("image", "audio") else None
    return {
        key: item if key in ("type", bytes_in) else _file(item, cleaning) if key == "resource" else cleaning.value(item)
        for key, item in block.items()
    }


def _file(resource: Any, cleaning: Cleaning) -> Any:
    if not is_object(resource):
        return cleaning.value(resource)
    return {key: item if key == "blob" else cleaning.value(item) for key, item in resource.items()}


def _clean_error(error: WeftError, hiding: Hiding) -> None:
    """Take what is hidden out of all that is told of an error."""
    content: Any = error.content if isinstance(error, ToolFailed) else None
    cleaning = Cleaning(hiding, content, error.facts, error.message, error.hint)
    error.message = cleaning.value(error.message)
    error.args = (error.message,)
    error.hint = cleaning.value(error.hint)
    error.facts = None if error.facts is None else cleaning.value(dict(error.facts))
    if isinstance(error, ToolFailed):
        error.content = cleaning.value(content)


def _names(kind: str, given: Iterable[str]) -> tuple[str, ...]:
    names = _several(given)
    if not all(name.strip() for name in names):
        raise ValueError(f"{kind} has a name that is empty")
    return names


def _several(given: Iterable[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)
