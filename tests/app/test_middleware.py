"""Middleware of weft.yaml: built once, kept over reloads, one's own imported from beside the file."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.config.written import loaded
from tests.groups.middlewares import call_of, result, through
from weft.app.middleware import Kept, middleware_of
from weft.config import Config
from weft.errors import DocumentInvalid, ExecutionFailed, Problem, ToolFailed
from weft.groups.middleware import Around, RateLimited, around

OWN = '''
print("imported")

async def shouting(call, next):
    """Make texts loud."""
    made = await next(call)
    return {**made, "content": [{"type": "text", "text": made["content"][0]["text"].upper()}]}

def ending(mark, times=1):
    """Return middleware that ends texts with a mark."""
    if times < 1:
        raise ValueError(f"times must be at least 1, not {times} ({mark})")
    async def middleware(call, next):
        made = await next(call)
        return {**made, "content": [{"type": "text", "text": made["content"][0]["text"] + mark * times}]}
    return middleware

async def answering(call, next):
    return {"answer": call.arguments["n"] + 1}

async def broken(call, next):
    await next(call)
    return {}["s3cret"]

def one(call):
    return None

async def leaving(call, next):
    import sys
    sys.exit(3)

def plain(call, next):
    return {"n": call.arguments["n"]}

def passing(call, next):
    return next(call)

async def yielding(call, next):
    yield 1

class Made:
    def __init__(self, call, next):
        pass

async def swapping(call, next):
    return await next(type(call)(call.tool, {}))

async def emptying(call, next):
    call.arguments = None
    return await next(call)

async def listing(call, next):
    call.arguments = ["s3cret"]
    return await next(call)

class Raising(type):
    def __getattr__(cls, name):
        raise RuntimeError("no such thing")

class Strange(metaclass=Raising):
    pass

number = 3
'''


@pytest.fixture(autouse=True)
def _modules() -> Iterator[None]:
    before, path = set(sys.modules), list(sys.path)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def config_of(folder: Path, *rules: str) -> Config:
    (folder / "own_ones.py").write_text(OWN)
    return loaded(folder, "\n".join(["middleware:", *(f"  - {rule}" for rule in rules), ""]))


def built(config: Config, kept: Kept | None = None) -> tuple[Around, ...]:
    return middleware_of(config.middleware, file=config.file, kept=kept)


def refused(folder: Path, *rules: str) -> list[Problem]:
    with pytest.raises(DocumentInvalid) as caught:
        built(config_of(folder, *rules))
    return caught.value.problems


async def text(middleware: Any, said: str = "hello") -> str:
    return (await through(middleware, result(said), call_of(n=1)))["content"][0]["text"]


def test_a_tool_has_the_middleware_whose_globs_fit_outermost_first(tmp_path: Path):
    rules = built(config_of(tmp_path, "{use: logged}", "{use: timed, tools: ['a_*', b]}", "{use: redacted}"))
    logged, timed, redacted = (one.middleware for one in rules)
    assert around(["a_x"], rules) == around(["x", "b"], rules) == (logged, timed, redacted)
    assert around(["ab"], rules) == (logged, redacted)


async def test_each_that_comes_with_weft_does_what_its_settings_say(tmp_path: Path):
    rules = built(
        config_of(
            tmp_path, "{use: timed}", "{use: rateLimited, perSecond: 0.001, burst: 2, by: all}",
            "{use: redacted, fields: [email]}", "{use: onlyFor, subjects: [nobody]}",
        )
    )  # fmt: skip
    timed, limited, redacted, only = (one.middleware for one in rules)
    assert "weft/ms" in (await through(timed, result("x")))["_meta"]
    assert [await text(limited), await text(limited)] == ["hello", "hello"]
    with pytest.raises(RateLimited):
        await text(limited)
    assert await text(redacted, "email: a@b.example") == "email: [redacted]"
    with pytest.raises(ExecutionFailed, match="may not be called"):
        await text(only)


async def test_what_a_reload_leaves_as_it_was_goes_on_counting(tmp_path: Path):
    kept = Kept()
    rate = "{use: rateLimited, perSecond: 0.001, burst: 1}"
    (first,) = built(config_of(tmp_path, rate), kept)
    await text(first.middleware)
    added, again, second = built(config_of(tmp_path, "{use: logged}", rate, rate), kept)
    assert again.middleware is first.middleware
    with pytest.raises(RateLimited):
        await text(again.middleware)
    # A second of the same settings counts for itself.
    assert await text(second.middleware) == "hello"
    (other,) = built(config_of(tmp_path, rate.replace("0.001", "0.002")), kept)
    assert await text(other.middleware) == "hello"
    (anew,) = built(config_of(tmp_path, rate), kept)
    assert anew.middleware not in (first.middleware, added.middleware)


async def test_settings_that_cannot_be_used_leave_what_counts(tmp_path: Path):
    kept = Kept()
    (before,) = built(config_of(tmp_path, "{use: timed}"), kept)
    with pytest.raises(DocumentInvalid):
        built(config_of(tmp_path, "{use: 'nowhere:f'}"), kept)
    assert built(config_of(tmp_path, "{use: timed}"), kept) == (before,)


async def test_own_middleware_is_imported_from_beside_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    rules = ("{use: 'own_ones:shouting'}", "{use: 'own_ones:ending', with: {mark: '!', times: 3}}")
    shouting, ending = (one.middleware for one in built(config_of(tmp_path, *rules)))
    assert (await text(shouting), await text(ending)) == ("HELLO", "hello!!!")
    # On stdout a gateway may speak MCP.
    assert (capsys.readouterr().out, "own_ones" in sys.modules) == ("", True)


async def test_a_value_that_own_middleware_gives_becomes_a_result(tmp_path: Path):
    (rule,) = built(config_of(tmp_path, "{use: 'own_ones:answering'}"))
    made = await through(rule.middleware, result("never"), call_of(n=1))
    assert made["structuredContent"] == {"answer": 2}


async def test_an_error_of_own_middleware_is_told_without_what_it_says_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    (rule,) = built(config_of(tmp_path, "{use: 'own_ones:broken'}"))
    with pytest.raises(ExecutionFailed) as caught:
        await text(rule.middleware)
    assert (caught.value.code, caught.value.message) == (
        "MiddlewareFailed", "'shop' cannot be called: middleware own_ones:broken failed (KeyError)",
    )  # fmt: skip
    assert "middleware own_ones:broken failed" in caplog.text
    # What comes from further inside is not its own.
    for inner in (ToolFailed("shop", "no"), RuntimeError("weft's own")):
        with pytest.raises(type(inner)):
            await through(rule.middleware, inner)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("leaving", " (SystemExit)"),
        ("yielding", ": what it returns is no result and no JSON value but something of the type async_generator"),
        ("Made", ": what it returns is no result and no JSON value but something of the type Made"),
        ("swapping", ": it goes on with something of the type ToolCall in place of the call that it was given"),
        ("emptying", ": the arguments that it gives the call are no object but nothing"),
        ("listing", ": the arguments that it gives the call are no object but something of the type list"),
    ],
)
async def test_what_own_middleware_may_not_do_ends_its_call_and_nothing_else(name: str, why: str, tmp_path: Path):
    (rule,) = built(config_of(tmp_path, f"{{use: 'own_ones:{name}'}}"))
    reached: list[Any] = []
    with pytest.raises(ExecutionFailed) as caught:
        await through(rule.middleware, reached.append)
    told = f"'shop' cannot be called: middleware own_ones:{name} failed{why}"
    assert (caught.value.code, caught.value.message, reached) == ("MiddlewareFailed", told, [])


async def test_a_function_that_is_not_async_is_middleware_too(tmp_path: Path):
    plain, passing = built(config_of(tmp_path, "{use: 'own_ones:plain'}", "{use: 'own_ones:passing'}"))
    assert (await through(plain.middleware, result("x"), call_of(n=7)))["structuredContent"] == {"n": 7}
    assert await text(passing.middleware) == "hello"


async def test_an_empty_result_stays_as_the_server_gave_it(tmp_path: Path):
    (rule,) = built(config_of(tmp_path, "{use: 'own_ones:passing'}"))
    assert await through(rule.middleware, {"content": []}) == {"content": []}


@pytest.mark.parametrize(
    ("rule", "code", "words"),
    [
        ("{use: 'own_one:f'}", "UnknownModule", ["there is no module 'own_one'", "PYTHONPATH", "'own_ones'?"]),
        ("{use: 'own_ones:shoutin'}", "UnknownName", ["own_ones has no 'shoutin'", "'shouting'?"]),
        ("{use: 'own_ones:one'}", "NotMiddleware", ["is no middleware", "a function (call, next)"]),
        ("{use: 'own_ones:number'}", "NotMiddleware", ["is no middleware: 3"]),
        ("{use: 'own_ones:number.f'}", "UnknownName", ["own_ones has no 'f'"]),
        ("{use: 'own_ones:Strange.f'}", "ModuleFailed", ["no such thing"]),
        ("{use: 'own_ones:ending', with: {}}", "NotMiddleware", ["'mark'"]),
        ("{use: 'own_ones:ending', with: {mark: x, times: 0}}", "NotMiddleware", ["times must be at least 1"]),
        ("{use: 'own_ones:one', with: {call: 1}}", "NotMiddleware", ["what it returns is no middleware: None"]),
    ],
)
def test_a_function_that_there_is_not_is_told_with_its_place(rule: str, code: str, words: list[str], tmp_path: Path):
    (problem,) = refused(tmp_path, "{use: logged}", rule)
    assert (problem.code, problem.pointer, problem.line) == (code, "/middleware/1/use", 3)
    assert problem.file == str(tmp_path / "weft.yaml")
    assert all(word in str(problem) for word in words), str(problem)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("x = 1\nraise RuntimeError('no\\nway')", "RuntimeError: no way (bad_ones.py:2)"),
        ("def f(:", "SyntaxError"),
        ("import nothing_such", "No module named 'nothing_such' (bad_ones.py:1)"),
        ("import sys\nsys.exit(2)", "it called sys.exit(2) (bad_ones.py:2)"),
    ],
)
def test_a_module_that_cannot_be_imported_is_told_with_its_line(source: str, told: str, tmp_path: Path):
    (tmp_path / "bad_ones.py").write_text(source)
    (problem,) = refused(tmp_path, "{use: 'bad_ones:f'}")
    assert problem.code == "ModuleFailed"
    assert told in problem.message


def test_a_secret_is_not_told_by_what_a_factory_says(tmp_path: Path):
    (tmp_path / "own_ones.py").write_text(OWN)
    text = "middleware: [{use: 'own_ones:ending', with: {mark: '${env:KEY}', times: 0}}]"
    config = loaded(tmp_path, text, {"KEY": "plain-words"})
    with pytest.raises(DocumentInvalid) as caught:
        built(config)
    assert "plain-words" not in str(caught.value)
    assert "times must be at least 1" in str(caught.value)


async def test_the_page_shows_what_works(tmp_path: Path):
    page = (Path(__file__).parents[2] / "docs" / "guide" / "middleware.md").read_text(encoding="utf-8")
    for title, source in re.findall(r'^```python title="([^"]+)"\n(.*?)^```', page, re.MULTILINE | re.DOTALL):
        (tmp_path / title).write_text(source, encoding="utf-8")
    (settings,) = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    *_, signed = built(loaded(tmp_path, settings, {"SIGNING_KEY": "k"}))
    made = await through(signed.middleware, result("x", structuredContent={"a": 1}))
    assert len(made["_meta"]["signature"]) == 64
