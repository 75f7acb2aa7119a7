"""The list of requirements and the marks of the tests agree."""

import json

import pytest

from scripts import spec

PAGE = spec.ROOT / "docs" / "spec.md"
SOURCE = """
import pytest
pytestmark = pytest.mark.req("ALG-1")

@pytest.mark.req("ALG-2", "ALG-3")
@pytest.mark.parametrize("x", [pytest.param(1, marks=pytest.mark.req("ALG-4"))])
def test_it(x): "pytest.mark.req('ALG-5')"
"""


def test_no_test_names_a_requirement_that_the_list_does_not_have():
    found = spec.report(spec.requirements(PAGE), spec.marks_under(spec.ROOT / "tests"))
    assert found.unknown == []


def test_the_list_numbers_every_area_from_one_without_gaps():
    areas: dict[str, list[int]] = {}
    for area, _, number in (requirement.partition("-") for requirement in spec.requirements(PAGE)):
        areas.setdefault(area, []).append(int(number))
    assert list(areas) == ["ALG", "REG", "GRP", "STA", "WFL"]
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in areas.values())


def test_marks_are_found_on_modules_functions_and_parameters_but_not_in_text():
    numbers = [mark.number for mark in spec.marks_in(SOURCE, name="test_it.py")]
    assert sorted(filter(None, numbers)) == ["ALG-1", "ALG-2", "ALG-3", "ALG-4"]


def test_a_requirement_without_a_test_is_listed_in_its_area():
    found = spec.report(["ALG-1", "ALG-9", "REG-1"], spec.marks_in(SOURCE, name="test_it.py"))
    assert found.missing == {"ALG": ["ALG-9"], "REG": ["REG-1"]}
    assert spec.as_text(found).splitlines() == ["ALG: ALG-9", "REG: REG-1", "2 of 3 requirements have no test"]


def test_a_mark_outside_the_list_is_reported_with_its_place():
    found = spec.report(["ALG-1", "ALG-2", "ALG-3"], spec.marks_in(SOURCE, name="test_it.py"))
    assert json.loads(spec.as_json(found))["unknown"] == [{"number": "ALG-4", "place": "test_it.py:6"}]


def test_a_mark_that_cannot_be_read_is_reported_instead_of_passed_over():
    marks = spec.marks_in("mark.req(number)", name="test_it.py")
    assert spec.report(["ALG-1"], marks).unknown == [spec.Mark(number=None, place="test_it.py:1")]


@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_the_script_ends_well_on_this_tree(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    assert spec.main(arguments) == 0
    assert "ALG" in capsys.readouterr().out
