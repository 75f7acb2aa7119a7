"""ToolHive's composite tools as compositions, with a report of what could not be carried over."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from weft.expr.paths import quote
from weft.ports import is_array, is_object
from weft.registry.gotemplates import Call, Expression, Fixed, Inexpressible, Place, condition, expression, pieces

DEFINITION = "VirtualMCPCompositeToolDefinition"
LISTS = ("compositeTools", "composite_tools")
CARRIED = {"name", "description", "parameters", "steps", "output"}
LOOP_KEYS = {"collection", "itemVar", "maxParallel", "step"}
STEP_KEYS = {"id", "type", "tool", "arguments", "condition", "dependsOn", "depends_on"}
KNOWN = {"params", "steps", "vars", "workflow", "forEach"}
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(slots=True)
class Composites:
    """Compositions as tools of a registry, and what could not be carried over."""

    tools: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    notes: list[str] = field(default_factory=list[str])

    @property
    def document(self) -> dict[str, Any]:
        """A registry with all of them."""
        return {"schemaVersion": "1.0", "tools": self.tools}


def definitions_in(documents: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the composite tools of Kubernetes resources or of configs of vmcp; other documents have none."""
    found: list[Mapping[str, Any]] = []
    for document in documents:
        spec = document.get("spec")
        if document.get("kind") == DEFINITION and is_object(spec):
            found.append(spec)
            continue
        config = spec.get("config") if is_object(spec) else None
        for holder in (document, spec, config):
            for key in LISTS:
                listed = holder.get(key) if is_object(holder) else None
                found += [one for one in (listed if is_array(listed) else []) if is_object(one)]
    return found


def composites(definitions: Iterable[Mapping[str, Any]]) -> Composites:
    """Return composite tools as compositions; one that cannot be said exactly enough is left out, with the reason."""
    made = Composites()
    for definition in definitions:
        name = str(definition.get("name") or "composite")
        notes: list[str] = []
        try:
            made.tools.append(_Workflow(name, definition, notes).tool())
        except Inexpressible as reason:
            notes = [f"{name}: left out: {reason}"]
        made.notes += notes
    return made


