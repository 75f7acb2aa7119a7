"""`weft templates run`: one run of a template or a workflow document, with its steps shown as they go."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from weft.cli import templates_shown as shown
from weft.cli.admin import failing
from weft.cli.given import seconds_given, value_given
from weft.cli.output import as_json, bad, good, note, plain, plural, result, warn
from weft.cli.templates_files import Found, document_in, is_file
from weft.cli.templates_progress import display_for
from weft.cli.templates_service import Where, place_options, templates_at
from weft.errors import InputError
from weft.errors import shown as quoted
from weft.ports import is_object

STRATEGIES = ("fail_fast", "partial_success", "rollback", "retry")
EXAMPLES = """\b
Example:
  weft templates run gather-context-v1 --input @question.json
  weft templates run workflow.yaml --input '{"topic": "bees"}' --dry-run
  weft templates run demo-order-v1 --input @order.json --strategy rollback --url http://127.0.0.1:15000"""


@click.command("run", short_help="Run a template, or a workflow document in a file.", epilog=EXAMPLES)
@click.argument("what", metavar="ID|FILE")
@click.option(
    "--input", "input_", metavar="JSON|@FILE|-", help="What it is given, an object; - is stdin.  [default: {}]"
)
@click.option("--dry-run", is_flag=True, help="Run nothing: print what would be done, and with what.")
@click.option("--timeout", metavar="DURATION", help="The longest it may take, such as 30s.")
@click.option("--max-concurrency", type=click.IntRange(1, 64), metavar="N", help="How many steps may run at once.")
@click.option("--strategy", type=click.Choice(STRATEGIES), help="What happens when a step fails.")
@click.option("--json", "json_", is_flag=True, help="Print the whole result: output, results, steps, errors.")
@place_options
def run(
    what: str,
    *,
    input_: str | None,
    dry_run: bool,
    timeout: str | None,
    max_concurrency: int | None,
    strategy: str | None,
    json_: bool,
    **where: Any,
) -> None:
    """Run a template by its ID, or the workflow document in FILE, and print its output as JSON.

    How the steps go is shown on stderr; with --url that is told when all have ended. Ctrl-C ends the run, undoes what
    it undoes on failure, and says what was done. Exits with 1 when the workflow failed or only a part of it went well,
    with 2 when the input is wrong.
    """
    with failing(json_=json_):
        found = document_in(Path(what)) if is_file(what) else None
        if timeout is not None:
            seconds_given(timeout)
        options = {
            "timeout": timeout,
            "max_concurrency": max_concurrency,
            "error_strategy": strategy,
            "dry_run": dry_run or None,
        }
        body: dict[str, Any] = {
            **({"template_id": what} if found is None else {"composition": found.composition}),
            "input": _input(input_),
            "options": {name: value for name, value in options.items() if value is not None},
        }
        done = _done(found, body, Where(**where))
        if dry_run:
            for line in [as_json(done)] if json_ else shown.plan(done["plan"]):
                result(line)
            return
        _show(done, json_=json_)


def _done(found: Found | None, body: dict[str, Any], where: Where) -> dict[str, Any]:
    display = display_for()
    with nullcontext() if found is None else found.placing():
        done = templates_at(where).execute(body, display)
    display.close()
    return done


def _input(given: str | None) -> Any:
    value: Any = {} if given is None else value_given(given)
    if not is_object(value):
        raise InputError(
            f"--input: {quoted(value)} is not an object", code="WrongType", hint="""such as '{"topic": "bees"}'"""
        )
    return value


def _show(done: dict[str, Any], *, json_: bool) -> None:
    well = done["success"]
    for warning in done["warnings"]:
        warn(warning)
    counted = f"{plural(done['steps_executed'], 'step')} in {done['duration']}"
    if well:
        note(good(counted))
    else:
        note(bad(f"{done['status'].replace('_', ' ')} after {counted}"))
        for error in done["errors"]:
            step = f"step {plain(str(error['step']))}: " if error.get("step") else ""
            note(f"    {step}{plain(str(error.get('message')))} [{error.get('code')}]")
            if error.get("hint"):
                note(f"    {plain(str(error['hint']))}")
    if json_:
        result(as_json(done))
    elif well or done["status"] == "partial":
        result(as_json(done["output"]))
    if not well:
        raise click.exceptions.Exit(1)
