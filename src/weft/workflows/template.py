"""A template: a workflow document that is kept under an id, with what it needs and what it is for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field

from weft.errors import DocumentInvalid, Problem, json_pointer, shown
from weft.ir.nodes import AnyJson, Node, refuse
from weft.ir.read import Source
from weft.ir.reading import placed, read_node
from weft.ir.versions import EXPECTED, is_exact, refused
from weft.ports import is_object
from weft.workflows.steps import tools_of

Category = Literal["context-management", "analysis", "automation", "integration"]
MAX_BYTES: Final = 256 << 10
MEASURED: Final = ("success_rate", "usage_count")
"""What others write in a template and weft measures itself."""
SHELVED: Final = frozenset({"built_in", "created", "updated", "etag"})
"""What a shelf shows beside a template: somebody who sends back what was shown need not take it out."""


def _exact(version: str) -> str:
    if is_exact(version):
        return version
    wrong = refused(version)
    raise refuse(wrong.code, wrong.message, value=wrong.value, expected=EXPECTED, suggestion=wrong.suggestion)


TemplateId = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]
Label = Annotated[str, Field(min_length=1, max_length=200)]
Milliseconds = Annotated[int, Field(ge=0, le=24 * 3600 * 1000)]
Version = Annotated[str, AfterValidator(_exact)]


class Metadata(Node):
    """What a template is for; `success_rate` and `usage_count` are read and not kept, since weft measures them."""

    category: Category
    tags: Annotated[list[Label], Field(max_length=32)] = []
    estimated_duration_ms: Milliseconds | None = None
    author: Label | None = None
    success_rate: Annotated[float, Field(ge=0, le=1)] | None = None
    usage_count: Annotated[int, Field(ge=0)] | None = None


class Validation(Node):
    """What must be there before a template can run."""

    required_tools: Annotated[list[Label], Field(max_length=1000)] = []
    min_version: Version | None = None


class Template(Node):
    """A workflow document that is kept; the document stays as it was written."""

    id: TemplateId
    name: Label
    description: Annotated[str, Field(max_length=4000)] = ""
    composition: dict[str, AnyJson]
    metadata: Metadata
    validation: Validation = Validation.model_construct()
    example_input: dict[str, AnyJson] | None = None
    servers: Annotated[dict[str, Label], Field(max_length=1000)] = {}
    """Which server would provide a tool, by the tool's name."""

    @classmethod
    def spell(cls, value: Any) -> Any:
        return {key: one for key, one in value.items() if key not in SHELVED} if is_object(value) else value

    @property
    def required_tools(self) -> list[str]:
        """The tools that it needs; those of its steps, unless it says so itself."""
        return self.validation.required_tools or tools_of(self.composition)

    def to_json(self) -> dict[str, Any]:
        """Return the template as it is kept and shown, in the spelling of templates."""
        told: dict[str, Any] = self.model_dump(by_alias=False, exclude_unset=True)
        for name in MEASURED:
            told["metadata"].pop(name, None)
        told["validation"] = {**told.get("validation", {}), "required_tools": self.required_tools}
        return told

    def card(self) -> dict[str, Any]:
        """Return what a list shows of it: all but the document and the example."""
        return {key: value for key, value in self.to_json().items() if key not in ("composition", "example_input")}


def read_template(value: object, source: Source | None = None) -> Template:
    """Return the template that an object describes; with the source it was read from, problems have their lines.

    Raises:
        DocumentInvalid: with everything that is wrong with it.
    """
    found = read_node(Template, value)
    problems = found if isinstance(found, list) else [*_too_large(found)]
    if isinstance(found, list) or problems:
        raise DocumentInvalid([_placed(one, source) for one in problems])
    return found


def _placed(problem: Problem, source: Source | None) -> Problem:
    return placed(problem, source) if source is not None else replace(problem, pointer=json_pointer(problem.loc))


def encoded(value: Mapping[str, Any]) -> bytes:
    """Return an object as JSON that keeps every number and every text as they are."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")


def _too_large(template: Template) -> list[Problem]:
    expected = f"at most {MAX_BYTES} bytes of JSON"
    try:
        size = len(encoded(template.to_json()))
    except (TypeError, ValueError, RecursionError) as error:
        # Read from a file or a request it is JSON; a program can give anything.
        message = f"the template is not JSON: {error}"
        return [Problem(code="NotJson", message=message, value=shown(template.id), expected="JSON values")]
    if size <= MAX_BYTES:
        return []
    message = f"template {shown(template.id)} is too large"
    return [Problem(code="TemplateTooLarge", message=message, value=f"{size} bytes", expected=expected)]
