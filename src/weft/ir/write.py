"""Writing a document: JSON or YAML that reads back as the same value."""

from __future__ import annotations

import json
import re
from typing import Any, cast

import yaml

from weft.ir.read import Format


def write(value: Any, format: Format) -> str:
    """Return a value as text, ending in a line break; keys stay in their order."""
    if format == "json":
        return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    options: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "width": 120, "default_flow_style": False}
    return cast("str", yaml.dump(value, Dumper=_Dumper, **options))


class _Dumper(yaml.SafeDumper):
    """Writes for readers of YAML 1.2 as well as of 1.1, without anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: Any, text: str) -> Any:
    # PyYAML writes these breaks as they are between single quotes, where they read back as a space.
    style = '"' if _BREAKS.search(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_BREAKS = re.compile("[\r\x85\u2028\u2029]")
_Dumper.add_representer(str, _text)
# PyYAML knows the numbers of YAML 1.1: a text such as 1e3 would be left unquoted, and read as a number.
_Dumper.add_implicit_resolver(  # pyright: ignore[reportUnknownMemberType]  (its stub has no types)
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$|0o[0-7]+$|0x[0-9a-fA-F]+$"),
    list("-+.0123456789"),
)
