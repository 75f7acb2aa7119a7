"""List the requirements of docs/spec.md that no test carries."""

import argparse
import ast
import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NUMBER = re.compile(r"^- \*\*([A-Z]+-\d+)\*\*", re.MULTILINE)


@dataclass(frozen=True)
class Mark:
    """One argument of one `pytest.mark.req(..)`, and where it stands; no number where it is not a literal string."""

    number: str | None
    place: str


@dataclass(frozen=True)
class Report:
    """Which requirements exist, which no test carries, and which marks name none of them."""

    total: int
    missing: dict[str, list[str]]
    unknown: list[Mark]


def requirements(page: Path) -> list[str]:
    """Return the requirement numbers of the page, in its order."""
    return NUMBER.findall(page.read_text(encoding="utf-8"))


def marks_under(tests: Path) -> list[Mark]:
    """Return the requirement marks of all Python files in the folder."""
    return [
        mark
        for file in sorted(tests.rglob("*.py"))
        for mark in marks_in(file.read_text(encoding="utf-8"), name=file.relative_to(tests.parent).as_posix())
    ]


def marks_in(source: str, *, name: str) -> Iterator[Mark]:
    """Yield the requirement marks of one module: on functions, classes, parameters and the module itself."""
    for node in ast.walk(ast.parse(source, filename=name)):
        if isinstance(node, ast.Call) and _is_req(node.func):
            for argument in node.args:
                yield Mark(number=_literal(argument), place=f"{name}:{argument.lineno}")


def _is_req(function: ast.expr) -> bool:
    """Tell whether the expression is `pytest.mark.req` or `mark.req`."""
    return ast.unparse(function) in {"pytest.mark.req", "mark.req"}


def _literal(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def report(numbers: list[str], marks: Iterable[Mark]) -> Report:
    """Compare the requirements with the marks."""
    marks = list(marks)
    carried = {mark.number for mark in marks}
    missing: dict[str, list[str]] = {number.partition("-")[0]: [] for number in numbers}
    for number in numbers:
        if number not in carried:
            missing[number.partition("-")[0]].append(number)
    return Report(
        total=len(numbers),
        missing=missing,
        unknown=[mark for mark in marks if mark.number not in set(numbers)],
    )


def as_text(found: Report) -> str:
    """Write the missing numbers, one line an area, and the count."""
    lines = [f"{area}: {' '.join(numbers) or 'none missing'}" for area, numbers in found.missing.items()]
    count = sum(map(len, found.missing.values()))
    return "\n".join([*lines, f"{count} of {found.total} requirements have no test"])


def as_json(found: Report) -> str:
    """Write the report as JSON."""
    unknown = [{"number": mark.number, "place": mark.place} for mark in found.unknown]
    return json.dumps({"total": found.total, "missing": found.missing, "unknown": unknown}, indent=2)


def main(arguments: list[str] | None = None) -> int:
    """Print the report; a mark that names no requirement is an error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    found = report(requirements(ROOT / "docs" / "spec.md"), marks_under(ROOT / "tests"))
    print(as_json(found) if options.json else as_text(found))
    for mark in found.unknown:
        what = "is not in docs/spec.md" if mark.number else "must be a literal string, so that it can be counted"
        print(f"{mark.place}: requirement {mark.number or 'number'} {what}", file=sys.stderr)
    return 1 if found.unknown else 0


if __name__ == "__main__":
    sys.exit(main())
