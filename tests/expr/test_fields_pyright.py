"""What pyright says of good and bad uses of typed paths and predicates."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

MODELS = """
from dataclasses import dataclass
from typing import Literal, NotRequired, TypedDict, TypeVar

from pydantic import BaseModel, Field

from weft.expr.comparisons import Predicate, contains, eq, gt, is_null, lte, ne, one_of
from weft.expr.fields import coalesce, concat, each, literal, path, some, template

T = TypeVar("T")


class Author(BaseModel):
    name: str


class Paper(BaseModel):
    title: str
    relevance: float
    year: int
    public: bool
    status: Literal["draft", "final"]
    pdf_url: str | None = Field(default=None, alias="pdfUrl")
    authors: list[Author]
    editor: Author | None = None


@dataclass
class Hit:
    url: str
    author: Author


class Inner(TypedDict):
    b: int


class Row(TypedDict):
    a: Inner
    note: NotRequired[str]


class Unified(TypedDict):
    title: str
    url: str
    relevance: float


def filter(field: T | None, predicate: Predicate[T]) -> None: ...
def schema_map(source: object, target: T) -> T: return target


p = path(Paper)
hit = path(Hit)
row = path(Row)
"""

GOOD = """
filter(p.relevance, gt(0.7))
filter(p.year, gt(0.7))
filter(p.year, eq(2020))
filter(p.public, eq(True))
filter(p.public, ne(False))
filter(p.title, contains("x"))
filter(p.title, one_of("a", "b"))
filter(p.status, eq("draft"))
filter(p.pdf_url, eq("x"))
filter(p.pdf_url, eq(None))
filter(p.pdf_url, is_null())
filter(p.authors[0].name, eq("x"))
filter(some(p.editor).name, contains("x"))
filter(each(p.authors).name, eq("x"))
filter(hit.author.name, eq("x"))
filter(row["a"]["b"], lte(3))
filter(row.get("note"), contains("x"))
filter(path({"type": "object"}).anything, gt(1))
schema_map(p, Unified(title=p.title, url=coalesce(p.pdf_url, p.title), relevance=literal(0.9)))
schema_map(p, Unified(title=template("{t}", t=p.title), url=concat(p.title, p.pdf_url), relevance=p.relevance))
"""

BAD = """
p.nonexistent  # expect-error
p.authors[0].nam  # expect-error
p.editor.name  # expect-error
hit.ulr  # expect-error
row["c"]  # expect-error
row["a"]["c"]  # expect-error
row["note"]  # expect-error
row.title  # expect-error
filter(p.title, gt(0.7))  # expect-error
filter(p.relevance, contains("x"))  # expect-error
filter(p.relevance, eq("x"))  # expect-error
filter(p.title, eq(3))  # expect-error
filter(p.title, one_of(1, 2))  # expect-error
filter(p.pdf_url, gt(1))  # expect-error
filter(row["a"]["b"], eq("x"))  # expect-error
filter(p.relevance, gt)  # expect-error
filter(p.relevance, lambda value: value > 0.7)  # expect-error
filter(p.relevance, 0.7)  # expect-error
gt("x")  # expect-error
one_of(1, "a")  # expect-error
p.title.nonexistent()  # expect-error
p.relevance + "x"  # expect-error
schema_map(p, Unified(title=p.title, url="$.url"))  # expect-error
schema_map(p, Unified(title=p.relevance, url="$.url", relevance=1))  # expect-error
schema_map(p, Unified(title=p.title, url=coalesce(p.relevance), relevance=1))  # expect-error
path("Paper")  # expect-error
"""

SETTINGS: dict[str, Any] = {
    "typeCheckingMode": "strict",
    "pythonVersion": "3.11",
    # A snippet is a bare expression, and not every snippet file uses every import.
    "reportUnusedExpression": False,
    "reportUnusedImport": False,
    "reportUnusedCallResult": False,
}


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[int]]:
    """Return the lines with errors of each snippet file, from one run of pyright."""
    if importlib.util.find_spec("pyright") is None:
        pytest.skip("pyright is not installed")
    folder = tmp_path_factory.mktemp("snippets")
    for name, body in (("good.py", GOOD), ("bad.py", BAD)):
        (folder / name).write_text(MODELS + body)
    source = Path(__file__).parents[2] / "src"
    (folder / "pyrightconfig.json").write_text(json.dumps(SETTINGS | {"extraPaths": [str(source)]}))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(folder)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    found: dict[str, set[int]] = {"good.py": set(), "bad.py": set()}
    for one in json.loads(answer.stdout)["generalDiagnostics"]:
        if one["severity"] == "error":
            found[Path(one["file"]).name].add(one["range"]["start"]["line"] + 1)
    return found


def _texts(body: str, numbers: set[int]) -> list[str]:
    lines = (MODELS + body).splitlines()
    return [lines[number - 1] for number in sorted(numbers)]


@pytest.mark.req("ALG-2", "ALG-9", "ALG-12")
def test_pyright_accepts_every_good_use(errors: dict[str, set[int]]):
    assert _texts(GOOD, errors["good.py"]) == []


@pytest.mark.req("ALG-11", "ALG-13", "ALG-14")
def test_pyright_rejects_every_bad_use_and_only_those(errors: dict[str, set[int]]):
    expected = [line for line in BAD.splitlines() if line.endswith("# expect-error")]
    assert _texts(BAD, errors["bad.py"]) == expected
