"""`weft compile`: from Python to a registry."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from .conftest import Run, process


@pytest.mark.req("ALG-54")
def test_compile_writes_the_registry_and_says_so_in_three_lines(run: Run, research: Path, folder: Path):
    done = run("compile", research.name, "-o", "registry.json")
    assert done.exit_code == 0
    assert done.stdout == (
        "✓ Compiled research\n✓ Generated 2 compositions (1 top-level, 1 internal)\n✓ Written to registry.json\n"
    )
    written = json.loads((folder / "registry.json").read_text())
    assert [tool["name"] for tool in written["tools"]] == ["research", "__hits"]


@pytest.mark.req("ALG-54")
def test_compile_works_as_a_program(research: Path, folder: Path):
    done = process("compile", research.name, "-o", "registry.json", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "✓ Written to registry.json"


@pytest.mark.req("ALG-33")
def test_split_gives_every_nested_pattern_a_name(run: Run, research: Path, folder: Path):
    done = run("compile", research.name, "-o", "registry.json", "--split")
    assert "(1 top-level, 3 internal)" in done.stdout
    names = [tool["name"] for tool in json.loads((folder / "registry.json").read_text())["tools"]]
    assert sum(name.startswith("__") for name in names) == 3


def test_what_compile_writes_is_canonical(run: Run, research: Path):
    run("compile", research.name, "-o", "registry.json")
    assert run("fmt", "--check", "registry.json").exit_code == 0
    assert run("validate", "--strict", "registry.json").exit_code == 0


def test_compile_writes_yaml_by_the_name_of_the_file(run: Run, research: Path, folder: Path):
    run("compile", research.name, "-o", "a.json")
    run("compile", research.name, "-o", "a.yaml")
    assert yaml.safe_load((folder / "a.yaml").read_text()) == json.loads((folder / "a.json").read_text())


def test_the_document_on_stdout_is_alone_there(run: Run, research: Path):
    research.write_text("print('noise')\n" + research.read_text())
    done = run("compile", research.name, "-o", "-")
    assert json.loads(done.stdout)["schemaVersion"] == "1.0"
    assert "✓ Compiled research" in done.stderr
    assert "noise" in done.stderr


def test_compile_tells_as_json(run: Run, research: Path):
    told = json.loads(run("compile", research.name, "-o", "r.json", "--json").stdout)
    assert told == {"compositions": ["research"], "internal": ["__hits"], "written": "r.json"}


@pytest.mark.parametrize(
    ("text", "line", "sentence"),
    [
        ("import weft as w\nx = (\n", 2, "not valid Python"),
        ("import weft as w\nimport nowhere_at_all\n", 2, "nowhere_at_all"),
        ("import weft as w\n\nw.pipeline('search')\n", 3, "write w.tool('search')"),
        ("import weft as w\nw.limit(-1)\n", 2, "greater than or equal to 0"),
        ("import weft as w\nw.path({'type': 'object', 'properties': {'title': {}}}).titel\n", 2, "title"),
        ("raise SystemExit(0)\n", 1, "sys.exit"),
    ],
)
def test_an_error_in_the_module_is_a_line_and_a_sentence(run: Run, folder: Path, text: str, line: int, sentence: str):
    (folder / "m.py").write_text(text)
    done = run("compile", "m.py", "-o", "r.json")
    assert done.exit_code == 2
    assert done.stderr.startswith(f"m.py:{line}: error: ")
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert not (folder / "r.json").exists()


def test_an_error_in_a_module_beside_it_is_placed_there(run: Run, folder: Path):
    (folder / "beside_it.py").write_text("\n\n1 / 0\n")
    (folder / "m.py").write_text("import beside_it\n")
    assert "beside_it.py:3: error: ZeroDivisionError" in run("compile", "m.py", "-o", "r.json").stderr


def test_types_that_cannot_flow_are_an_error_at_the_composition(run: Run, folder: Path):
    (folder / "m.py").write_text(
        "import weft as w\n\nlate = w.composition(\n    'late', 'L.',\n"
        "    w.pipeline(w.tool('count', str, int), w.map_each(w.tool('show'))),\n)\n"
    )
    done = run("compile", "m.py", "-o", "r.json")
    assert done.exit_code == 2
    assert done.stderr.startswith("m.py:4: error: MapEach requires array input")


def test_a_file_without_compositions_is_told_how_to_write_one(run: Run, folder: Path):
    (folder / "m.py").write_text("import weft as w\npart = w.named('part', w.tool('x'))\n")
    done = run("compile", "m.py", "-o", "r.json")
    assert done.exit_code == 2
    assert "m.py has no compositions" in done.stderr
    assert "w.composition(" in done.stderr


def test_two_compositions_of_one_name_are_refused(run: Run, folder: Path):
    text = "import weft as w\na = w.composition('a', 'A.', w.tool('x'))\nb = w.composition('a', 'B.', w.tool('y'))\n"
    (folder / "m.py").write_text(text)
    done = run("compile", "m.py", "-o", "r.json")
    assert (done.exit_code, "two compositions are named 'a'" in done.stderr) == (2, True)


def test_an_edit_within_the_same_second_is_seen(run: Run, folder: Path):
    for name in ("one", "two"):
        (folder / "m.py").write_text(f"import weft as w\na = w.composition('{name}', 'A.', w.tool('x'))\n")
        assert f"Compiled {name}" in run("compile", "m.py", "-o", "r.json").stdout


def test_a_failed_compile_leaves_the_old_registry(run: Run, research: Path, folder: Path):
    run("compile", research.name, "-o", "r.json")
    before = (folder / "r.json").read_bytes()
    research.write_text("1 / 0")
    assert run("compile", research.name, "-o", "r.json").exit_code == 2
    assert (folder / "r.json").read_bytes() == before


@pytest.mark.parametrize("arguments", [("gone.py", "-o", "r.json"), ("r.json", "-o", "s.json")])
def test_what_is_no_python_file_is_input_that_is_wrong(run: Run, arguments: tuple[str, ...]):
    assert run("compile", *arguments).exit_code == 2


def test_a_folder_that_is_not_there_is_named(run: Run, research: Path):
    done = run("compile", research.name, "-o", "no/where.json")
    assert (done.exit_code, "cannot write no/where.json: no such file" in done.stderr) == (2, True)
