"""`weft templates`: workflows that are kept under an id, listed, looked at, run and measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from weft.cli import templates_shown as shown
from weft.cli.admin import failing
from weft.cli.output import as_json, good, note, plural, result
from weft.cli.templates_files import template_in
from weft.cli.templates_run import run
from weft.cli.templates_service import Where, place_options, templates_at
from weft.errors import InputError

CATEGORIES = ("context-management", "analysis", "automation", "integration")
EXAMPLES = """\b
Example:
  weft templates list --category analysis
  weft templates show demo-order-v1
  weft templates run demo-research-v1 --input '{"query": "bees"}' --url http://127.0.0.1:15000
  weft templates add my-workflow.yaml --id my-workflow-v1 --category automation"""
as_told = click.option("--json", "json_", is_flag=True, help="Print all of it as JSON.")


@click.group("templates", epilog=EXAMPLES)
def command() -> None:
    """Look for, run and keep templates: workflow documents under an id, ready to be run with an input.

    weft comes with some; others are kept in the store that `compositions.store` of weft.yaml names. Without --url all
    happens in this process, on the servers and stores of weft.yaml.
    """


command.add_command(run)


@command.command(
    "list",
    short_help="List the templates that there are.",
    epilog="\b\nExample:\n  weft templates list\n  weft templates list --search 'pull request'",
)
@click.option("--category", type=click.Choice(CATEGORIES), help="Only those of a category.")
@click.option("--tag", metavar="TAG", help="Only those with this tag.")
@click.option("--search", metavar="WORDS", help="Only those with all of these words in id, name, description or tags.")
@as_told
@place_options
def list_(category: str | None, tag: str | None, search: str | None, json_: bool, **where: Any) -> None:
    """List the templates that there are, with how often each was run and how often that went well."""
    with failing(json_=json_):
        found = templates_at(Where(**where)).cards(category=category, tag=tag, search=search)
        if json_:
            result(as_json({"templates": found}))
            return
        for line in shown.cards(found):
            result(line)
        if not found:
            note("no template fits")


@command.command(
    "show",
    short_help="Tell what a template does, needs and takes.",
    epilog="\b\nExample:\n  weft templates show gather-context-v1\n"
    "  weft templates show gather-context-v1 --document > mine.json",
)
@click.argument("id_", metavar="ID")
@click.option("--document", is_flag=True, help="Print its workflow document as JSON: a start for one of your own.")
@as_told
@place_options
def show(id_: str, document: bool, json_: bool, **where: Any) -> None:
    """Tell what a template does, which tools it needs and which of them are missing here, and how to try it."""
    with failing(json_=json_):
        told = templates_at(Where(**where)).get(id_)
        if document or json_:
            result(as_json(told["composition"] if document else told))
            return
        for line in shown.template(told):
            result(line)


@command.command(
    "add",
    short_help="Keep a template, or a workflow document as one.",
    epilog="\b\nExample:\n  weft templates add template.json\n"
    "  weft templates add workflow.yaml --id nightly-v1 --category automation --replace",
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--id", "id_", metavar="ID", help="Of a workflow document: under which id to keep it.")
@click.option("--category", type=click.Choice(CATEGORIES), help="Of a workflow document: what it is for.")
@click.option("--replace", is_flag=True, help="Put it in the place of the one with its id, if there is one.")
@as_told
@place_options
def add(file: Path, id_: str | None, category: str | None, replace: bool, json_: bool, **where: Any) -> None:
    """Keep the template in FILE (JSON or YAML), or a bare workflow document with --id and --category."""
    with failing(json_=json_):
        found = template_in(file, id=id_, category=category)
        service = templates_at(Where(**where))
        with found.placing():
            try:
                told, how = service.create(found.body), "is kept"
            except InputError as error:
                if error.code != "TemplateExists":
                    raise
                if not replace:
                    error.hint = (
                        "--replace puts yours in its place" if "comes with weft" not in error.message else error.hint
                    )
                    raise
                told, how = service.update(found.id, found.body), "is replaced"
        if json_:
            result(as_json(told))
        else:
            note(good(f"template {found.id} {how}; `weft templates run {found.id}` runs it"))


@command.command("delete", epilog="\b\nExample:\n  weft templates delete nightly-v1")
@click.argument("id_", metavar="ID")
@as_told
@place_options
def delete(id_: str, json_: bool, **where: Any) -> None:
    """Forget a template and its statistics, for good."""
    with failing(json_=json_):
        templates_at(Where(**where)).delete(id_)
        if json_:
            result(as_json({"deleted": id_}))
        else:
            note(good(f"template {id_} is deleted"))


@command.command(
    "stats",
    short_help="Tell how runs went, and what that suggests.",
    epilog="\b\nExample:\n  weft templates stats\n  weft templates stats demo-order-v1",
)
@click.argument("id_", metavar="[ID]", required=False)
@as_told
@place_options
def stats(id_: str | None, json_: bool, **where: Any) -> None:
    """Tell how often a template ran and how that went, how long each step takes, and what could be better.

    Without an ID, of every template that was run. Suggestions need some twenty runs; nothing is changed by itself.
    """
    with failing(json_=json_):
        service = templates_at(Where(**where))
        if id_ is None:
            used = [card for card in service.cards() if card["metadata"].get("usage_count")]
            for line in [as_json({"templates": used})] if json_ else shown.cards(used):
                result(line)
            if not used and not json_:
                note("no template was run yet")
            return
        told = service.stats(id_)
        for line in [as_json(told)] if json_ else shown.stats(told):
            result(line)


@command.command(
    "runs",
    short_help="List the last runs.",
    epilog="\b\nExample:\n  weft templates runs\n  weft templates runs demo-order-v1 --status failed",
)
@click.argument("id_", metavar="[ID]", required=False)
@click.option("--status", metavar="STATUS", help="Only those: running, succeeded, partial, failed, cancelled ...")
@click.option("--limit", type=click.IntRange(1, 200), default=20, show_default=True, help="How many at most.")
@as_told
@place_options
def runs(id_: str | None, status: str | None, limit: int, json_: bool, **where: Any) -> None:
    """List the last runs, of one template or of all, the newest first."""
    with failing(json_=json_):
        told = templates_at(Where(**where)).runs(template=id_, status=status, limit=limit)
        if json_:
            result(as_json(told))
            return
        for line in shown.runs(told["runs"]):
            result(line)
        if not told["runs"]:
            note("there are no runs")
        elif told.get("next"):
            note(f"there are more than {plural(limit, 'run')}; --limit shows them")