class _Workflow:
    def __init__(self, name: str, definition: Mapping[str, Any], notes: list[str]) -> None:
        self._name, self._definition, self._notes = name, definition, notes
        self._declared = _steps(definition)
        self._steps = _ordered(self._declared)
        self._conditional = {step["id"] for step in self._steps if step.get("condition")}
        self._loops = {step["id"] for step in self._steps if step.get("type") == "forEach"}
        self._item: str | None = None

    def _note(self, text: str) -> None:
        told = f"{self._name}: {text}"
        if told not in self._notes:
            self._notes.append(told)

    def tool(self) -> dict[str, Any]:
        """Return the tool of a registry."""
        for key in self._definition:
            if key not in CARRIED and self._definition[key] not in (None, "abort"):
                self._note(f"{key!r} was not carried over{_why(key)}")
        lost: dict[str, list[str]] = {}
        for step in self._steps:
            for key in step:
                known = STEP_KEYS | LOOP_KEYS if step["id"] in self._loops else STEP_KEYS
                if key not in known and not (key == "onError" and _ends(step[key], step["id"] in self._loops)):
                    lost.setdefault(key, []).append(step["id"])
        for key, names in lost.items():
            self._note(f"{key!r} of {', '.join(names)} was not carried over{_why(key)}")
        if len([step for step in self._steps if not _needed(step)]) > 1:
            self._note("steps that ran at the same moment run one after the other")
        made: list[dict[str, Any]] = []
        for index, step in enumerate(self._steps):
            made += self._stages(step, self._steps[index - 1]["id"] if index else None)
        pipeline: dict[str, Any] = {"steps": made}
        output, schema = self._output(made)
        if output is not None:
            pipeline["output"] = output
        about = self._definition.get("description")
        return {
            "name": self._name,
            **({"description": about.strip()} if isinstance(about, str) and about.strip() else {}),
            "inputSchema": _parameters(self._definition.get("parameters")),
            **({"outputSchema": schema} if schema is not None else {}),
            "spec": {"pipeline": pipeline},
        }

    def _stages(self, step: Mapping[str, Any], before: str | None) -> Iterator[dict[str, Any]]:
        """Yield a step, after another that makes its arguments when they have texts with holes."""
        name = step["id"]
        if (kind := step.get("type") or "tool") == "forEach":
            yield self._loop(step, before)
            return
        if kind != "tool":
            raise Inexpressible(f"step {name} is of the type {kind}")
        given = step.get("arguments")
        arguments = {key: self._argument(name, value) for key, value in (given if is_object(given) else {}).items()}
        guard = {"condition": self._condition(step, before)} if step.get("condition") else {}
        if any(len(parts) > 1 for parts in arguments.values()):
            if guard:
                raise Inexpressible(f"step {name} has both a condition and texts with holes")
            yield from _assembled(f"{name}__arguments", arguments)
            source: dict[str, Any] = {"step": {"stepId": f"{name}__arguments", "path": "$"}}
        else:
            source = {"construct": {"fields": {key: _binding(parts) for key, parts in arguments.items()}}}
        yield {"id": name, "operation": _called(str(step.get("tool"))), "input": source, **guard}

    def _loop(self, step: Mapping[str, Any], before: str | None) -> dict[str, Any]:
        """Return a step that does the same with every item of a list."""
        name, inner = step["id"], step.get("step")
        over = pieces(str(step.get("collection")))
        if (
            not is_object(inner)
            or (inner.get("type") or "tool") != "tool"
            or len(over) != 1
            or isinstance(over[0], str)
        ):
            raise Inexpressible(f"step {name} goes over something else than a list, or does not call a tool")
        made = over[0]
        bare = made.arguments[0] if isinstance(made, Call) and made.function == "json" and made.arguments else made
        source = self._source(name, bare)
        guard = {"condition": self._condition(step, before)} if step.get("condition") else {}
        self._item = str(step.get("itemVar") or "item")
        each = list(self._stages({**inner, "id": "item"}, None))
        self._item = None
        most, handling = step.get("maxParallel"), step.get("onError")
        limit = {"maxConcurrency": min(most, 64)} if isinstance(most, int) and most > 0 else {}
        skip = {"onError": "skip"} if is_object(handling) and handling.get("action") == "continue" else {}
        self._note(f"step {name} gives the list of what its tool gave, and not ToolHive's account of iterations")
        loop = {"inner": {"pipeline": {"steps": each}}, **limit, **skip}
        return {"id": name, "operation": {"mapEach": loop}, "input": source, **guard}

    def _argument(self, step: str, value: Any) -> list[Any]:
        """Return an argument as texts and bindings; what is no text, and a text without holes, is itself."""
        if not isinstance(value, str) or "{{" not in value:
            return [{"constant": {"value": value}}]
        return [piece if isinstance(piece, str) else self._source(step, piece) for piece in pieces(value)]

    def _source(self, step: str, made: Expression) -> dict[str, Any]:
        """Return where a value comes from, as a binding."""
        if isinstance(made, Fixed):
            return {"constant": {"value": made.value}}
        if isinstance(made, Call):
            if made.function not in ("json", "fromJson", "quote") or len(made.arguments) != 1:
                raise Inexpressible(f"the function {made.function} in step {step}")
            if made.function == "json":
                self._note(f"step {step}: a value is given as it is, where ToolHive gives it as JSON text")
            if made.function == "quote":
                raise Inexpressible(f"the function quote in step {step}")
            inner = made.arguments[0]
            if not isinstance(inner, Place):
                raise Inexpressible(f"a function of a function in step {step}")
            return self._place(step, (*inner.names, *made.names), parsed=made.function == "fromJson")
        return self._place(step, made.names)

    def _place(self, step: str, names: tuple[str, ...], *, parsed: bool = False) -> dict[str, Any]:
        if self._item is not None:
            if names[:2] != ("forEach", self._item):
                raise Inexpressible(f"{'.'.join(('', *names))} in a step that is done for every item")
            return {"input": {"path": quote(names[2:])}}
        if names[0] == "params":
            return {"input": {"path": quote(names[1:])}}
        if names[0] not in KNOWN:
            self._note(f"step {step}: .{'.'.join(names)} is nothing that ToolHive knows, and is left empty")
            return {"constant": {"value": ""}}
        if names[0] != "steps" or len(names) < 3 or names[2] != "output":
            raise Inexpressible(f"{'.'.join(('', *names))} in step {step}")
        if names[1] not in {one["id"] for one in self._steps}:
            raise Inexpressible(f"step {step} reads the step {names[1]}, which there is not")
        if names[1] in self._conditional:
            raise Inexpressible(f"step {step} reads the step {names[1]}, which may be skipped")
        if names[1] in self._loops:
            raise Inexpressible(f"step {step} reads the iterations of {names[1]}")
        path = names[3:]
        if path[:1] == ("text",):
            # ToolHive puts the text that a tool gives below `text`; in weft it is the value, parsed when it is JSON.
            path = path[1:]
            if not parsed:
                told = f"the text of {names[1]} is its whole value; write $.text where it gives an object with a text"
                self._note(f"step {step}: {told}")
        return {"step": {"stepId": names[1], "path": quote(path)}}

    def _condition(self, step: Mapping[str, Any], before: str | None) -> str:
        text = str(step["condition"]).strip()
        held = re.fullmatch(r"\{\{(.*)\}\}", text, re.DOTALL)
        if held is None or "{{" in held[1]:
            raise Inexpressible(f"the condition {text} of step {step['id']}")

        def place(names: tuple[str, ...]) -> str:
            if names[0] == "params" and all(_NAME.fullmatch(name) for name in names):
                return ".".join(("input", *names[1:]))
            readable = names[0] == "steps" and names[1:3] == (before, "output") and before not in self._conditional
            if readable and all(_NAME.fullmatch(name) for name in names[3:]):
                path = names[4:] if names[3:4] == ("text",) else names[3:]
                return ".".join(("previous", *path))
            raise Inexpressible(f"{'.'.join(('', *names))} in the condition of step {step['id']}")

        return condition(expression(held[1]), place)

    def _output(self, made: list[dict[str, Any]]) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
        """Return what the composition gives: what `output` says, else the result of the last step that was written."""
        output = self._definition.get("output")
        given = output.get("properties") if is_object(output) else None
        if not is_object(output) or not is_object(given):
            last = self._declared[-1]["id"]
            if last in self._conditional:
                raise Inexpressible(f"the result is that of the step {last}, which may be skipped")
            return (None if made[-1]["id"] == last else {"step": {"stepId": last, "path": "$"}}), None
        values: dict[str, list[Any]] = {}
        types: dict[str, Any] = {}
        for key, one in given.items():
            if not is_object(one) or not isinstance(one.get("value"), str):
                raise Inexpressible(f"the output {key} has no value of its own")
            if "default" in one:
                self._note(f"the default of the output {key} was not carried over: what is missing is null")
            values[key] = self._argument("output", one["value"])
            types[key] = {name: one[name] for name in ("description",) if name in one}
        schema = {"type": "object", "properties": types}
        if all(len(parts) == 1 for parts in values.values()):
            return {"construct": {"fields": {key: _binding(parts) for key, parts in values.items()}}}, schema
        made += _assembled("output__", values)
        return None, schema


