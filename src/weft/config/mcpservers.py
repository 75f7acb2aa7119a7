"""The servers of other files (`mcpServers`, VS Code's `servers`, server.json) as servers of weft.yaml."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from weft.config.checks import OWN_HEADERS, SEMVER, SERVER_NAME
from weft.config.secrets import References
from weft.config.server import Server
from weft.config.variables import Variables
from weft.errors import InputError
from weft.ir.normalise import problem_of
from weft.ports import is_array, is_object
from weft.registry.serverjson import described, documents_in

CARRIED = frozenset(
    {
        "disabled",
        "enabled",
        "type",
        "transport",
        "command",
        "args",
        "env",
        "cwd",
        "url",
        "serverUrl",
        "httpUrl",
        "headers",
    }
)
TRANSPORTS: dict[Any, str | None] = {
    None: None,
    "http": "streamable-http",
    "streamable-http": "streamable-http",
    "streamableHttp": "streamable-http",
    "streamable_http": "streamable-http",
    "sse": "sse",
}
_COMMENTS = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING = re.compile(r'"(?:[^"\\\n]|\\.)*"|,(?=\s*[}\]])')
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
_BREAKS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}


@dataclass(frozen=True, slots=True)
class Imported:
    """Servers for weft.yaml, the variables that they need, and what could not be carried over."""

    servers: dict[str, dict[str, Any]]
    variables: dict[str, str]
    notes: list[str]

    def lines(self, indent: str = "  ") -> list[str]:
        """Return the servers as lines of YAML, to stand below `servers:`."""
        return [
            line
            for name, entry in self.servers.items()
            for line in (
                f"{indent}{_key(name)}:",
                *(f"{indent}  {key}: {_flow(value)}" for key, value in entry.items()),
            )
        ]


def without_comments(text: str) -> str:
    """Return JSON as editors write it (comments, a comma too many) as JSON; every line keeps its number."""

    def blank(found: re.Match[str]) -> str:
        return found[0] if found[0][0] == '"' else re.sub(r"[^\n]", " ", found[0])

    return _TRAILING.sub(blank, _COMMENTS.sub(blank, text))


def import_servers(value: Mapping[str, Any]) -> Imported:
    """Return the servers that a client's file has.

    Raises:
        InputError: the file is of another kind.
    """
    if documents := documents_in(value):
        return _described(documents)
    entries = _entries(value)
    variables, notes = Variables(), list[str]()
    servers: dict[str, dict[str, Any]] = {}
    for given, entry in entries.items():
        name = _valid_name(given, {*servers})
        if name != given:
            notes.append(f"{given!r} is named {name!r}: a name has letters, digits, '.', '_' and '-'")
        told = list[str]()
        made = _server(entry, name, variables, told)
        if made is not None and (fault := _fault(made)) is not None:
            made = None
            told.append(f"left out: {fault}")
        notes += [f"{name}: {one}" for one in told]
        if made is not None:
            servers[name] = made
    used = "\n".join(Imported(servers, {}, []).lines())
    needed = {name: why for name, why in variables.needed.items() if f"${{env:{name}}}" in used}
    return Imported(servers, needed, notes)


def _described(documents: list[Mapping[str, Any]]) -> Imported:
    """Return the servers of server.json documents."""
    found = described(documents)
    servers: dict[str, dict[str, Any]] = {}
    for name, entry in found.servers.items():
        own = [key for key in entry.get("headers", {}) if key.casefold() in OWN_HEADERS]
        found.notes += [f"{name}: the header {key} was not carried over: weft sets it itself" for key in own]
        kept = {key: item for key, item in entry.get("headers", {}).items() if key not in own}
        made = {key: item for key, item in {**entry, "headers": kept}.items() if item or key != "headers"}
        if (fault := _fault(made)) is not None:
            found.notes.append(f"{name}: left out: {fault}")
        else:
            servers[name] = made
    used = "\n".join(Imported(servers, {}, []).lines())
    needed = {name: why for name, why in found.variables.items() if f"${{env:{name}}}" in used}
    return Imported(servers, needed, found.notes)


def _entries(value: Mapping[str, Any]) -> dict[str, Any]:
    for place in (("mcpServers",), ("servers",), ("mcp", "servers"), ("mcp", "mcpServers")):
        found: Any = value
        for key in place:
            found = found.get(key) if is_object(found) else None
        if is_object(found):
            return found
    if "toolhive" in str(value.get("apiVersion")):
        hint = "weft imports its composite tools: VirtualMCPCompositeToolDefinition, or compositeTools of a config"
        raise InputError("this file of ToolHive has no composite tools", code="NoServers", hint=hint)
    hint = 'it has {"mcpServers": {"name": {"command": .., "args": [..]}}}, or "servers" as VS Code writes them'
    raise InputError("the file has no servers", code="NoServers", hint=hint)


def _server(entry: Any, name: str, variables: Variables, told: list[str]) -> dict[str, Any] | None:
    if not is_object(entry):
        told.append("left out: it is not an object")
        return None
    if entry.get("disabled") is True or entry.get("enabled") is False:
        told.append("left out: it is disabled there")
        return None
    lost: list[str] = []
    if entry.get("command"):
        made = dict(_child(entry, name, variables, lost))
    elif (kind := entry.get("type", entry.get("transport"))) not in TRANSPORTS:
        told.append(f"left out: weft does not speak {kind!r}")
        return None
    else:
        made = dict(_endpoint(entry, name, variables, lost))
        own = [key for key in made.get("headers", {}) if key.casefold() in OWN_HEADERS]
        told += [f"the header {key} was not carried over: weft sets it itself" for key in own]
        made |= {"headers": {key: item for key, item in made["headers"].items() if key not in own}} if own else {}
    told += [f"{one} means nothing to weft, and stands there as text" for one in lost]
    told += [
        f"{key!r} was not carried over" + _advice(key) for key in entry if key not in CARRIED and key != "disabled"
    ]
    return made


def _child(entry: dict[str, Any], name: str, variables: Variables, lost: list[str]) -> Iterator[tuple[str, Any]]:
    command, args = entry["command"], entry.get("args")
    words = [*(command if is_array(command) else [command]), *(args if is_array(args) else [])]
    told = variables.hidden_arguments([_text(word) for word in words], server=name)
    yield "command", [variables.translated(word, server=name, lost=lost) for word in told]
    if env := _texts(entry.get("env"), name, variables, lost):
        yield "env", env
    if isinstance(cwd := entry.get("cwd"), str) and cwd:
        yield "cwd", variables.translated(cwd, server=name, lost=lost)


def _endpoint(entry: dict[str, Any], name: str, variables: Variables, lost: list[str]) -> Iterator[tuple[str, Any]]:
    for url in (entry[key] for key in ("url", "serverUrl", "httpUrl") if isinstance(entry.get(key), str)):
        yield "url", variables.translated(variables.hidden_url(url, server=name), server=name, lost=lost)
        break
    if (transport := TRANSPORTS[entry.get("type", entry.get("transport"))]) is not None:
        yield "transport", transport
    if headers := _texts(entry.get("headers"), name, variables, lost):
        yield "headers", headers


def _texts(given: Any, name: str, variables: Variables, lost: list[str]) -> dict[str, str]:
    return {
        key: variables.translated(variables.hidden(_text(value), key, server=name), server=name, lost=lost)
        for key, value in (given.items() if is_object(given) else ())
        if value is not None
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _advice(key: str) -> str:
    return ": put its variables into env, each as ${env:NAME}" if key == "envFile" else ""


def _valid_name(given: str, taken: Collection[str]) -> str:
    name, at, version = given.partition("@")
    if SERVER_NAME.fullmatch(name) and (not at or SEMVER.fullmatch(version)) and given not in taken:
        return given
    base = re.sub(r"[^A-Za-z0-9._-]+", "-", given).strip("-._")[:60] or "server"
    made, number = base, 2
    while made in taken:
        made, number = f"{base}-{number}", number + 1
    return made


def _fault(entry: dict[str, Any]) -> str | None:
    """Return why weft.yaml could not have this server; what variables hold is not known yet."""
    try:
        Server.model_validate(References(_Anything(), Path()).resolve(entry))
    except ValidationError as error:
        return problem_of(error.errors(include_url=False)[0], entry).message
    return None


class _Anything(dict[str, str]):
    """An environment in which every variable is set."""

    def get(self, key: str, default: Any = None) -> Any:
        return "x"


def _key(name: str) -> str:
    return name if name[0].isalpha() and name.casefold() not in _WORDS else json.dumps(name)


def _flow(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False).translate(_BREAKS)
    return text if is_object(value) or is_array(value) or not re.fullmatch(r'"[a-z][a-z-]*"', text) else text[1:-1]
