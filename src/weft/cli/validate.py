"""`weft validate`: every problem of documents, in one run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from weft.cli.files import standard_input
from weft.cli.output import as_json, bad, counted, good, plain, plural, result, show_problems
from weft.cli.outside import importing
from weft.errors import DocumentInvalid, InputError, Problem, errors_in, json_pointer

if TYPE_CHECKING:
    from weft.config import Config
    from weft.ir.document import Document
    from weft.ir.normalise import Parsed

SETTINGS = frozenset({"weft.yaml", "weft.yml", "weft.json"})


@click.command(
    "validate",
    epilog="\b\nExample:\n  weft validate registry.json tools/*.yaml\n  weft validate --strict --json registry.json",
)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "-c",
    "--config",
    type=click.Path(path_type=Path),
    help="A weft.yaml: its stores, and how strict it is; its servers are not asked.",
)
@click.option("--strict", is_flag=True, help="Refuse what is not in canonical form.")
@click.option("--json", "json_", is_flag=True, help='Print {"valid", "errors", "warnings"}.')
def command(files: tuple[str, ...], config: Path | None, strict: bool, json_: bool) -> None:
    """Report every error and warning of documents, with file, line, JSON pointer, value and expectation.

    A document is JSON, YAML, or Python, which is compiled first; - is stdin. A file named weft.yaml has the settings of
    a gateway; functions that it names are imported. Names that only a server could know are warnings. Exits with 0, or
    with 2 when there is an error.
    """
    settings = None if config is None else _loaded(config)
    found = {file: _problems(file, settings, strict=strict) for file in files}
    problems = [problem for several in found.values() for problem in several]
    errors = errors_in(problems)
    if json_:
        warnings = [problem for problem in problems if problem.severity == "warning"]
        told = {"valid": not errors, "errors": _told(errors), "warnings": _told(warnings)}
        result(as_json(told))
    else:
        show_problems(problems, err=False)
        _summary(found)
    raise click.exceptions.Exit(2 if errors else 0)


def _told(problems: list[Problem]) -> list[object]:
    return [problem.to_json() for problem in problems]


def _loaded(file: Path) -> Config:
    import os

    from weft.config import load_config

    return load_config(file, os.environ)


def _rules(config: Config | None) -> dict[str, Any]:
    """Return how strictly registries are taken, and where agents may be: as a weft.yaml says, if there is one."""
    if config is None:
        return {}
    return {"severities": config.registry.validation.startup, "allow": config.egress.allow}


def _problems(file: str, config: Config | None, *, strict: bool) -> list[Problem]:
    from weft.app import open_registry, problems_of
    from weft.registry.validate import old_form

    rules = _rules(config)
    try:
        if Path(file).name in SETTINGS:
            return _of_settings(_loaded(Path(file)))
        if file.endswith(".py"):
            with importing(Path(file)):
                registry = open_registry(Path(file), **rules)
            found = _of_stores(registry.document, config)
            return [*registry.problems, *(replace(one, file=file, pointer=json_pointer(one.loc)) for one in found)]
        parsed = _parsed(file)
        of_stores = map(parsed.located, _of_stores(parsed.document, config))
        extra = _not_canonical(parsed) if strict else []
        return [*old_form(parsed), *problems_of(parsed, **rules), *of_stores, *extra]
    except DocumentInvalid as error:
        return error.problems


def _of_settings(config: Config) -> list[Problem]:
    """Return what is doubtful in settings, and what is wrong with the author's own middleware, which is imported."""
    from weft.app.groups import groups_of
    from weft.app.middleware import middleware_of

    found = list(config.problems)
    try:
        middleware_of(config.middleware, file=config.file)
    except DocumentInvalid as error:
        found += error.problems
    try:
        groups_of(config)
    except DocumentInvalid as error:
        found += error.problems
    return found


def _of_stores(document: Document, config: Config | None) -> list[Problem]:
    """Return what is wrong with the stores that patterns name, by a weft.yaml; none of them is opened."""
    if config is None:
        return []
    from weft.app.registries import problems_of_stores
    from weft.app.stores import DEFAULT, Stores
    from weft.plan.compiler import check_stores

    try:
        stores = Stores(config.stores)
    except InputError:  # Where nothing runs, a store's library may be missing: the names are known anyway.
        return list(check_stores(document, frozenset({*config.stores, DEFAULT})))
    return problems_of_stores(document, stores)


def _parsed(file: str) -> Parsed:
    from weft.app import load
    from weft.ir.normalise import parse
    from weft.ir.read import read

    return parse(read(standard_input(), name="<stdin>")) if file == "-" else load(Path(file))


def _not_canonical(parsed: Parsed) -> list[Problem]:
    from weft.cli.canonical import departures

    return departures(parsed)


def _summary(found: dict[str, list[Problem]]) -> None:
    for name, problems in found.items():
        file = plain(name)
        if errors_in(problems):
            result(bad(f"{file}: {counted(problems)}"))
        else:
            warnings = f" ({plural(len(problems), 'warning')})" if problems else ""
            result(good(f"{file} is valid{warnings}"))
    if len(found) > 1:
        total = counted(problem for problems in found.values() for problem in problems)
        result(f"{plural(len(found), 'file')}: {total}")
