"""Engines with a store, and what is called in them: tools that do nothing."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import weft as w
from weft.patterns.contract import Op
from weft.patterns.kept import Kept
from weft.plan.compiler import compile_document
from weft.ports import Store
from weft.run.engine import Engine
from weft.stores.memory import MemoryStore

CALL = {"id": "o1", "amount": 12}


@w.python_tool(name="pay")
async def pay(value: dict[str, Any], /) -> dict[str, Any]:
    """Give back what was given."""
    return value


def engine(op: Op[Any, Any], store: Store | None = None) -> Engine:
    """Return an engine with the composition `it`; whatever store that names is this one."""
    compiled = w.compile(w.composition("it", "It.", op))
    used = store or MemoryStore()
    return Engine(compile_document(compiled.document, compiled.local, stores=lambda name: used, kept=Kept()))


def plain() -> Engine:
    """Return an engine where `it` only calls the tool."""
    return engine(w.pipeline(pay))


@asynccontextmanager
async def opened(store: Store) -> AsyncGenerator[Store]:
    """Open a store, and close it."""
    await store.open()
    try:
        yield store
    finally:
        await store.close()
