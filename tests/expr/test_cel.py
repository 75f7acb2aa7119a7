"""CEL conditions: the first true one wins, and whatever goes wrong is said aloud."""

from __future__ import annotations

import time
from collections import OrderedDict
from contextlib import suppress
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import ExecutionFailed, ExpressionInvalid, LimitExceeded, WeftError
from weft.expr.cel import compile_condition, compile_conditions


def verdict(text: str, value: Any) -> bool:
    return compile_condition(text)({"input": value})


def refused(text: str, *variables: str) -> ExpressionInvalid:
    started = time.process_time()
    with pytest.raises(ExpressionInvalid) as caught:
        compile_condition(text, variables or ("input",))
    assert time.process_time() - started < 1.0
    return caught.value


@pytest.mark.req("ALG-46")
def test_the_first_true_condition_wins_and_later_ones_are_not_evaluated():
    conditions = compile_conditions(["input.n > 10", "input.n > 5", "input.absent > 0"])
    assert conditions.first({"input": {"n": 20}}) == 0
    assert conditions.first({"input": {"n": 7}}) == 1
    with pytest.raises(ExecutionFailed):
        conditions.first({"input": {"n": 1}})


@pytest.mark.req("ALG-46")
def test_no_true_condition_is_none():
    assert compile_conditions(["input.n > 10", "false"]).first({"input": {"n": 1}}) is None
    assert compile_conditions([]).first({"input": {}}) is None


@pytest.mark.parametrize(
    ("text", "value", "expected"),
    [
        ("input.kind == 'web'", {"kind": "web"}, True),
        ("input['a b'].c == 1", {"a b": {"c": 1}}, True),
        ('input["a\'b"] == 1', {"a'b": 1}, True),
        ("has(input.x) && input.x > 1", {}, False),
        ("input.rows.exists(r, r.price + r.tax > 100)", {"rows": [{"price": 99, "tax": 2}]}, True),
        ("input.first + ' ' + input.last == 'Ada L'", {"first": "Ada", "last": "L"}, True),
        ("input.flag", {"flag": False}, False),
        ("input > 3", 5, True),
        ("input == 'x'", "x", True),
        ("size(input) == 2", {"a": 1, "b": 2}, True),
        ("'b' in input", {"a": 1, "b": 2}, True),
        ("input == {'a': 1}", {"a": 1, "b": 2}, False),
        ("input.size() == 2", {"a": 1, "b": 2}, True),
        ("input.size // how many\n() == 2", {"a": 1, "b": 2}, True),
        ("input . a == 1 && input\n.b == 2", {"a": 1, "b": 2}, True),
        ("input['\\x61'] == 1", {"a": 1}, True),
        ("input[r'a'] == 1", {"a": 1}, True),
        ("input['''a'''] == 1", {"a": 1}, True),
        ("input[input.key] == 1", {"key": "a", "a": 1}, True),
        ("[1].exists(input, input == 1)", {}, True),
        ("input.a.input.b == 1", {"a": {"input": {"b": 1}}}, True),
        ("input.kind == 'input'", {"kind": "input"}, True),
        ("input.note == 'input.other'", {"note": "input.other"}, True),
        ("input.n == 1.0 && input.n > 0.5", {"n": 1}, True),
    ],
)
def test_a_condition_sees_what_it_names_however_it_is_spelled(text: str, value: Any, expected: bool):
    assert verdict(text, value) is expected


def test_fields_that_no_condition_names_are_not_even_converted():
    conditions = compile_conditions(["input.a == 1", "input['b'] == 2"])
    assert conditions.first({"input": {"a": 0, "b": 2, "unused": object()}}) == 1


def test_conditions_may_have_several_variables():
    condition = compile_condition("input.x == previous.x", ("input", "previous"))
    assert condition({"input": {"x": 1}, "previous": {"x": 1.0}})
    with pytest.raises(ExecutionFailed, match="previous"):
        condition({"input": {"x": 1}})


