"""The files of deploy/ can be read, and name only what there is: files, options of weft, ports, users."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from weft.app import open_registry
from weft.cli.serve import command as serve
from weft.config import Config, load_config
from weft.errors import errors_in
from weft.expr.durations import parse_duration

ROOT = Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "deploy"
DEFAULTS = Config()


def given_to_serve(arguments: list[str]) -> dict[str, Any]:
    """Return the options of a `weft serve` as the command line reads them; what it does not know fails."""
    name, *options = arguments
    assert name == "serve"
    context: click.Context = serve.make_context("serve", options)
    return context.params


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Containerfile, with their continued lines joined."""
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", " ", "\n".join(lines))
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in joined.splitlines())]


def service() -> configparser.ConfigParser:
    """Return the unit of systemd."""
    unit = configparser.ConfigParser(interpolation=None, comment_prefixes="#")
    unit.optionxform = str  # pyright: ignore[reportAttributeAccessIssue]  (the documented way to keep the case)
    unit.read(DEPLOY / "weft.service", encoding="utf-8")
    return unit


def compose() -> dict[str, Any]:
    """Return the service of the compose file."""
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))["services"]["weft"]


# The image.


def test_everything_that_the_image_copies_is_in_the_tree():
    copied = [rest.split()[:-1] for word, rest in instructions() if word == "COPY" and "--from=" not in rest]
    assert copied
    assert [name for names in copied for name in names if not (ROOT / name).exists()] == []


def test_the_image_installs_an_extra_that_there_is():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    installs = next(rest for word, rest in instructions() if word == "RUN" and "pip install" in rest)
    wanted = re.findall(r"'\.\[(.+?)\]'", installs)
    assert wanted
    assert set(wanted) <= project["optional-dependencies"].keys()


def test_the_image_does_not_run_as_root():
    users = [rest for word, rest in instructions() if word == "USER"]
    made = next(rest for word, rest in instructions() if word == "RUN" and rest.startswith("useradd"))
    assert users == [made.split()[-1]]


def test_the_image_starts_weft_without_a_shell_and_in_a_way_that_weft_knows():
    of = dict(instructions())
    assert json.loads(of["ENTRYPOINT"]) == ["weft"]
    assert given_to_serve(json.loads(of["CMD"]))["host"] is None


def test_the_image_asks_for_health_at_the_port_that_it_exposes():
    of = dict(instructions())
    checked = json.loads(of["HEALTHCHECK"].partition("CMD ")[2])
    assert checked[:2] == ["python", "-c"]
    compile(checked[2], "healthcheck", "exec")
    assert of["EXPOSE"] == str(DEFAULTS.listen.port)
    assert f"http://127.0.0.1:{DEFAULTS.listen.port}/healthz" in checked[2]


# The service of systemd.


def test_the_service_starts_weft_in_a_way_that_weft_knows():
    program, *arguments = shlex.split(service()["Service"]["ExecStart"])
    assert Path(program).name == "weft"
    assert given_to_serve(arguments)["config"] == Path("/etc/weft/weft.yaml")


def test_the_service_reloads_by_the_signal_that_weft_heeds():
    assert service()["Service"]["ExecReload"].split()[1:] == ["-HUP", "$MAINPID"]


def test_the_service_waits_longer_than_weft_drains():
    assert int(service()["Service"]["TimeoutStopSec"]) > DEFAULTS.drain + 10


# The compose file.


def test_the_compose_file_builds_from_files_that_there_are():
    build = compose()["build"]
    root = (DEPLOY / build["context"]).resolve()
    assert root == ROOT
    assert (root / build["dockerfile"]).is_file()


def test_the_compose_file_starts_weft_in_a_way_that_weft_knows():
    given = given_to_serve(compose()["command"])
    assert (given["host"], given["insecure"]) == ("0.0.0.0", True)


def test_what_listens_without_an_authenticator_is_published_on_this_machine_only():
    assert compose()["ports"] == [f"127.0.0.1:{DEFAULTS.listen.port}:{DEFAULTS.listen.port}"]


def test_the_compose_file_waits_longer_than_weft_drains():
    assert parse_duration(compose()["stop_grace_period"]) > DEFAULTS.drain + 10


def test_the_settings_that_the_compose_file_mounts_are_good():
    source, target, mode = compose()["volumes"][0].split(":")
    workdir = next(rest for word, rest in reversed(instructions()) if word == "WORKDIR")
    assert (target, mode) == (workdir, "ro")
    config = load_config(DEPLOY / source / "weft.yaml", {})
    assert config.registry.path is not None
    assert errors_in(open_registry(config.registry.path).problems) == []


@pytest.mark.parametrize("name", ["Containerfile", "weft.service", "compose.yaml"])
def test_the_guide_shows_every_file(name: str):
    assert f"deploy/{name}" in (ROOT / "docs" / "guide" / "operating.md").read_text(encoding="utf-8")
