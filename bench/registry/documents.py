"""Registries of any size: servers with their tools in versions, compositions, schemas that refer to schemas, agents."""

from __future__ import annotations

from typing import Any

VERSION = "1.0.0"
OLDER = "0.9.0"
SOURCES = 85
TWICE = 5
COMPOSITIONS = 10
SERVER_TOOLS = SOURCES + TWICE + COMPOSITIONS
"""How many tools a server brings: its own, some of them in two versions, and compositions of them."""

DEPENDS = 10
"""How many tools an agent depends on."""


def document(*, tools: int, agents: int, words: str = "Finds things") -> dict[str, Any]:
    """Return a registry of so many tools, of a server for each hundred, and so many agents."""
    servers = range(tools // SERVER_TOOLS)
    return {
        "schemaVersion": "2.0",
        "schemas": [_QUERY, _MONEY, *(schema for number in servers for schema in _schemas(number))],
        "servers": [_server(number) for number in servers],
        "tools": [tool for number in servers for tool in _tools(number, words)],
        "agents": [_agent(number, len(servers)) for number in range(agents)],
    }


def server_of(number: int) -> str:
    """Return the name of a server; its tools begin with it."""
    return f"s{number}"


def agent_of(number: int) -> str:
    """Return the name of an agent."""
    return f"agent-{number}"


def tools_of_agent(number: int, servers: int) -> list[str]:
    """Return the tools that an agent depends on: nine of one server, and a composition of it."""
    server = server_of(number % servers)
    own = [f"{server}_{(number + 7 * each) % SOURCES}" for each in range(DEPENDS - 1)]
    return [*own, f"{server}_all_{number % COMPOSITIONS}"]


_QUERY: dict[str, Any] = {
    "name": "Query",
    "version": VERSION,
    "description": "What is looked for.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 1000},
}
_MONEY: dict[str, Any] = {
    "name": "Money",
    "version": VERSION,
    "schema": {
        "type": "object",
        "properties": {"amount": {"type": "number", "minimum": 0}, "currency": {"enum": ["EUR", "USD"]}},
        "required": ["amount", "currency"],
    },
}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#{name}:{VERSION}"}


def _schemas(number: int) -> list[dict[str, Any]]:
    item = {
        "type": "object",
        "properties": {"title": {"type": "string"}, "url": {"type": "string"}, "price": _ref("Money")},
        "required": ["title"],
    }
    items = {"type": "array", "items": _ref(f"Item{number}")}
    found = {"type": "object", "properties": {"items": items, "score": {"type": "number"}}}
    page = {"allOf": [_ref(f"Found{number}"), {"type": "object", "properties": {"next": {"type": "string"}}}]}
    bodies = {f"Item{number}": item, f"Found{number}": found, f"Page{number}": page}
    return [{"name": name, "version": VERSION, "schema": body} for name, body in bodies.items()]


def _server(number: int) -> dict[str, Any]:
    name = server_of(number)
    current = [{"tool": f"{name}_{each}", "version": VERSION} for each in range(SOURCES)]
    older = [{"tool": f"{name}_{each}", "version": OLDER} for each in range(TWICE)]
    told = f"Server {number} of the house."
    return {"name": name, "version": VERSION, "description": told, "provides": [*current, *older]}


def _tools(number: int, words: str) -> list[dict[str, Any]]:
    current = [_source(number, each, VERSION, words) for each in range(SOURCES)]
    older = [_source(number, each, OLDER, words) for each in range(TWICE)]
    return [*current, *older, *(_composition(number, each, words) for each in range(COMPOSITIONS))]


def _source(number: int, each: int, version: str, words: str) -> dict[str, Any]:
    name = f"{server_of(number)}_{each}"
    return {
        "name": name,
        "version": version,
        "description": f"{words}, as number {each} of server {number}; returns the best first.",
        "inputSchema": _input(name, each),
        "outputSchema": _ref(f"Page{number}" if each % 3 else f"Found{number}"),
        "source": {"server": server_of(number), "serverVersion": VERSION, "tool": name},
        "metadata": {"team": f"team-{number % 12}"},
    }


def _input(name: str, each: int) -> dict[str, Any]:
    """Return the input of a tool; no two tools have the same."""
    limit = {"type": "integer", "minimum": 1, "maximum": 100 + each, "description": f"How many {name} gives, at most."}
    properties = {"query": _ref("Query"), "limit": limit, "budget": _ref("Money")}
    return {"type": "object", "properties": properties, "required": ["query"]}


def _composition(number: int, each: int, words: str) -> dict[str, Any]:
    server = server_of(number)
    name = f"{server}_all_{each}"
    asked = [f"{server}_{each + TWICE}", f"{server}_{each + 2 * TWICE + COMPOSITIONS}"]
    gather = {
        "targets": [{"tool": {"name": one}} for one in asked],
        "aggregation": {"ops": [{"flatten": True}, {"sort": {"field": "$.score", "order": "desc"}}]},
    }
    test = {"field": "$.score", "op": "gt", "value": each / COMPOSITIONS}
    steps = [
        {"id": "gather", "operation": {"scatterGather": gather}},
        {"id": "keep", "operation": {"filter": {"predicate": test}}},
    ]
    return {
        "name": name,
        "version": VERSION,
        "description": f"{words} in two places at once.",
        "inputSchema": _input(name, each),
        "spec": {"pipeline": {"steps": steps}},
        "depends": [{"type": "tool", "name": one, "version": VERSION} for one in asked],
    }


def _agent(number: int, servers: int) -> dict[str, Any]:
    name = agent_of(number)
    depends: list[dict[str, Any]] = [
        {"type": "tool", "name": tool, "version": VERSION} for tool in tools_of_agent(number, servers)
    ]
    if number % 10 == 9:
        depends.append({"type": "agent", "name": agent_of(number - 1), "version": VERSION, "skill": "find"})
    sbom = {"uri": "urn:agentgateway:sbom", "params": {"depends": depends}}
    skill = {
        "id": "find",
        "name": "Find",
        "description": "Finds what is asked for.",
        "inputSchema": {"type": "object", "properties": {"query": _ref("Query")}, "required": ["query"]},
        "outputSchema": _ref(f"Page{number % servers}"),
    }
    return {
        "name": name,
        "version": VERSION,
        "description": f"Agent {number} of the house.",
        "url": f"https://agents.example.com/{name}",
        "protocolVersion": "0.3.0",
        "skills": [skill],
        "capabilities": {"extensions": [sbom]},
    }
