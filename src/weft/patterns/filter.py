"""Filter: keep the items of a list of which a field passes a test."""

from __future__ import annotations

from typing import Any, TypeVar

from weft.expr.comparisons import Predicate, check_field
from weft.expr.fields import path_text
from weft.expr.paths import compile_path
from weft.expr.rows import names_of, where
from weft.expr.shapes import ANY, items_of
from weft.ir.normalise import made
from weft.ir.predicates import FieldPredicate
from weft.patterns.contract import Compiler, Flow, Op, Pattern, Pure, Run, Value, require_list
from weft.patterns.copies import ONCE, Copies
from weft.patterns.flows import check_predicate, takes_array
from weft.ports import Schema

T = TypeVar("T")


class Filter(Pattern):
    """Keep the items that pass; several conditions are several filters."""

    predicate: FieldPredicate

    def compile(self, c: Compiler) -> Run | Pure:
        holds = self.predicate.compile()
        names = names_of(compile_path(self.predicate.field))
        keep = where(names, self.predicate.op, self.predicate.value, holds) if names else None

        def run(value: Value) -> Value:
            rows = require_list(value, "Filter")
            return [row for row in rows if holds(row)] if keep is None else keep(rows)

        return Pure(run)

    def copies(self, c: Compiler) -> Copies:
        return ONCE

    def flow(self, given: Schema, f: Flow) -> Schema:
        if not takes_array(given, "Filter", f):
            return ANY
        check_predicate(self.predicate, items_of(given), f, "predicate")
        return given


def filter(field: T | None, predicate: Predicate[T]) -> Op[Any, Any]:
    """Keep the items whose field passes: `w.filter(p.relevance, w.gt(0.7))`."""
    check_field(field, predicate)
    test = made(FieldPredicate, {"field": path_text(field), **predicate.to_json()})
    return Op(Filter(predicate=test))