WRAPS: list[Any] = [OrderedDict, MappingProxyType, dict]


@pytest.mark.parametrize("wrap", WRAPS)
def test_any_mapping_will_do_as_input(wrap: Any):
    for text in ("input.a.b == 1", "size(input) == 1", "input.a.l[0] == 2"):
        assert verdict(text, wrap({"a": wrap({"b": 1, "l": (2,)})}))


def test_a_mutated_input_is_seen_by_the_next_call():
    value: dict[str, Any] = {"n": 1}
    condition = compile_condition("input.n > 1")
    assert not condition({"input": value})
    value["n"] = 2
    assert condition({"input": value})


@pytest.mark.parametrize(
    ("text", "position"),
    [("input.x >", 9), ("", 0), ("\n\ninput.x > > 1", 12), ("true ;", 5), ("input.in > 1", 6), ("'\ud800'", 1)],
)
def test_bad_input_72_a_syntax_error_has_its_position(text: str, position: int):
    error = refused(text)
    assert (error.code, error.position) == ("CelSyntax", position)


@pytest.mark.parametrize(
    "text", ["(" * 40 + "true" + ")" * 40, "+".join("1" * 40) + " == 1", "true ? " * 90 + "true" + ": true" * 90]
)
def test_bad_input_72_too_deep_an_expression_is_refused(text: str):
    assert refused(text).code == "CelSyntax"


@pytest.mark.parametrize(
    ("text", "position", "meant"),
    [
        ("inptu.x > 1", 0, "input"),
        ("input.x > 1 && inpt.y", 15, "input"),
        ("szie(input.x) > 1", 0, "size"),
        ("__import__('os') == 1", 0, None),
        ("input.x.system('id') == 1", 8, None),
    ],
)
def test_bad_input_73_an_unknown_name_is_refused_with_a_suggestion(text: str, position: int, meant: str | None):
    error = refused(text)
    assert (error.code, error.position, error.suggestion) == ("CelUnknownName", position, meant)


@pytest.mark.parametrize("text", ["1 + 1", "'text'", "[true]", "input.x + 'a'", "null", "size(input.x)", "{'a': true}"])
def test_bad_input_74_an_expression_that_is_never_boolean_is_refused(text: str):
    assert refused(text).code == "CelNotBool"


@pytest.mark.parametrize("value", ["true", 1, None, [], {}])
def test_bad_input_74_a_result_that_is_not_boolean_is_an_error(value: Any):
    with pytest.raises(ExecutionFailed, match="not true or false"):
        verdict("input.flag", {"flag": value})


def test_an_expression_of_wrong_types_is_refused():
    assert refused("'a' == 1").code == "CelType"


@pytest.mark.req("ALG-46")
@pytest.mark.parametrize(
    ("text", "value", "reason"),
    [
        ("input.n + 1 > 0", {"n": 2**63 - 1}, "overflow"),
        ("input.n / 0 == 1", {"n": 1}, "divide by zero"),
        ("input.s < 1", {"s": "a"}, "No matching overloads"),
        ("input.absent == 1", {}, "Key not found"),
        ("input.a.b == 1", {"a": 5}, "SELECT"),
        ("input.n > 1", {"n": 2**70}, "out of range"),
        ("input.n > 1", {"n": "\ud800"}, ""),
        ("input.n > 1", {"n": object()}, "Non-CEL value"),
        ("input.s.matches('(')", {"s": "x"}, "invalid regular expression"),
    ],
)
def test_bad_input_75_and_80_an_error_at_run_time_is_an_error_not_a_silent_false(text: str, value: Any, reason: str):
    with pytest.raises(ExecutionFailed) as caught:
        verdict(text, value)
    assert text in caught.value.message
    assert reason in caught.value.message


@pytest.mark.parametrize("pattern", ["^(a+)+$", "(a|a)*b", "(a*)*c", "(.*a){20}$", "((a{0,9}){0,9}){0,9}c"])
def test_bad_input_76_a_hostile_regex_takes_linear_time_or_is_refused(pattern: str):
    started = time.process_time()
    for size in (200, 50_000):
        with suppress(LimitExceeded):
            verdict(f"input.s.matches('{pattern}')", {"s": "a" * size + "!"})
    assert time.process_time() - started < 1.0


