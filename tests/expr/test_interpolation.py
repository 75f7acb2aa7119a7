"""References are filled in one pass, keep types where they stand alone, and evaluate nothing."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import ExecutionFailed, ExpressionInvalid, LimitExceeded, WeftError
from weft.expr.cel import compile_condition
from weft.expr.interpolation import (
    MAX_BYTES,
    NOTHING,
    ReferenceInvalid,
    compile_interpolation,
    may_be_variable,
    names_in_condition,
    references_in,
)

HEADS = {"input": None, "context": None, "search": "search_results", "search_results": None, "a-b": None}
FOUND = {"items": [{"id": 7}, {"id": 8}], "content": "text", "none": None, "odd key": {"it's": 1, '"': 2}, "2024": "y"}
SCOPE: dict[str, Any] = {
    "input": {"query": "cats", "n": 3, "x": 1.5, "yes": True, "none": None, "list": [1, "é"], "object": {"k": [None]}},
    "context": {"user_id": "u1"},
    "search": FOUND,
    "search_results": FOUND,
    "a-b": {"été": 1, "x-y": 2},
}

scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=9)
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
pieces = st.sampled_from(
    ["{{", "}}", "{{input.n}}", "\\", "{", "}", "input", ".", "n", "[0]", '["k"]', "['", "??", " ", "1", '"', "é", "\0"]
)


def rendered(value: Any, scope: Any = SCOPE) -> Any:
    return compile_interpolation(value, HEADS).render(scope)


def failure(value: Any, scope: Any = SCOPE) -> ExecutionFailed:
    with pytest.raises(ExecutionFailed) as caught:
        rendered(value, scope)
    return caught.value


# -- what is written -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("{{input.query}}", "cats", marks=pytest.mark.req("WFL-4")),
        pytest.param("{{search_results.content}}", "text", marks=pytest.mark.req("WFL-5")),
        pytest.param("{{search.content}}", "text", marks=pytest.mark.req("WFL-5")),
        pytest.param("{{context.user_id}}", "u1", marks=pytest.mark.req("WFL-6")),
        ("{{input}}", SCOPE["input"]),
        ("{{ input . query }}", "cats"),
        ("{{\n\tinput.query\n}}", "cats"),
        ("{{search.items[0].id}}", 7),
        ("{{search.items[-1].id}}", 8),
        ("{{search.items.1.id}}", 8),
        ("{{search.items[ 1 ]['id']}}", 8),
        ("{{search.2024}}", "y"),
        ('{{search["odd key"]["it\'s"]}}', 1),
        ("{{search['odd key']['it\\'s']}}", 1),
        ("{{search['odd key']['\"']}}", 2),
        ('{{search["odd key"]["\\""]}}', 2),
        ('{{search["\\u006fdd key"]["\\u0022"]}}', 2),
        ("{{a-b.x-y}}", 2),
        ("{{a-b.été}}", 1),
    ],
)
def test_a_reference_reads_fields_items_and_odd_keys(text: str, value: Any):
    assert rendered(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{{input.limit ?? 10}}", 10),
        ("{{input.limit??10}}", 10),
        ("{{input.n ?? 10}}", 3),
        ("{{input.none ?? 10}}", None),
        ("{{input.none.deeper ?? 10}}", 10),
        ("{{search.items[9] ?? null}}", None),
        ("{{search.items[-3] ?? null}}", None),
        ("{{search.content.x ?? false}}", False),
        ('{{input.limit ?? "}} {{input.n}}"}}', "}} {{input.n}}"),
        ('{{input.limit ?? {"a": {"b": []}}}}', {"a": {"b": []}}),
        ("{{input.limit ?? -1.5e3 }}", -1500.0),
        ("{{input.limit ?? [1, 2]}}!", "[1,2]!"),
    ],
)
def test_a_default_stands_in_where_a_path_leads_nowhere_and_null_is_somewhere(text: str, value: Any):
    assert rendered(text) == value


def test_a_default_stands_in_for_a_step_that_gave_nothing():
    assert rendered('{{search.search_results.x ?? "none"}}', {}) == "none"


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("{{}}", 2),
        ("{{ }}", 3),
        ("{{", 2),
        ("a {{input.n", 11),
        ("{{input.n}", 9),
        ("{{{{x}}}}", 2),
        ("{{{input.n}}}", 2),
        ("{{input.}}", 7),
        ("{{input..n}}", 7),
        ("{{input.-1}}", 7),
        ("{{.n}}", 2),
        ("{{0.n}}", 2),
        ("{{é.n}}", 2),
        ("{{input[]}}", 7),
        ("{{input[n]}}", 7),
        ("{{input[01]}}", 7),
        ("{{input[1.5]}}", 7),
        ("{{input[1:2]}}", 7),
        ("{{input[*]}}", 7),
        ("{{input[1000000000000000]}}", 7),
        ('{{input["n]}}', 7),
        ('{{input["\\x"]}}', 8),
        ("{{input['\\x']}}", 8),
        ("{{input.n()}}", 9),
        ("{{input.n + 1}}", 10),
        ("{{input.n | upper}}", 10),
        ("{{input.n ? 1}}", 10),
        ("{{input.n ?? }}", 13),
        ("{{input.n ?? x}}", 13),
        ("{{input.n ?? 'x'}}", 13),
        ("{{input.n ?? NaN}}", 13),
        ("{{input.n ?? -Infinity}}", 13),
        ("{{input.n ?? 1e999}}", 13),
        ("{{input.n ?? {{input.x}}}}", 13),
        ("{{input.n ?? 1 ?? 2}}", 15),
        ("{{input.n ?? " + "9" * 5000 + "}}", 13),
        ("{{input.n ?? " + "[" * 100_000, 13),
        ("{{#if input.n}}", 2),
        ("{{input n}}", 8),
        ("{{input; import os}}", 7),
    ],
)
@pytest.mark.req("WFL-8")
def test_whatever_is_not_a_reference_is_refused_with_its_place(text: str, position: int):
    with pytest.raises(ReferenceInvalid) as caught:
        references_in({"a": ["{{input.n}}", {"b": text}]})
    error = caught.value
    assert (error.code, error.loc, error.position) == ("ReferenceSyntax", ("a", 1, "b"), position)
    assert error.value is not None
    assert error.expected is not None
    assert "\\{{ stands for braces" in error.expected
    assert len(str(error)) < 300


def test_an_unknown_name_is_refused_with_its_place_the_nearest_and_all_there_are():
    with pytest.raises(ExpressionInvalid) as caught:
        compile_interpolation({"q": ["x {{ serach.items }}"]}, HEADS)
    error = caught.value
    assert isinstance(error, ReferenceInvalid)
    assert (error.code, error.suggestion, error.position, error.loc) == ("UnknownReference", "search", 5, ("q", 0))
    assert error.expected == "one of input, context, search, search_results, a-b"
    with pytest.raises(ExpressionInvalid) as caught:
        compile_interpolation("{{input}}", {})
    assert caught.value.expected == "no references here"


def test_references_are_listed_as_they_are_written_with_their_places():
    found = references_in({"b": "{{ x.y[0] ?? [1] }}{{z}}", "a": [1, {"{{k}}": "{{x}}"}], "c": "\\{{no}}"})
    assert [(one.head, one.path, one.default, one.text, one.loc) for one in found] == [
        ("x", ("y", 0), [1], "{{ x.y[0] ?? [1] }}", ("b",)),
        ("z", (), NOTHING, "{{z}}", ("b",)),
        ("x", (), NOTHING, "{{x}}", ("a", 1, "{{k}}")),
    ]
    assert compile_interpolation({"q": "{{input.n}}"}, HEADS).references == references_in({"q": "{{input.n}}"})


# -- what becomes of it ----------------------------------------------------------------------------------------------


@pytest.mark.req("WFL-7")
@given(values)
def test_a_value_that_is_one_reference_keeps_its_type(value: Any):
    result = rendered({"v": "{{input.v}}"}, {"input": {"v": value}})["v"]
    assert result is value
    assert json.loads(json.dumps({"v": result})) == {"v": value}


@pytest.mark.req("WFL-7")
@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("for {{input.query}}!", "for cats!"),
        (" {{input.n}}", " 3"),
        ("{{input.n}}{{input.x}}", "31.5"),
        ("{{input.yes}}/{{input.none}}", "true/null"),
        ('{"a":{{input.list}}}', '{"a":[1,"é"]}'),
        ("{{input.object}}.", '{"k":[null]}.'),
        ("\\{{input.n}}", "{{input.n}}"),
        ("\\{{{{input.n}}", "{{3"),
        ("\\\\{{input.n}}", "\\3"),
        ("\\\\\\{{input.n}}", "\\{{input.n}}"),
        ("C:\\dir\\x }} {", "C:\\dir\\x }} {"),
    ],
)
def test_inside_text_a_reference_becomes_text_and_a_backslash_keeps_braces(text: str, joined: str):
    assert rendered(text) == joined


@pytest.mark.req("WFL-7")
@given(values)
def test_what_is_joined_into_text_can_be_read_back_as_json(value: Any):
    text = rendered("{{input.v}} ", {"input": {"v": value}})
    assert text == f"{value} " if isinstance(value, str) else json.loads(text) == value


@pytest.mark.req("WFL-8")
def test_references_are_filled_at_any_depth_and_keys_stay_as_they_are():
    value = {"a": [1, ["{{input.n}}", {"b": {"{{input.n}}": "n={{input.n}}"}}]], "c": "{{input.yes}}", "d": "\\{{x"}
    assert rendered(value) == {"a": [1, [3, {"b": {"{{input.n}}": "n=3"}}]], "c": True, "d": "{{x"}
    assert value["c"] == "{{input.yes}}"


@pytest.mark.req("WFL-8")
@given(st.text(max_size=20), values)
def test_what_a_value_holds_is_never_expanded(around: str, value: Any):
    hostile = {"query": "{{input.n}}" + around, "n": ["{{context.user_id}}", "\\{{", value]}
    done = rendered({"a": "{{input.query}}", "b": "<{{input.query}}>", "c": "{{input.n}}"}, {"input": hostile})
    assert done == {"a": hostile["query"], "b": f"<{hostile['query']}>", "c": hostile["n"]}


@given(values)
def test_a_value_without_braces_is_given_back_itself(value: Any):
    if "{{" not in json.dumps(value):
        compiled = compile_interpolation(value, {})
        assert compiled.constant
        assert compiled.render({}) is value is compiled.value


def test_a_value_with_escaped_braces_only_is_the_same_object_each_time():
    compiled = compile_interpolation({"a": ["\\{{x}}"], "b": {}}, {})
    assert compiled.constant
    assert compiled.render({}) == {"a": ["{{x}}"], "b": {}}
    assert compiled.render({}) is compiled.render({})


def test_only_containers_around_references_are_copied():
    value: dict[str, Any] = {"constant": {"x": [1]}, "list": [[2], {"r": "{{input.n}}", "also": [3]}]}
    compiled = compile_interpolation(value, HEADS)
    first, second = compiled.render(SCOPE), compiled.render({"input": {"n": 4}})
    assert first["constant"] is value["constant"]
    assert first["list"][0] is value["list"][0]
    assert first["list"][1]["also"] is value["list"][1]["also"]
    assert (first["list"][1]["r"], second["list"][1]["r"]) == (3, 4)
    assert value["list"][1]["r"] == "{{input.n}}"
    assert not compiled.constant


@given(st.recursive(st.sampled_from(["{{input.n}}", "x", 1]), lambda inner: st.lists(inner, max_size=4), max_leaves=40))
def test_every_copy_goes_where_it_belongs(value: Any):
    expected = json.loads(json.dumps(value).replace('"{{input.n}}"', "3"))
    assert rendered(value) == expected


# -- output keys -----------------------------------------------------------------------------------------------------


@pytest.mark.req("WFL-5")
@pytest.mark.parametrize(
    ("text", "output", "value"),
    [
        ("{{search.search_results}}", {"content": 1}, {"content": 1}),
        ("{{search.search_results.content}}", {"content": 1}, 1),
        ("{{search.search_results}}", "text", "text"),
        ("{{search.search_results[0]}}", [5], 5),
        ("{{search.search_results}}", None, None),
        ("{{search.search_results}}", {"search_results": 2}, 2),
        ("{{search.search_results.content ?? 0}}", {"search_results": 2, "content": 1}, 0),
        ("{{search['search_results'].content}}", {"content": 1}, 1),
        ("{{search.content.search_results ?? 0}}", {"content": {}}, 0),
    ],
)
def test_the_output_key_of_a_step_is_its_whole_output_unless_it_has_such_a_field(text: str, output: Any, value: Any):
    assert rendered(text, {"search": output}) == value


# -- what does not resolve -------------------------------------------------------------------------------------------


@pytest.mark.req("WFL-7")
@pytest.mark.parametrize(
    ("text", "told", "hint"),
    [
        (
            "{{search.contents}}",
            "'search' gave an object with items, content, none, odd key, 2024",
            "did you mean 'content'?",
        ),
        ("{{input.object.x}}", "'input.object' is an object with k", None),
        ("{{context.tenant}}", "'context' is an object with user_id", None),
        ("{{search.items.first}}", "'search.items' is a list of 2", None),
        ("{{search.items[2].id}}", "'search.items' is a list of 2", None),
        ("{{search.items[0].id.x}}", "'search.items[0].id' is a number", None),
        ("{{search.content[0]}}", "'search.content' is a text", None),
        ("{{input.yes.x}}", "'input.yes' is a boolean", None),
        ("{{search.none.x}}", "'search.none' is null", None),
        (
            "{{search.search_results.contnet}}",
            "'search.search_results' is an object with items, content, none, odd key, 2024",
            "did you mean 'content'?",
        ),
        ("{{input.__class__}}", "'input' is an object with query, n, x, yes, none, list, object", None),
        ("{{input.query.__len__}}", "'input.query' is a text", None),
        ("{{input.list.append}}", "'input.list' is a list of 2", None),
    ],
)
def test_a_path_that_leads_nowhere_says_how_far_it_got_and_what_was_there(text: str, told: str, hint: str | None):
    error = failure({"a": f"so {text}"})
    assert (error.code, error.message, error.hint) == ("UnresolvedReference", f"{text} has no value: {told}", hint)


def test_a_step_without_a_result_and_empty_values_are_told_apart():
    assert failure("{{search.x}}", {}).message == "{{search.x}} has no value: 'search' gave nothing"
    assert failure("{{input.x}}", {}).message == "{{input.x}} has no value: 'input' is not there"
    assert failure("{{search.x}}", {"search": {}}).message.endswith("'search' gave an empty object")
    assert failure("{{search[0]}}", {"search": []}).message.endswith("'search' gave an empty list")


def test_an_error_stays_short_and_shows_keys_but_no_values():
    many = {f"key{number}" + "\n" * (number % 2) + "k" * 200: "secret" for number in range(5000)}
    error = failure('{{search["' + "x" * 5000 + '"]}}', {"search": many})
    assert len(error.message) < 1500
    assert "secret" not in error.message
    assert "\n" not in error.message
    assert error.message.endswith("and 4980 more")


# -- bounds ----------------------------------------------------------------------------------------------------------


def test_a_joined_text_is_bounded_and_a_value_alone_is_not():
    big = {"input": {"query": "x" * MAX_BYTES, "n": "é" * (MAX_BYTES // 2), "list": ["x" * MAX_BYTES]}}
    assert rendered('{{input.query}}{{input.none ?? ""}}', big) == big["input"]["query"]
    assert rendered("{{input.list}}", big) is big["input"]["list"]
    for text in ("{{input.query}}!", "{{input.n}}!", "{{input.list}}!", "{{input.query}}" * 20_000):
        with pytest.raises(LimitExceeded) as caught:
            rendered(text, big)
        assert caught.value.code == "InterpolationSize"


def deep(levels: int, inside: Any) -> Any:
    for _ in range(levels):
        inside = [inside]
    return inside


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), 10**2000, [float("nan")], [10**5000], {"a": object()}, deep(100_000, 1)]
)
def test_what_cannot_become_text_is_an_error_that_names_the_reference(value: Any):
    assert failure("<{{input.query}}>", {"input": {"query": value}}).message.startswith("{{input.query}} ")


def test_nothing_recurses_over_deep_values():
    levels = 100_000
    compiled = compile_interpolation(deep(levels, {"r": "{{input.n}}"}), HEADS)
    assert len(compiled.references[0].loc) == levels + 1
    held = deep(levels, 5)
    at = compiled.render({"input": {"n": held}})
    for _ in range(levels):
        (at,) = at
    assert at["r"] is held
    assert rendered("{{input" + "[0]" * levels + "}}", {"input": deep(levels, 5)}) == 5


class Counting(str):
    """A text that counts how many characters are looked at by searching and cutting."""

    seen = 0

    def find(self, sub: str, start: Any = 0, end: Any = None) -> int:
        found = super().find(sub, start)
        Counting.seen += (found if found >= 0 else len(self)) - start
        return found

    def __getitem__(self, key: Any) -> str:
        part = super().__getitem__(key)
        Counting.seen += len(part)
        return part


@pytest.mark.parametrize(
    "unit", ["\\{{", "\\\\{{input.n}}", "{{input.n}}", "{", "}", "{{", "\\", "{{input.n ?? [", "{{a", "{{a['", "{{ "]
)
def test_hostile_texts_are_looked_at_a_bounded_number_of_times(unit: str):
    text = Counting(unit * (100_000 // len(unit)))
    Counting.seen = 0
    with suppress(ReferenceInvalid):
        references_in(text)
    assert Counting.seen <= 4 * len(text) + 400


@given(st.text(max_size=30) | st.lists(pieces, max_size=12).map("".join), values)
def test_nothing_but_its_own_errors_comes_of_any_text(text: str, value: Any):
    with suppress(WeftError):
        compile_interpolation({"a": [text]}, HEADS).render({"input": value})
    with suppress(WeftError):
        names_in_condition(text)


# -- conditions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "variables", "steps"),
    [
        ("true", "", ""),
        ("input.a == 1 && search.items.size() > limit", "input search limit", ""),
        ("'input' == \"search\" // other\n", "", ""),
        ("size(size) > 0", "size", ""),
        ("type(a) == int || a == {'b': c, d: [e]}.f", "a c d e", ""),
        ("rows.exists(r, r.x == limit && r.y)", "rows limit", ""),
        ("rows.exists(r, r.x) && r.y", "rows r", ""),
        ("rows.map(r, r.x).all(q, q == r)", "rows r", ""),
        ("r.exists(r, r.x)", "r", ""),
        ("has(steps.a) && steps.b.c", "steps", "a b"),
        ("steps['odd id'].x == steps[\"a-b\"][input.k]", "steps input", "odd id|a-b"),
        ("'x' in steps", "steps", "x"),
        ("rows.exists(steps, steps.a == .steps.b)", "rows steps", "b"),
        ("rows.exists(steps, steps[0])", "rows", ""),
        ("input.steps.x || input.steps[k]", "input k", ""),
    ],
)
def test_a_condition_names_variables_and_steps(text: str, variables: str, steps: str):
    named = names_in_condition(text)
    assert named.variables == set(variables.split())
    assert named.steps == (set(steps.split("|")) if "|" in steps else set(steps.split()))


@pytest.mark.parametrize(
    "text", ["steps[input.id].ok", "steps[1] == 1", "size(steps) > 1", "steps.all(s, true)", "input.x in steps"]
)
def test_a_condition_that_may_mean_any_step_is_refused(text: str):
    with pytest.raises(ExpressionInvalid) as caught:
        names_in_condition(text)
    assert (caught.value.code, caught.value.expected) == ("StepNotLiteral", 'steps["id"] or steps.id')


@pytest.mark.parametrize(
    ("text", "code"),
    [("a ==", "CelSyntax"), ("nothing(a)", "CelUnknownName"), ("'a'", "CelNotBool"), ("a" * 9000, "CelTooLong")],
)
def test_a_condition_that_does_not_compile_is_refused(text: str, code: str):
    with pytest.raises(ExpressionInvalid) as caught:
        names_in_condition(text)
    assert caught.value.code == code


@pytest.mark.parametrize("name", ["a", "_a1", "size", "steps", "duration", "timestamp", "optional"])
def test_a_name_that_may_be_a_variable_is_one(name: str):
    assert may_be_variable(name)
    assert compile_condition(f"{name}.x", [name])({name: {"x": True}})


@pytest.mark.parametrize(
    "name", ["a-b", "1a", "", "é", "a.b", "in", "true", "if", "package", "int", "list", "map", "type"]
)
def test_reserved_words_and_types_are_no_variables(name: str):
    assert not may_be_variable(name)
