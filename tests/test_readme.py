"""The folder map of the README and the tree agree."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MAP = re.compile(r"^```\w*\nsrc/weft/\n(.*?)^```", re.MULTILINE | re.DOTALL)
ROOM = re.compile(r"^  (\S+)", re.MULTILINE)
UNMAPPED = {"__pycache__", "py.typed"}


def mapped_rooms() -> set[str]:
    """Return the rooms that the README's folder map names."""
    folder_map = MAP.search((ROOT / "README.md").read_text(encoding="utf-8"))
    assert folder_map, "the README has no fenced block that begins with src/weft/"
    return set(ROOM.findall(folder_map[1]))


def rooms_in_the_tree() -> set[str]:
    """Return the rooms at the top of src/weft, folders with a slash."""
    entries = (ROOT / "src" / "weft").iterdir()
    return {f"{entry.name}/" if entry.is_dir() else entry.name for entry in entries if entry.name not in UNMAPPED}


def test_every_room_of_the_folder_map_exists():
    assert mapped_rooms() - rooms_in_the_tree() == set()


def test_every_room_in_the_tree_is_in_the_folder_map():
    assert rooms_in_the_tree() - mapped_rooms() == set()
