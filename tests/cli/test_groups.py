"""Commands that read registries, with groups in them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.registry.registries import SOUND

from .conftest import Run

GROUP: dict[str, Any] = {"name": "pages", "servers": ["web"], "actions": {"get": "fetch"}}
V1: dict[str, Any] = {
    "schemaVersion": "1.0",
    "tools": [{"name": "fetch", "source": {"server": "web", "tool": "fetch"}}],
    "groups": [GROUP],
}


def written(folder: Path, document: dict[str, Any], name: str = "registry.json") -> Path:
    (folder / name).write_text(json.dumps(document), encoding="utf-8")
    return folder / name


def grouped(**changed: Any) -> dict[str, Any]:
    return {**SOUND, "groups": [{**GROUP, **changed}]}


def test_fmt_writes_groups_canonically_and_strict_takes_what_it_wrote(run: Run, folder: Path):
    path = written(folder, {**V1, "groups": [{**GROUP, "keep_tools": True, "tags": []}]})
    loose = run("validate", "--strict", path)
    assert (loose.exit_code, "at /groups/0/keep_tools" in loose.stdout) == (2, True)
    assert run("fmt", path).exit_code == 0
    assert json.loads(path.read_text())["groups"] == [{**GROUP, "keepTools": True}]
    assert run("validate", "--strict", path).exit_code == 0


def test_validate_tells_what_is_wrong_with_a_group_and_where(run: Run, folder: Path):
    done = run("validate", "--json", written(folder, grouped(format="tone", actions={"a b": "fetch"})))
    told = json.loads(done.stdout)
    assert done.exit_code == 2
    assert {one["code"] for one in told["errors"]} == {"WrongValue", "InvalidName"}
    unsure = run("validate", written(folder, grouped(actions={"get": "fetsh"})))
    assert (unsure.exit_code, "is valid (1 warning)" in unsure.stdout) == (0, True)


def test_migrate_keeps_groups(run: Run, folder: Path):
    assert run("migrate", written(folder, V1), "-o", "new.json").exit_code == 0
    assert json.loads((folder / "new.json").read_text())["groups"] == [GROUP]
    assert run("validate", "--strict", "new.json").exit_code == 0


@pytest.mark.parametrize(
    ("after", "impact", "pointer"),
    [
        ({"actions": {}}, "breaking", "/groups/pages/actions/get"),
        ({"discriminator": "do"}, "breaking", "/groups/pages/discriminator"),
        ({"actions": {"get": "read"}}, "risky", "/groups/pages/actions/get/tool"),
        ({"description": "Use it first."}, "risky", "/groups/pages/description"),
        ({"include": ["read*"]}, "risky", "/groups/pages/include"),
        ({"actions": {"get": "fetch", "look": "read"}}, "safe", "/groups/pages/actions/look"),
    ],
)
def test_diff_tells_what_changed_in_a_group(run: Run, folder: Path, after: dict[str, Any], impact: str, pointer: str):
    done = run("diff", written(folder, grouped()), written(folder, grouped(**after), "after.json"), "--json")
    assert [(one["impact"], one["pointer"]) for one in json.loads(done.stdout)["changes"]] == [(impact, pointer)]


def test_diff_does_not_take_a_default_that_is_written_out_for_a_change(run: Run, folder: Path):
    same = written(folder, grouped(discriminator="action", keepTools=False), "same.json")
    assert "no difference" in run("diff", written(folder, grouped()), same).stdout


def test_a_group_that_is_gone_breaks_its_callers(run: Run, folder: Path):
    done = run("diff", written(folder, grouped()), written(folder, SOUND, "after.json"))
    assert (done.exit_code, "the group is gone" in done.stdout) == (1, True)


def test_compile_writes_the_groups_of_a_builder(run: Run, folder: Path):
    (folder / "shop.py").write_text(
        "import weft as w\n"
        "r = w.RegistryBuilder()\n"
        "web = r.server('web', '1.0.0')\n"
        "fetch = r.tool('fetch', '1.0.0', source=web)\n"
        "r.group('pages', servers=[web], actions={'get': fetch})\n"
    )
    done = run("compile", "shop.py", "-o", "registry.json")
    assert (done.exit_code, "Compiled 1 server, 1 tool, 1 group" in done.stdout) == (0, True)
    assert json.loads((folder / "registry.json").read_text())["groups"] == [GROUP]


def test_an_sbom_is_of_entities_and_has_no_groups(run: Run, folder: Path):
    def parts(document: dict[str, Any]) -> Any:
        done = run("sbom", "export", "--format", "cyclonedx", "--registry", written(folder, document))
        return json.loads(done.stdout)["components"]

    assert parts(grouped()) == parts(SOUND) != []
