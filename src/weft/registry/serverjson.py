"""The MCP registry's server.json: how to start or reach a server, as an entry of `servers`; and the way back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from weft.errors import InputError, shown
from weft.ports import is_array, is_object

SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
PUBLISHER = "io.modelcontextprotocol.registry/publisher-provided"
MOST_DESCRIPTION = 100
NAME = re.compile(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+")
RUNTIMES = {"npm": "npx", "pypi": "uvx", "oci": "docker", "nuget": "dnx"}
HINTS = {
    "npm": ("npx", "bunx", "pnpx"),
    "pypi": ("uvx", "pipx"),
    "oci": ("docker", "podman"),
    "nuget": ("dnx",),
}
"""Programs that a file from elsewhere may have weft start; another hint is not followed."""
TRANSPORTS = ("streamable-http", "sse")
_HOLE = re.compile(r"\{([A-Za-z_][\w-]*)\}")


@dataclass(slots=True)
class Described:
    """Servers as entries of weft.yaml, the variables that they need, and what could not be carried over."""

    servers: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    variables: dict[str, str] = field(default_factory=dict[str, str])
    notes: list[str] = field(default_factory=list[str])


def documents_in(value: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the server.json documents of a file: one, or those of an answer of the registry; none in other files."""
    listed = value.get("servers")
    several: list[Any] = listed if is_array(listed) else [value]
    inner = [one.get("server", one) if is_object(one) else one for one in several]
    return [one for one in inner if is_object(one) and _is_document(one)]


def _is_document(value: Mapping[str, Any]) -> bool:
    told = is_array(value.get("packages")) or is_array(value.get("remotes"))
    return told or "server.schema.json" in str(value.get("$schema"))


def described(documents: Iterable[Mapping[str, Any]]) -> Described:
    """Return the servers that documents describe.

    What a person must give becomes `${env:NAME}`; what stands there as text stays text, also when it looks like a
    reference, since a file from elsewhere does not choose which of our variables it gets.
    """
    made = Described()
    for document in documents:
        name = _key(str(document.get("name") or "server"), made.servers)
        entry = _Reading(name, made).entry(document)
        if entry is not None:
            made.servers[name] = entry
    return made


def _key(name: str, taken: Iterable[str]) -> str:
    base = re.sub(r"[^A-Za-z0-9._-]+", "-", name.rpartition("/")[2]).strip("-._")[:60] or "server"
    found, number = base, 2
    while found in {*taken}:
        found, number = f"{base}-{number}", number + 1
    return found


