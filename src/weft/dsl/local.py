"""Tools written as Python functions: for tests, demos and local work."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Iterable, Mapping
from types import UnionType
from typing import (
    Any,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
    overload,
)

from pydantic_core import PydanticSerializationError, to_jsonable_python

from weft.errors import DocumentInvalid, ExecutionFailed, Problem, nearest
from weft.expr.types import function_types
from weft.ir.nodes import JSON_TYPES
from weft.ir.normalise import made
from weft.ir.operations import ToolCall
from weft.patterns.contract import Op
from weft.ports import Invoke, ToolRef, ToolType, is_object

P = ParamSpec("P")
R = TypeVar("R")
PLAIN = frozenset(JSON_TYPES)


class PythonTool(Op[Any, R], Generic[P, R]):
    """A function as a tool; calling it calls the function.

    An object is the function's keyword arguments, as for any tool; a positional-only parameter takes the whole value.
    """

    __slots__ = ("annotations", "description", "function", "name", "types")

    def __init__(
        self,
        function: Callable[P, Any],
        name: str,
        description: str | None,
        annotations: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(made(ToolCall, {"name": name}))
        self.function = function
        self.name = name
        self.description = description or inspect.getdoc(function)
        self.annotations = dict(annotations or {})
        self.types = ToolType(*function_types(function), self.description, self.annotations or None)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Call the function itself."""
        return self.function(*args, **kwargs)

    def invoke(self) -> Invoke:
        """Return the function as plans call it."""
        function: Any = self.function
        whole = any(one.kind is one.POSITIONAL_ONLY for one in inspect.signature(function).parameters.values())
        arguments = None if whole else self._arguments()

        def called(value: Any, call: Any) -> Any:
            return function(value) if arguments is None else function(**arguments(value))

        returned = _returned(function)
        if inspect.iscoroutinefunction(function) and is_plain(returned):
            # No coroutine of our own around the function's: the call of the tool awaits it as it is.
            return called
        plain = is_plain(returned)

        async def invoke(value: Any, call: Any) -> Any:
            result = called(value, call)
            result = await result if inspect.isawaitable(result) else result
            return result if plain and type(result) in PLAIN else _json(result)

        return invoke

    def _arguments(self) -> Callable[[Any], dict[str, Any]]:
        parameters = inspect.signature(self.function).parameters.values()
        known = {one.name for one in parameters if one.kind is not one.VAR_KEYWORD}
        open_ended = any(one.kind is one.VAR_KEYWORD for one in parameters)
        needed = {one.name for one in parameters if one.name in known and one.default is one.empty}
        name = self.name

        def arguments(value: Any) -> dict[str, Any]:
            given = value if is_object(value) else {}
            if not needed <= given.keys():
                missing = sorted(needed - given.keys())[0]
                close = nearest(missing, given.keys() - known)
                hint = f"{close!r} was given" if close else None
                raise ExecutionFailed(
                    f"Tool '{name}' needs the argument {missing!r}", code="InvalidArguments", hint=hint
                )
            if not open_ended and not given.keys() <= known:
                extra = sorted(given.keys() - known)[0]
                close = nearest(extra, known)
                hint = f"did you mean {close!r}?" if close else f"it takes {', '.join(sorted(known)) or 'nothing'}"
                raise ExecutionFailed(f"Tool '{name}' takes no argument {extra!r}", code="InvalidArguments", hint=hint)
            return given

        return arguments


def _json(result: Any) -> Any:
    """Return a function's result as JSON: models and dataclasses become objects, tuples become lists."""
    try:
        return to_jsonable_python(result)
    except PydanticSerializationError as error:
        raise ExecutionFailed(f"the result is not JSON: {error}", code="NotJson") from None


def _returned(function: Any) -> Any:
    try:
        return get_type_hints(function).get("return", Any)
    except NameError:
        return Any


def is_plain(annotation: Any) -> bool:
    """Tell whether values of a type are JSON as they are, and need not be converted."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is None:
        return annotation in PLAIN or is_typeddict(annotation)
    inner = [one for one in arguments if one is not Ellipsis]
    return origin in (list, dict, Union, UnionType, Literal) and all(
        origin is Literal or one is Any or is_plain(one) for one in inner
    )


class Decorator(Protocol):
    """Makes a tool of a function that returns its result, at once or when awaited."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> PythonTool[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> PythonTool[P, R]: ...


@overload
def python_tool(function: Callable[P, Coroutine[Any, Any, R]], /) -> PythonTool[P, R]: ...
@overload
def python_tool(function: Callable[P, R], /) -> PythonTool[P, R]: ...
@overload
def python_tool(
    *, name: str | None = None, description: str | None = None, annotations: Mapping[str, Any] | None = None
) -> Decorator: ...


def python_tool(
    function: Any = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    annotations: Mapping[str, Any] | None = None,
) -> Any:
    """Make a tool of a function: `@w.python_tool`, or `@w.python_tool(name="web_search")`.

    `annotations` are the hints of MCP for those who see it served, such as `{"readOnlyHint": True}`.
    """

    def tool(inner: Callable[..., Any]) -> PythonTool[..., Any]:
        if not callable(inner):
            raise TypeError(f"w.python_tool takes a function, not {inner!r}")
        given = name or getattr(inner, "__name__", "<lambda>")
        if given == "<lambda>":
            raise TypeError("a function without a name needs one: w.python_tool(name='double')(..)")
        return PythonTool(inner, given, description, annotations)

    return tool if function is None else tool(function)


class LocalTools:
    """An upstream of Python functions."""

    def __init__(self, tools: Iterable[PythonTool[..., Any]] = ()) -> None:
        self._tools: dict[str, PythonTool[..., Any]] = {}
        for tool in tools:
            if self._tools.setdefault(tool.name, tool).function is not tool.function:
                raise DocumentInvalid(
                    [
                        Problem(
                            code="DuplicateName", message=f"two Python tools are named {tool.name!r}", value=tool.name
                        )
                    ]
                )

    def bind(self, ref: ToolRef) -> Invoke | None:
        """Return the function, ready to be called."""
        found = self._tools.get(ref.name)
        return None if found is None else found.invoke()

    def describe(self, ref: ToolRef) -> ToolType | None:
        """Return the types of the function's signature."""
        found = self._tools.get(ref.name)
        return None if found is None else found.types

    def names(self) -> list[str]:
        """Return the names of all functions."""
        return list(self._tools)
