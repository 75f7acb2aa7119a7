"""Reading weft.yaml: references resolved, every problem in one run, and no secret in any of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from weft.config.checks import is_allowed, is_loopback
from weft.config.model import Config
from weft.config.secrets import References, holds_secret, leads_to_secret, literal_secret, literal_secrets
from weft.errors import DocumentInvalid, Loc, Problem, errors_in
from weft.ir.normalise import placed, problem_of
from weft.ir.read import DocumentLimits, Source, read_file

DEFAULT = Path("weft.yaml")
LIMITS = DocumentLimits(bytes=4 << 20, depth=64, nodes=100_000)
SENSITIVE = frozenset({"headers", "env", "auth", "args", "command", "secrets"})
"""Keys below which nothing is shown: a secret may stand there as text."""


def load_config(path: Path | None, env: Mapping[str, str]) -> Config:
    """Return the settings of a file; without a path those of ./weft.yaml, or all defaults when there is none.

    Relative paths in it are relative to its folder. Warnings are in `problems`.

    Raises:
        DocumentInvalid: with every problem of the file.
    """
    file = path if path is not None else DEFAULT if DEFAULT.exists() else None
    if file is None:
        return Config.model_validate({}, context=Path().absolute())
    source = _read(file)
    made, problems = _made(source, References(env, file.parent.absolute()))
    told = sorted((placed(one, source) for one in problems), key=lambda one: (one.line or 0, one.column or 0, one.code))
    if made is None or errors_in(told):
        raise DocumentInvalid(told)
    made._file, made._problems = file, tuple(told)  # pyright: ignore[reportPrivateUsage]  (who reads it knows them)
    return made


def _read(file: Path) -> Source:
    try:
        return read_file(file, limits=LIMITS)
    except DocumentInvalid as error:
        # A file with nothing but comments is what people begin with.
        if [problem.code for problem in error.problems] == ["EmptyDocument"]:
            return Source(str(file), "", "yaml", {})
        raise


def _made(source: Source, references: References) -> tuple[Config | None, list[Problem]]:
    written: dict[str, Any] = source.value
    problems = [*map(literal_secret, literal_secrets(written))]
    resolved = references.resolve(written)
    problems += references.problems
    try:
        made = Config.model_validate(resolved, context=references.folder)
    except ValidationError as error:
        lost = {problem.loc for problem in references.problems}
        found = [problem_of(one, written) for one in error.errors(include_url=False)]
        # What is wrong with the empty text in the place of a lost reference is wrong with nothing that was written.
        return None, [*problems, *(_discreet(one, references.found) for one in found if one.loc not in lost)]
    return made, [*problems, *_in_clear(made)]


def _discreet(problem: Problem, references: Mapping[Loc, str]) -> Problem:
    """Return a problem that shows the reference instead of the value, and nothing where a secret may stand."""
    value, message = problem.value, problem.message
    if value is None:
        return problem
    if problem.loc in references:
        told = f"'{references[problem.loc]}'"
    elif _is_sensitive(problem, value):
        told = None
    else:
        return problem
    if problem.code in ("UnknownKey", "WrongKey", "InvalidName", "InvalidHeader"):
        return problem
    return replace(problem, value=told, message=message.replace(value, told or "this"), suggestion=None)


def _is_sensitive(problem: Problem, value: str) -> bool:
    """Tell whether a secret may be in the value that a problem shows; a list or an object may have one inside."""
    if leads_to_secret(problem.loc) and value.startswith(("[", "{")):
        return True
    return holds_secret(problem.loc) or problem.code == "MissingKey" or not SENSITIVE.isdisjoint(map(str, problem.loc))


def _in_clear(config: Config) -> Iterator[Problem]:
    """Yield where a secret or a registry would go over the network unprotected."""
    allow = config.egress.allow
    if config.registry.url is not None and _is_open(config.registry.url, allow):
        yield _insecure(("registry", "source"), "the registry would come unprotected")
    for key, server in config.servers.items():
        if server.auth is not None and _is_open(server.auth.token_url, allow):
            yield _insecure(("servers", key, "auth", "tokenUrl"), "the client's secret would go unprotected")
        if server.url is not None and (server.headers or server.auth) and _is_open(server.url, allow):
            told = "headers and tokens go to this server unprotected"
            yield replace(_insecure(("servers", key, "url"), told), severity="warning")


def _is_open(url: str, allow: tuple[str, ...]) -> bool:
    parts = urlsplit(url)
    host = parts.hostname or ""
    return parts.scheme == "http" and not is_loopback(host) and not is_allowed(host, allow)


def _insecure(loc: Loc, message: str) -> Problem:
    return Problem(code="InsecureUrl", message=message, loc=loc, expected="https://, or a host that egress.allow lists")