@pytest.mark.parametrize(
    "text",
    [
        "input.l.all(x, input.l.all(y, input.l.all(z, true)))",
        "input.l.map(x, input.l.map(y, input.l.map(z, x))).size() > 0",
        "input.l.all(x, input.l.all(y, x >= 0))",
    ],
)
def test_bad_input_77_nested_comprehension_is_refused(text: str):
    started = time.process_time()
    with pytest.raises(LimitExceeded) as caught:
        verdict(text, {"l": list(range(1000))})
    assert caught.value.code in ("CelCost", "CelSize")
    assert time.process_time() - started < 1.0


DOUBLED = "[input.s]" + ".map(a, a + a + a + a + a + a + a + a)" * 8 + "[0].size() > 0"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (DOUBLED, {"s": "x" * 100}),
        (DOUBLED, {"s": [1]}),
        ("input.l.all(i, size(input.s + input.s) > 0)", {"s": "x" * 1_000_000, "l": list(range(1000))}),
        ("input.l.all(i, size(input.l + input.l) > 0)", {"l": list(range(9000))}),
        ("size(" + " + ".join(["input.s"] * 30) + ") > 0", {"s": "x" * 1_000_000}),
        (f"[{','.join('1' * 900)}].all(i, size(input.s + input.s) > 0)", {"s": "x" * 1_000_000}),
        ("// it's\n" + DOUBLED + " // it's", {"s": "x" * 100}),
        (DOUBLED + " && input.t == r'\\'", {"s": "x" * 100, "t": ""}),
        ("input.s.contains(input.t)", {"s": "x" * 1_000_000, "t": "x" * 500_000 + "y"}),
        ("[input.s].map(a, a + a)" + ".map(a, a + a)" * 200 + " == []", {"s": "x"}),
    ],
)
def test_bad_input_78_what_grows_too_large_is_refused_before_it_is_built(text: str, value: Any):
    started = time.process_time()
    with pytest.raises((LimitExceeded, ExpressionInvalid)) as caught:
        verdict(text, value)
    assert caught.value.code in ("CelSize", "CelCost", "CelSyntax")
    assert time.process_time() - started < 1.0


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("input.rows.exists(r, r.a + r.b > 3)", {"rows": [{"a": 1, "b": 3, "text": "x" * 10_000}] * 500}),
        ("input.rows.exists(r, r.a + 1 > 3) || input.rows.all(r, r.a > 0)", {"rows": [{"a": 1}] * 1000}),
        ("input.text.contains(input.word)", {"text": "x" * 1_000_000 + "word", "word": "word"}),
        ("input.text.contains('x+y') && input.rows.all(r, r == 1)", {"text": "x+y" * 300_000, "rows": [1] * 5000}),
        ("input.s + input.s != ''", {"s": "x" * 1_000_000}),
    ],
)
def test_ordinary_sums_and_searches_are_not_taken_for_hostile_ones(text: str, value: Any):
    assert verdict(text, value)


