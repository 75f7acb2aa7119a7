"""The composition root: the only room that knows every implementation, and puts them together."""

from weft.app.documents import (
    Registry,
    Upstreams,
    callable_in,
    compile_file,
    groups_of,
    load,
    local,
    local_engine,
    open_registry,
    problems_of,
    snapshot_of,
)

__all__ = [
    "Registry",
    "Upstreams",
    "callable_in",
    "compile_file",
    "groups_of",
    "load",
    "local",
    "local_engine",
    "open_registry",
    "problems_of",
    "snapshot_of",
]
