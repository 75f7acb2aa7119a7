"""`weft audit verify`: whether an audit log is as it was written."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from weft.cli.output import as_json, bad, error_json, good, note, plain, plural, result, warn
from weft.errors import InputError

if TYPE_CHECKING:
    from weft.telemetry.auditchain import Report

MOST_SHOWN = 50


@click.group("audit", epilog="\b\nExample:\n  weft audit verify audit.log")
def command() -> None:
    """Look after audit logs, which `weft serve` writes when `audit` in weft.yaml says where."""


@command.command(
    "verify",
    epilog="\b\nExample:\n  weft audit verify audit.log --checkpoint /mnt/elsewhere/checkpoints\n"
    "  weft audit verify audit.log.000000000512 audit.log",
)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option(
    "--key",
    type=click.Path(path_type=Path),
    help="The file of the key.  [default: audit.log.key, or audit.key, beside audit.log]",
)
@click.option("--checkpoint", type=click.Path(path_type=Path), help="A file of checkpoints, kept elsewhere.")
@click.option(
    "--json", "json_", is_flag=True, help='Print {"intact", "records", "dropped", "faults", "checkpoint", "after"}.'
)
def verify(files: tuple[Path, ...], key: Path | None, checkpoint: Path | None, json_: bool) -> None:
    """Tell whether records of an audit log were edited, deleted or reordered; give rotated files oldest first.

    That the end was cut off only a checkpoint shows, which somebody else must keep. Exits with 0, with 1 when the log
    was changed, with 2 when it cannot be read.
    """
    from weft.app.auditing import key_beside
    from weft.telemetry.audit import key_of
    from weft.telemetry.auditchain import read_checkpoints
    from weft.telemetry.auditchain import verify as verified

    try:
        secret = key_of(key or key_beside(files[-1]))
        report = verified(files, secret, checkpoints=read_checkpoints(checkpoint) if checkpoint is not None else ())
    except InputError as error:
        if not json_:
            raise
        result(as_json({"error": error_json(error)}))
        raise click.exceptions.Exit(2) from None
    if json_:
        result(as_json(_told(report)))
    else:
        _show(report)
    raise click.exceptions.Exit(0 if report.intact else 1)


def _told(report: Report) -> dict[str, object]:
    return {
        "intact": report.intact,
        "records": report.records,
        "dropped": report.dropped,
        "faults": [fault.to_json() for fault in report.faults],
        "checkpoint": report.checkpoint,
        "after": report.after,
    }


def _show(report: Report) -> None:
    for fault in report.faults[:MOST_SHOWN]:
        if fault.code == "torn":
            warn(str(fault))
        else:
            result(bad(plain(str(fault))))
    if len(report.faults) > MOST_SHOWN:
        result(f"    and {len(report.faults) - MOST_SHOWN} more")
    if report.dropped:
        warn(f"{plural(report.dropped, 'record')} were dropped when the log could not be written")
    if report.after is not None:
        note(f"The records before these are in {plain(report.after)}.")
    if report.intact:
        result(good(f"{plural(report.records, 'record')}, as they were written"))
    if report.checkpoint is None:
        note("Whether records were cut off at the end cannot be seen without --checkpoint.")
