"""Secrets by reference: `${env:NAME}` in any text, `file:PATH` where a secret may stand; values are never shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.errors import Loc, Problem, nearest, shown
from weft.ports import is_array, is_object

MOST_BYTES = 64 << 10
REFERENCE = re.compile(r"\$\$\{|\$\{(?P<kind>\w*):(?P<name>[^}:]*)(?P<else>:-(?P<default>[^}]*))?\}")
HOLDERS: tuple[Loc, ...] = (
    ("registry", "headers", "*"),
    ("servers", "*", "env", "*"),
    ("servers", "*", "headers", "*"),
    ("servers", "*", "auth", "clientId"),
    ("servers", "*", "auth", "clientSecret"),
    ("stores", "*", "url"),
    ("egress", "proxy"),
    ("identity", "proxies", "secrets", "*"),
    ("middleware", "*", "with", "*"),
    ("groups", "*", "middleware", "*", "with", "*"),
)
"""Where `file:PATH` is a reference; elsewhere it is text."""
PUBLIC: tuple[Loc, ...] = (
    ("identity", "proxies", "certificates", "*"),
    ("identity", "jwt", "*", "audience"),
    ("identity", "jwt", "*", "audience", "*"),
)
"""Where texts have the form of a secret and are none."""
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Secret(str):
    """A text made from references: it is the value, and shows itself as it was written."""

    written: str

    def __new__(cls, value: str, written: str = "") -> Secret:
        """Return the value, with the text that stands for it."""
        made = super().__new__(cls, value)
        made.written = written
        return made

    def __repr__(self) -> str:
        return f"Secret({self.written!r})"


@dataclass(slots=True)
class References:
    """Resolves the references of a document and notes those that lead nowhere."""

    env: Mapping[str, str]
    folder: Path
    problems: list[Problem] = field(default_factory=list[Problem])
    found: dict[Loc, str] = field(default_factory=dict[Loc, str])
    """Every place with a reference, and the text that stands there."""

    def resolve(self, value: Any, loc: Loc = ()) -> Any:
        """Return the document with values in the place of references."""
        if isinstance(value, str):
            return self._text(value, loc)
        if is_object(value):
            return {key: self.resolve(item, (*loc, key)) for key, item in value.items()}
        if is_array(value):
            return [self.resolve(item, (*loc, index)) for index, item in enumerate(value)]
        return value

    def _text(self, text: str, loc: Loc) -> str:
        is_file = text.startswith("file:") and holds_secret(loc)
        if not is_file and "${" not in text:
            return text
        made = REFERENCE.sub(lambda found: self._value(found, loc), text)
        if not is_file and text.replace("$${", "${") == made:
            return made
        self.found[loc] = text
        return Secret(self._content(made, loc) if is_file else made, text)

    def _value(self, found: re.Match[str], loc: Loc) -> str:
        if found[0] == "$${":
            return "${"
        kind, name = found["kind"], found["name"]
        if kind != "env":
            self._note(
                loc, "UnknownReference", f"{found[0]} is no reference", expected="${env:NAME}; $${ for the text ${",
                suggestion="env" if nearest(kind, ["env"]) else None,
            )  # fmt: skip
            return ""
        if not NAME.fullmatch(name):
            self._note(loc, "InvalidName", f"{shown(name)} is not the name of a variable", expected="${env:NAME}")
            return ""
        value = self.env.get(name) or found["default"]
        if value is None and name not in self.env:
            self._note(
                loc, "MissingVariable", f"the environment has no variable {name}",
                expected=f"{name} to be set, or ${{env:{name}:-default}}", suggestion=nearest(name, self.env),
            )  # fmt: skip
        return value or ""

    def _content(self, text: str, loc: Loc) -> str:
        path = self.folder / Path(re.sub(r"^file:(//(?=/))?", "", text)).expanduser()
        try:
            with path.open("rb") as file:
                data = file.read(MOST_BYTES + 1)
            if len(data) > MOST_BYTES:
                raise ValueError(f"it has over {MOST_BYTES} bytes")
            return data.decode().removesuffix("\n").removesuffix("\r")
        except (OSError, ValueError) as error:
            reason = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
            told = (error.strerror or reason).lower() if isinstance(error, OSError) else reason
            self._note(loc, "UnreadableSecret", f"cannot read the file: {told}", expected="a small text file")
            return ""

    def _note(self, loc: Loc, code: str, message: str, **more: Any) -> None:
        self.problems.append(Problem(code=code, message=message, loc=loc, **more))


def holds_secret(loc: Loc) -> bool:
    """Tell whether a secret may stand at a place."""
    return _is_among(loc, HOLDERS)


def leads_to_secret(loc: Loc) -> bool:
    """Tell whether a secret may stand below a place."""
    return _is_among(loc, [holder[: len(loc)] for holder in HOLDERS if len(loc) < len(holder)])


def _is_among(loc: Loc, places: Iterable[Loc]) -> bool:
    return any(
        len(loc) == len(place) and all(part in ("*", step) for part, step in zip(place, loc, strict=True))
        for place in places
    )


_SECRET_NAME = re.compile(
    r"token|secret|passw|passphrase|credential|authorization|cookie|auth_?key|(api|access|private|signing)[-_]?key|[-_]pat$|[-_]key$",
    re.IGNORECASE,
)
_KNOWN_FORM = re.compile(
    r"sk-[\w-]{16,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}|xox[abeprs]-[\w-]{10,}|AKIA[0-9A-Z]{16}"
    r"|AIza[\w-]{30,}|npm_\w{30,}|hf_\w{20,}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*|-----BEGIN [A-Z ]*PRIVATE KEY-----"
)
_PASSWORD_IN_URL = re.compile(r"\w+://[^/\s:@]*:(?!\$\{)[^/\s@]+@")
_MIXED = re.compile(r"(?=.*[a-z])(?=.*[A-Z])(?=.*[0-9])[A-Za-z0-9_+/=.-]{24,}|(?=.*[a-f])(?=.*[0-9])[0-9a-f]{32,}")


def is_secret_name(name: str) -> bool:
    """Tell whether what stands under this name is a secret by its name."""
    return _SECRET_NAME.search(name) is not None


def looks_secret(text: str) -> bool:
    """Tell whether a text has the form of a key, a token or a URL with a password."""
    if _KNOWN_FORM.search(text) or _PASSWORD_IN_URL.search(text):
        return True
    return _MIXED.fullmatch(text) is not None and not re.search(r"[/.].*[/.]", text) and len(set(text)) >= 12


def literal_secrets(value: Any) -> Iterator[Loc]:
    """Yield the place of each text of a document that looks like a secret."""
    for loc, text in _texts(value, ()):
        if _is_among(loc, PUBLIC):
            continue
        if text and not REFERENCE.search(text) and not (text.startswith("file:") and holds_secret(loc)):
            name = next((part for part in reversed(loc) if isinstance(part, str)), "")
            named = holds_secret(loc) and name not in ("url", "clientId", "proxy") and is_secret_name(name)
            if named or looks_secret(text):
                yield loc


def literal_secret(loc: Loc) -> Problem:
    """Return the warning for a secret that stands in a document as text."""
    return Problem(
        code="LiteralSecret", message="a secret seems to stand here as text", loc=loc, severity="warning",
        expected="a reference such as ${env:NAME}" + (" or file:/path" if holds_secret(loc) else ""),
    )  # fmt: skip


def _texts(value: Any, loc: Loc) -> Iterator[tuple[Loc, str]]:
    if isinstance(value, str):
        yield loc, value
    elif is_object(value):
        for key, item in value.items():
            yield from _texts(item, (*loc, key))
    elif is_array(value):
        for index, item in enumerate(value):
            yield from _texts(item, (*loc, index))
