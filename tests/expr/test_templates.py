"""Templates fill `{name}` in one pass, and expand nothing else."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import ExecutionFailed, ExpressionInvalid, LimitExceeded, WeftError
from weft.expr.templates import MAX_BYTES, canonical, compile_template

TEXTS = st.lists(st.sampled_from(["{a}", "${b}", "$${a}", "{{", "}}", "$", "x", " ", "é", "$$"]), max_size=8).map(
    "".join
)


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("", ""),
        ("plain", "plain"),
        ("{a}", "A"),
        ("${a}", "A"),
        ("$${a}", "$A"),
        ("$$${a}", "$$A"),
        ("costs $5 and $$", "costs $5 and $$"),
        ("{{a}}", "{a}"),
        ("${{a}}", "${a}"),
        ("{{{a}}}", "{A}"),
        ("{a}{b}{a}", "A2A"),
        ('{{"id": {b}}}', '{"id": 2}'),
    ],
)
def test_names_are_filled_and_doubled_braces_are_braces(text: str, rendered: str):
    assert compile_template(text).render({"a": "A", "b": 2}) == rendered


@given(TEXTS)
def test_the_canonical_text_means_the_same(text: str):
    try:
        template = compile_template(text)
    except ExpressionInvalid:
        return
    values = {"a": "{b}", "b": "${a}"}
    assert compile_template(canonical(text)).render(values) == template.render(values)
    assert canonical(canonical(text)) == canonical(text)


def test_the_canonical_text_has_no_dollars_left_of_names():
    assert canonical("${a} $${b} {c} {{${d}}}") == "{a} $${b} {c} {{{d}}}"


@given(st.text(max_size=20), st.text(max_size=20))
def test_bad_input_83_a_value_is_never_expanded_again(a: str, b: str):
    assert compile_template("{a}|{b}").render({"a": a, "b": b}) == f"{a}|{b}"


@pytest.mark.req("ALG-48")
def test_bad_input_81_an_unknown_name_is_refused_with_a_suggestion():
    with pytest.raises(ExpressionInvalid) as caught:
        compile_template("Hello {nmae}", ["name", "city"])
    error = caught.value
    assert (error.code, error.suggestion, error.position) == ("TemplateUnknownName", "name", 7)


@pytest.mark.req("ALG-48")
def test_bad_input_81_a_name_without_a_value_is_an_error_not_an_empty_string():
    with pytest.raises(ExecutionFailed, match="'missing'"):
        compile_template("{missing}").render({"other": 1})


@pytest.mark.parametrize(
    ("text", "position"),
    [("{a", 0), ("a}", 1), ("{", 0), ("}", 0), ("x {a}} y", 5), ("{{a}", 3), ("{a}{", 3), ("${", 1)],
)
def test_bad_input_82_unbalanced_braces_are_refused(text: str, position: int):
    with pytest.raises(ExpressionInvalid) as caught:
        compile_template(text)
    assert (caught.value.code, caught.value.position) == ("TemplateSyntax", position)


@pytest.mark.parametrize(
    "text",
    [
        "{x.__class__.__mro__}",
        "{:>100000000}",
        "{x:>10}",
        "{}",
        "{0}",
        "{x!r}",
        "{x[0]}",
        "{ x }",
        "{x-y}",
        "{é}",
        "${x.y}",
    ],
)
def test_bad_input_84_only_a_name_may_stand_in_braces(text: str):
    with pytest.raises(ExpressionInvalid) as caught:
        compile_template(f"a {text} b")
    assert caught.value.code == "TemplateSyntax"
    assert caught.value.position == 2 + text.startswith("$")


@pytest.mark.parametrize(
    ("value", "text"),
    [("é{a}", "é{a}"), (1, "1"), (1.0, "1.0"), (-2.5, "-2.5"), (True, "true"), (False, "false"), (None, "null")],
)
def test_bad_input_85_scalars_are_filled_in_as_json_has_them(value: Any, text: str):
    assert compile_template("{v}").render({"v": value}) == text


@pytest.mark.parametrize("value", [[], [1], {}, {"a": 1}, float("nan"), float("inf"), 10**2000])
def test_bad_input_85_other_values_are_an_error_that_names_the_variable(value: Any):
    with pytest.raises(ExecutionFailed, match="'v'"):
        compile_template("{v}").render({"v": value})


def test_bad_input_87_output_over_the_limit_is_an_error():
    template = compile_template("{v}{v}")
    assert len(template.render({"v": "x" * (MAX_BYTES // 2)})) == MAX_BYTES
    for value in ("x" * (MAX_BYTES // 2 + 1), "é" * (MAX_BYTES // 4 + 1)):
        with pytest.raises(LimitExceeded) as caught:
            template.render({"v": value})
        assert caught.value.code == "TemplateSize"


def test_bad_input_87_many_names_of_one_large_value_are_refused_before_they_are_joined():
    template = compile_template("{v}" * 20_000)
    started = time.process_time()
    with pytest.raises(LimitExceeded):
        template.render({"v": "x" * 1_000_000})
    assert time.process_time() - started < 1.0


@pytest.mark.parametrize("text", ["x" * (MAX_BYTES + 1), "é" * (MAX_BYTES // 2 + 1)])
def test_a_text_over_the_limit_is_refused(text: str):
    with pytest.raises(ExpressionInvalid) as caught:
        compile_template(text)
    assert caught.value.code == "TemplateTooLong"


@pytest.mark.parametrize("text", ["{a" * 30_000, "$" * 60_000, "{{" * 30_000, "{" + "a" * 60_000])
def test_hostile_texts_take_no_time(text: str):
    started = time.process_time()
    with suppress(ExpressionInvalid):
        compile_template(text)
    assert time.process_time() - started < 1.0


def test_names_are_listed_once_in_order_of_use():
    assert compile_template("{b}{a}{b}", iter(["a", "b"])).names == ("b", "a")


@given(st.text(max_size=30) | st.text(alphabet="{}$a.", max_size=20))
def test_compiling_raises_nothing_but_its_own_errors(text: str):
    with suppress(WeftError):
        template = compile_template(text)
        template.render(dict.fromkeys(template.names, "v"))