class _Reading:
    def __init__(self, name: str, made: Described) -> None:
        self._name, self._made = name, made

    def _note(self, text: str) -> None:
        self._made.notes.append(f"{self._name}: {text}")

    def entry(self, document: Mapping[str, Any]) -> dict[str, Any] | None:
        packages, remotes = (_objects(document.get(key)) for key in ("packages", "remotes"))
        usable = [one for one in packages if self._startable(one)]
        reachable = sorted(
            (one for one in remotes if one.get("type") in TRANSPORTS and isinstance(one.get("url"), str)),
            key=lambda one: TRANSPORTS.index(one["type"]),
        )
        if usable:
            for other in (*usable[1:], *reachable):
                self._note(f"not carried over: it is also {other.get('url') or other.get('identifier')}")
            return self._child(usable[0])
        if reachable:
            for other in reachable[1:]:
                self._note(f"not carried over: it is also at {other['url']}")
            return self._endpoint(reachable[0])
        self._note("left out: it has neither a package that weft can start nor a remote that it can reach")
        return None

    def _startable(self, package: Mapping[str, Any]) -> bool:
        kind = package.get("registryType")
        transport = package.get("transport")
        spoken = transport.get("type", "stdio") if is_object(transport) else "stdio"
        if kind not in RUNTIMES or not isinstance(package.get("identifier"), str):
            self._note(f"a package of {shown(kind)} was left out: weft starts {', '.join(RUNTIMES)}")
        elif spoken != "stdio":
            self._note(f"a package that serves {spoken} was left out: start it yourself, and give its url")
        elif package["identifier"].startswith("-"):
            self._note(f"a package was left out: {shown(package['identifier'])} is no identifier")
        else:
            return True
        return False

    def _child(self, package: Mapping[str, Any]) -> dict[str, Any]:
        kind = str(package["registryType"])
        env = dict(self._inputs(package.get("environmentVariables"), "the variable"))
        runtime = list(self._arguments(package.get("runtimeArguments")))
        own = list(self._arguments(package.get("packageArguments")))
        if package.get("fileSha256"):
            self._note("fileSha256 was not carried over: weft does not fetch packages itself")
        command = [self._runtime(kind, package.get("runtimeHint")), *_line(kind, package, runtime, own, list(env))]
        return {"command": command, **({"env": env} if env else {})}

    def _runtime(self, kind: str, hint: Any) -> str:
        if hint is None or hint in HINTS[kind]:
            return hint or RUNTIMES[kind]
        self._note(f"the hint to start it with {shown(hint)} was not followed: it is started with {RUNTIMES[kind]}")
        return RUNTIMES[kind]

    def _endpoint(self, remote: Mapping[str, Any]) -> dict[str, Any]:
        url = self._filled(remote["url"], remote.get("variables"))
        headers = dict(self._inputs(remote.get("headers"), "the header"))
        transport = {"transport": remote["type"]}
        return {"url": url, **transport, **({"headers": headers} if headers else {})}

    def _inputs(self, given: Any, what: str) -> Iterator[tuple[str, str]]:
        """Yield variables of the environment or headers, each with its value or a reference."""
        for one in _objects(given):
            name = one.get("name")
            if not isinstance(name, str):
                continue
            own = name if what == "the variable" else f"{self._name}_{name}"
            value = self._value(one, own)
            if value is None:
                self._note(f"{what} {name} is optional, and was left out")
            else:
                yield name, value

    def _arguments(self, given: Any) -> Iterator[str]:
        for one in _objects(given):
            name, hint = one.get("name"), one.get("valueHint")
            label = name if isinstance(name, str) else hint if isinstance(hint, str) else "argument"
            if one.get("type") == "named" and isinstance(name, str):
                flag = one.get("format") == "boolean" or not {"value", "default", "valueHint", "isSecret"} & one.keys()
                value = None if flag and not one.get("isRequired") else self._value(one, f"{self._name}_{label}")
                if value is not None:
                    yield from (_literal(name), value)
                elif one.get("value") == "true" or (flag and one.get("isRequired")):
                    yield _literal(name)
                else:
                    self._note(f"the argument {name} is optional, and was left out")
                continue
            value = self._value(one, f"{self._name}_{label}")
            if value is not None:
                yield value
            else:
                self._note(f"the argument {label} is optional, and was left out")

    def _value(self, one: Mapping[str, Any], wish: str) -> str | None:
        """Return what stands for an input: its value, or a variable to be set; None when it may be missing."""
        value, default = one.get("value"), one.get("default")
        if isinstance(value, str):
            return self._filled(value, one.get("variables"))
        return self._asked(one, wish, default if isinstance(default, str) else None)

    def _asked(self, one: Mapping[str, Any], wish: str, default: str | None) -> str | None:
        if default is None and not one.get("isRequired") and not one.get("isSecret"):
            return None
        name = _variable(wish)
        if default is not None and not one.get("isSecret") and not re.search(r"[{}$]", default):
            return f"${{env:{name}:-{default}}}"
        about = str(one.get("description") or "").strip().partition("\n")[0][:80]
        self._made.variables.setdefault(name, f"server {self._name}" + (f": {about}" if about else ""))
        return f"${{env:{name}}}"

    def _filled(self, text: str, variables: Any) -> str:
        """Return a text with what a person must give in the place of its `{holes}`."""
        known = variables if is_object(variables) else {}

        def one(found: re.Match[str]) -> str:
            given = known.get(found[1])
            if not is_object(given):
                return found[0]
            value = self._value(given, f"{self._name}_{found[1]}")
            return (
                value
                if value is not None
                else self._value({**given, "isRequired": True}, f"{self._name}_{found[1]}") or ""
            )

        return _HOLE.sub(one, _literal(text))


def _line(kind: str, package: Mapping[str, Any], runtime: list[str], own: list[str], env: list[str]) -> list[str]:
    """Return a command line after its program."""
    identifier, version = _literal(str(package["identifier"])), package.get("version")
    pinned = isinstance(version, str) and version and version != "latest"
    at = _literal(str(version)) if pinned else ""
    if kind == "oci":
        tagged = ":" in identifier.rpartition("/")[2] or "@" in identifier
        image = identifier if tagged or not at else f"{identifier}:{at}"
        begin = [] if runtime[:1] == ["run"] else ["run", "-i", "--rm"]
        return [*begin, *runtime, *(word for name in env for word in ("-e", name)), image, *own]
    named = f"{identifier}@{at}" if at else identifier
    if kind == "nuget":
        return [*runtime, named, "--yes", *(["--", *own] if own else [])]
    if kind == "npm" and not {"-y", "--yes"} & {*runtime}:
        runtime = ["-y", *runtime]
    return [*runtime, named, *own]


def _literal(text: str) -> str:
    return text.replace("${", "$${")


def _variable(wish: str) -> str:
    made = re.sub(r"[^A-Za-z0-9]+", "_", wish).strip("_").upper() or "VALUE"
    return f"_{made}" if made[0].isdigit() else made


def _objects(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if is_object(one)] if is_array(value) else []


def server_json(
    *, name: str, url: str, version: str, description: str, title: str | None = None, tools: Iterable[str] = ()
) -> dict[str, Any]:
    """Return a view of the gateway as the MCP registry takes it: a remote, with its tools' names beside.

    Raises:
        InputError: the name is not `reverse.dns/name`.
    """
    if not NAME.fullmatch(name) or not 3 <= len(name) <= 200:
        hint = "such as com.example/tools: a domain of yours turned around, a slash, a name"
        raise InputError(f"{shown(name)} is not a name of the MCP registry", code="InvalidName", hint=hint)
    about = " ".join(description.split())
    short = about if len(about) <= MOST_DESCRIPTION else about[: MOST_DESCRIPTION - 3].rstrip() + "..."
    listed = sorted(tools)
    return {
        "$schema": SCHEMA,
        "name": name,
        **({"title": title} if title else {}),
        "description": short or "Tools behind one URL",
        "version": version,
        "remotes": [{"type": "streamable-http", "url": url}],
        **({"_meta": {PUBLISHER: {"weft": {"tools": listed}}}} if listed else {}),
    }
