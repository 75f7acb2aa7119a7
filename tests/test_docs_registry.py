"""The pages about the registry are true: settings that they show are taken, and numbers are those of the example."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from weft.app import load
from weft.config import Config, load_config
from weft.expr.rules import FIELDS

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted((ROOT / "docs" / "registry").glob("*.md"))
FENCE = re.compile(r"^```yaml([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECTIONS = {field.alias or name for name, field in Config.model_fields.items()}


def text_of(page: str) -> str:
    """Return the text of a page."""
    return (ROOT / "docs" / "registry" / page).read_text(encoding="utf-8")


def settings() -> list[Any]:
    """Return every block that is a part of weft.yaml; a block with a title is another file."""
    shown = [
        (page, text) for page in PAGES for title, text in FENCE.findall(page.read_text(encoding="utf-8")) if not title
    ]
    return [
        pytest.param(text, id=f"{page.stem}-{number}")
        for number, (page, text) in enumerate(shown)
        if yaml.safe_load(text).keys() <= SECTIONS
    ]


@pytest.mark.parametrize("text", settings())
def test_settings_that_a_page_shows_are_taken(text: str, tmp_path: Path):
    file = tmp_path / "weft.yaml"
    file.write_text(text, encoding="utf-8")
    for name in re.findall(r"\w+\.pem", text):
        (tmp_path / name).touch()
    config = load_config(file, dict.fromkeys(re.findall(r"\$\{env:(\w+)\}", text), "0123456789" * 4))
    assert config.problems == ()


@pytest.mark.req("REG-49")
def test_each_stage_of_the_migration_has_settings():
    stages = text_of("migration.md").split("\n## Stage ")[1:]
    shown = [[text for title, text in FENCE.findall(stage) if not title] for stage in stages]
    assert [len(texts) for texts in shown] == [1, 1, 1, 1]
    runtime = [yaml.safe_load(texts[0])["registry"]["validation"]["runtime"] for texts in shown]
    assert [one.get("undeclaredDependency") for one in runtime] == [None, None, "warn", "deny"]


@pytest.mark.req("REG-40")
def test_every_variable_of_a_rule_is_in_the_page():
    page = text_of("policy.md")
    rows = {name: re.search(rf"^\| `{name}` \| (.+) \|$", page, re.MULTILINE) for name in FIELDS}
    found = {name: tuple(re.findall(r"`(\w+)`", row[1])) for name, row in rows.items() if row is not None}
    assert found == dict(FIELDS)


def test_the_page_counts_the_example_as_it_is():
    document = load(ROOT / "examples" / "registry" / "registry.yaml").document
    told = f"{len(document.schemas)} schemas, {len(document.servers)} servers, {len(document.tools)} tools and "
    page = " ".join(text_of("data-model.md").split())
    assert f"{told}{len(document.agents)} agents in twelve files" in page
    assert len([*(ROOT / "examples" / "registry").rglob("*.yaml")]) == 12 + 1, "those, and weft.yaml"
