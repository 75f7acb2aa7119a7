"""Running one case in a fake world, and telling where what came differs from what was expected."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from weft.errors import WeftError
from weft.plan.inputs import accept
from weft.ports import is_array, is_object
from weft.registry.tools import find_tool
from weft.run.engine import Result
from weft.testing.canned import is_in_turn
from weft.testing.cases import Case, CaseFile, Expect
from weft.testing.world import FakeWorld

SHOWN = 300


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One difference: what was looked at, what was expected there and what was found."""

    what: str
    expected: str
    got: str

    def to_json(self) -> dict[str, str]:
        """Return the difference as `weft test --json` prints it."""
        return {"what": self.what, "expected": self.expected, "got": self.got}


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a case went."""

    case: Case
    mismatches: tuple[Mismatch, ...]

    @property
    def passed(self) -> bool:
        """Whether all was as expected."""
        return not self.mismatches


async def run_case(file: CaseFile, case: Case) -> Verdict:
    """Run a case in a world of its own: canned answers, a clock that jumps."""
    world = FakeWorld(tools=case.answers)
    engine = world.engine(case.document, *file.tools)
    tool = find_tool(case.document, case.tool)
    assert tool is not None, "it can be called"
    result: Result | None = None
    failure: WeftError | None = None
    try:
        result = await engine.run(case.tool, accept(tool, case.input), trace=False)
    except WeftError as error:
        failure = error
    finally:
        await engine.close()
    found = [*_outcome(case.expect, result, failure), *_calls(case.expect, world), *_spent(case, world)]
    return Verdict(case, tuple(found))


def _outcome(expect: Expect, result: Result | None, failure: WeftError | None) -> Iterator[Mismatch]:
    if failure is not None:
        sentence = failure.message + (f" ({failure.hint})" if failure.hint else "")
        if expect.error is None:
            place = " > ".join(failure.path)
            got = f"{failure.code}: {sentence}" + (f" (in {place})" if place else "")
            yield Mismatch("outcome", "a value", got)
        elif expect.error != failure.code and expect.error not in sentence:
            yield Mismatch("error", expect.error, f"{failure.code}: {sentence}")
        return
    assert result is not None
    if expect.error is not None:
        yield Mismatch("outcome", f"the error {expect.error}", _text(result.value))
        return
    if "value" in expect.model_fields_set:
        yield from differences(expect.value, result.value)
    if "contains" in expect.model_fields_set:
        yield from _contained(expect.contains, result.value)
    yield from _warnings(expect.warnings, result.warnings)


def _warnings(expected: Any, got: list[str]) -> Iterator[Mismatch]:
    if expected is None:
        return
    if isinstance(expected, int):
        if len(got) != expected:
            yield Mismatch("warnings", str(expected), _text(got))
        return
    texts: list[str] = expected
    missing = [text for text in texts if not any(text in warning for warning in got)]
    if missing or len(texts) != len(got):
        yield Mismatch("warnings", _text(texts), _text(got))


def _calls(expect: Expect, world: FakeWorld) -> Iterator[Mismatch]:
    made = [tool for tool, _ in world.calls]
    expected = expect.calls
    if is_array(expected) and expected != made:
        yield Mismatch("calls", _text(expected), _text(made))
    elif is_object(expected):
        counts = Counter(made)
        for tool, count in expected.items():
            if counts[tool] != count:
                yield Mismatch(f"calls of {tool}", str(count), str(counts[tool]))


def _spent(case: Case, world: FakeWorld) -> Iterator[Mismatch]:
    """Report tools that ran out of answers: a pattern may have swallowed that as one more failure."""
    counts = Counter(tool for tool, _ in world.calls)
    for tool, answers in case.answers.items():
        if is_in_turn(answers) and counts[tool] > len(answers):
            yield Mismatch(f"answers of {tool}", f"at most {len(answers)} calls", f"{counts[tool]} calls")


def differences(expected: Any, got: Any, place: str = "$") -> Iterator[Mismatch]:
    """Yield every place where two values differ, as JSON: 1 is 1.0, and true is not 1."""
    if is_object(expected) and is_object(got):
        yield from _fields(expected, got, place)
    elif is_array(expected) and is_array(got):
        for index in range(max(len(expected), len(got))):
            here = f"{place}[{index}]"
            if index >= len(got):
                yield Mismatch(f"value at {here}", _text(expected[index]), "nothing")
            elif index >= len(expected):
                yield Mismatch(f"value at {here}", "nothing", _text(got[index]))
            else:
                yield from differences(expected[index], got[index], here)
    elif isinstance(expected, bool) != isinstance(got, bool) or expected != got:
        yield Mismatch(f"value at {place}", _text(expected), _text(got))


def _fields(expected: dict[str, Any], got: dict[str, Any], place: str) -> Iterator[Mismatch]:
    for key in dict.fromkeys([*expected, *got]):
        here = f"{place}.{key}"
        if key not in got:
            yield Mismatch(f"value at {here}", _text(expected[key]), "nothing")
        elif key not in expected:
            yield Mismatch(f"value at {here}", "nothing", _text(got[key]))
        else:
            yield from differences(expected[key], got[key], here)


def _contained(expected: Any, got: Any) -> Iterator[Mismatch]:
    """Look for a part of the value; for a text, a part of the text."""
    if isinstance(expected, str) and isinstance(got, str):
        if expected not in got:
            yield Mismatch("value at $", f"a text with {_text(expected)}", _text(got))
        return
    yield from _missing(expected, got, "$")


def _missing(expected: Any, got: Any, place: str) -> Iterator[Mismatch]:
    """Yield what a value lacks: other fields may be there too, and other items before, between and after."""
    if is_object(expected) and is_object(got):
        for key, value in expected.items():
            if key not in got:
                yield Mismatch(f"value at {place}.{key}", _text(value), "nothing")
            else:
                yield from _missing(value, got[key], f"{place}.{key}")
    elif is_array(expected) and is_array(got):
        rest = iter(got)
        for index, item in enumerate(expected):
            if not any(next(_missing(item, one, ""), None) is None for one in rest):
                yield Mismatch(f"item {index} of {place}", f"an item with {_text(item)}", _text(got))
                return
    else:
        yield from differences(expected, got, place)


def _text(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."
