"""Reading documents: the numbers are those of the list of bad inputs."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from math import isinf
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from weft.errors import DocumentInvalid, Problem
from weft.ir import read as reading
from weft.ir.read import CALL_LIMITS, DocumentLimits, Format, read, read_file

pytestmark = pytest.mark.req("ALG-1")

FORMATS: list[Format] = ["json", "yaml"]


def problems(data: bytes | str, format: Format | None = None, **more: Any) -> list[Problem]:
    with pytest.raises(DocumentInvalid) as caught:
        read(data, format=format, **more)
    return caught.value.problems


def first(data: bytes | str, format: Format | None = None, **more: Any) -> Problem:
    return problems(data, format, **more)[0]


def place(problem: Problem) -> tuple[int | None, int | None]:
    return problem.line, problem.column


@pytest.mark.parametrize("format", [*FORMATS, None])
@pytest.mark.parametrize("data", [b"", b" \n\t", "", b"\xef\xbb\xbf"])
def test_01_an_empty_document_is_said_to_be_empty(data: bytes | str, format: Format | None):
    assert (first(data, format).code, first(data, format).message) == ("EmptyDocument", "empty document")


def test_01_a_yaml_document_of_comments_is_empty():
    assert first("# nothing\n", "yaml").code == "EmptyDocument"


@pytest.mark.parametrize(
    ("text", "column", "expected"),
    [('{"a":', 6, "a value"), ('{"a": 1', 8, "',' or '}'"), ("[1", 3, "',' or ']'"), ("{", 2, "a quoted key or '}'")],
)
def test_02_a_truncated_document_is_placed_at_its_end(text: str, column: int, expected: str):
    found = first(text)
    assert (found.code, place(found), found.expected) == ("InvalidJson", (1, column), expected)
    assert found.message.endswith("the document ends too early")


def test_02_a_string_without_end_is_placed_at_the_end():
    found = first('{"a": "xy')
    assert (place(found), found.pointer) == ((1, 10), "/a")


def test_02_truncated_yaml_is_placed_too():
    found = first("a: [1,\n  2", "yaml")
    assert (found.code, found.line) == ("InvalidYaml", 2)


@pytest.mark.parametrize(("text", "place_of_it"), [('{"a": 1,\n}', (2, 1)), ("[1, 2, ]", (1, 8)), ("[1,]", (1, 4))])
def test_03_a_trailing_comma_is_named(text: str, place_of_it: tuple[int, int]):
    found = first(text)
    assert (found.code, place(found)) == ("InvalidJson", place_of_it)
    assert "trailing comma" in found.message


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("{a: 1}", 2),
        ("{'a': 1}", 2),
        ('{"a" 1}', 6),
        ('{"a": 01}', 7),
        ('{"a": tru}', 7),
        ('{"a": 1.}', 7),
        ('{"a": +1}', 7),
        ('{"a": "\\x"}', 8),
        ('{"a": "\t"}', 8),
        ('{"a": 1 "b": 2}', 9),
        ('{"a": 1]', 8),
        ("[,1]", 2),
        ('{"a": ٣}', 7),
    ],
)
def test_03_broken_json_is_placed_where_it_breaks(text: str, column: int):
    found = first(text, "json")
    assert (found.code, place(found)) == ("InvalidJson", (1, column))
    assert found.value is not None
    assert found.expected is not None


@pytest.mark.parametrize(
    ("text", "format", "place_of_it"),
    [('{"a": 1}\n{"b": 2}', "json", (2, 1)), ("{}}", "json", (1, 3)), ("a: 1\n---\nb: 2\n", "yaml", (2, 1))],
)
def test_04_a_second_document_is_refused(text: str, format: Format, place_of_it: tuple[int, int]):
    assert (first(text, format).code, place(first(text, format))) == ("MultipleDocuments", place_of_it)


@pytest.mark.parametrize("data", [b'\xef\xbb\xbf{"a": 1}', '\ufeff{"a": 1}'])
@pytest.mark.parametrize("format", FORMATS)
def test_05_a_byte_order_mark_is_accepted(data: bytes | str, format: Format):
    assert read(data, format=format).value == {"a": 1}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("format", FORMATS)
def test_06_other_encodings_must_be_utf_8(encoding: str, format: Format):
    found = first('{"a": 1}'.encode(encoding), format)
    assert found.code == "NotUtf8"
    assert found.message.startswith("must be UTF-8")


def test_06_bytes_that_are_not_utf_8_are_placed():
    found = first('{"é": 1,\n "b": "'.encode() + b'\xff"}')
    assert (found.code, place(found), found.value) == ("NotUtf8", (2, 8), "b'\\xff'")


@pytest.mark.parametrize(
    ("text", "format", "pointer", "place_of_it"),
    [
        ('{"a": 1,\n "a": 2}', "json", "/a", (2, 2)),
        ('{"x": [{"a/b": 1, "a\\/b": 2}]}', "json", "/x/0/a~1b", (1, 19)),
        ("a: 1\na: 2\n", "yaml", "/a", (2, 1)),
        ("x:\n  - b: 1\n    'b': 2\n", "yaml", "/x/0/b", (3, 5)),
    ],
)
def test_07_a_duplicate_key_is_placed_at_the_second(
    text: str, format: Format, pointer: str, place_of_it: tuple[int, int]
):
    found = first(text, format)
    assert (found.code, found.pointer, place(found)) == ("DuplicateKey", pointer, place_of_it)


def test_07_every_duplicate_key_is_reported():
    assert [found.pointer for found in problems('{"a": 1, "a": 2, "b": {"c": 1, "c": 2}}')] == ["/a", "/b/c"]


def test_07_endless_problems_are_cut_short():
    assert len(problems("[" + ",".join(["NaN"] * 5000) + "]", "json")) == 100


@pytest.mark.parametrize(
    ("number", "format"),
    [(number, "json") for number in ("NaN", "Infinity", "-Infinity", "1e400", "-1e400")]
    + [(number, "yaml") for number in (".nan", ".inf", "-.Inf", "1e400", "+.INF")],
)
def test_08_a_number_that_is_not_finite_is_refused(number: str, format: Format):
    found = first(f'{{"a": [0, {number}]}}', format)
    assert (found.code, found.pointer, found.value) == ("NonFiniteNumber", "/a/1", repr(number))
    assert place(found) == (1, 11)


@pytest.mark.parametrize("format", FORMATS)
def test_09_an_integer_of_5000_digits_is_too_long(format: Format):
    found = first('{"a": ' + "7" * 5000 + "}", format)
    assert (found.code, found.expected) == ("NumberTooLong", "at most 4300 digits")
    assert found.value is not None
    assert len(found.value) <= 80


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("sign", ["", "-"])
def test_09_an_integer_of_4300_digits_is_read_exactly(format: Format, sign: str):
    digits = sign + "7" * 4300
    assert read(f'{{"a": {digits}}}', format=format).value == {"a": int(digits)}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("text", ["[" * 10_000 + "]" * 10_000, "[" * 10_000, '{"a":' * 10_000])
def test_10_nesting_ends_at_the_limit(text: str, format: Format):
    found = first(text, format, limits=CALL_LIMITS)
    assert (found.code, found.expected) == ("MaxDepth", "at most 64")
    assert len(found.pointer) < 100


@pytest.mark.parametrize("format", FORMATS)
def test_10_the_deepest_allowed_nesting_is_read(format: Format):
    text = "[" * 64 + "]" * 64
    assert read(text, format=format, limits=CALL_LIMITS, whole_document=False).value == json.loads(text)


def test_10_brackets_inside_strings_do_not_nest():
    value = {"a": "[" * 500, "b\\": '"[{' * 300, '\\"': "\\" * 3, "": ["]", ""]}
    assert read(json.dumps(value), limits=CALL_LIMITS).value == value


def test_10_a_chain_of_aliases_nests_as_deep_as_it_expands():
    text = "k0: &k0 []\n" + "".join(f"k{n}: &k{n} [*k{n - 1}]\n" for n in range(1, 300))
    assert first(text, "yaml").code == "MaxDepth"


@pytest.mark.parametrize("format", FORMATS)
def test_11_too_many_values_are_refused(format: Format):
    text = json.dumps({str(n): n for n in range(200)})
    found = first(text, format, limits=DocumentLimits(nodes=100))
    assert (found.code, found.expected) == ("TooManyNodes", "at most 100")


@pytest.mark.parametrize("format", FORMATS)
def test_11_the_most_values_allowed_are_read(format: Format):
    text = "[" + ", ".join(["{}", "[]"] * 5) + "]"
    assert read(text, format=format, limits=DocumentLimits(nodes=11), whole_document=False).value == [{}, []] * 5
    assert first(text, format, limits=DocumentLimits(nodes=10)).code == "TooManyNodes"


@pytest.mark.parametrize("value", ["1", '"x"', "[]", "{ }", '"\\\\"', '"\\"[,"', '["]"]'])
def test_11_values_are_counted_exactly_before_they_are_read(value: str):
    text = "\n [" + ", ".join([value] * 50) + "]"
    nodes = 1 + 50 * (2 if value == '["]"]' else 1)
    assert len(read(text, limits=DocumentLimits(nodes=nodes), whole_document=False).value) == 50
    found = first(text, limits=DocumentLimits(nodes=nodes - 1), whole_document=False)
    assert (found.code, place(found)) == ("TooManyNodes", (2, 2))


def test_11_too_many_values_are_refused_without_reading_them(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reading, "_compose", refuse)
    monkeypatch.setattr(reading, "_fast_json", refuse)
    assert first('{"metadata":[' + "1," * 5_000_000 + "1]}").code == "TooManyNodes"


def test_a_position_in_json_is_found_without_reading_the_document_again(monkeypatch: pytest.MonkeyPatch):
    source = read(json.dumps({"many": [[n, {"a": "]"}] for n in range(1000)], "unknown": {"x": 1}}))
    monkeypatch.setattr(reading, "_compose", refuse)
    for loc in (["unknown", "x"], ["many", 3, 1, "a"], ["many", 2], ["unknown"], ["many", 1000], ["gone", 1]):
        assert source.position(loc) is not None
    assert source.position(["many", 3, 1, "a"]) == source.position("/many/3/1/a")


@pytest.mark.parametrize("data", [b"[" * 101, "é" * 60, b"\xff" * 101])
def test_12_a_document_too_large_is_refused_unread(data: bytes | str):
    assert first(data, limits=DocumentLimits(bytes=100)).code == "TooLarge"


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("text", ['{"a": "x\\ud800y"}', '{"\\uDC00": 1}', '{"a": "\\udc00\\ud800"}'])
def test_13_a_lone_surrogate_is_refused(text: str, format: Format):
    assert first(text, format).code == "InvalidUnicode"


def test_13_a_lone_surrogate_after_an_escaped_backslash_is_refused():
    assert first('{"a": "\\ud83d\\\\\\ude00"}').code == "InvalidUnicode"


def test_13_a_lone_surrogate_in_text_is_placed():
    assert place(first('{"a":\n "\ud800"}')) == (2, 3)


def test_13_a_surrogate_pair_is_one_character():
    assert read('{"a": "\\ud83d\\ude00", "b": "\\\\ud800"}').value == {"a": "\U0001f600", "b": "\\ud800"}


@pytest.mark.parametrize(("text", "format"), [('{"a\\u0000": 1}', "json"), ('"a\\0": 1', "yaml")])
def test_14_nul_in_a_key_is_refused(text: str, format: Format):
    found = first(text, format)
    assert (found.code, found.value) == ("InvalidName", "'a\\x00'")


def test_14_nul_in_a_value_is_text():
    assert read('{"a": "\\u0000"}').value == {"a": "\0"}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("text", "got"), [("[1]", "an array"), ('"x"', "a string"), ("1", "a number"), ("null", "null")]
)
def test_15_a_document_must_be_an_object(text: str, got: str, format: Format):
    found = first(" " + text, format)
    assert (found.code, found.value, found.expected, place(found)) == ("WrongTopLevel", got, "an object", (1, 2))
    assert read(text, format=format, whole_document=False).value == json.loads(text)


def bomb(levels: int) -> str:
    lines = ["a0: &a0 [" + ", ".join(["x"] * 10) + "]"]
    lines += [f"a{n}: &a{n} [" + ", ".join([f"*a{n - 1}"] * 10) + "]" for n in range(1, levels)]
    return "\n".join(lines)


def test_16_an_alias_bomb_is_refused():
    found = first(bomb(12), "yaml")
    assert (found.code, found.expected) == ("TooManyNodes", "at most 5000000")


def test_16_small_anchors_work():
    value = read("base: &b {x: [1]}\nkey: &k name\nuse: *b\n*k : *k\n", format="yaml").value
    assert value == {"base": {"x": [1]}, "key": "name", "use": {"x": [1]}, "name": "name"}


@pytest.mark.parametrize("text", ["a: &x [*x]", "a: *x"])
def test_16_an_alias_needs_an_anchor_that_has_ended(text: str):
    assert first(text, "yaml").code == "InvalidAlias"


@pytest.mark.parametrize(
    "value",
    [
        "!!python/object:os.system x",
        "!!python/object/apply:os.system [ls]",
        "!!python/object:x {a: 1}",
        "!!binary aGk=",
        "!!set {a}",
        "!!timestamp 2024-01-01",
        "!mine x",
        "!!int x",
        "!!map x",
    ],
)
def test_16_tags_outside_the_core_are_refused(value: str):
    found = first(f"a: {value}\n", "yaml")
    assert (found.code, found.pointer, place(found)) == ("UnknownTag", "/a", (1, 4))


def test_16_core_tags_work():
    value = read("{a: !!str 1, b: !!int '3', c: ! 4, d: !!seq [], e: !!null ''}", format="yaml").value
    assert value == {"a": "1", "b": 3, "c": "4", "d": [], "e": None}


@pytest.mark.parametrize("word", ["on", "off", "yes", "no", "y", "n", "2024-01-01", "1:30", "1_000", "1.0.0", "tRue"])
def test_16_what_only_yaml_1_1_converts_stays_text(word: str):
    assert read(f"{word}: {word}", format="yaml").value == {word: word}


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e3", 1000.0), ("1.0", 1.0), (".5", 0.5), ("0x1F", 31), ("0o17", 15), ("017", 17), ("True", True), ("~", None)],
)
def test_16_plain_scalars_follow_yaml_1_2(text: str, value: object):
    read_value = read(f"a: {text}", format="yaml").value["a"]
    assert (read_value, type(read_value)) == (value, type(value))


@pytest.mark.parametrize("key", ["1", "1.5", "true", "null", "~", ".nan"])
def test_16_a_key_that_is_not_a_string_must_be_quoted(key: str):
    found = first(f"a:\n  {key}: x\n", "yaml")
    assert (found.code, found.value, place(found)) == ("KeyNotString", repr(key), (2, 3))
    assert "quote it" in str(found)
    assert read(f"'{key}': x", format="yaml").value == {key: "x"}


@pytest.mark.parametrize("text", ["[a]: 1", "? {a: 1}\n: 2"])
def test_16_a_container_cannot_be_a_key(text: str):
    assert first(f"x:\n  {text}" if "?" not in text else text, "yaml").code == "KeyNotString"


def test_16_merge_keys_are_refused_unless_quoted():
    assert first("a: &a {x: 1}\nb:\n  <<: *a\n", "yaml").code == "MergeKey"
    assert read('"<<": 1', format="yaml").value == {"<<": 1}


def test_16_control_characters_in_yaml_are_placed():
    found = first("a: 1\nb: é\x01\n", "yaml")
    assert (found.code, place(found)) == ("InvalidYaml", (2, 5))


def test_16_the_author_of_a_version_can_be_shown_what_was_written():
    source = read("version: 1.10\nflow: [2.0, x]\n", format="yaml")
    assert source.value["version"] == 1.1
    assert source.written(["version"]) == "1.10"
    assert source.written(["flow", 0]) == "2.0"


def test_yaml_is_read_the_same_without_the_c_library(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reading, "_LOADER", yaml.SafeLoader)
    assert read("a: [yes, 1e3, 'é']\nb: {c: ~}", format="yaml").value == {"a": ["yes", 1000.0, "é"], "b": {"c": None}}
    assert first('a: "\\ud800"', "yaml").code == "InvalidUnicode"
    assert first('a: "\\U00110000"', "yaml").code == "InvalidYaml"
    assert first("a: \x01", "yaml").code == "InvalidYaml"
    assert first("[" * 10_000, "yaml").code == "MaxDepth"
    assert first("a: [1", "yaml").line == 1


@pytest.mark.parametrize(
    ("name", "data", "format"),
    [
        ("a.json", '{"a": 1}', "json"),
        ("a.yaml", '{"a": 1}', "yaml"),
        ("A.YML", '{"a": 1}', "yaml"),
        ("a.txt", ' {"a": 1}', "json"),
        ("<input>", "a: 1", "yaml"),
    ],
)
def test_the_format_is_that_of_the_name_or_else_of_the_first_character(name: str, data: str, format: Format):
    source = read(data, name=name)
    assert (source.format, source.name, source.value) == (format, name, {"a": 1})


def test_a_file_is_read_and_named_in_its_problems(tmp_path: Path):
    path = tmp_path / "tools.yaml"
    path.write_text("a: 1\n")
    assert read_file(path).value == {"a": 1}
    path.write_text("a: 1\na: 2\n")
    with pytest.raises(DocumentInvalid, match=r"tools\.yaml:2:1 /a: error: .*DuplicateKey"):
        read_file(path)


def test_a_large_file_is_refused_before_it_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "large.json"
    path.write_bytes(b"[" * 101)
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DocumentInvalid, match=r"large\.json.*TooLarge.*101 bytes.*at most 100 bytes"):
        read_file(path, limits=DocumentLimits(bytes=100))


def refuse(*_: object, **__: object) -> None:
    raise PermissionError(13, "Permission denied")


def test_a_file_without_permission_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "secret.json"
    path.write_text("{}")
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DocumentInvalid, match=r"cannot read the file: permission denied"):
        read_file(path)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("none.json", "no such file"), (".", "is a directory"), ("\0", "null"), ("x" * 999, "too long")],
)
def test_a_file_that_cannot_be_read_is_told_in_a_sentence(tmp_path: Path, name: str, reason: str):
    with pytest.raises(DocumentInvalid, match=f"(?i)cannot read the file: .*{reason}"):
        read_file(tmp_path / name)


# PyYAML writes these without quotes, since they are text in 1.1; in 1.2 they are numbers.
NUMBER_LIKE = re.compile(r"[-+.0-9][-+.0-9eEo]*")
FORMATTED = st.sampled_from(FORMATS)

words = st.text(st.characters(exclude_categories=["Cs"]))
keys = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


def json_values(words: st.SearchStrategy[str], keys: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words,
        lambda inner: st.lists(inner) | st.dictionaries(keys, inner),
        max_leaves=30,
    )


def no_number(text: str) -> bool:
    return not NUMBER_LIKE.fullmatch(text)


@given(json_values(words, keys), st.booleans())
def test_any_json_value_reads_back_equal(value: Any, ascii: bool):
    text = json.dumps(value, ensure_ascii=ascii)
    assert read(text, format="json", whole_document=False).value == value
    assert read(text.encode(), format="json", whole_document=False).value == value


@given(json_values(words.filter(no_number), keys.filter(no_number)))
def test_what_yaml_dumps_reads_back_equal(value: Any):
    assert read(yaml.safe_dump(value), format="yaml", whole_document=False).value == value


@given(st.text() | st.text(st.sampled_from("{}[],:\"\\ud8c0 truefalsn-+.eE1\n\0\ufeff&*!<|>?#%@'~\t")), FORMATTED)
def test_no_text_raises_anything_but_problems(text: str, format: Format):
    survive(text, format)


@given(st.binary(), FORMATTED)
def test_no_bytes_raise_anything_but_problems(data: bytes, format: Format):
    survive(data, format)


def survive(data: bytes | str, format: Format) -> None:
    with suppress(DocumentInvalid):
        assert read(data, format=format, whole_document=False).position(()) is not None


JSON_PIECES = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '"a"',
    '"b"',
    '"',
    "1",
    "-0",
    "0.5",
    "1e5",
    "true",
    "null",
    " ",
    "\\",
    "NaN",
]


@given(st.lists(st.sampled_from(JSON_PIECES)).map("".join))
def test_json_is_accepted_where_the_standard_library_accepts_it_strictly(text: str):
    try:
        expected = json.loads(text, parse_constant=never, parse_float=finite, object_pairs_hook=once)
    except ValueError:
        with pytest.raises(DocumentInvalid):
            read(text, format="json", whole_document=False)
    else:
        source = read(text, format="json", whole_document=False)
        assert source.value == expected
        assert source.position(()) is not None


def never(constant: str) -> None:
    raise ValueError(constant)


def finite(text: str) -> float:
    if isinf(float(text)):
        raise ValueError(text)
    return float(text)


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("duplicate")
    return dict(pairs)