MANY = list(range(9_999))
LONG = "x" * 1_000_000
MIXED = "".join("xyw"[n * n % 7 % 3] for n in range(300_000))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("input.l.filter(x, x > 2).size() > 1", {"l": MANY}),
        ("input.l.map(x, x).size() > 1", {"l": MANY}),
        ("input.l.map(x, x > 2, x).size() > 1", {"l": MANY}),
        ("input.l.all(x, input.l == input.l)", {"l": MANY}),
        ("input.l.all(x, [input.l][0] != [input.l, 1][0])", {"l": MANY}),
        ("[1].all(input, .input.l.all(x, .input.l == .input.l))", {"l": MANY}),
        ("input.l.all(x, (true ? input : input).l == dyn(input)['l'])", {"l": MANY}),
        ("[input].all(i, i.l.all(x, i == i))", {"l": MANY}),
        ("input.l.all(x, google.protobuf.ListValue{values: input.l} == input.l)", {"l": MANY}),
        ("input.l . all ( x , x // in\n in input.l )", {"l": MANY}),
        ("input.l.all(x, input.t.matches('..'))", {"l": MANY, "t": "x" * 10_000}),
        ("input.l.all(x, x.matches('x{100}'))", {"l": ["x"] * 9_999}),
        ("input.l.all(x, input.t.matches(x))", {"l": ["x{1000}"] * 99, "t": LONG}),
        ("input.l.all(x, size(input.t) > 1)", {"l": MANY, "t": LONG}),
        ("input.l.all(x, !input.t.contains('y'))", {"l": MANY, "t": LONG}),
        ("input.l.all(x, input.t == input.u)", {"l": MANY, "t": LONG, "u": "x" * 1_000_000}),
        ("input.l.all(x, bytes(input.t).size() > 1)", {"l": MANY, "t": LONG}),
        ("input.l.all(x, input.l.exists(y, y == x))", {"l": list(range(200))}),
        ("[string(1)]" + ".map(a, a + a + a + a + a + a + a + a)" * 8 + "[0].size() > 0", {}),
        ("input.l.all(x, " + " && ".join(["x.a != x.b"] * 25) + ")", {"l": [{"a": "x" * 99, "b": "y"}] * 9_999}),
        ("input.t.matches('[xy].{900}z')", {"t": MIXED}),
        ("input.t.matches(input.p)", {"t": MIXED, "p": "[xy].{900}z"}),
        ("input.t.matches(r'(\\pL{100}){9}')", {"t": "x"}),
        (" && ".join(["input.l == input.k"] * 30), {"l": list(range(50_000)), "k": list(range(50_000))}),
    ],
)
def test_bad_input_77_what_would_take_long_is_refused_before_it_is_evaluated(text: str, value: Any):
    condition = compile_condition(text)
    started = time.process_time()
    with pytest.raises(LimitExceeded) as caught:
        condition({"input": value})
    assert caught.value.code in ("CelCost", "CelSize")
    assert time.process_time() - started < 1.0


ROWS = [{"price": n, "ok": n % 2 == 0, "kind": "a", "name": f"row {n}", "tags": ["x", "y"]} for n in range(5_000)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("input.rows.exists(r, r.price > 4998)", True),
        ("input.rows.all(r, r.kind == 'a' && r.kind in ['a', 'b'] && r.price >= 0 && has(r.ok))", True),
        ("input.rows.exists(r, r.name.contains('4999') || r.name.startsWith('col'))", True),
        ("input.rows.exists_one(r, r.name == 'row 7')", True),
        ("input.rows.all(r, 'x' in r.tags && r.tags.size() == 2)", True),
        ("input.rows.exists(r, r.price + 1 > 5000 || r.name + '!' == '')", False),
        ("input.rows.all(r, r.kind in input.kinds && r.kind != r.name)", True),
        ("input.rows.all(r, r.kind in input.kinds) && input.kind.matches('^[a-z]{1,9}$')", True),
        ("input.few.filter(r, r.ok).size() > 3", True),
        ("input.few.map(r, r.price).exists(p, p > 998)", True),
        ("input.few.all(r, r.name.matches('^row [0-9]{1,5}$'))", True),
        ("input.few.filter(r, r.price > 990).all(r, r.tags.exists(t, t == 'y'))", True),
    ],
)
def test_ordinary_comprehensions_are_not_taken_for_hostile_ones(text: str, expected: bool):
    value = {"rows": ROWS, "few": ROWS[:1_000], "kinds": ["a", "b", "c"], "kind": "web"}
    started = time.process_time()
    assert verdict(text, value) is expected
    assert time.process_time() - started < 1.0


@pytest.mark.parametrize("text", ["true || " * 12_500 + "true", "é" * 5000, "x" * 8193])
def test_bad_input_79_a_text_over_8_kib_is_refused_before_it_is_parsed(text: str):
    assert refused(text).code == "CelTooLong"


