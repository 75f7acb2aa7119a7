"""What pyright says of good and bad compositions."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

HEAD = """
from dataclasses import dataclass
from typing import TypedDict

from pydantic import BaseModel

import weft as w


class Hit(BaseModel):
    title: str
    relevance: float
    url: str | None = None


class Unified(TypedDict):
    title: str
    score: float


@dataclass
class Report:
    text: str


search = w.tool("search", str, list[Hit])
fetch = w.tool("fetch", Hit, Report)
summarize = w.tool("summarize", list[Report], str)
count = w.tool("count", str, int)
same = w.tool("same", str, str)
untyped = w.tool("untyped")
p = w.path(Hit)
"""

GOOD = """
one: w.Op[str, str] = w.pipeline(search, w.map_each(fetch), summarize)
two: w.Op[str, int] = w.pipeline(same, same, same, same, same, same, same, count)
three = w.pipeline(search, untyped, summarize)
four: w.Op[str, str] = w.composition("c", "d", w.pipeline(search, w.map_each(fetch), summarize))
five = w.pipeline(search, w.filter(p.relevance, w.gt(0.7)), w.map_each(fetch))
six: w.Op[Hit, Unified] = w.schema_map(p, Unified(title=p.title, score=p.relevance))
seven = w.pipeline(search, w.map_each(w.schema_map(p, Unified(title=w.coalesce(p.url, p.title), score=w.literal(1.0)))))
eight = w.pipeline([search, untyped])
long = w.pipeline(same, same, same, same, same, same, same, same, same, count)
part = w.pipeline(w.step(search, condition="input != ''"), untyped, output=w.from_step("step_0"))
nine = w.pipeline(w.step(search, id="s"), w.step(untyped, input=w.from_step("s", p.title)))
ten = w.scatter_gather(search, untyped, aggregate=[w.flatten(), w.sort(p.relevance, "desc")], timeout=w.seconds(5))
eleven = w.router(w.when("input.a > 1", search), w.when(w.holds(p.title, w.eq("x")), untyped), otherwise=untyped)
twelve = w.enricher(author=(p.title, untyped), other=untyped, merge="spread")
thirteen: w.Op[str, list[Hit]] = w.wire_tap(search, untyped, at="both")
fourteen = w.recipient_list(p.title, allowed=["a", untyped])
fifteen: w.Op[str, int] = w.named("x", count)


@w.python_tool
def shout(text: str) -> str:
    return text.upper()


@w.python_tool
async def measure(text: str) -> int:
    return len(text)


@w.python_tool(name="says")
async def say(text: str) -> str:
    return text


sixteen = w.pipeline(same, shout, count)
seventeen: w.Op[str, int] = w.pipeline(say, measure)
"""

BAD = """
w.pipeline(search, summarize)  # expect-error
w.pipeline(search, fetch)  # expect-error
w.pipeline(same, same, same, same, same, same, same, summarize)  # expect-error
w.pipeline(search, w.map_each(summarize))  # expect-error
w.pipeline(count, same)  # expect-error
w.pipeline(w.step(count, id="s"), same)  # expect-error
w.pipeline(search, w.step(fetch, input=w.from_input()), summarize)  # expect-error
w.step(search, input=p.title)  # expect-error
wrong: w.Op[str, int] = w.pipeline(search, w.map_each(fetch), summarize)  # expect-error
w.filter(p.nonexistent, w.gt(1))  # expect-error
w.filter(p.title, w.gt(1))  # expect-error
w.filter(p.relevance, w.contains("x"))  # expect-error
w.filter(p.relevance, w.gt)  # expect-error
w.filter(p.relevance, lambda value: value > 0.7)  # expect-error
w.gt("x")  # expect-error
w.schema_map(p, Unified(title=p.title))  # expect-error
w.schema_map(p, Unified(title=p.relevance, score=p.relevance))  # expect-error
w.map_each("fetch")  # expect-error
w.pipeline("search", fetch)  # expect-error
w.scatter_gather("search")  # expect-error
w.sort(p.relevance, "down")  # expect-error
w.router("input.a", search)  # expect-error
w.when(w.gt(1), search)  # expect-error
w.wire_tap(search, untyped, at="during")  # expect-error
w.composition("c", "d", "search")  # expect-error
w.tool(3)  # expect-error
w.pipelin(search)  # expect-error
"""

SETTINGS: dict[str, Any] = {
    "typeCheckingMode": "strict",
    "pythonVersion": "3.11",
    "reportUnusedExpression": False,
    "reportUnusedCallResult": False,
}


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[int, str]]:
    """Return the errors of each snippet file by line, from one run of pyright."""
    if importlib.util.find_spec("pyright") is None:
        pytest.skip("pyright is not installed")
    folder = tmp_path_factory.mktemp("snippets")
    for name, body in (("good.py", GOOD), ("bad.py", BAD)):
        (folder / name).write_text(HEAD + body, encoding="utf-8")
    source = Path(__file__).parents[2] / "src"
    (folder / "pyrightconfig.json").write_text(json.dumps(SETTINGS | {"extraPaths": [str(source)]}))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(folder)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    found: dict[str, dict[int, str]] = {"good.py": {}, "bad.py": {}}
    for one in json.loads(answer.stdout)["generalDiagnostics"]:
        if one["severity"] == "error":
            found[Path(one["file"]).name][one["range"]["start"]["line"] + 1] = one["message"]
    return found


def _lines(body: str, errors: dict[int, str]) -> list[str]:
    lines = (HEAD + body).splitlines()
    return [lines[number - 1] for number in sorted(errors)]


@pytest.mark.req("ALG-2", "ALG-5", "ALG-16", "ALG-56")
def test_pyright_accepts_every_good_composition(errors: dict[str, dict[int, str]]):
    assert _lines(GOOD, errors["good.py"]) == [], errors["good.py"]


@pytest.mark.req("ALG-11", "ALG-14", "ALG-16", "ALG-56")
def test_pyright_rejects_every_bad_composition_and_only_those(errors: dict[str, dict[int, str]]):
    expected = [line for line in BAD.splitlines() if line.endswith("# expect-error")]
    assert _lines(BAD, errors["bad.py"]) == expected
