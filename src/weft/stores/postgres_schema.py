"""The tables of a Postgres store: made and migrated by whoever comes first, while the others wait."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

from weft.stores.links import Fault, Refused
from weft.stores.postgres_link import PostgresLink

BLOCK: Final = 1000
"""How many versions a process takes at once, so that it knows the version of a writing before it sends it."""
OLDEST: Final = 140000
"""Postgres 14; before it, one could not wait for the end of another connection."""

_FIRST: Final = """
CREATE TABLE {schema}.entries (
  key bytea PRIMARY KEY, value bytea NOT NULL, version bigint NOT NULL, expires double precision
);
CREATE INDEX ON {schema}.entries (expires) WHERE expires IS NOT NULL;
CREATE SEQUENCE {schema}.versions INCREMENT BY 1000;
CREATE FUNCTION {schema}.change(
  keys bytea[], vals bytea[], versions bigint[], whens bigint[], ttls double precision[]
) RETURNS boolean LANGUAGE plpgsql AS $change$
DECLARE
  moment double precision := extract(epoch FROM statement_timestamp());
BEGIN
  -- All that is there is locked in the order of keys, and looked at, before anything is written.
  FOR i IN 1 .. cardinality(keys) LOOP
    PERFORM 1 FROM {schema}.entries e
      WHERE e.key = keys[i] AND (whens[i] <= 0 OR e.version = whens[i])
        AND (whens[i] = -1 OR e.expires IS NULL OR e.expires > moment)
      FOR UPDATE;
    IF FOUND = (whens[i] = 0) AND whens[i] <> -1 THEN
      RETURN false;
    END IF;
  END LOOP;
  FOR i IN 1 .. cardinality(keys) LOOP
    IF vals[i] IS NULL THEN
      DELETE FROM {schema}.entries e WHERE e.key = keys[i];
    ELSE
      INSERT INTO {schema}.entries AS e (key, value, version, expires)
        VALUES (keys[i], vals[i], versions[i], moment + ttls[i])
        ON CONFLICT (key) DO UPDATE
          SET value = excluded.value, version = excluded.version, expires = excluded.expires
          WHERE whens[i] <> 0 OR e.expires <= moment;
      IF NOT FOUND THEN
        -- Somebody has written the key since it was looked for.
        RAISE EXCEPTION 'a condition no longer holds' USING ERRCODE = 'serialization_failure';
      END IF;
    END IF;
  END LOOP;
  RETURN true;
END
$change$;
"""

# Not to_regclass: after waiting for a lock, it goes by what it knew before.
_THERE: Final = (
    "SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = 'meta'"
)

STEPS: Final = (_FIRST,)
"""What makes each version of the tables from the one before."""


async def prepare(link: PostgresLink, schema: str, steps: Sequence[str] = STEPS) -> None:
    """Make the tables, or bring them to this version; without either, nothing is written.

    Raises:
        Refused: StoreNewer, or it may not be done.
    """
    name = quoted(schema)
    version = await _version(link, schema)
    if version == len(steps):
        return
    if version > len(steps):
        told = f"a newer weft has written it: its tables are of version {version}, this weft knows {len(steps)}"
        raise Refused(Fault(told, "StoreNewer", "use that weft, or another schema", hopeless=True))
    lock = int.from_bytes(hashlib.sha256(f"weft {schema}".encode()).digest()[:8], signed=True)
    # Making tables may take longer than an operation; the time to connect bounds it.
    await link.script(
        f"BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0;SELECT pg_advisory_xact_lock({lock})"
    )
    try:
        version = await _version(link, schema)
        if version < len(steps):
            await link.script("".join((_begun(name, version), *(one.format(schema=name) for one in steps[version:]))))
            await link.script(f"UPDATE {name}.meta SET version = {len(steps)}")
        await link.script("COMMIT")
    except Refused:
        await link.script("ROLLBACK")
        raise


def _begun(schema: str, version: int) -> str:
    if version:
        return ""
    return (
        f"CREATE SCHEMA IF NOT EXISTS {schema}; CREATE TABLE {schema}.meta (version integer NOT NULL);"
        f"INSERT INTO {schema}.meta VALUES (0);"
    )


async def _version(link: PostgresLink, schema: str) -> int:
    """Return of which version the tables are, 0 when there are none."""
    if await link.row(_THERE, schema) is None:
        return 0
    version: int = await link.value(f"SELECT version FROM {quoted(schema)}.meta")
    return version


def quoted(schema: str) -> str:
    """Return the name of a schema as SQL takes it."""
    if not schema or "\x00" in schema or len(schema.encode()) > 63:
        raise ValueError(f"{schema!r} cannot be the name of a schema: 1 to 63 bytes")
    return '"' + schema.replace('"', '""') + '"'
