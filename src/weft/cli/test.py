"""`weft test`: case files, run against canned answers on a clock that jumps."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weft.cli.output import as_json, bad, good, plain, result, show_problems
from weft.cli.outside import importing
from weft.errors import DocumentInvalid, InputError, Problem

if TYPE_CHECKING:
    from weft.testing import CaseFile, Verdict

ENDINGS = (".weft-test.yaml", ".weft-test.yml", ".weft-test.json")
SKIPPED = frozenset({"node_modules", "__pycache__", "site-packages"})
MOST = 10
FORM = """\b
A case file:
  registry: ./registry.json        # or .yaml, or .py
  tools: ./tools.py                # optional: every @w.python_tool in it
  mocks: {search: [{title: A}]}    # optional: as for weft run --mock
  cases:
    - name: keeps what is relevant
      tool: research
      input: {topic: bees}
      mocks: {fetch: {$down: refused}}
      expect:
        value: ..                  # exactly this
        contains: ..               # at least these fields and items, in order
        error: ..                  # its code, or a part of its sentence
        warnings: [..]             # a part of each, or how many
        calls: [search, fetch]     # in order, or {search: 1}

\b
Example:
  weft test
  weft test tests/research.weft-test.yaml --json"""


@click.command("test", epilog=FORM)
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option("--json", "json_", is_flag=True, help='Print {"passed", "failed", "cases", "problems"}.')
def command(paths: tuple[Path, ...], json_: bool) -> None:
    """Run the cases of every *.weft-test.yaml (or .json) under PATHS, here if none are given.

    Tools answer from the mocks, time jumps, and each case has a world of its own. Exits with 1 when a case fails, with
    2 when a file is wrong.
    """
    verdicts: list[tuple[CaseFile, Verdict]] = []
    problems: list[Problem] = []
    for path in _case_files(paths or (Path(),)):
        try:
            file = _read(path)
        except DocumentInvalid as error:
            problems += error.problems
            if not json_:
                show_problems(error.problems)
            continue
        for case in file.cases:
            verdict = _run(file, case)
            verdicts.append((file, verdict))
            if not json_:
                _show(file, verdict)
    failed = sum(not verdict.passed for _, verdict in verdicts)
    passed = len(verdicts) - failed
    result(as_json(_told(verdicts, problems)) if json_ else f"{passed} passed, {failed} failed")
    raise click.exceptions.Exit(2 if problems else 1 if failed else 0)


def _case_files(paths: tuple[Path, ...]) -> list[Path]:
    found = list(dict.fromkeys(file for path in paths for file in _under(path)))
    if not found:
        where = ", ".join(str(path) for path in paths)
        hint = "a case file ends in .weft-test.yaml; weft test --help shows one"
        raise InputError(f"no case files under {where}", code="NoCases", hint=hint)
    return found


def _under(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for file in sorted(path.rglob("*.weft-test.*")):
        parts = file.relative_to(path).parts[:-1]
        if file.name.endswith(ENDINGS) and not any(part in SKIPPED or part.startswith(".") for part in parts):
            yield file


def _read(path: Path) -> CaseFile:
    from weft.testing import read_case_file

    with importing(path):
        return read_case_file(path)


def _run(file: CaseFile, case: Any) -> Verdict:
    from weft.testing import run_case

    # What a tool prints must not stand among the results.
    with redirect_stdout(sys.stderr):
        return asyncio.run(run_case(file, case))


def _show(file: CaseFile, verdict: Verdict) -> None:
    line = plain(f"{file.path}: {verdict.case.name}")
    if verdict.passed:
        result(good(line))
        return
    result(bad(line))
    for one in verdict.mismatches[:MOST]:
        result(f"    {plain(one.what)}")
        result(f"      {click.style('- expected', fg='green')} {plain(one.expected)}")
        result(f"      {click.style('+ got     ', fg='red')} {plain(one.got)}")
    if len(verdict.mismatches) > MOST:
        result(f"    and {len(verdict.mismatches) - MOST} more")


def _told(verdicts: list[tuple[CaseFile, Verdict]], problems: list[Problem]) -> dict[str, Any]:
    failed = sum(not verdict.passed for _, verdict in verdicts)
    cases = [
        {
            "file": str(file.path),
            "name": verdict.case.name,
            "tool": verdict.case.tool,
            "passed": verdict.passed,
            "mismatches": [one.to_json() for one in verdict.mismatches],
        }
        for file, verdict in verdicts
    ]
    wrong = [problem.to_json() for problem in problems]
    return {"passed": len(verdicts) - failed, "failed": failed, "cases": cases, "problems": wrong}
