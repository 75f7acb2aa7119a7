"""`weft init`: a project in an empty folder that works at once."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import click

from weft.cli.files import write_file
from weft.cli.output import as_json, error_json, good, note, plain, result
from weft.errors import InputError

CONFIG = """\
# The settings of the gateway; every key has a default. `weft schema config > weft.schema.json` makes the schema for
# editors, which the next line names.
# yaml-language-server: $schema=weft.schema.json
registry: {source: "file://./registry.yaml"}

servers:                     # the MCP servers behind the gateway; `weft import` adds those that your client has
  documents: {command: [PYTHON, -m, weft.demo.documents]}
  summarize: {command: [PYTHON, -m, weft.demo.summarize]}
  # github:
  #   url: https://api.githubcopilot.com/mcp/
  #   headers: {Authorization: "Bearer ${env:GITHUB_TOKEN}"}    # secrets only by reference

# Who calls: `weft key create` makes the file and a key, and whoever has none is refused.
# identity: {keyFile: keys.json, anonymous: deny}

# Who may call what: what no rule allows is neither listed nor called.
# policy:
#   - {name: only what reads, effect: allow, when: tool.annotations.readOnlyHint == true}

# What was approved: a tool that is not as `weft lock` saw it is told in the log; `enforce` holds it back.
# lock: {mode: warn}

# What was done: one record for each call and step; `weft audit verify audit.log --key audit.log.key` checks them.
# audit: {file: audit.log}
"""
REGISTRY = """\
# The tools that the gateway makes of those of its servers.
schemaVersion: "1.0"

compositions:
  - name: brief
    description: Search the documents for a topic and sum up what they say.
    inputSchema:
      type: object
      properties:
        query: {type: string, description: "What to look for, such as: bees"}
      required: [query]
    spec:
      pipeline:
        steps:
          - id: search
            operation: {tool: {name: search_documents, server: documents}}
          - id: relevant
            operation: {filter: {predicate: item.score > 0.2}}
          - id: texts
            operation:
              mapEach:
                inner: {schemaMap: {mappings: {content: $.excerpt, title: $.title, url: $.id}}}
          - id: request
            operation: {schemaMap: {mappings: {documents: $, sentences: {literal: 3}}}}
          - id: summary
            operation: {tool: {name: summarize, server: summarize}}
"""
CASES = """\
# `weft test` runs these without any server: the tools answer from the mocks.
registry: ./registry.yaml

mocks:
  search_documents:
    - {id: "demo://a", title: Bees, excerpt: Bees like lavender., score: 0.9}
    - {id: "demo://b", title: Lamps, excerpt: Lamps are warm., score: 0.1}
  summarize: {summary: Bees like lavender., sources: []}

cases:
  - name: what is relevant is summed up
    tool: brief
    input: {query: bees}
    expect:
      contains: {summary: Bees like lavender.}
      calls: [search_documents, summarize]
  - name: a search that fails is told
    tool: brief
    input: {query: bees}
    mocks: {search_documents: {$error: "no index"}}
    expect: {error: no index}
"""
IGNORED = """\
.env
*.db
audit.*
keys.json
.weft/
__pycache__/
weft.schema.json
"""
README = """\
# A project of weft

`weft.yaml` names the MCP servers, `registry.yaml` composes their tools into new ones, and
`brief.weft-test.yaml` tests them.

    weft validate registry.yaml    # everything that is wrong, with file and line
    weft test                      # the cases, without any server
    weft serve                     # the gateway, on http://127.0.0.1:15000/mcp

Point an MCP client at that URL, or call a tool from here while it runs:

    weft call brief query=bees --trace

Without a gateway, the servers are started for one call:

    weft run brief -c weft.yaml --input '{"query": "bees"}'
"""
FILES = {
    "weft.yaml": CONFIG,
    "registry.yaml": REGISTRY,
    "brief.weft-test.yaml": CASES,
    ".gitignore": IGNORED,
    "README.md": README,
}
COMMON = frozenset({".gitignore", "README.md"})
"""Files that a folder may have for another reason; they stay as they are."""


@click.command("init", epilog="\b\nExample:\n  weft init\n  weft init my-tools && cd my-tools && weft test")
@click.argument("folder", type=click.Path(path_type=Path), default=Path(), metavar="[DIR]")
@click.option("--json", "json_", is_flag=True, help='Print {"folder", "files"}.')
def command(folder: Path, json_: bool) -> None:
    """Make a project that works at once: servers, a composition of their tools, a test and the settings.

    The folder is made when it is missing; nothing is written where there is a project already.
    """
    try:
        made = _make(folder)
    except InputError as error:
        if not json_:
            raise
        result(as_json({"error": error_json(error)}))
        raise click.exceptions.Exit(2) from None
    if json_:
        result(as_json({"folder": str(folder), "files": made}))
        return
    for name in made:
        result(good(plain(str(folder / name))))
    _next(folder)


def _make(folder: Path) -> list[str]:
    there = [name for name in FILES if (folder / name).exists() or (folder / name).is_symlink()]
    if {*there} - COMMON:
        hint = "weft init makes these files and changes none; try it in an empty folder: weft init my-tools"
        raise InputError(f"{folder} has {', '.join(there)} already", code="FileExists", hint=hint)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make {folder}: {(error.strerror or '').lower()}", code="UnwritableFile") from error
    made = [name for name in FILES if name not in there]
    for name in made:
        write_file(folder / name, FILES[name].replace("PYTHON", _python()))
    return made


def _python() -> str:
    """Return what starts this Python: `python` where that is the one, since others will use the file too."""
    found = shutil.which("python")
    same = found is not None and Path(found).parent == Path(sys.executable).parent
    return "python" if same else as_json(sys.executable)


def _next(folder: Path) -> None:
    note("\nNext:")
    if folder.resolve() != Path.cwd():
        note(f"  cd {plain(os.fspath(folder))}")
    note("  weft validate registry.yaml")
    note("  weft test")
    note("  weft serve      # then point an MCP client at http://127.0.0.1:15000/mcp")
