"""What the registry costs in CPU time: loaded, in lists for agents, and in the checks of a call."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from bench.figure import Figure
from bench.gateway.effort import Effort
from bench.gateway.pairs import Ratio, in_turn, ratio_of
from bench.gateway.places import upstream
from bench.gateway.processes import Process
from bench.paired import SAME
from bench.registry.asking import CONNECTIONS, Asking, Client, calls, lists
from bench.registry.documents import DEPENDS, SERVER_TOOLS, VERSION, agent_of, document, tools_of_agent
from bench.registry.places import Served, serving
from weft.gateway.keys import KeyFile, make_key

TOOLS, AGENTS = 10_000, 1_000
FEW = 100
STRANGERS = CONNECTIONS * 140
"""So many agents that what weft remembers of one is forgotten when it asks again: 20,000 decisions are remembered."""

POLICY: list[dict[str, Any]] = [
    {"name": "agents", "effect": "allow", "when": "principal.agentName != null && principal.agentName.size() > 3"},
    {"name": "reports", "effect": "allow", "when": "'report' in principal.scopes", "tools": ["report_*"]},
    {"name": "nothing that is going away", "effect": "deny", "when": "tool.deprecated"},
]
STRICT = {"inputValidation": "warn", "undeclaredDependency": "deny", "unknownCaller": "deny"}
LAX = {"inputValidation": "ignore", "undeclaredDependency": "allow", "unknownCaller": "allow"}
ANSWER = {"title": "Bees in the city", "url": "https://example.org/bees", "score": 0.87}


def loaded(effort: Effort) -> Iterator[Figure]:
    """Measure a large registry that is read and checked in fresh processes."""
    made = document(tools=TOOLS, agents=AGENTS)
    with TemporaryDirectory() as name:
        path = Path(name) / "registry.json"
        path.write_text(json.dumps(made))
        runs = sorted((_run(path) for _ in range(max(3, effort.few_turns // 4))), key=lambda run: run["load_s"])
        size = path.stat().st_size
        path = path.with_suffix(".yaml")
        path.write_text(yaml.dump(made, Dumper=yaml.CSafeDumper, sort_keys=False))
        in_yaml = _run(path)
    middle = runs[len(runs) // 2]
    what = f"{TOOLS:,} tools and {AGENTS:,} agents"
    detail = {"bytes": size, "processes": len(runs), "with_imports_s": round(middle["process_s"], 3)}
    detail |= {f"{kind}_s": round(run["load_s"], 3) for kind, run in (("fastest", runs[0]), ("slowest", runs[-1]))}
    yield Figure(f"loading and validating {what} ({size / 1e6:.1f} MB)", middle["load_s"], 3.0, "s", detail)
    yield Figure("the same: peak memory of the process", max(run["peak_MB"] for run in runs), 400.0, "MB")
    yield Figure("the same from YAML", in_yaml["load_s"], None, "s", {"peak_MB": round(in_yaml["peak_MB"], 1)})


def _run(path: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.registry.loading", str(path)]
    told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout)
    if (told["tools"], told["agents"], told["problems"]) != (TOOLS, AGENTS, 0):
        raise RuntimeError(f"not the registry that was written: {told}")
    return told


def cpu_of(process: Process, client: Client, asking: Asking) -> Callable[[], float]:
    """Return what measures the microseconds of CPU that an answer costs a process; it has had its first ones."""
    client.run(asking)

    def measure() -> float:
        before = process.cpu()
        outcome = client.run(asking)
        return (process.cpu() - before) / outcome.calls * 1e6

    return measure


def _ratio(ours: Callable[[], float], theirs: Callable[[], float], effort: Effort) -> Ratio:
    return ratio_of(*in_turn(ours, theirs, turns=effort.turns))


def scoped_lists(client: Client, effort: Effort) -> Iterator[Figure]:
    """Measure the list of an agent among 10,000 tools against the same among 100, also of agents that are new."""
    with upstream() as behind, ExitStack() as stack:

        def start(tools: int) -> Served:
            registry = document(tools=tools, agents=STRANGERS)
            settings = {"policy": POLICY, "registry": {"validation": {"runtime": STRICT}}}
            return stack.enter_context(serving(behind, registry, settings, servers=tools // SERVER_TOOLS))

        many, few = start(TOOLS), start(FEW)
        started, (resident, *_) = many.process.cpu(), many.process.memory()
        one = _ratio(_listing(many, client, effort, 1), _listing(few, client, effort, 1), effort)
        all_ = _ratio(_listing(many, client, effort, STRANGERS), _listing(few, client, effort, STRANGERS), effort)
    told = f"tools/list of an agent with {DEPENDS} dependencies among {TOOLS:,} tools, CPU / among {FEW}"
    yield one.figure(told, 1.2, unit="us")
    yield all_.figure("the same for agents of whom nothing is remembered", 1.2, unit="us", agents=STRANGERS)
    name = f"a gateway with {TOOLS:,} tools of {TOOLS // SERVER_TOOLS} servers and {STRANGERS:,} agents, started"
    yield Figure(name, started, None, "s", {"resident_MB": round(resident, 1)})


def _listing(served: Served, client: Client, effort: Effort, agents: int) -> Callable[[], float]:
    asking = Asking(
        port=served.port,
        requests=lists([_headers(number) for number in range(agents)]),
        right=lambda result: len(result["tools"]) == DEPENDS,
        times=effort.calls,
    )
    return cpu_of(served.process, client, asking)


def _headers(number: int) -> dict[str, str]:
    return {"x-agent-name": agent_of(number), "x-agent-version": VERSION}


def checked_calls(client: Client, effort: Effort) -> Iterator[Figure]:
    """Measure calls with every check against calls without any; and with an audit log, and without a registry."""
    registry, runtime = document(tools=FEW, agents=AGENTS // 10), {"validation": {"runtime": LAX}}
    with TemporaryDirectory() as name, ExitStack() as stack:
        behind = stack.enter_context(upstream())
        key = _key(Path(name) / "keys.json")
        strict: dict[str, Any] = {
            "identity": {"keyFile": str(Path(name) / "keys.json"), "anonymous": "deny", "allowSelfAsserted": False},
            "policy": POLICY,
            "registry": {"validation": {"runtime": STRICT}},
        }
        audited = {**strict, "audit": {"file": str(Path(name) / "audit.jsonl")}}
        theirs, bare, ours, noted = (
            _calling(stack.enter_context(serving(behind, given, settings)), client, effort, headers)
            for given, settings, headers in (
                (registry, {"registry": runtime}, {}),
                (None, {"registry": runtime}, {}),
                (registry, strict, {"authorization": f"Bearer {key}"}),
                (registry, audited, {"authorization": f"Bearer {key}"}),
            )
        )
        checked = _ratio(ours, theirs, effort)
        yield checked.figure("tools/call with API key, policy, dependencies and input checked / none", 1.15, unit="us")
        yield _ratio(noted, theirs, effort).figure("the same with an audit log / none", None, unit="us")
        yield _ratio(ours, bare, effort).figure("checked / a gateway without a registry", None, unit="us")


def _key(path: Path) -> str:
    key, text = make_key(agent=agent_of(0), versions=[VERSION], scopes=["call"])
    KeyFile(path).add(key)
    return text


def _calling(served: Served, client: Client, effort: Effort, headers: dict[str, str]) -> Callable[[], float]:
    return cpu_of(served.process, client, calling(served, effort, headers))


def calling(served: Served, effort: Effort, headers: dict[str, str]) -> Asking:
    """Return calls of the tools that the first agent depends on and that a server has."""
    tools = tools_of_agent(0, 1)[:-1]
    return Asking(port=served.port, requests=calls(tools, headers), right=is_answer, times=effort.calls)


def is_answer(result: Any) -> bool:
    """Tell whether a result is what the server behind answers."""
    return result["structuredContent"] == ANSWER


def quiet(client: Client, effort: Effort, tries: int = 3) -> tuple[Ratio, bool]:
    """Measure a plain gateway against another process of itself until that gives 1; tell whether it did."""
    registry, settings = document(tools=FEW, agents=1), {"registry": {"validation": {"runtime": LAX}}}
    with upstream() as behind, serving(behind, registry, settings) as one, serving(behind, registry, settings) as other:
        sides = [_calling(each, client, effort, {}) for each in (one, other)]
        same = _ratio(sides[0], sides[1], effort)
        while not SAME[0] <= same.ratio <= SAME[1] and tries > 1:
            tries -= 1
            same = _ratio(sides[0], sides[1], effort)
        return same, SAME[0] <= same.ratio <= SAME[1]
