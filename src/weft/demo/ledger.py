"""What the order servers keep: SQLite tables, and the answers given under a key, so that nothing is done twice."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar, cast

from pydantic import Field

from weft.errors import ToolFailed

T = TypeVar("T", bound=Mapping[str, Any])
OrderId = Annotated[str, Field(description="The order that it belongs to.", min_length=1)]
Key = Annotated[
    str | None,
    Field(description="The same key with the same arguments is done once, and answered again."),
]
ANSWERS = """
CREATE TABLE IF NOT EXISTS answers (
    tool TEXT NOT NULL, key TEXT NOT NULL, arguments TEXT NOT NULL, answer TEXT NOT NULL, PRIMARY KEY (tool, key)
);
"""


class Ledger:
    """A database of one order server."""

    def __init__(self, data: str, tables: str) -> None:
        # Every change is a transaction of its own; another process with the same file waits for it.
        self.db = sqlite3.connect(data, isolation_level=None, check_same_thread=False, timeout=10)
        self.db.executescript(ANSWERS + tables)

    def once(self, tool: str, key: str | None, arguments: Mapping[str, Any], work: Callable[[], T]) -> T:
        """Do the work in one transaction, or return what it gave under this key before.

        Raises:
            ToolFailed: the key was used with other arguments.
        """
        self.db.execute("BEGIN IMMEDIATE")
        try:
            done = self._before(tool, key, given := json.dumps(arguments, sort_keys=True))
            if done is None:
                done = work()
                if key is not None:
                    self.db.execute("INSERT INTO answers VALUES (?,?,?,?)", (tool, key, given, json.dumps(done)))
        except BaseException:
            self.db.execute("ROLLBACK")
            raise
        self.db.execute("COMMIT")
        return cast("T", done)

    def _before(self, tool: str, key: str | None, given: str) -> Any:
        row = self.db.execute(
            "SELECT arguments, answer FROM answers WHERE tool = ? AND key = ?", (tool, key)
        ).fetchone()
        if row is None:
            return None
        if row[0] != given:
            raise ToolFailed(tool, f"the idempotency key {key!r} was used before with other arguments: {row[0]}")
        return json.loads(row[1])

    def number(self, table: str, prefix: str) -> str:
        """Return a new id: `R-1`, `R-2`, ..."""
        (count,) = self.db.execute(f"SELECT count(*) FROM {table}").fetchone()
        return f"{prefix}-{count + 1}"
