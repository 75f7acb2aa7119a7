"""What people type after options: values and durations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from weft.cli.files import standard_input
from weft.errors import DocumentInvalid, ExpressionInvalid, InputError

NO_JSON = frozenset({"InvalidJson", "EmptyDocument", "MultipleDocuments"})
MOST_QUOTED = 80


def value_given(text: str) -> Any:
    """Return the value of --input: JSON, `@` and a file, or `-` for stdin.

    Raises:
        InputError: it is none.
    """
    from weft.ir.read import read, read_file

    if text.startswith("@"):
        return read_file(Path(text[1:]), whole_document=False).value
    if text == "-":
        return read(standard_input(), name="<stdin>", format="json", whole_document=False).value
    try:
        return read(text, name="--input", format="json", whole_document=False).value
    except DocumentInvalid as error:
        if error.problems[0].code in NO_JSON and text.lstrip()[:1] not in ("{", "[", '"'):
            quoted = json.dumps(text, ensure_ascii=False) if len(text) <= MOST_QUOTED else '".."'
            hint = f"a text is written with quotes: --input '{quoted}'"
            raise InputError("--input is not JSON", code="InvalidJson", hint=hint) from None
        raise


def seconds_given(text: str) -> float:
    """Return the seconds of --timeout.

    Raises:
        InputError: it is no duration, or longer than any call may take.
    """
    from weft.expr.durations import parse_duration
    from weft.run.limits import Limits

    try:
        seconds = parse_duration(text)
    except ExpressionInvalid as error:
        raise InputError(f"--timeout: {error.message}", code=error.code, hint=f"give {error.expected}") from None
    if seconds > (most := Limits().max_timeout):
        hint = f"give at most {most:g}s"
        raise InputError(f"--timeout: {text} is longer than any call may take", code="TimeoutTooLong", hint=hint)
    return seconds
