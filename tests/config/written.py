"""Files of settings that tests write."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from weft.config import Config, load_config
from weft.errors import DocumentInvalid, Problem


def loaded(folder: Path, text: str, env: Mapping[str, str] | None = None, *, name: str = "weft.yaml") -> Config:
    """Return the settings that a file with this text has."""
    (folder / name).write_text(text, encoding="utf-8")
    return load_config(folder / name, env or {})


def refused(folder: Path, text: str, env: Mapping[str, str] | None = None) -> list[Problem]:
    """Return the problems of a file with this text."""
    with pytest.raises(DocumentInvalid) as caught:
        loaded(folder, text, env)
    return caught.value.problems
