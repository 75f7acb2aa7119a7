"""The statements of a Postgres store; each is one turn, and one transaction."""

from __future__ import annotations

from dataclasses import dataclass

from weft.stores.rules import LARGEST

_NOW = "extract(epoch FROM statement_timestamp())::double precision"
_LIVE = f"(e.expires IS NULL OR e.expires > {_NOW})"
_LEFT = f"e.expires - {_NOW}"
_WRITE = "SET value = excluded.value, version = excluded.version, expires = excluded.expires"
_TEXT = "encode(e.value, 'escape')"
_SUM = f"({_TEXT}::numeric + $2::text::numeric)"


@dataclass(frozen=True, slots=True)
class Statements:
    """SQL for the tables of one schema. A lifetime is seconds, or NULL for ever; the time is the statement's."""

    get: str
    exists: str
    put: str
    put_if_absent: str
    cas: str
    delete: str
    delete_if: str
    incr: str
    change: str
    page: str
    versions: str
    reserve: str
    reap: str

    @classmethod
    def of(cls, schema: str) -> Statements:
        """Return the statements for a schema, whose name is quoted already."""
        entries = f"{schema}.entries"
        insert = (
            f"INSERT INTO {entries} AS e (key, value, version, expires)"
            f" VALUES ($1, $2, $3, {_NOW} + $4::double precision)"
        )
        return cls(
            get=f"SELECT e.value, e.version, {_LEFT} FROM {entries} e WHERE e.key = $1 AND {_LIVE}",
            exists=f"SELECT 1 FROM {entries} e WHERE e.key = $1 AND {_LIVE}",
            put=f"{insert} ON CONFLICT (key) DO UPDATE {_WRITE} RETURNING 1",
            put_if_absent=f"{insert} ON CONFLICT (key) DO UPDATE {_WRITE} WHERE e.expires <= {_NOW} RETURNING 1",
            cas=f"UPDATE {entries} e SET value = $2, version = $3, expires = {_NOW} + $4::double precision"
            f" WHERE e.key = $1 AND e.version = $5 AND {_LIVE} RETURNING 1",
            delete=f"DELETE FROM {entries} e WHERE e.key = $1 RETURNING {_LIVE}",
            delete_if=f"DELETE FROM {entries} e WHERE e.key = $1 AND e.version = $2 AND {_LIVE} RETURNING 1",
            incr=f"INSERT INTO {entries} AS e (key, value, version, expires)"
            f" VALUES ($1, convert_to($2::text, 'UTF8'), $3, {_NOW} + $4::double precision)"
            " ON CONFLICT (key) DO UPDATE SET version = excluded.version,"
            f" value = CASE WHEN e.expires <= {_NOW} THEN excluded.value ELSE convert_to({_SUM}::text, 'UTF8') END,"
            f" expires = CASE WHEN e.expires <= {_NOW} THEN excluded.expires ELSE e.expires END"
            f" WHERE e.expires <= {_NOW} OR CASE WHEN {_TEXT} ~ '^(0|-?[1-9][0-9]{{0,18}})$'"
            f" THEN abs({_SUM}) <= {LARGEST} ELSE false END RETURNING value",
            change=f"SELECT {schema}.change($1, $2, $3, $4, $5)",
            page=f"SELECT e.key, e.value, e.version, {_LEFT} FROM {entries} e"
            f" WHERE e.key >= $1 AND ($2::bytea IS NULL OR e.key < $2) AND ($3::bytea IS NULL OR e.key > $3)"
            f" AND {_LIVE} ORDER BY e.key LIMIT $4",
            versions=f"SELECT e.key, e.version, e.value FROM {entries} e WHERE e.key = ANY($1)",
            reserve=f"SELECT nextval('{schema}.versions')",
            reap=f"WITH gone AS (DELETE FROM {entries} WHERE key IN (SELECT e.key FROM {entries} e"
            f" WHERE e.expires <= {_NOW} LIMIT $1 FOR UPDATE SKIP LOCKED) RETURNING 1) SELECT count(*) FROM gone",
        )
