"""Secrets on their way out of other people's files: each becomes a variable that a person is asked to set."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from weft.config.secrets import NAME, is_secret_name, looks_secret

FOREIGN = re.compile(r"\$\{(?:(?P<kind>\w+):)?(?P<name>[^}:]*)(?P<default>:-[^}]*)?\}")
_SCHEME = re.compile(r"((?:bearer|basic|token|apikey)\s+)(\S.*)", re.IGNORECASE)
_FLAG = re.compile(r"(--?[\w-]+)=(.+)")
_HEADER = re.compile(r"([\w-]+:\s*)(.+)")
_PARAMETER = re.compile(r"([?&])([\w.-]+)=([^&#]+)")


@dataclass(slots=True)
class Variables:
    """The variables that the imported servers need, by name, each with what it is for; values are never told."""

    needed: dict[str, str] = field(default_factory=dict[str, str])
    _values: dict[str, str] = field(default_factory=dict[str, str])

    def reference(self, value: str, wish: str, *, server: str) -> str:
        """Return a reference for a secret; two secrets never share a name."""
        name = as_variable(wish)
        if self._values.get(name, value) != value or (name in self.needed and name not in self._values):
            name = as_variable(f"{server}_{wish}")
        base, number = name, 2
        while self._values.get(name, value) != value:
            name, number = f"{base}_{number}", number + 1
        self._values[name] = value
        self.needed.setdefault(name, f"server {server}")
        return f"${{env:{name}}}"

    def translated(self, text: str, *, server: str, lost: list[str]) -> str:
        """Return a text with the references that clients know in weft's form."""

        def one(found: re.Match[str]) -> str:
            kind, name, default = found["kind"], found["name"], found["default"] or ""
            if kind == "input":
                variable = as_variable(name)
                self.needed.setdefault(variable, f"server {server}, which a person was asked for")
                return f"${{env:{variable}}}"
            if kind in (None, "env") and NAME.fullmatch(name) and name not in PLACES:
                if not default:
                    self.needed.setdefault(name, f"server {server}")
                return f"${{env:{name}{default}}}"
            if kind is None and name in PLACES:
                return PLACES[name]
            lost.append(found[0])
            return "$" + found[0]

        return FOREIGN.sub(one, text)

    def hidden(self, text: str, name: str, *, server: str) -> str:
        """Return what stands under a name with a reference in the place of its secret, if it is one."""
        if FOREIGN.search(text) or not text:
            return text
        if scheme := _SCHEME.fullmatch(text):
            return scheme[1] + self.reference(scheme[2], _wish(name, server), server=server)
        if is_secret_name(name) or looks_secret(text):
            return self.reference(text, _wish(name, server), server=server)
        return text

    def hidden_arguments(self, arguments: list[str], *, server: str) -> list[str]:
        """Return a command line without secrets: those after a flag, in a flag, or known by their form."""
        made: list[str] = []
        for index, text in enumerate(arguments):
            before = arguments[index - 1] if index else ""
            flag, header = _FLAG.fullmatch(text), _HEADER.fullmatch(text)
            if flag:
                made.append(f"{flag[1]}={self.hidden(flag[2], f'{server}_{flag[1]}', server=server)}")
            elif before in ("--header", "-H") and header:
                made.append(header[1] + self.hidden(header[2], f"{server}_{header[1]}", server=server))
            elif before.startswith("-") and "=" not in before and is_secret_name(before) and not text.startswith("-"):
                made.append(self.hidden(text, f"{server}_{before}", server=server))
            else:
                made.append(self.hidden_url(text, server=server) if "://" in text else self._by_form(text, server))
        return made

    def hidden_url(self, url: str, *, server: str) -> str:
        """Return a URL with references in the place of the secrets in its query."""

        def one(found: re.Match[str]) -> str:
            return f"{found[1]}{found[2]}={self.hidden(found[3], f'{server}_{found[2]}', server=server)}"

        return _PARAMETER.sub(one, url)

    def _by_form(self, text: str, server: str) -> str:
        return self.reference(text, f"{server}_secret", server=server) if looks_secret(text) else text


PLACES = {"userHome": "${env:HOME}", "HOME": "${env:HOME}", "workspaceFolder": ".", "pathSeparator": "/"}


def as_variable(text: str) -> str:
    """Return a text as the name of a variable: GITHUB_TOKEN."""
    made = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_").upper() or "SECRET"
    return f"_{made}" if made[0].isdigit() else made


def _wish(name: str, server: str) -> str:
    """Return the name that a secret would like: an environment variable's own, a header's with its server."""
    if name.upper() == name and NAME.fullmatch(name):
        return name
    if name.casefold() in ("authorization", "proxy-authorization"):
        return f"{server}_token"
    return name if name.startswith(server) else f"{server}_{name}"
