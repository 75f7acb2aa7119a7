"""The page about stores is true: its table has each key of a store, and a default that can be written so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from weft.config import load_config
from weft.config.sections import Store

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "guide" / "stores.md").read_text(encoding="utf-8")
TABLE = PAGE.partition("| key | default |")[2].partition("\n\n")[0]
DEFAULTS = dict(re.findall(r"^\| `(\w+)` \| ([^|]*?) ?\|", TABLE, re.MULTILINE))


def test_the_table_has_every_key_of_a_store():
    assert DEFAULTS.keys() == {field.alias or name for name, field in Store.model_fields.items()} - {"type"}


@pytest.mark.parametrize("key", [key for key, default in DEFAULTS.items() if default.startswith("`")])
def test_a_default_can_be_written_as_the_table_has_it_and_changes_nothing(key: str, tmp_path: Path):
    written = yaml.safe_load(DEFAULTS[key].strip("`"))
    file = tmp_path / "weft.yaml"
    file.write_text(yaml.safe_dump({"stores": {"it": {"type": "memory", key: written}}}), encoding="utf-8")
    config = load_config(file, {})
    assert getattr(config.stores["it"], key) == Store.model_fields[key].default


def test_the_defaults_that_are_set_are_in_the_table():
    set_ = {name for name, field in Store.model_fields.items() if field.default is not None} - {"type"}
    assert set_ == {key for key, default in DEFAULTS.items() if default.startswith("`")}
