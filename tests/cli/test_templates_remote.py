"""`weft templates --url`: the same commands against a gateway, over its HTTP API."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.app.served import house
from tests.cli.test_templates import GREETING, TEMPLATE, TOOLS
from weft.cli import weft
from weft.gateway.keys import KeyFile, make_key

NAME = '{"name": "bee"}'
# The gateway is in this process, and so is what it prints.
QUIET = TOOLS.replace("    print", "    str")


async def asked(port: int, *arguments: str, env: dict[str, str] | None = None) -> Result:
    """Run a command against the gateway, from a thread of its own."""
    words = ["templates", arguments[0], "--url", f"http://127.0.0.1:{port}/mcp", *arguments[1:]]
    return await asyncio.to_thread(CliRunner().invoke, weft, words, env=env)


@pytest.mark.req("WFL-24", "WFL-25", "WFL-26")
async def test_the_same_commands_work_at_a_gateway(tmp_path: Path):
    (tmp_path / "tools.py").write_text(QUIET)
    template, document = tmp_path / "template.json", tmp_path / "greeting.json"
    template.write_text(json.dumps(TEMPLATE))
    document.write_text(json.dumps(GREETING))
    async with house(tmp_path, {"registry": {"source": "tools.py"}}) as one:
        port = one.port
        assert (await asked(port, "add", str(template))).exit_code == 0
        assert "--replace puts" in (await asked(port, "add", str(template))).stderr
        assert (await asked(port, "add", str(template), "--replace")).exit_code == 0
        assert "greeting-v1" in (await asked(port, "list", "--tag", "kind")).stdout
        assert "✓ shout" in (await asked(port, "show", "greeting-v1")).stdout
        for what in ("greeting-v1", str(document)):
            done = await asked(port, "run", what, "--input", NAME)
            assert (done.exit_code, done.stdout) == (0, '"HELLO BEE"\n')
            assert "second: done" in done.stderr
        plan = await asked(port, "run", "greeting-v1", "--input", NAME, "--dry-run")
        assert plan.stdout.startswith('1. first: shout {"text":"bee"}')
        assert (await asked(port, "stats", "greeting-v1")).stdout.startswith("greeting-v1  1 run, 100 % well")
        assert "succeeded" in (await asked(port, "runs", "greeting-v1", "--limit", "1")).stdout
        assert (await asked(port, "delete", "greeting-v1")).exit_code == 0
        assert (await asked(port, "delete", "greeting-v1")).exit_code == 2


async def test_what_the_gateway_refuses_is_told_as_here(tmp_path: Path):
    (tmp_path / "tools.py").write_text(QUIET)
    bad = tmp_path / "bad.yaml"
    bad.write_text("name: bad\nsteps:\n  - {tool: shoutt, id: first, parameters: {text: x}}\n")
    async with house(tmp_path, {"registry": {"source": "tools.py"}}) as one:
        lost = await asked(one.port, "show", "demo-ordr-v1")
        assert (lost.exit_code, "did you mean 'demo-order-v1'?" in lost.stderr) == (2, True)
        wrong = await asked(one.port, "run", str(bad))
        assert wrong.exit_code == 2
        assert "bad.yaml:3:12: error: Tool not found: shoutt" in wrong.stderr
    gone = await asked(one.port, "list")
    assert (gone.exit_code, "[UpstreamUnavailable]" in gone.stderr) == (1, True)


async def test_a_key_of_the_environment_goes_along(tmp_path: Path):
    made, key = make_key(subject="anna")
    KeyFile(tmp_path / "keys.json").add(made)
    async with house(tmp_path, {"identity": {"keyFile": "keys.json", "anonymous": "deny"}}) as one:
        denied = await asked(one.port, "list", env={"WEFT_KEY": ""})
        assert (denied.exit_code, "WEFT_KEY" in denied.stderr) == (1, True)
        assert (await asked(one.port, "list", env={"WEFT_KEY": key})).exit_code == 0
