"""Logs: one event a line, nothing in them steers a terminal, nothing secret is shown."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from weft.telemetry.logs import HIDDEN, Episodes, Log, LogFormat, configure

HOSTILE = 'evil\r\n12:00:00 INFO  all is well\x1b[2J\x9b31m\u2028\u202e "quoted" %s'

Logging = Callable[..., io.StringIO]


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def logging_to() -> Iterator[Logging]:
    undo = list[Callable[[], None]]()

    def begin(format: LogFormat, stream: io.StringIO | None = None, **settings: Any) -> io.StringIO:
        out = stream or io.StringIO()
        undo.append(configure(format=format, stream=out, **settings))
        return out

    yield begin
    for one in reversed(undo):
        one()


def events(out: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_json_has_one_event_a_line_with_its_facts(logging_to: Logging) -> None:
    out = logging_to("json")
    Log("gateway").info("the registry is loaded", generation=3, source="r.json")
    [event] = events(out)
    assert (event["level"], event["logger"], event["message"]) == ("info", "weft.gateway", "the registry is loaded")
    assert (event["generation"], event["source"]) == (3, "r.json")
    assert event["time"].endswith("+00:00")


def test_a_terminal_gets_text_and_a_pipe_gets_json(logging_to: Logging) -> None:
    terminal = logging_to("auto", Terminal())
    pipe = logging_to("auto")
    Log("gateway").warning("a server is away", server="crm", reason="it was refused")
    assert 'WARN  a server is away  server=crm  reason="it was refused"\n' in terminal.getvalue()
    assert events(pipe)[0]["server"] == "crm"


@pytest.mark.parametrize("format", ["text", "json"])
def test_what_others_say_cannot_begin_a_line_or_steer_a_terminal(format: LogFormat, logging_to: Logging) -> None:
    out = logging_to(format)
    Log("gateway").warning(HOSTILE, name=HOSTILE, nested={HOSTILE: [HOSTILE]})
    text = out.getvalue()
    assert text.count("\n") == 1
    assert text.endswith("\n")
    assert text[:-1].isprintable()
    if format == "json":
        assert events(out)[0]["name"] == HOSTILE


def test_other_libraries_are_written_the_same_way(logging_to: Logging) -> None:
    out = logging_to("json")
    logging.getLogger("somebody").warning("said %s", HOSTILE)
    logging.getLogger("somebody").info("chatter")
    [event] = events(out)
    assert event["message"] == f"said {HOSTILE}"


def test_values_whose_names_say_that_they_are_secret_are_hidden(logging_to: Logging) -> None:
    out = logging_to("json")
    headers = {"Authorization": "Bearer canary-1", "X-Api-Key": "canary-2", "Accept": "any"}
    Log("gateway").info("sent", clientSecret="canary-3", headers=headers, cookies=["canary-4"], password=None)
    assert "canary" not in out.getvalue()
    [event] = events(out)
    assert event["headers"] == {"Authorization": HIDDEN, "X-Api-Key": HIDDEN, "Accept": "any"}
    assert event["password"] is None


def test_a_redaction_given_by_the_program_sees_every_text(logging_to: Logging) -> None:
    def redact(text: str) -> str:
        return text.replace("canary", "***")

    out = logging_to("text", redact=redact)
    try:
        raise ValueError("canary")
    except ValueError:
        Log("gateway").error("a canary", about=["canary"])
    assert "canary" not in out.getvalue()
    assert out.getvalue().count("***") >= 3


def test_a_stack_is_set_off_from_events_as_text_and_one_value_as_json(logging_to: Logging) -> None:
    text, lines = logging_to("text"), logging_to("json")
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        Log("gateway").error("it broke")
    first, *rest = text.getvalue().splitlines()
    assert first.endswith("ERROR it broke")
    assert all(line.startswith("    | ") for line in rest)
    assert events(lines)[0]["stack"].startswith("Traceback")


def test_facts_cannot_pass_for_the_parts_of_an_event(logging_to: Logging) -> None:
    out = logging_to("json")
    Log("gateway").info("hello", level="error", time="never")
    [event] = events(out)
    assert (event["level"], event["level_"]) == ("info", "error")


def test_values_that_are_no_json_are_still_written(logging_to: Logging) -> None:
    out = logging_to("json")
    Log("gateway").info("odd", huge=1 << 80, half="\ud800", thing=object, deep=[[[[[[[[["x"]]]]]]]]], nan=float("nan"))
    assert events(out)[0]["huge"] == str(1 << 80)


def test_long_values_are_cut(logging_to: Logging) -> None:
    out = logging_to("json")
    Log("gateway").info("x" * 100_000, y="y" * 100_000)
    assert len(out.getvalue()) < 5000


def test_levels_below_the_chosen_one_are_not_written(logging_to: Logging) -> None:
    out = logging_to("json", level="warning")
    Log("gateway").info("no")
    Log("gateway").debug("no")
    Log("gateway").error("yes")
    assert [event["message"] for event in events(out)] == ["yes"]


def test_a_stream_that_is_gone_fails_nobody(logging_to: Logging, capsys: pytest.CaptureFixture[str]) -> None:
    out = logging_to("json")
    out.close()
    Log("gateway").error("nobody hears this")
    assert capsys.readouterr().err == ""


def test_trouble_is_told_once_an_episode(logging_to: Logging) -> None:
    out = logging_to("json")
    episodes = Episodes(Log("registry"))
    episodes.over("file", "it is back")
    for _ in range(100):
        episodes.trouble("file", "it is gone", path="r.json")
    episodes.trouble("file", "it is broken", path="r.json")
    episodes.over("file", "it is back")
    episodes.over("file", "it is back")
    episodes.trouble("file", "it is gone", path="r.json")
    assert [event["message"] for event in events(out)] == ["it is gone", "it is broken", "it is back", "it is gone"]


def test_telemetry_of_a_gateway_imports_neither_opentelemetry_nor_prometheus() -> None:
    code = (
        "import sys, weft.telemetry.logs, weft.telemetry.watchdog, weft.telemetry.exporting as e; e.export_of({});"
        "print([name for name in sys.modules if name.startswith(('opentelemetry', 'prometheus'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