def _assembled(name: str, arguments: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    """Yield the step that makes an object of texts with holes: it is given the values, and fills them in."""
    fields: dict[str, Any] = {}
    mappings: dict[str, Any] = {}
    for key, parts in arguments.items():
        names: dict[str, str] = {}
        text = ""
        for part in parts:
            if isinstance(part, str):
                text += part.replace("{", "{{").replace("}", "}}")
                continue
            hole = f"v{len(fields)}"
            fields[hole], names[hole] = part, f"$.{hole}"
            text += f"{{{hole}}}"
        single = len(parts) == 1 and not isinstance(parts[0], str)
        filled = {"template": {"template": text, "vars": names}}
        mappings[key] = {"path": next(iter(names.values()))} if single else filled
    yield {
        "id": name,
        "operation": {"schemaMap": {"mappings": mappings}},
        "input": {"construct": {"fields": fields}},
    }


def _binding(parts: list[Any]) -> dict[str, Any]:
    return parts[0] if not isinstance(parts[0], str) else {"constant": {"value": parts[0]}}


def _called(tool: str) -> dict[str, Any]:
    server, dot, name = tool.partition(".")
    return {"tool": {"name": name, "server": server} if dot else {"name": tool}}


def _steps(definition: Mapping[str, Any]) -> list[dict[str, Any]]:
    listed = definition.get("steps")
    steps = [one for one in listed if is_object(one)] if is_array(listed) else []
    if not steps:
        raise Inexpressible("it has no steps")
    ids = [one.get("id") for one in steps]
    if not all(isinstance(one, str) and one for one in ids) or len({*ids}) < len(ids):
        raise Inexpressible("its steps have no ids of their own")
    return steps


def _needed(step: Mapping[str, Any]) -> list[str]:
    """Return the steps that a step waits for: those that it lists, and those that its texts read."""
    listed = step.get("dependsOn", step.get("depends_on"))
    arguments, inner = step.get("arguments"), step.get("step")
    texts = [*(arguments.values() if is_object(arguments) else ()), step.get("condition"), step.get("collection")]
    read = [name for text in texts if isinstance(text, str) for name in re.findall(r"\.steps\.([A-Za-z_][\w-]*)", text)]
    within = _needed(inner) if is_object(inner) else []
    return list(dict.fromkeys([*(str(one) for one in (listed if is_array(listed) else ())), *read, *within]))


def _ordered(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return steps such that each comes after those that it waits for, else as they were written."""
    done: list[dict[str, Any]] = []
    waiting = list(steps)
    while waiting:
        names = {one["id"] for one in done}
        ready = next((one for one in waiting if {*_needed(one)} <= names), None)
        if ready is None:
            known = {one["id"] for one in steps}
            unknown = sorted({name for one in waiting for name in _needed(one)} - known)
            raise Inexpressible(f"there is no step {unknown[0]}" if unknown else "its steps wait for each other")
        done.append(ready)
        waiting.remove(ready)
    return done


def _parameters(given: Any) -> dict[str, Any]:
    """Return the input's schema; the older form names parameters at the top, each with `required` of its own."""
    if not is_object(given) or not given:
        return {"type": "object"}
    if isinstance(given.get("type"), str) or is_object(given.get("properties")):
        return {**given, "type": "object"}
    named = {key: one for key, one in given.items() if is_object(one)}
    required = sorted(key for key, one in named.items() if one.get("required") is True)
    properties = {key: {name: one[name] for name in one if name != "required"} for key, one in named.items()}
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _ends(handling: Any, loop: bool) -> bool:
    """Tell whether an error does what it does in weft, too: end the workflow at once, or leave out an item."""
    action = handling.get("action", "abort") if is_object(handling) else None
    return (
        is_object(handling)
        and not handling.get("maxRetries")
        and (action == "abort" or (loop and action == "continue"))
    )


def _why(key: str) -> str:
    return {
        "timeout": ": the deadline of the call holds",
        "onError": ": an error ends the composition",
        "failureMode": ": an error ends the composition",
        "defaultResults": ": no step is skipped or fails without an end",
    }.get(key, "")
