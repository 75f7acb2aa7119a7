"""The schema of weft.yaml and the page about it are those of the models."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import jsonschema_rs
import pytest
import yaml
from click.testing import CliRunner

from weft.cli import weft
from weft.config import Config, load_config
from weft.config.schema import json_schema
from weft.config.settings import Setting, duration_text

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "reference" / "config.md").read_text(encoding="utf-8")
TABLE = re.compile(r"^<!-- fields: (\w+) -->\n\n((?:\|.*\n)+)", re.MULTILINE)
BLOCKS = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def models(kind: Any = Config) -> Iterator[type[Setting]]:
    """Yield the models that weft.yaml is made of."""
    if isinstance(kind, type) and issubclass(kind, Setting):
        yield kind
        for field in kind.model_fields.values():
            yield from models(field.annotation)
    for inner in get_args(kind):
        yield from models(inner)


MODELS = {model.__name__: model for model in models()}
TABLES = {
    name: [[cell.strip() for cell in line.strip("|").split(" | ")] for line in text.splitlines()][2:]
    for name, text in TABLE.findall(PAGE)
}


def default_of(field: Any) -> str:
    """Return a default as the page shows it."""
    default = field.default
    if field.is_required():
        return "required"
    if default is None or isinstance(default, Setting) or default in ({}, ()):
        return "-"
    if isinstance(default, float):
        return f"`{duration_text(default)}`"
    return f"`{json.dumps(default, default=str)}`"


@pytest.mark.parametrize("name", MODELS)
def test_the_page_has_every_key_with_its_default_and_what_it_does(name: str):
    expected = [
        [f"`{field.alias}`", default_of(field), field.description] for field in MODELS[name].model_fields.values()
    ]
    assert TABLES[name] == expected


def test_the_page_has_no_table_of_something_else():
    assert set(TABLES) == set(MODELS)


@pytest.mark.parametrize("text", BLOCKS)
def test_an_example_of_the_page_loads_and_fits_the_schema(text: str, tmp_path: Path):
    for name in ("cert.pem", "key.pem", "ca.pem", "token"):
        (tmp_path / name).write_text("0" * 64)
    (tmp_path / "postgres-url").write_text("postgresql://weft@localhost/weft")
    (tmp_path / "weft.yaml").write_text(text, encoding="utf-8")
    variables = dict.fromkeys(re.findall(r"\$\{env:(\w+)\}", text), "80")
    assert load_config(tmp_path / "weft.yaml", variables).problems == ()
    assert list(jsonschema_rs.validator_for(json_schema()).iter_errors(yaml.safe_load(text))) == []


def test_every_key_of_the_schema_is_described():
    schema = json_schema()
    parts = [schema, *schema["$defs"].values()]
    bare = [
        key
        for part in parts
        for key, one in part["properties"].items()
        if key != "$schema" and "description" not in one and "$ref" not in one
    ]
    assert bare == []
    assert all("description" in part for part in parts)


def test_all_defaults_fit_the_schema():
    validator = jsonschema_rs.validator_for(json_schema())
    assert list(validator.iter_errors(Config().shown())) == []
    assert not validator.is_valid({"listen": {"prot": 1}})
    assert not validator.is_valid({"limits": {"timeout": 5}})


def test_the_command_prints_the_schema():
    printed = CliRunner().invoke(weft, ["schema", "config"])
    assert json.loads(printed.stdout) == json_schema()
