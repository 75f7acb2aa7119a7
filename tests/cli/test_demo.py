"""`weft demo`: the whole of it, as people start it."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from weft.cli.connecting import ways_to
from weft.cli.group import INTERRUPTED

from .conftest import process

COMMAND = [sys.executable, "-m", "weft.cli", "demo"]
ROOT = Path(__file__).resolve().parent.parent.parent
SERVERS = 9
AGENTS = """
  The tools of each:
    researcher@1.0.0  research_pipeline@1.0.0, search_in@1.0.0, internal_docs@2.0.0,
                      get_document@1.0.0
    support@2.1.0     internal_docs@1.0.0, inventory_stock@1.0.0, payment_charges@1.0.0,
                      payment_refund@1.0.0, shipping_list@1.0.0
  Both call internal_docs at the same moment:
    researcher@1.0.0  2.0.0: 5 documents with doc_name, path, excerpt, last_modified, author, score
    support@2.1.0     1.0.0: 3 documents with doc_name, path
  Both call payment_refund charge_id=C1, and a tool that does not exist:
    researcher@1.0.0  payment_refund  Unknown tool: payment_refund
    researcher@1.0.0  no_such_tool    Unknown tool: no_such_tool
    support@2.1.0     payment_refund  there is no charge 'C1'
    support@2.1.0     no_such_tool    Unknown tool: no_such_tool
"""
ORDERED = """
  reserve_inventory  DONE
  charge_payment     DONE
  ship_order         DONE
  Its result: order_id=o1 reservation_id=R-1 charge_id=C-1 shipment_id=S-1
"""
UNDONE = """
  reserve_inventory  COMPENSATED
  charge_payment     COMPENSATED
  ship_order         FAILED
  What is left of it: C-2 refunded, no parcel; 3 of HIVE-1 in stock
"""
CUT_OFF = """
  How far it had come:
    reserve_inventory  DONE
    charge_payment     DONE
    ship_order         STARTED
"""
FINISHED = """
    reserve_inventory  DONE
    charge_payment     DONE
    ship_order         DONE  after 2 attempts
  What is left of it: C-3 charged, S-2 shipped; 2 of HIVE-1 in stock