def test_an_error_shows_no_more_than_a_line_of_a_long_expression():
    with pytest.raises(ExecutionFailed) as caught:
        verdict(" || ".join(f"input.field{n} > 1" for n in range(200)), {})
    assert len(caught.value.message) < 400


@given(st.text(max_size=30) | st.text(alphabet="input.x >=1+()[]'!&|", max_size=24))
def test_anything_compiles_and_runs_or_raises_an_error_of_weft(text: str):
    with suppress(WeftError):
        compile_condition(text)({"input": {"x": 1}})


NAMES = st.sampled_from(["a", "b", "c"])
PIECES = (
    NAMES.map(lambda n: f"input.{n} == 1")
    | NAMES.map(lambda n: f"input['{n}'] == 1")
    | NAMES.map(lambda n: f"has(input.{n})")
)


@given(st.lists(PIECES, min_size=1, max_size=4), st.dictionaries(NAMES, st.integers(0, 1)))
def test_pruning_never_changes_a_verdict(pieces: list[str], value: dict[str, int]):
    text = " || ".join(f"({piece})" for piece in pieces)

    def outcome(condition: str) -> object:
        try:
            return verdict(condition, value)
        except ExecutionFailed:
            return "error"

    assert outcome(text) == outcome(f"{text} || size(input) > 99")


LISTS = st.sampled_from(["input.l", "input.m", "input.r", "[input.l, [1, 2]][0]", "[1, 2, 3]"])
TEXTS = st.sampled_from(["input.t", "'x'", "string(x)", "input.u", "dyn(x)", "(input.t + input.u)"])
VALUES = LISTS | TEXTS | st.sampled_from(["x", "1", "input", "x.a", "[x, input.l]"])
TESTS = st.one_of(
    st.builds("{} {} {}".format, VALUES, st.sampled_from(["==", "!=", "<"]), VALUES),
    st.builds("({} in {})".format, VALUES, LISTS),
    st.builds("size({}) > 1".format, VALUES),
    st.builds("{}.{}({})".format, TEXTS, st.sampled_from(["contains", "startsWith", "matches"]), TEXTS),
    st.builds("{}.matches('{}')".format, TEXTS, st.sampled_from(["x", "^x+$", ".{9}z", "(x|y)*.{99}z", "[xy]..z"])),
)
MACROS = st.sampled_from(["all", "exists", "exists_one", "filter", "map"])


def looped(tests: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    def loop(over: str, macro: str, test: str) -> str:
        return f"{over}.{macro}(x, {test})" + (".size() > 1" if macro in ("filter", "map") else "")

    both = st.builds("(dyn({}) {} dyn({}))".format, tests, st.sampled_from(["&&", "||", "=="]), tests)
    return both | st.builds(loop, LISTS, MACROS, tests)


@settings(deadline=None, max_examples=60)
@given(st.recursive(TESTS, looped, max_leaves=6), st.sampled_from([3, 90, 900, 9_999]), st.sampled_from([9, 50_000]))
def test_no_condition_takes_long_whatever_it_is_made_of(test: str, items: int, size: int):
    numbers = list(range(items))
    value = {
        "l": numbers,
        "m": {str(n): n for n in numbers},
        "r": [{"a": "x" * 9, "n": n} for n in numbers],
        "t": MIXED[:size],
        "u": "x" * size,
    }
    with suppress(ExpressionInvalid):
        condition = compile_condition(f"input.l.all(x, {test}) || input.r.exists(x, {test})")
        started = time.process_time()
        with suppress(WeftError):
            condition({"input": value})
        assert time.process_time() - started < 1.0


def test_a_field_that_is_not_there_is_answered_with_how_to_ask_for_it():
    with pytest.raises(ExecutionFailed) as caught:
        verdict("input.keep", {})
    assert caught.value.hint == "ask has(..) before you read a field that may not be there"
