"""The command line: `weft`, one file per command, each loaded only when it is asked for."""

from weft.cli.group import main, weft

__all__ = ["main", "weft"]
