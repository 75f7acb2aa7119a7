"""Predicates: one field against one constant. All that filters, routes and cache conditions know."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, WithJsonSchema, model_validator

from weft.errors import ExpressionInvalid
from weft.expr.paths import compile_path
from weft.expr.predicates import ABSENT, OPS, compile_test, parse_predicate
from weft.ir.nodes import LiteralJson, Node, PathText, refused
from weft.ir.values import unwrap_values
from weft.ports import is_object

PREFIX = "COMPARISON_OP_"
TAKES_NO_VALUE = frozenset({"is_null", "is_not_null", "is_error"})
VALUE_RULE: dict[str, Any] = {
    "if": {"properties": {"op": {"enum": sorted(TAKES_NO_VALUE)}}},
    "then": {"properties": {"value": False}},
    "else": {"required": ["value"]},
}
"""What JSON Schema can say about which operators take a value."""


class FieldPredicate(Node):
    """One field against one constant."""

    model_config = ConfigDict(json_schema_extra=VALUE_RULE)
    aliases: ClassVar[Mapping[str, str]] = {"path": "field", "operator": "op"}
    keeps_null: ClassVar[frozenset[str]] = frozenset({"value"})

    field: PathText = "$"
    op: Annotated[str, WithJsonSchema({"enum": list(OPS)})]
    value: LiteralJson = None

    @classmethod
    def spell(cls, value: Any) -> Any:
        """Take the string `item.relevance > 0.7`, typed values and the operators of generated documents."""
        if isinstance(value, str):
            try:
                field, op, constant = parse_predicate(value)
            except ExpressionInvalid as error:
                raise refused(error) from None
            return {"field": field, "op": op, "value": constant}
        if not is_object(value):
            return value
        given = dict(value)
        if "operator" in given and "op" not in given:
            given["op"] = given.pop("operator")
        if isinstance(op := given.get("op"), str):
            given["op"] = _op_name(op)
        if "value" in given:
            given["value"] = unwrap_values(given["value"])
            if given["value"] is None and isinstance(op := given.get("op"), str) and op in TAKES_NO_VALUE:
                del given["value"]
        return given

    @model_validator(mode="after")
    def _compiles(self) -> FieldPredicate:
        try:
            self._test()
        except ExpressionInvalid as error:
            raise refused(error, "op" if error.code == "UnknownOperator" else "value") from None
        return self

    def _test(self) -> Callable[[Any], bool]:
        return compile_test(self.op, self.value if "value" in self.model_fields_set else ABSENT)

    def compile(self) -> Callable[[Any], bool]:
        """Return the test of a whole item: a missing field counts as null."""
        test, get = self._test(), compile_path(self.field).get
        return lambda item: test(get(item))


def _op_name(op: str) -> str:
    if op.startswith(PREFIX):
        return op.removeprefix(PREFIX).lower()
    if op in ("isNull", "isNotNull", "isError"):
        return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in op)
    return op
