"""A Python file that builds a registry: validated, compiled, run and served as one of JSON is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.app.served import house, replace
from tests.app.upstream import upstream
from weft.app import compile_file, load, open_registry
from weft.app.registries import content_of
from weft.cli import weft
from weft.dsl.modules import read_module
from weft.errors import DocumentInvalid
from weft.gateway.sources import Loaded
from weft.registry.findings import Strictness

pytestmark = pytest.mark.req("REG-48")

SOUND = '''
import weft as w

@w.python_tool
def slug(text: str) -> str:
    """Make a slug."""
    return text.lower().replace(" ", "-")

registry = w.RegistryBuilder()
text = registry.schema("Text", "1.0.0", {"type": "object", "properties": {"text": {"type": "string"}}})
up = registry.server("up", "1.0.0")
say = registry.tool("say", "1.0.0", source=up.tool("echo"), input=text)
made = registry.tool("slug", "1.0.0", spec=slug)
both = registry.tool("both", "1.0.0", spec=w.pipeline(say), input=text)
registry.agent("writer", "1.0.0", depends=[both, made])
'''


def written(folder: Path, text: str, name: str = "registry.py") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(weft, [str(one) for one in arguments])


def loaded(path: Path) -> Loaded:
    return Loaded(name=str(path), data=path.read_bytes(), path=path)


def test_weft_validate_accepts_a_registry_in_python(tmp_path: Path):
    done = run("validate", written(tmp_path, SOUND))
    assert (done.exit_code, done.stderr) == (0, "")
    assert "registry.py is valid\n" in done.stdout


def test_a_mistake_is_told_with_the_line_that_makes_it(tmp_path: Path):
    path = written(tmp_path, SOUND + 'registry.tool(\n    "late", "latest",\n    source=up,\n)\n')
    done = run("validate", "--json", path)
    (problem,) = json.loads(done.stdout)["errors"]
    assert done.exit_code == 2
    assert (problem["code"], problem["pointer"], problem["file"]) == ("InvalidVersion", "/tools/3/version", str(path))
    assert problem["line"] == SOUND.count("\n") + 1
    wrong = run("validate", written(tmp_path, SOUND + 'registry.tool("t", "1.0.0", spec="say")\n'))
    assert f"registry.py:{SOUND.count(chr(10)) + 1}: " in wrong.stdout
    assert "write w.tool('say')" in wrong.stdout


def test_the_compiled_registry_is_the_one_as_written_and_the_functions_come_with_it(tmp_path: Path):
    compiled, registry = compile_file(read_module(written(tmp_path, SOUND)))
    (tmp_path / "registry.json").write_text(json.dumps(compiled.document.to_ir()))
    again = load(tmp_path / "registry.json")
    assert (compiled.document, registry.document) == (again.document, again.resolved)
    assert registry.parsed is not None
    assert registry.parsed.document == compiled.document
    assert compiled.top_level == ["say", "slug", "both"]
    assert registry.tools.names() == ["__python_slug"]
    assert registry.problems == []


def test_weft_compile_writes_a_registry_in_python_as_canonical_json(tmp_path: Path):
    out = tmp_path / "registry.json"
    done = run("compile", written(tmp_path, SOUND), "-o", out)
    assert (done.exit_code, done.stdout.splitlines()[0]) == (0, "✓ Compiled 1 schema, 1 server, 3 tools, 1 agent")
    assert run("fmt", "--check", out).exit_code == 0
    assert load(out).document == compile_file(read_module(tmp_path / "registry.py"))[0].document
    broken = written(tmp_path, SOUND + 'registry.agent("x", "1.0.0", depends=["reed@1.0.0"])\n', "broken.py")
    assert run("compile", broken, "-o", tmp_path / "no.json").exit_code == 2
    assert not (tmp_path / "no.json").exists()


@pytest.mark.req("REG-28")
def test_weft_validate_takes_a_registry_in_python_as_strictly_as_weft_yaml_says(tmp_path: Path):
    path = written(tmp_path, SOUND + 'registry.agent("x", "1.0.0", depends=["reed@1.0.0"])\n')
    settings = tmp_path / "weft.yaml"
    settings.write_text("registry: {validation: {startup: {missingEntity: warn}}}\n")
    assert [run("validate", path).exit_code, run("validate", "-c", settings, path).exit_code] == [2, 0]


@pytest.mark.req("REG-47")
def test_the_bill_of_materials_of_a_registry_in_python_is_that_of_its_json(tmp_path: Path):
    # The JSON of a registry does not hold its functions.
    without = SOUND.replace('made = registry.tool("slug", "1.0.0", spec=slug)\n', "").replace("both, made", "both")
    path = written(tmp_path, without)
    assert run("compile", path, "-o", tmp_path / "registry.json").exit_code == 0
    bills = [run("sbom", "export", "--format", "cyclonedx", "--registry", tmp_path / name).stdout
             for name in ("registry.py", "registry.json")]  # fmt: skip
    assert bills[0] == bills[1]
    assert "Text" in bills[0]


def test_a_tool_of_a_registry_in_python_can_be_run(tmp_path: Path):
    path = written(tmp_path, SOUND)
    done = run("run", "slug", "--registry", path, "--input", '{"text": "A B"}')
    assert (done.exit_code, json.loads(done.stdout)) == (0, "a-b")


@pytest.mark.req("REG-28")
def test_severities_hold_for_a_registry_in_python(tmp_path: Path):
    path = written(tmp_path, SOUND + 'registry.agent("x", "1.0.0", depends=["reed@1.0.0"])\n')
    with pytest.raises(DocumentInvalid):
        content_of(loaded(path))
    lenient = Strictness(missing_entity="warn")
    assert [(one.severity, one.code) for one in content_of(loaded(path), severities=lenient).problems] == [
        ("warning", "UnknownName")
    ]
    assert open_registry(path, severities=Strictness(missing_entity="ignore")).problems == []
    inside = written(tmp_path, SOUND + 'registry.agent("x", "1.0.0", url="http://10.1.2.3")\n', "inside.py")
    assert [one.code for one in open_registry(inside).problems] == ["PrivateAddress"]
    assert content_of(loaded(inside), allow=["10.0.0.0/8"]).problems == ()


def test_severities_hold_for_a_registry_as_json_too(tmp_path: Path):
    path = tmp_path / "registry.json"
    path.write_text('{"schemaVersion": "2.0", "schemas": [{"name": "A", "version": "1.0.0", "schema": {}}]}')
    assert open_registry(path).problems == []
    assert [one.code for one in open_registry(path, severities=Strictness(unused_schema="error")).problems] == [
        "UnusedSchema"
    ]


def test_a_composition_that_is_not_in_the_registry_is_a_warning_with_its_line(tmp_path: Path):
    more = 'left = w.composition("left", "Left out.", w.pipeline(say))\n'
    (problem,) = open_registry(written(tmp_path, SOUND + more)).problems
    assert (problem.severity, problem.code, problem.line) == ("warning", "NotRegistered", SOUND.count("\n") + 1)
    taken = 'registry.tool("left", "1.0.0", spec=left)\n'
    assert open_registry(written(tmp_path, SOUND + more + taken, "taken.py")).problems == []


def test_a_file_with_two_registries_is_refused_and_two_names_of_one_are_not(tmp_path: Path):
    with pytest.raises(DocumentInvalid) as caught:
        open_registry(written(tmp_path, SOUND + "other = w.RegistryBuilder()\n", "two.py"))
    assert [one.code for one in caught.value.problems] == ["SeveralRegistries"]
    assert open_registry(written(tmp_path, SOUND + "other = registry\n", "same.py")).problems == []


def test_a_problem_in_another_file_of_the_registry_is_told_there(tmp_path: Path):
    written(tmp_path, 'def add(r):\n    r.agent("x", "1.0.0", depends=["reed@1.0.0"])\n', "more_agents.py")
    path = written(tmp_path, SOUND + "import more_agents\nmore_agents.add(registry)\n")
    (problem,) = open_registry(path).problems
    assert (problem.file, problem.line) == (str(tmp_path / "more_agents.py"), 2)


@pytest.mark.req("REG-45")
async def test_a_registry_in_python_is_served_and_read_again(tmp_path: Path):
    path = written(tmp_path, SOUND)
    async with upstream() as up, house(tmp_path, {"servers": {"up@1.0.0": {"url": up.url}}}, registry=path) as gate:
        await gate.has("say", "slug", "both")
        assert "__python_slug" not in await gate.tools()
        assert (await gate.call("slug", {"text": "A B"}))["structuredContent"] == {"result": "a-b"}
        assert (await gate.call("both", {"text": "x"}))["structuredContent"]["arguments"] == {"text": "x"}
        for name in ("second", "third"):
            replace(path, SOUND + f'registry.tool("{name}", "1.0.0", spec=w.pipeline(say))\n')
            assert (await gate.ask("POST", "/reload", admin=True)).status == 200
            assert name in await gate.tools()
        assert "second" not in await gate.tools()
        replace(path, SOUND + 'registry.agent("x", "1.0.0", depends=["reed@1.0.0"])\n')
        answer = await gate.ask("POST", "/reload", admin=True)
        (problem,) = answer.json["problems"]
        assert (answer.status, problem["code"], problem["line"]) == (422, "UnknownName", SOUND.count("\n") + 1)
        assert "third" in await gate.tools()
