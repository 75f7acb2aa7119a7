"""What commands print of templates, plans, runs and statistics."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

import click

from weft.cli.admin import cell, compact, table, time_of
from weft.cli.output import plain, plural
from weft.ports import is_array, is_object

WIDTH = 96
MOST = 200


def cards(found: list[dict[str, Any]]) -> list[str]:
    """Return a table of templates."""
    rows = [
        [
            cell(one["id"]),
            cell(one["metadata"]["category"]),
            str(one["metadata"].get("usage_count") or 0),
            rate(one["metadata"].get("success_rate")),
            cell(one["name"]),
        ]
        for one in found
    ]
    return table(["ID", "CATEGORY", "RUNS", "WELL", "NAME"], rows)


def template(told: dict[str, Any]) -> Iterator[str]:
    """Yield what a template does, needs and takes."""
    metadata, composition = told["metadata"], told["composition"]
    yield f"{click.style(plain(told['id']), bold=True)}  {plain(told['name'])}"
    yield from _wrapped(told.get("description", ""))
    tags = f"; tags: {', '.join(map(cell, metadata['tags']))}" if metadata.get("tags") else ""
    yield f"    {cell(metadata['category'])}{tags}; {'comes with weft' if told.get('built_in') else 'yours'}"
    usage = metadata.get("usage_count") or 0
    if usage:
        yield f"    {plural(usage, 'run')}, {rate(metadata.get('success_rate'))} well"
    yield ""
    yield click.style("Steps", bold=True)
    yield from _steps(composition)
    yield ""
    yield click.style("Needs", bold=True)
    missing: Any = told.get("missing_tools", [])
    servers: Any = told.get("servers", {})
    for name in told["validation"]["required_tools"]:
        lacks = name in missing
        mark = click.style("✗", fg="red") if lacks else click.style("✓", fg="green")
        where = f" would come from {plain(servers[name])}" if name in servers else ""
        yield f"  {mark} {plain(name)}" + (
            f"  is not here;{where or ' no server of this place has it'}" if lacks else ""
        )
    yield from _takes(composition)
    if told.get("example_input") is not None:
        yield ""
        yield click.style("Try", bold=True)
        example = compact(told["example_input"]).replace("'", "'\\''")
        yield f"  weft templates run {plain(told['id'])} --input '{example}'"


def _steps(composition: Mapping[str, Any]) -> Iterator[str]:
    steps: object = composition.get("steps")
    for one in steps if is_array(steps) else []:
        if not is_object(one):
            continue
        tool: object = one.get("tool")
        does = tool.get("name") if is_object(tool) else tool
        asks = "asks a person" if "elicit" in one else "an operation"
        after: object = one.get("depends_on", one.get("dependsOn"))
        waits = f"  after {', '.join(map(cell, after))}" if is_array(after) and after else ""
        undo: object = one.get("undo")
        undone = (
            f"  undone by {cell(undo.get('tool'))}" if is_object(undo) and isinstance(undo.get("tool"), str) else ""
        )
        yield f"  {cell(one.get('id'))}: {cell(does or asks)}{waits}{undone}"


def _takes(composition: Mapping[str, Any]) -> Iterator[str]:
    schema: object = composition.get("inputSchema", composition.get("input_schema"))
    properties: object = schema.get("properties") if is_object(schema) else None
    if not is_object(schema) or not is_object(properties):
        return
    required: object = schema.get("required")
    needed = required if is_array(required) else []
    yield ""
    yield click.style("Takes", bold=True)
    for name, one in properties.items():
        about = one.get("description", "") if is_object(one) else ""
        kind = one.get("type", "any") if is_object(one) else "any"
        said = "" if name in needed else ", if you like"
        yield f"  {plain(name)} ({cell(kind)}{said})" + (f": {plain(str(about))}" if about else "")


def plan(told: dict[str, Any]) -> Iterator[str]:
    """Yield what would be done, level by level."""
    steps = {one["id"]: one for one in told["steps"]}
    for number, level in enumerate(told["levels"], 1):
        for id in level:
            one = steps[id]
            does = one.get("tool") or ("asks a person" if "asks" in one else "an operation")
            yield f"{number}. {click.style(plain(id), bold=True)}: {cell(does)} {compact(one['parameters'], MOST)}"
            waits = [f"after {', '.join(map(cell, one['waits_for']))}"] if one["waits_for"] else []
            waits += [f"when {plain(str(one['when']))}"] if "when" in one else []
            waits += [f"for each of {compact(one['for_each'], MOST)}"] if "for_each" in one else []
            waits += [f"undone by {cell(one['undo'])}"] if "undo" in one else []
            if waits:
                yield f"     {'; '.join(waits)}"
    rolls = "; what was done is undone when a step fails" if told["rolls_back"] else ""
    yield f"at most {told['concurrency']} at once; {told['error_strategy']}{rolls}"


def runs(found: list[dict[str, Any]]) -> list[str]:
    """Return a table of runs."""
    rows = [
        [
            cell(one["run_id"]),
            time_of(one["started"]),
            cell(one.get("template") or one["name"]),
            cell(one["status"]),
            took(one.get("duration_ms")),
            _counted(one.get("step_counts")),
            cell(one.get("error")),
        ]
        for one in found
    ]
    return table(["RUN", "STARTED", "WHAT", "STATUS", "TOOK", "STEPS", "ERROR"], rows)


def stats(told: dict[str, Any]) -> Iterator[str]:
    """Yield what the runs of a template tell."""
    usage = told["usage_count"]
    name = click.style(plain(told["template"]), bold=True)
    yield f"{name}  {plural(usage, 'run')}, {rate(told['success_rate'])} well"
    if not usage:
        return
    times = told.get("duration_ms")
    if times:
        yield f"    took {took(times['p50'])} mostly, {took(times['p95'])} at 95 %, {took(times['max'])} at most"
    for status, count in told["statuses"].items():
        yield f"    {count} {cell(status)}"
    if told["failures"]:
        yield "    failed with " + ", ".join(f"{cell(code)} ({count})" for code, count in told["failures"].items())
    rows = [
        [
            cell(id),
            str(one["usage_count"]),
            rate(one["successes"] / one["usage_count"] if one["usage_count"] else None),
            *_percentiles(one["duration_ms"]),
            str(one["attempts"]),
            ", ".join(f"{cell(code)} ({count})" for code, count in one["failures"].items()) or "-",
        ]
        for id, one in told["steps"].items()
    ]
    yield from table(["STEP", "RUNS", "WELL", "P50", "P95", "ATTEMPTS", "FAILED WITH"], rows)
    for one in told["suggestions"]:
        yield from _wrapped(str(one["why"]), first="* ", rest="  ")


def _counted(statuses: object) -> str:
    return ", ".join(f"{count} {cell(name)}" for name, count in statuses.items()) if is_object(statuses) else "-"


def _percentiles(durations: object) -> list[str]:
    return [took(durations.get(name)) if is_object(durations) else "-" for name in ("p50", "p95")]


def _wrapped(text: str, *, first: str = "    ", rest: str = "    ") -> list[str]:
    return textwrap.wrap(plain(text), WIDTH, initial_indent=first, subsequent_indent=rest)


def rate(share: object) -> str:
    """Return a share in percent."""
    return f"{share * 100:.0f} %" if isinstance(share, int | float) else "-"


def took(ms: object) -> str:
    """Return a duration."""
    if not isinstance(ms, int | float):
        return "-"
    return f"{ms / 1000:.1f} s" if ms >= 1000 else f"{ms:.0f} ms"
