"""What can be sent: texts, objects and blocks of content that an author made, before a client gets them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import orjson
from pydantic_core import PydanticSerializationError, to_jsonable_python

from weft.errors import shown
from weft.ports import is_array, is_object

BLOCKS: Final[Mapping[str, tuple[str, type]]] = {
    "text": ("text", str),
    "image": ("data", str),
    "audio": ("data", str),
    "resource_link": ("uri", str),
    "resource": ("resource", dict),
}
"""The kinds of blocks that MCP has, and the field without which one is none."""


def check_text(what: str, given: object) -> None:
    """Check that something is a text.

    Raises:
        TypeError: it is not.
    """
    if not isinstance(given, str):
        raise TypeError(f"{what} is a text, not {shown(given)}")


def json_of(what: str, given: Any) -> Any:
    """Return something as JSON: models as objects, tuples as lists, half characters replaced.

    Raises:
        TypeError: it is nothing of the kind.
    """
    try:
        made = whole_texts(to_jsonable_python(given))
        _ = orjson.dumps(made)
    except (PydanticSerializationError, ValueError, TypeError, RecursionError) as error:
        raise TypeError(f"{what} is JSON, not {shown(given)}: {error}") from None
    return made


def object_of(what: str, given: Any) -> dict[str, Any]:
    """Return an object as JSON.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"{what} is an object, not {shown(given)}")
    return json_of(what, dict(cast("Mapping[str, Any]", given)))


def blocks_of(what: str, given: object) -> list[Any]:
    """Return blocks of content as JSON; those of the `mcp` package may stand among them.

    Raises:
        TypeError: they are no blocks.
    """
    if not isinstance(given, list | tuple):
        raise TypeError(f'{what} is a list of blocks, such as [{{"type": "text", "text": ".."}}], not {shown(given)}')
    return [_block(what, one) for one in cast("Sequence[Any]", given)]


def _block(what: str, given: Any) -> Any:
    dump = getattr(given, "model_dump", None)
    block = given if dump is None else dump(mode="json", by_alias=True, exclude_none=True)
    kind: object = block.get("type") if is_object(block) else None
    needed = BLOCKS.get(kind) if isinstance(kind, str) else None
    if needed is None:
        raise TypeError(f"{what} has {shown(given)}, which is no block: its type is one of {', '.join(BLOCKS)}")
    name, of = needed
    if not isinstance(block.get(name), of):
        raise TypeError(f"{what} has a block of the type {kind} whose {name} is {shown(block.get(name))}")
    return json_of(what, block)


def harmless(value: Any) -> Any:
    """Return facts so that they can be sent whatever they are: what is not JSON is told by its kind."""
    try:
        _ = orjson.dumps(value)
    except TypeError:
        return _harmless(value, 0)
    return value


def _harmless(value: Any, level: int) -> Any:
    if level > 20:
        return "..."
    if is_object(value):
        return {whole(str(name)): _harmless(one, level + 1) for name, one in value.items()}
    if is_array(value):
        return [_harmless(one, level + 1) for one in value]
    if isinstance(value, str):
        return whole(value)
    try:
        _ = orjson.dumps(value)
    except TypeError:
        return shown(value)
    return value


def whole(text: str) -> str:
    """Return a text without half characters, as the names of files may have: no client could read it."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def whole_texts(value: Any) -> Any:
    """Return JSON whose texts have no half characters."""
    if isinstance(value, str):
        return whole(value)
    if is_object(value):
        return {whole(str(name)): whole_texts(one) for name, one in value.items()}
    return [whole_texts(one) for one in value] if is_array(value) else value
