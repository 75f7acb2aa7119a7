"""The documentation is true: its programs run, its JSON is canonical, its commands print what it shows.

How blocks are taken: `python` with `import weft` is a program, and a `text` block right after it is its output;
`python` with `op = ..` gives the `json` block after it; a block with a title is a file; `console` has commands after
`$`, each followed by all that it prints (times aside).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

import weft as w
from weft import errors
from weft.app import problems_of
from weft.cli.group import COMMANDS
from weft.expr.fields import FieldError
from weft.ir.normalise import parse
from weft.ir.operations import kinds
from weft.ir.read import read
from weft.patterns import CATALOGUE
from weft.run.limits import Limits

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
OTHERS = {"spec.md", "benchmarks.md", "reference/ir.md"}  # each has a test of its own
PAGES = sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if str(page.relative_to(DOCS)) not in OTHERS)
FENCE = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TITLE = re.compile(r'title="([^"]+)"')
EXAMPLE = re.compile(r"^<!-- example: (\S+) -->\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TIMES = re.compile(r" *\d+\.\d+ ms")


class Block(NamedTuple):
    """A fenced block of a page, and the language and text of the one after it."""

    page: str
    line: int
    language: str
    title: str | None
    text: str
    next_language: str
    next_text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def text_of(page: str) -> str:
    """Return the text of a page."""
    return (DOCS / page).read_text(encoding="utf-8")


def blocks(page: str) -> Iterator[Block]:
    """Yield the blocks of a page."""
    text = text_of(page)
    found = list(FENCE.finditer(text))
    for index, one in enumerate(found):
        after = found[index + 1] if index + 1 < len(found) else None
        title = TITLE.search(one[2])
        yield Block(
            page=page,
            line=text.count("\n", 0, one.start()) + 1,
            language=one[1],
            title=title[1] if title else None,
            text=one[3],
            next_language=after[1] if after else "",
            next_text=after[3] if after else "",
        )


BLOCKS = [block for page in PAGES for block in blocks(page)]
EXAMPLES = {one.read_text(encoding="utf-8") for one in (ROOT / "examples").glob("*.py")}
PYTHON = [one for one in BLOCKS if one.language == "python" and one.title is None and one.text not in EXAMPLES]
PROGRAMS = [one for one in PYTHON if "import weft" in one.text]
OPERATIONS = [one for one in PYTHON if re.search(r"^op = ", one.text, re.MULTILINE)]
JSONS = [one for one in BLOCKS if one.language == "json"]
YAMLS = [one for one in BLOCKS if one.language == "yaml"]
CONSOLES = sorted({one.page for one in BLOCKS if one.language == "console"})


@pytest.mark.parametrize("block", PROGRAMS, ids=str)
def test_a_program_runs_and_prints_what_follows_it(block: Block, tmp_path: Path):
    program = tmp_path / "program.py"
    program.write_text(block.text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, check=False, timeout=60, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    assert block.next_language != "text" or done.stdout == block.next_text


@pytest.mark.parametrize("block", OPERATIONS, ids=str)
def test_the_builders_give_the_json_that_follows_them(block: Block):
    space: dict[str, Any] = {"w": w}
    exec(block.text, space)
    built = space["op"].to_ir()
    assert block.next_language != "json" or json.loads(block.next_text) == built


@pytest.mark.parametrize("block", JSONS, ids=str)
def test_json_is_canonical(block: Block):
    value = json.loads(block.text)
    spec = value.keys() & kinds().keys()
    document = {"schemaVersion": "1.0", "tools": [{"name": "it", "spec": value}]} if spec else value
    parsed = parse(read(json.dumps(document), name=str(block)))
    assert [problem for problem in problems_of(parsed) if problem.severity == "error"] == []
    assert parsed.document.to_ir() == document


@pytest.mark.parametrize("block", YAMLS, ids=str)
def test_yaml_can_be_read(block: Block):
    assert isinstance(yaml.safe_load(block.text), dict)


@pytest.mark.parametrize("page", CONSOLES)
def test_commands_print_what_the_page_shows(page: str, tmp_path: Path):
    folder = tmp_path / "examples"
    if page == "quickstart.md":
        folder.mkdir()
    else:
        shutil.copytree(ROOT / "examples", folder, ignore=shutil.ignore_patterns("__pycache__"))
    for block in blocks(page):
        if block.title is not None:
            (folder / block.title).write_text(block.text, encoding="utf-8")
        if block.language == "console":
            commands = [line[2:] for line in block.text.splitlines() if line.startswith("$ ")]
            shown = "".join(f"$ {command}\n{output(command, folder)}" for command in commands)
            assert TIMES.sub(" # ms", shown) == TIMES.sub(" # ms", block.text)


def output(command: str, folder: Path) -> str:
    """Return all that a command prints, as a reader would see it with weft installed."""
    there = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": there, "COLUMNS": "100", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        check=False, timeout=60,
    )  # fmt: skip
    return done.stdout.decode()


@pytest.mark.parametrize("page", [*PAGES, "../README.md"])
def test_every_command_that_is_named_exists(page: str):
    text = text_of(page)
    typed = [line for line in text.splitlines() if line.startswith("$ ")]
    named = {*re.findall(r"`weft (\w+)", text), *re.findall(r"\bweft (\w+)", "\n".join(typed))}
    assert named - {*COMMANDS, "COMMAND"} == set()


def test_every_command_has_a_section():
    assert {name for name in COMMANDS if f"\n## weft {name}\n" not in text_of("reference/cli.md")} == set()


@pytest.mark.parametrize("kind", CATALOGUE)
def test_a_pattern_has_a_page_with_its_whole_example(kind: str):
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in kind)
    page = text_of(f"patterns/{snake.replace('_', '-')}.md")
    shown = EXAMPLE.search(page)
    assert shown is not None
    assert shown[1] == f"{snake}.py"
    assert shown[2] == (ROOT / "examples" / shown[1]).read_text(encoding="utf-8")
    assert f'"{kind}": ' in page, "the page shows the canonical JSON"


@pytest.mark.parametrize("kind", CATALOGUE)
def test_a_pattern_s_page_has_every_field(kind: str):
    snake = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in kind)
    page = text_of(f"patterns/{snake.replace('_', '-')}.md")
    assert {name for name in fields_of(CATALOGUE[kind]) if f"`{name}" not in page} == set()


def fields_of(model: type[Any]) -> list[str]:
    """Return the keys of a model as documents write them."""
    return [field.alias or name for name, field in model.model_fields.items()]


def test_every_public_name_is_in_the_reference_of_the_dsl():
    page = text_of("reference/dsl.md")
    assert {name for name in w.__all__ if not re.search(rf"`w\.{name}\b", page)} == set()


def test_every_error_is_in_the_reference():
    classes = [one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.WeftError)]
    page = text_of("reference/errors.md")
    assert {one.__name__ for one in [*classes, FieldError] if one.__name__ not in page} == set()


def test_every_limit_of_a_call_is_in_the_reference_with_its_default():
    page = text_of("reference/errors.md").replace(",", "")
    limits = Limits()
    rows = {name: f"| `{name}` | {getattr(limits, name)} |" for name in Limits.__slots__}
    assert {name for name, row in rows.items() if row not in page} == set()


def expression_limits() -> Iterator[tuple[str, float]]:
    """Yield the limits of the small languages: the constants MAX_.. that a module defines itself."""
    for source in sorted((ROOT / "src" / "weft" / "expr").glob("*.py")):
        for name in re.findall(r"^(MAX_\w+)", source.read_text(encoding="utf-8"), re.MULTILINE):
            module = f"weft.expr.{source.stem}"
            yield f"{module}.{name}", getattr(import_module(module), name)


@pytest.mark.parametrize(("name", "value"), list(expression_limits()))
def test_every_limit_of_the_small_languages_is_in_the_reference(name: str, value: float):
    row = re.search(rf"\| `{re.escape(name)}` \| ([^|]+) \|", text_of("reference/errors.md"))
    assert row is not None
    number, _, unit = row[1].replace(",", "").partition(" ")
    assert float(number) * {"": 1, "KiB": 1 << 10, "MiB": 1 << 20}[unit] == value
