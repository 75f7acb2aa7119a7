"""Checks of single values: hosts, URLs, names and headers."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from urllib.parse import SplitResult, parse_qs, urlsplit

from weft.errors import shown
from weft.ir.nodes import refuse

SERVER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_PART = r"(?:0|[1-9][0-9]*)"
_IDENTIFIER = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
SEMVER = re.compile(
    rf"{_PART}\.{_PART}\.{_PART}(?:-{_IDENTIFIER}(?:\.{_IDENTIFIER})*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
VIEW_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
STORE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
HOST = re.compile(r"(?:\*\.)?[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_-]+)*\.?")
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]{0,16384}")
RESERVED_VIEWS = frozenset({"tools"})
"""Names that are parts of other URLs: /mcp/tools/call."""
OWN_HEADERS = frozenset(
    {
        *("accept", "content-type", "content-length", "transfer-encoding", "connection", "keep-alive", "upgrade"),
        *("te", "trailer", "host", "last-event-id", "mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name"),
    }
)
"""Headers that weft itself sets, or that belong to the connection."""


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine and can be reached from nowhere else."""
    bare = host.strip("[]").casefold().rstrip(".").partition("%")[0]
    if bare == "localhost" or bare.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(bare)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def parts_of(url: str, schemes: Iterable[str] = ("http", "https")) -> SplitResult:
    """Return the parts of a URL.

    Raises:
        PydanticCustomError: it is not one, or has a password in it.
    """
    wanted = (
        f"a URL such as {'https://example.com/mcp' if 'https' in schemes else f'{next(iter(schemes))}://localhost'}"
    )
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if parts.scheme not in schemes or not host or re.search(r"\s|[\x00-\x1f]", url):
        raise refuse("InvalidUrl", "not a URL that weft can use here", value=shown(url), expected=wanted)
    return parts


def store_url_fault(url: str) -> tuple[str, str] | None:
    """Return what is wrong with the URL of Redis or Postgres, and what was expected; never a part of it.

    What looks like a port may be the end of a password that should have been escaped.
    """
    told = "a port from 1 to 65535; in a password, / is %2F, # is %23 and @ is %40"
    try:
        parts = urlsplit(url)
    except ValueError:
        return "the URL's host is not one", "a name or an address; [::1] has both of its brackets"
    if re.search(r"\s|[\x00-\x1f]", url):
        return "the URL has a blank in it", "a URL without blanks"
    for host in parts.netloc.rpartition("@")[2].split(","):
        bare = host.rpartition("]")[2] if host.startswith("[") else host[host.find(":") :] if ":" in host else ""
        if bare and (not re.fullmatch(r":[0-9]{1,5}", bare) or not 0 < int(bare[1:]) < 65536):
            return "the URL's port is not one", told
    if parts.scheme in ("redis", "rediss"):
        databases = [parts.path.strip("/"), *parse_qs(parts.query).get("db", [])]
        if not all(re.fullmatch(r"[0-9]{0,9}", one) for one in databases):
            return "the URL's database is not a number", "redis://localhost:6379/0"
    return None


def check_url(url: str) -> str:
    """Refuse what is no URL of an HTTP endpoint, and one with credentials in it."""
    parts = parts_of(url)
    if "@" in parts.netloc:
        told = "the URL has credentials in it"
        raise refuse("CredentialsInUrl", told, expected='headers: {Authorization: "Bearer ${env:NAME}"}')
    if parts.fragment:
        raise refuse("InvalidUrl", "the URL has a fragment", value=shown(url), expected="a URL without #")
    return url


def check_header_name(name: str) -> str:
    """Refuse a header that weft sets itself, and what is no name of one."""
    if not HEADER_NAME.fullmatch(name):
        raise refuse("InvalidHeader", f"{shown(name)} is not the name of a header", value=shown(name))
    if name.casefold() in OWN_HEADERS:
        raise refuse("InvalidHeader", f"weft sets {name} itself", value=shown(name), expected="another header")
    return name


def check_header_value(value: str) -> str:
    """Refuse a value that no header can carry."""
    if not HEADER_VALUE.fullmatch(value):
        raise refuse("InvalidHeader", "no header can carry this", expected="one line of Latin-1, at most 16 KiB")
    return value


def check_headers(headers: dict[str, str]) -> dict[str, str]:
    """Refuse a header that is spelled in two ways."""
    seen = set[str]()
    for name in headers:
        if name.casefold() in seen:
            raise refuse("InvalidHeader", f"{name} is there twice", value=shown(name), expected="it once", at=(name,))
        seen.add(name.casefold())
    return headers


def check_variable(name: str) -> str:
    """Refuse what is no name of an environment variable."""
    if not name or "=" in name or "\0" in name:
        told = f"{shown(name)} is not the name of a variable"
        raise refuse("InvalidName", told, value=shown(name), expected="a name without =")
    return name


def check_variable_value(value: str) -> str:
    """Refuse what no environment can hold."""
    if "\0" in value:
        raise refuse("InvalidValue", "a variable cannot hold NUL", expected="a text without NUL")
    return value


def check_server_key(key: str) -> str:
    """Refuse a key of `servers` that is neither a name nor name@version."""
    name, at, version = key.partition("@")
    _check_name(name, SERVER_NAME, "server")
    if at and not SEMVER.fullmatch(version):
        told = f"{shown(version)} is not an exact version"
        raise refuse("InvalidVersion", told, value=shown(key), expected="name@1.2.3")
    return key


def check_view_name(name: str) -> str:
    """Refuse a view that no URL could name."""
    _check_name(name, VIEW_NAME, "view")
    if name in RESERVED_VIEWS:
        told = f"a view cannot be named {shown(name)}: /mcp/{name} is taken"
        raise refuse("ReservedName", told, value=shown(name), expected="another name")
    return name


def check_store_name(name: str) -> str:
    """Refuse what is no name of a store."""
    _check_name(name, STORE_NAME, "store")
    return name


def _check_name(name: str, form: re.Pattern[str], what: str) -> None:
    if not form.fullmatch(name):
        letters = "small letters" if form is VIEW_NAME else "letters"
        wanted = f"{letters}, digits, '_' and '-', at most 64"
        told = f"{shown(name)} is not the name of a {what}"
        raise refuse("InvalidName", told, value=shown(name), expected=wanted)


def check_host(host: str) -> str:
    """Refuse what is neither a name nor an address."""
    if not host or host != host.strip() or any(mark in host for mark in "/@ \t"):
        raise refuse("InvalidHost", f"{shown(host)} is not a host", value=shown(host), expected="a name or an address")
    return host


def check_allowed(one: str) -> str:
    """Refuse what is neither a host nor a network."""
    if not HOST.fullmatch(one) and _network(one) is None:
        told = f"{shown(one)} is neither a host nor a network"
        wanted = 'a host, "*.example.com" or a network such as 10.0.0.0/8'
        raise refuse("InvalidHost", told, value=shown(one), expected=wanted)
    return one


def is_allowed(host: str, allow: Iterable[str]) -> bool:
    """Tell whether a host, as it is written, is among the allowed ones."""
    bare = host.strip("[]").casefold().rstrip(".")
    return any(_matches(bare, one.casefold()) for one in allow)


def _matches(host: str, allowed: str) -> bool:
    if (network := _network(allowed)) is not None:
        try:
            return ipaddress.ip_address(host) in network
        except ValueError:
            return False
    return host == allowed or (allowed.startswith("*.") and host.endswith(allowed[1:]))


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None
