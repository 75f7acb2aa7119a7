"""Paths: what they find, what they refuse, and that no path works for long. Numbers are those of the bad inputs."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import jsonpath_rfc9535
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from weft.errors import InvalidJsonPath, LimitExceeded
from weft.expr.paths import MAX_PATH, MAX_VISITED, MISSING, Missing, Path, Segment, compile_path, quote


def find(path: str, value: Any) -> Any:
    return compile_path(path).find(value)


def refusal(path: str) -> InvalidJsonPath:
    with pytest.raises(InvalidJsonPath) as caught:
        compile_path(path)
    return caught.value


# -- what paths find ------------------------------------------------------------------------------------------------

ORDER = {"id": 7, "note": None, "customer": {"name": "Ada", "tags": ["a", "b"]}, "lines": [{"sku": "x"}, {}, 3]}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("$", ORDER),
        ("$.id", 7),
        ("$['customer'].name", "Ada"),
        ("$.customer.tags[0]", "a"),
        ("$.customer.tags[-1]", "b"),
        ("$.lines[0].sku", "x"),
        ("$.note", None),
    ],
)
def test_a_singular_path_gives_the_value_itself(path: str, value: object):
    assert compile_path(path).singular
    assert find(path, ORDER) == value
    assert compile_path(path).get(ORDER) == value


@pytest.mark.parametrize(
    "path",
    [
        *["$.nope", "$.note.x", "$.id.x", "$.a.b.c.d", "$.customer.tags[2]", "$.customer.tags[-3]", "$.customer[0]"],
        *["$.customer.name[0]", "$.lines.sku", "$.lines[0].nope", "$.customer.tags.length"],
    ],
)
def test_70_a_singular_path_that_finds_nothing_is_missing_and_never_null(path: str):
    assert find(path, ORDER) is MISSING
    assert compile_path(path).get(ORDER) is None


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("$.lines[*].sku", ["x"]),
        ("$.lines[*]", [{"sku": "x"}, {}, 3]),
        ("$.customer[*]", ["Ada", ["a", "b"]]),
        ("$.id[*]", []),
        ("$.nope[*].x", []),
        ("$[*][*]", ["Ada", ["a", "b"], {"sku": "x"}, {}, 3]),
        ("$[*].tags[-1]", ["b"]),
        ("$.lines[0:1].sku", ["x"]),
        ("$['id', 'note']", [7, None]),
        ("$..sku", ["x"]),
        ("$.lines[?@.sku == 'x']", [{"sku": "x"}]),
        ("$.lines[?@.sku == 'y']", []),
    ],
)
def test_69_a_path_that_may_match_often_always_gives_a_list(path: str, values: list[object]):
    assert not compile_path(path).singular
    assert find(path, ORDER) == values
    assert compile_path(path).get(ORDER) == values


def test_a_wildcard_gives_a_new_list_that_the_caller_may_change():
    rows = [1, 2]
    find("$[*]", rows).append(3)
    find("$[0:]", rows).append(3)
    assert rows == [1, 2]


def test_steps_tell_the_simple_form_and_nothing_else():
    assert compile_path("$").steps == ()
    assert compile_path("$.a['b c'][-1][*]").steps == ("a", "b c", -1, None)
    assert [compile_path(path).steps for path in ("$..a", "$['a','b']", "$[0:1]", "$[?@.a]")] == [None] * 4


def test_missing_is_one_value_that_type_checkers_can_tell():
    assert MISSING is Missing.MISSING
    assert list(Missing) == [MISSING]


def test_a_path_is_compiled_once_and_keeps_its_text_as_written():
    assert compile_path("$['a']") is compile_path("$['a']")
    assert compile_path("$['a']").text == "$['a']"


def test_comparisons_keep_numbers_and_booleans_apart_at_any_depth():
    assert find("$[?@ == 1]", [1, 1.0, True]) == [1, 1.0]
    assert find("$[?@.a == @.b]", [{"a": [1], "b": [True]}, {"a": {"x": 0}, "b": {"x": 0.0}}]) == [
        {"a": {"x": 0}, "b": {"x": 0.0}}
    ]


def test_long_integers_in_filters_keep_every_digit():
    ids = [{"id": 1234567890123456788}, {"id": 1234567890123456789}]
    assert find("$[?@.id == 1234567890123456789]", ids) == ids[1:]


# -- keys -----------------------------------------------------------------------------------------------------------

HOSTILE = [
    *["", "a", "a.b", "a b", "'", '"', "\\", "\\'", '\\"', "it's", "[0]", "0", "-1", "*", "$", "@", "é", "日本", "a€"],
    *["__class__", "\U0001f600", "e\u0301", "\n\t\b\f\r", "\0", "\x7f", "\u2028", "constructor", "\\u0041"],
]


@pytest.mark.parametrize("name", HOSTILE)
def test_71_any_key_can_be_quoted_and_found_again(name: str):
    path = compile_path(quote(["in", name]))
    assert path.steps == ("in", name)
    assert path.find({"in": {name: 1}}) == 1
    assert path.find({"in": {name + "x": 1}}) is MISSING


def test_71_python_attributes_are_no_keys():
    values: list[Any] = [{}, [], "s", 1, None]
    assert [find("$.__class__", value) for value in values] == [MISSING] * 5
    assert find("$..__class__", {"a": [{}]}) == []
    assert find("$.__class__", {"__class__": 1}) == 1


def test_names_are_compared_without_unicode_normalisation():
    assert find("$.é", {"e\u0301": 1}) is MISSING


def test_quote_writes_shorthand_names_plainly_and_brackets_the_rest():
    assert quote([]) == "$"
    assert quote(["a", "b", 0, None, -1]) == "$.a.b[0][*][-1]"
    assert quote(["it's", "a.b", "1a", "日本"]) == "$['it\\'s']['a.b']['1a'].日本"


@settings(deadline=None)
@given(st.lists(st.text(max_size=8) | st.integers(-(2**53) + 1, 2**53 - 1) | st.none(), max_size=6))
def test_quoted_steps_compile_to_the_same_steps(steps: list[Segment]):
    assert compile_path(quote(steps)).steps == tuple(steps)


# -- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.req("STA-56")
def test_a_refused_path_says_which_path_and_why():
    error = refusal("$.")
    assert str(error) == "Invalid JSONPath '$.': unexpected end of expression at offset 2"
    assert error.code == "InvalidJsonPath"


@pytest.mark.parametrize(("path", "position"), [("", 0), ("a.b", 0), ("$.", 2), ("$[", 2), ("$['a", 3)])
def test_62_an_unfinished_path_is_refused_with_its_position(path: str, position: int):
    assert refusal(path).position == position


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("a.b", "a path starts with '$'"),
        ("$[,]", "unexpected token in bracketed selection comma at offset 2"),
        ("$[1:2:3:4]", "expected comma, found colon at offset 7"),
        ("$[?@.a", "'[' is not closed at offset 1"),
        ("$[?@.a == $[*]]", "non-singular query is not comparable at offset 7"),
        ("$[?(@.a == 1) == true]", "only single values can be compared at offset 8"),
        ("$[?@.a && length(@.a)]", "a filter needs a comparison or a query here at offset 10"),
        ("$[?@.a == -01]", "'-01' is not a JSON number at offset 10"),
        ("$[?@.a == 1e400]", "a number in it is too large"),
        ("$[?@.a == 1.5e400]", "'1.5e400' is not a JSON number at offset 10"),
        ("$[?nope(@.a)]", "function 'nope' is not defined at offset 3"),
    ],
)
def test_62_reasons_are_words_that_a_user_understands(path: str, words: str):
    assert str(refusal(path)) == f"Invalid JSONPath '{path}': {words}"


@pytest.mark.parametrize("path", ["""$[?@.a =~ "(a+)+$"]""", "$[?@=~/x/]", "$.rows[?(@.a=~'x')]"])
def test_64_the_regex_operator_of_other_dialects_is_refused_by_name(path: str):
    error = refusal(path)
    assert (error.code, error.position) == ("RegexNotAllowed", path.index("=~"))


@pytest.mark.req("ALG-51")
@pytest.mark.parametrize("path", ["$[(@.length-1)]", "$[?(__import__('os').system('id'))]", "$[?exec('1')]"])
def test_66_scripts_are_syntax_errors(path: str):
    assert refusal(path).position is not None


@pytest.mark.parametrize("path", ["$[1e30]", "$[" + "9" * 30 + "]", "$[:" + "9" * 30 + "]", "$[-0]", "$[01]", "$[-01]"])
def test_67_numbers_that_are_no_index_are_refused(path: str):
    assert refusal(path).code == "InvalidJsonPath"


def test_67_a_slice_with_step_0_selects_nothing():
    assert find("$[::0]", [1, 2]) == []


def test_a_path_that_is_empty_or_too_long_says_what_is_expected():
    assert refusal("").expected == "a path such as $.order_id, or $ for all"
    assert refusal("$" + ".a" * 5000).expected == "at most 1024 characters"


def test_68_a_path_of_more_than_1024_characters_is_refused_unread():
    assert refusal("$" + ".a" * 5000).code == "PathTooLong"
    assert len(str(refusal("$" + ".a" * 5000))) < 300
    assert compile_path("$." + "a" * (MAX_PATH - 2)).singular


@pytest.mark.parametrize(
    "path",
    ["$[?" + "(" * 400 + "@.a" + ")" * 400 + "]", "$[?@" * 200 + "]" * 200, "$[?" + "!" * 900 + "@.a]"],
)
def test_65_nesting_beyond_the_limit_is_refused(path: str):
    assert refusal(path).position is not None


ALPHABET = [
    *[
        "$",
        "@",
        ".",
        "..",
        "[",
        "]",
        "*",
        "?",
        "(",
        ")",
        "'",
        '"',
        "a",
        "日",
        "0",
        "-1",
        "1e9",
        ":",
        ",",
        " ",
        "\n",
        "{9}",
    ],
    *["==", "<", "!", "&&", "||", "=~", "length(", "match(", "count(", "true", "null", "\\", "\\u12"],
]


@settings(deadline=None)
@given(
    st.text(max_size=30) | st.lists(st.sampled_from(ALPHABET), max_size=25).map(lambda parts: "$[?" + "".join(parts))
)
@example("$[?(@.a @.b)]")
@example("$['\\")
def test_no_text_makes_the_compiler_fail_in_another_way(text: str):
    with contextlib.suppress(InvalidJsonPath):
        compile_path(text).find([{"a": [1, "x", None]}, "y"])


# -- limits ---------------------------------------------------------------------------------------------------------


def nested(depth: int, name: str | None = None) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value] if name is None else {name: value}
    return value


VALUES: dict[str, Any] = {
    "rows": [{"a": [{"a": i, "b": ["x"] * 3} for i in range(5)]} for _ in range(300)],
    "flat": list(range(10_000)),
    "objects": [{"a": i} for i in range(5_000)],
    "texts": ["a" * 500] * 10_000,
    "patterns": [f"([a-z]?{row}){{20}}" * 50 for row in range(10_000)],
    "equal": {"a": list(range(5_000)), "b": list(range(5_000)), "r": list(range(5_000))},
    "long": {"a": "x" * 500_000, "b": "x" * 500_000 + "y", "r": list(range(10_000))},
    "deep lists": nested(10_000),
    "deep objects": nested(10_000, "a"),
}
HOSTILE_PATHS = [
    "$..*..*..*..zzz",
    "$..a..b",
    "$" + "..*" * 300,
    "$" + "[*,*]" * 150,
    "$[" + ",".join(["0:"] * 300) + "]",
    "$..[" + ",".join(["'a'"] * 250) + "]",
    "$[?$[?$[?@..a]]]",
    "$[?@[?@[?@..a]]]",
    "$..[?@..[?@..a]]",
    "$..[?@ == $]",
    "$[?count($..*) > 1]",
    "$[?value($..zzz) == 1]",
    "$.r[?$.a == $.b]",
    "$.r[?$.a < $.b]",
    "$[?@" + ".*" * 500 + "]",
    "$[?@" + "..*" * 300 + "]",
    "$[?@" + ".a" * 500 + "]",
    "$[?" + "||".join(["1==2"] * 165) + "]",
    "$[?" + "&&".join(["@!=7"] * 165) + "]",
    "$[?" + "||".join(["!(!(!(!(!(!(1==2))))))"] * 40) + "]",
    "$[?match(@, '(a|aa)+b')]",
    "$[?search(@, '(a+)+b')]",
    "$[?match(@, @)]",
]


@pytest.mark.parametrize("path", HOSTILE_PATHS, ids=lambda path: path[:40])
def test_63_65_no_path_works_longer_than_100_ms_on_10_000_nodes(path: str):
    prepared = compile_path(path)
    for name, value in VALUES.items():
        # The least of three runs: a collection of garbage may fall into one.
        assert min(seconds(prepared, value) for _ in range(3)) < 0.1, name


def limit_reached(path: Path, value: Any) -> str | None:
    try:
        path.find(value)
    except LimitExceeded as error:
        return error.code
    return None


def seconds(path: Path, value: Any) -> float:
    began = time.process_time()
    limit_reached(path, value)
    return time.process_time() - began


@pytest.mark.parametrize("path", ["$..*", "$..a..b", "$[?@..a]", "$[?$[?@.a]]"])
def test_63_65_a_path_that_visits_too_many_nodes_is_stopped(path: str):
    with pytest.raises(LimitExceeded) as caught:
        find(path, [{"a": {"a": {"b": 1}}}] * MAX_VISITED)
    assert (caught.value.code, caught.value.limit) == ("NodeBudget", 50_000)


def test_63_descendants_are_free_to_use_within_the_budget():
    assert find("$..a..b", {"a": {"b": 1, "c": [{"b": 2}]}}) == [1, 2]
    assert len(find("$..*", [[1]] * 10_000)) == 20_000


def test_wildcards_alone_are_not_limited_because_they_visit_nothing_twice():
    assert len(find("$[*].a", [{"a": 1}] * (2 * MAX_VISITED))) == 2 * MAX_VISITED


def test_each_evaluation_has_a_budget_of_its_own():
    rows = [{"a": 1}] * 10_000
    assert [len(find("$[?@.a == 1]", rows)) for _ in range(10)] == [10_000] * 10


@pytest.mark.parametrize("path", ["$..zzz", "$..*", "$[?@ == $]", "$[?@ == $[0]]", "$[*][*]", "$[?count(@..*) > 1]"])
def test_deep_values_never_overflow_the_stack(path: str):
    assert limit_reached(compile_path(path), nested(20_000)) in {None, "NodeBudget"}
    assert limit_reached(compile_path(path), nested(20_000, "a")) in {None, "NodeBudget"}


# -- patterns -------------------------------------------------------------------------------------------------------


def test_patterns_match_in_whole_or_in_part():
    words = ["abc", "xabcx", "a\nc", 7, None, {"a": "abc"}]
    assert find("$[?match(@, 'a.c')]", words) == ["abc"]
    assert find("$[?search(@, 'a.c')]", words) == ["abc", "xabcx"]


def test_patterns_may_count_with_more_than_one_digit():
    assert find("$[?match(@, '[0-9]{10}-[a-f]{2,12}')]", ["0123456789-abc", "1-abc"]) == ["0123456789-abc"]
    uuid = "-".join(f"[0-9a-f]{{{count}}}" for count in (8, 4, 4, 4, 12))
    assert len(find(f"$[?match(@, '{uuid}')]", ["123e4567-e89b-12d3-a456-426614174000", "123e4567"])) == 1


@pytest.mark.parametrize("pattern", ["(a|aa)+b", "(a+)+b", "(a|a?)+b", "(.*a){9}b"])
def test_64_a_pattern_that_backtracks_is_stopped_by_time(pattern: str):
    value = {"rows": ["a" * 100_000] * 10, "pattern": pattern}
    for path in (f"$.rows[?match(@, '{pattern}')]", "$.rows[?match(@, $.pattern)]", "$.rows[?search(@, $.pattern)]"):
        assert seconds(compile_path(path), value) < 0.1


def test_64_time_spent_on_patterns_adds_up_over_one_evaluation():
    with pytest.raises(LimitExceeded) as caught:
        find("$[?match(@, '(a|aa)+b')]", ["a" * 24] * 1_000)
    assert caught.value.code == "RegexBudget"


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(a{99}){999}", "counts written out, has more than 10000 parts"),
        ("((" + "[a-z]?" * 100 + "){50}){3,50}", "counts written out, has more than 10000 parts"),
        ("(" * 60 + "a" + ")" * 60, "more than 50 groups"),
        (r"\\d+", "not an I-Regexp"),
        ("(?=a)", "not an I-Regexp"),
        ("a*?", "not an I-Regexp"),
        ("(", "not an I-Regexp"),
    ],
)
def test_64_a_written_pattern_that_cannot_run_is_refused_when_compiled(pattern: str, words: str):
    error = refusal(f"$[?match(@, '{pattern}')]")
    assert (error.code, error.position) == ("RegexNotAllowed", 13)
    assert words in error.message


@pytest.mark.parametrize("pattern", ["(((a{99}){99}){99}){99}", "(" * 100_000, "a" * 100_000, "(a{" + "9" * 900 + "})"])
def test_64_a_pattern_from_the_data_that_is_too_costly_is_refused_unread(pattern: str):
    with pytest.raises(LimitExceeded) as caught:
        find("$.rows[?match(@, $.pattern)]", {"rows": ["a"], "pattern": pattern})
    assert caught.value.code == "RegexNotAllowed"


@pytest.mark.parametrize("pattern", ["\\d", "[z-a]", "a{2,1}", "(", "\ud800", 1, None])
def test_a_pattern_from_the_data_that_is_no_pattern_matches_nothing(pattern: object):
    assert find("$.rows[?match(@, $.pattern)]", {"rows": ["1", "a"], "pattern": pattern}) == []


# -- agreement with the library -------------------------------------------------------------------------------------

names = st.sampled_from([*HOSTILE[:12], "a", "b", "0", "__class__", "日本"])
# No 0 or 1: inside arrays and objects the library takes them for false and true.
documents = st.recursive(
    st.none() | st.booleans() | st.integers(2, 4) | st.sampled_from([0.5, "", "a", "ab"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=20,
)


def bracketed(steps: list[Segment]) -> str:
    """The path text without shorthand names, which the library cannot always read."""
    return "$" + "".join(
        quote([step]).removeprefix("$") if not isinstance(step, str) else brackets(step) for step in steps
    )


def brackets(name: str) -> str:
    return quote([" " + name]).removeprefix("$").replace("[' ", "['", 1)


def by_the_library(text: str, value: Any) -> list[Any]:
    return list(jsonpath_rfc9535.find(text, value).values())


def ours(text: str, value: Any) -> list[Any]:
    path = compile_path(text)
    found = path.find(value)
    return found if not path.singular else [] if found is MISSING else [found]


@settings(deadline=None)
@given(documents, st.lists(names | st.integers(-4, 3) | st.none(), max_size=5))
def test_the_fast_forms_agree_with_the_library(value: Any, steps: list[Segment]):
    wanted = by_the_library(bracketed(steps), value)
    assert repr(ours(bracketed(steps), value)) == repr(wanted)
    assert repr(ours(quote(steps), value)) == repr(wanted)


SELECTORS = [
    *[
        "..a",
        "..*",
        "..[0]",
        ".a",
        "[0]",
        "[*]",
        "[0:2]",
        "[::-1]",
        "[-1:]",
        "['a','b',0]",
        "[*,*]",
        "[?@.a]",
        "[?!@.a]",
    ],
    *["[?@>2]", "[?@=='a']", "[?@.a<=@.b]", "[?@.a!=$.a]", "[?@.a||@.b&&@[0]]", "[?length(@)==2]", "[?count(@.*)>1]"],
    *["[?value(@..a)==2]", "[?match(@,'a.?')]", "[?search(@.a,'b')]", "[?@[?@.a]]", "[?$..b]", "[?@..a,?@.b]"],
]


@settings(deadline=None)
@given(documents, st.lists(st.sampled_from(SELECTORS), min_size=1, max_size=3).map(lambda parts: "$" + "".join(parts)))
def test_every_other_query_agrees_with_the_library(value: Any, text: str):
    assert repr(ours(text, value)) == repr(by_the_library(text, value))
