"""The chain of three tools in libraries that a user might pick instead, where they are installed."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from itertools import pairwise
from typing import Any, TypedDict

from bench.chain import STEPS, nothing
from bench.paired import Side


class State(TypedDict):
    """What langgraph hands from node to node."""

    value: str


def langgraph() -> Side:
    """Return the chain as a langgraph graph of three nodes."""
    graph: Any = import_module("langgraph.graph")
    builder = graph.StateGraph(State)

    async def node(state: State) -> State:
        return {"value": await nothing(state["value"])}

    last = graph.START
    for number in range(STEPS):
        builder.add_node(f"n{number}", node)
        builder.add_edge(last, f"n{number}")
        last = f"n{number}"
    builder.add_edge(last, graph.END)
    compiled = builder.compile()
    return lambda: compiled.ainvoke({"value": "x"})


def pydantic_graph() -> Side:
    """Return the chain as a pydantic-graph graph of three steps."""
    library: Any = import_module("pydantic_graph")
    builder = library.GraphBuilder(input_type=str, output_type=str)

    async def step(context: Any) -> str:
        return await nothing(context.inputs)

    steps = [builder.step(step, node_id=f"n{number}") for number in range(STEPS)]
    path = [builder.start_node, *steps, builder.end_node]
    builder.add(*(builder.edge_from(one).to(two) for one, two in pairwise(path)))
    graph = builder.build()
    return lambda: graph.run(inputs="x")


OTHERS: dict[str, Callable[[], Side]] = {"langgraph": langgraph, "pydantic-graph": pydantic_graph}


async def installed() -> dict[str, tuple[str, Side]]:
    """Return the libraries that are here, each with its version and its chain, tried once."""
    found: dict[str, tuple[str, Side]] = {}
    for name, make in OTHERS.items():
        try:
            side = make()
        except ModuleNotFoundError:
            continue
        await side()
        found[name] = (version(name), side)
    return found
