"""What an action gives back, and how a client gets it: a value, an outcome with more to tell, or a failure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from pydantic_core import PydanticSerializationError, to_jsonable_python

from weft.errors import DocumentInvalid, ExecutionFailed, ToolFailed, WeftError, said_by
from weft.groups.execution.sendable import blocks_of, check_text, harmless, json_of, object_of, whole
from weft.ports import WRAPPED, is_object
from weft.redaction import redact

ERROR: Final = "weft/error"
ACTION_FAILED: Final = "ActionFailed"
_AS_IT_IS: Final = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A value with what is told beside it."""

    value: Any = None
    text: str | None = None
    """What a model reads instead of the value's JSON."""

    failed: bool = False
    meta: Mapping[str, Any] = field(default_factory=dict[str, Any])
    content: Sequence[Any] | None = None
    """Blocks of MCP, such as images. Without a value, the result has them and nothing else."""


class Failure(ToolFailed):
    """An action said no, in words for the model; to raise it and to return it is the same."""

    code = ACTION_FAILED

    def __init__(self, message: str, *, hint: str | None = None, code: str | None = None, data: Any = None) -> None:
        for name, text in (("the message", message), ("hint", hint or ""), ("code", code or "")):
            check_text(f"w.failure: {name}", text)
        super().__init__("", message)
        self.message = message
        self.args = (message,)
        self.hint = hint
        self.code = code or type(self).code
        if data is not None:
            self.add(data=json_of("w.failure: data", data))


def success(
    value: Any = None,
    *,
    text: str | None = None,
    meta: Mapping[str, Any] | None = None,
    content: Sequence[Any] | None = None,
) -> Outcome:
    """Return a value with more to tell: a text for the model in place of its JSON, `_meta`, blocks such as images.

    Raises:
        TypeError: the text, `meta` or `content` is none that MCP could send.
    """
    if text is not None:
        check_text("w.success: text", text)
    blocks = None if content is None else blocks_of("w.success: content", content)
    return Outcome(value=value, text=text, meta=object_of("w.success: meta", meta or {}), content=blocks)


def failure(message: str, *, hint: str | None = None, code: str | None = None, data: Any = None) -> Failure:
    """Return what says no: `return w.failure(..)` or `raise w.failure(..)`; `hint` says what to do, `data` is JSON.

    Raises:
        TypeError: a text is none, or `data` is not JSON.
    """
    return Failure(message, hint=hint, code=code, data=data)


def wire(given: Any) -> dict[str, Any]:
    """Return a value, an outcome or a failure as the result of an MCP tool.

    Raises:
        ExecutionFailed: the value is not JSON.
    """
    if isinstance(given, BaseException):
        return wire_error(given)
    outcome = given if isinstance(given, Outcome) else Outcome(value=given)
    text, meta, blocks = _beside(outcome) if outcome is given else (None, {}, [])
    result: dict[str, Any] = {"content": blocks, "isError": outcome.failed}
    if outcome.content is None or outcome.value is not None:
        written, result["structuredContent"] = structured(_plain(outcome.value), meta)
        blocks.insert(0, {"type": "text", "text": written if text is None else text})
    elif text is not None:
        blocks.insert(0, {"type": "text", "text": text})
    return {**result, "_meta": meta} if meta else result


def _beside(outcome: Outcome) -> tuple[str | None, dict[str, Any], list[Any]]:
    """Return what is told beside a value; who makes an outcome without `success` has checked nothing."""
    try:
        if outcome.text is not None:
            check_text("text", outcome.text)
        text = None if outcome.text is None else whole(outcome.text)
        return text, object_of("meta", outcome.meta), blocks_of("content", outcome.content or ())
    except TypeError as error:
        raise ExecutionFailed(f"the result cannot be sent: {error}", code="NotJson") from None


def structured(value: Any, meta: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the text and the object by which MCP tells a value, and mark in `meta` one that had to be wrapped.

    Raises:
        ExecutionFailed: it is not JSON, as what a Python function returns may be.
    """
    text = _written(value)
    if is_object(value):
        return text, value
    meta[WRAPPED] = True
    return value if isinstance(value, str) else text, {"result": value}


def _plain(value: Any) -> Any:
    """Return a value as it is when it is JSON, and else made so."""
    try:
        orjson.dumps(value, option=_AS_IT_IS)
    except TypeError:
        return as_json(value)
    return value


def as_json(value: Any) -> Any:
    """Return a value as JSON: models and dataclasses become objects, tuples become lists.

    Raises:
        ExecutionFailed: it is not JSON.
    """
    try:
        return to_jsonable_python(value)
    except (PydanticSerializationError, ValueError) as error:
        raise ExecutionFailed(f"the result is not JSON: {redact(str(error))}", code="NotJson") from None


def _written(value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except TypeError as error:
        raise ExecutionFailed(f"the result is not JSON: {error}", code="NotJson") from None


def wire_error(error: BaseException, *, tool: str | None = None) -> dict[str, Any]:
    """Return an error as a model reads it: sentences, and the facts in `_meta`; never a traceback."""
    if not isinstance(error, WeftError):
        error = Failure(redact(said_by(error)))
    return refused(sentences(error, tool=tool), {**(error.marks or {}), ERROR: facts(error)})


def sentences(error: WeftError, *, tool: str | None) -> str:
    """Return what a model is told of an error: which step failed, why, and what to do; `tool` is what was called."""
    steps = [step for step in error.path if step != tool]
    told = [f"Failed at step {' > '.join(map(repr, steps))}: {error.message}" if steps else error.message]
    if isinstance(error, ToolFailed) and error.tool == tool and isinstance(error.content, str):
        # The tool itself told no: who called it knows its name.
        told = [error.content]
    if error.hint:
        told.append(f"Hint: {error.hint}")
    if error.retryable == "yes":
        pause = f" in {error.retry_after:.0f} s" if error.retry_after and error.retry_after >= 1 else ""
        told.append(f"It may work when tried again{pause}.")
    elif error.retryable == "unknown-outcome":
        told.append("It is not known whether the work was done.")
    *before, last = told
    # What goes over several lines has its list at the end: what comes behind it begins another line.
    return ("\n" if "\n" in told[0] else " ").join([*map(ended, before), last])


def facts(error: WeftError) -> dict[str, Any]:
    """Return the error for machines."""
    told = error.to_json()
    if isinstance(error, DocumentInvalid):
        told["problems"] = [problem.to_json() for problem in error.problems]
    return told


def ended(sentence: str) -> str:
    """Return a sentence with its full stop."""
    return sentence if sentence.endswith((".", "?", "!")) else f"{sentence}."


def refused(text: str, meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result that says no."""
    said = {"type": "text", "text": whole(text)}
    return {"content": [said], "isError": True, "_meta": harmless(dict(meta))}
