"""The library: the templates that come with weft."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from weft.errors import DocumentInvalid, Problem, shown
from weft.ir.read import read
from weft.workflows.template import Template, read_template


@cache
def built_in() -> Mapping[str, Template]:
    """Return the templates of the library by their ids; they are read when first asked for, and once.

    Raises:
        DocumentInvalid: a file of the library is not a template.
    """
    folder = files(__package__ or "weft.workflows").joinpath("library")
    found: dict[str, Template] = {}
    for file in sorted(folder.iterdir(), key=lambda one: one.name) if folder.is_dir() else ():
        if not file.name.endswith(".json"):
            continue
        source = read(file.read_bytes(), name=file.name)
        template = read_template(source.value, source)
        if template.id in found:
            told = f"another file of the library has template {shown(template.id)} too"
            raise DocumentInvalid([Problem(code="DuplicateTemplate", message=told, loc=("id",), file=file.name)])
        found[template.id] = template
    return MappingProxyType(found)