"""


def _timeless(line: str) -> str:
    return re.sub(r" +[\d.]+ ms", " # ms", line.strip())


def documented() -> list[str]:
    """Return the lines of the trees in the documentation, as far as they are written out."""
    texts = [(ROOT / page).read_text(encoding="utf-8") for page in ("README.md", "docs/first-five-minutes.md")]
    lines = [line for text in texts for line in text.splitlines() if re.search(r"  [\d.]+ ms  ", line)]
    assert len(lines) > 20
    return [_timeless(line.removesuffix("...")) for line in lines]


def documented_lists() -> list[str]:
    """Return what the README says of the list of tools, without and with groups."""
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if re.match(r"  \d+ (tools|groups) .* tokens$", line)]


@pytest.mark.req("ALG-52", "REG-34", "REG-40", "REG-59", "STA-41", "STA-44")
def test_the_demo_composes_real_servers_drops_the_source_that_fails_and_gives_each_agent_its_tools(tmp_path: Path):
    began = time.monotonic()
    done = process("demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - began < 50, "20 s on a machine that has nothing else to do"
    assert done.stdout.count("✓") == SERVERS
    assert "├─ gather  scatterGather" in done.stdout
    assert "From 6 documents" in done.stdout
    first, second = done.stdout.split("\n2. ")
    assert "warning" not in first
    warning = next(line for line in second.splitlines() if "warning: " in line)
    assert "Target '__news' failed" in warning
    assert warning.endswith("the news archive is closed for repairs")
    assert "weft demo --serve" in second
    assert AGENTS in second
    assert ORDERED in second
    undoing = second.partition("\n5. ")[2].partition("\n6. ")[0]
    assert UNDONE in undoing
    assert undoing.index("├─ undo_charge_payment") < undoing.index("└─ undo_reserve_inventory"), "in reverse"
    third, _, grouped = second.partition("\n6. ")[2].partition("\n7. ")
    assert CUT_OFF in third
    assert FINISHED in third.partition("Asked for again at the first gateway")[2]
    assert [line for line in grouped.splitlines() if re.match(r"  \d+ (tools|groups) ", line)] == documented_lists()
    assert "did you mean 'internal_docs'?" in grouped
    assert "\n    Bees at school\n" in grouped
    assert "\x1b" not in done.stdout, "no colours where there is no terminal"
    printed = [_timeless(line) for line in done.stdout.splitlines()]
    assert [line for line in documented() if not any(one.startswith(line) for one in printed)] == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("page", ["docs/first-five-minutes.md", "README.md"])
def test_pages_show_of_the_agents_what_the_demo_prints(page: str):
    text = (ROOT / page).read_text(encoding="utf-8")
    shown = [line.strip() for line in text.splitlines() if re.match(r" +(researcher|support)@\d", line)]
    printed = [line.strip() for line in AGENTS.splitlines()]
    assert len(shown) >= 5
    assert [line for line in shown if line not in printed] == []


def test_the_demo_as_json_has_both_runs_with_their_traces_both_agents_and_three_orders(tmp_path: Path):
    done = process("demo", "--json", "--topic", "street lamps", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    well, failing = told["runs"]
    assert (len(told["servers"]), well["warnings"], len(failing["warnings"])) == (SERVERS, [], 1)
    assert (
        {"research_pipeline", "search_in", "web_search", "internal_docs", "order_saga"}
        == set(told["composed"])
        <= set(told["tools"])
    )
    assert well["trace"]["step"] == "research_pipeline"
    assert any("lamps" in one["url"] for one in well["value"]["sources"])
    researcher, support = told["agents"]
    assert (researcher["agent"], support["agent"]) == ("researcher@1.0.0", "support@2.1.0")
    assert set(researcher["tools"]) & set(support["tools"]) == {"internal_docs"}
    assert {*researcher["tools"], *support["tools"]} < set(told["tools"])
    assert [one["path"] for one in support["found"]] == [one["path"] for one in researcher["found"]][:3] != []
    assert {name: one["saga"]["status"] for name, one in told["saga"].items()} == {
        "well": "COMPLETED",
        "refused": "COMPENSATED",
        "killed": "COMPLETED",
    }
    assert told["saga"]["refused"]["trace"]["step"] == "order_saga"
    before, after = told["groups"]["before"], told["groups"]["after"]
    assert (len(before["tools"]), after["saved"]["tools"], after["saved"]["before"]) == (26, 26, before["bytes"])
    assert after["tokens"] < before["tokens"]
    begun = told["saga"]["killed"]["killed"]
    owner = told["saga"]["killed"]["saga"]["owner"].split(":")[-2]
    assert int(owner) != begun["pid"], "another process has finished it"


@pytest.mark.parametrize("page", ["docs/first-five-minutes.md", "README.md"])
def test_pages_show_of_the_orders_what_the_demo_prints(page: str):
    text = (ROOT / page).read_text(encoding="utf-8")
    steps = re.compile(r" +((reserve_inventory|charge_payment|ship_order) +[A-Z]|What is left of it)")
    lines = [line.strip() for line in text.splitlines()]
    shown = [line for line in lines if steps.match(f" {line}")]
    printed = [line.strip() for line in (ORDERED + UNDONE + CUT_OFF + FINISHED).splitlines()]
    assert len(shown) >= 7
    assert [line for line in shown if line not in printed] == []


@contextmanager
def serving(tmp_path: Path) -> Generator[tuple[subprocess.Popen[str], list[str]]]:
    """Start `weft demo --serve` on free ports, and yield it and what it printed."""
    command = [*COMMAND, "--serve", "--port", "0", "--admin-port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        shown = [line := running.stdout.readline()]
        while line and "news_mood" not in line:
            shown.append(line := running.stdout.readline())
        try:
            yield running, shown
        finally:
            if running.poll() is None:
                running.kill()


def as_agents(shown: list[str]) -> list[list[str]]:
    """Return what was printed to be typed as an agent, without `weft`: first all lists, then all calls."""
    typed = [shlex.split(line)[1:] for line in shown if "--agent" in line]
    return sorted(typed, key=lambda words: words[0], reverse=True)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other signals")
def test_serve_keeps_it_up_for_any_client_until_ctrl_c(tmp_path: Path):
    with serving(tmp_path) as (running, shown):
        url = f"http{shown[0].partition('http')[2].partition(';')[0]}"
        called = process("call", "search_in", "query=lamps", "where=papers", "--url", url, cwd=tmp_path)
        assert json.loads(called.stdout)[0]["arxiv_id"] == "2409.00303", called.stderr
        listed = process("tools", "--url", url, "--view", "orders", cwd=tmp_path)
        assert len(listed.stdout.splitlines()) == 12
        hidden = process("tools", "--url", url, "--view", "research", cwd=tmp_path)
        names = [line.split()[0] for line in hidden.stdout.splitlines()]
        assert names == ["get_document", "research_pipeline", "search_in"], "search_documents is raw, and hidden"
        admin = "".join(shown).partition("Operators: ")[2].partition("/traces")[0]
        traced = process("trace", "--last", "--admin", admin, cwd=tmp_path)
        assert traced.stdout.startswith("search_in  composition"), traced.stderr
        port = url.rpartition(":")[2].partition("/")[0]
        taken = process("demo", "--serve", "--port", port, "--admin-port", "0", cwd=tmp_path)
        assert (taken.returncode, taken.stderr.count("\n")) == (2, 2), "the error, and what to do"
        assert f"cannot listen on 127.0.0.1:{port}" in taken.stderr
        for command, count in zip(as_agents(shown), [4, 5, 6, 2], strict=True):
            done = process(*command, cwd=tmp_path)
            came = json.loads(done.stdout)[0] if command[0] == "call" else done.stdout.splitlines()
            assert len(came) == count, (command, "its tools, or the fields of a document", done.stderr)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=30)
    assert (running.returncode, err) == (0, "")
    assert f'"url": "{url}"' in "".join(shown)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other signals")
def test_ctrl_c_ends_the_demo_with_one_line(tmp_path: Path):
    with subprocess.Popen(COMMAND, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stderr is not None
        assert running.stderr.readline().startswith("Starting nine MCP servers")
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=30)
    assert (running.returncode, out, err) == (INTERRUPTED, "", "Stopped.\n")


def test_every_way_to_connect_names_the_url_and_json_is_json():
    ways = dict(ways_to("http://127.0.0.1:1/mcp", tool="search", arguments={"query": "it's"}))
    assert all("http://127.0.0.1:1/mcp" in what for what in ways.values())
    servers = [json.loads(what) for what in ways.values() if what.startswith("{")]
    assert len(servers) == 3
    assert """'query=it'"'"'s'""" in ways["weft"]
