"""A child that does on its stdin's word what bad children do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

received: list[Any] = []
held: list[Any] = []


def say(raw: str | bytes) -> None:
    """Write to stdout, whatever it is."""
    sys.stdout.buffer.write(raw.encode() if isinstance(raw, str) else raw)
    sys.stdout.buffer.flush()


def send(message: dict[str, Any]) -> None:
    """Write a message."""
    say(json.dumps({"jsonrpc": "2.0", **message}) + "\n")


def answer(request: Any, result: Any) -> None:
    """Answer a request."""
    send({"id": request["id"], "result": result})


def release(params: Any) -> str:
    """Answer what is held, the last first."""
    for one in reversed(held):
        answer(one, one["params"])
    held.clear()
    return "released"


def world(params: Any) -> dict[str, Any]:
    """Tell what this process was given."""
    open_now = {int(one.name): str(one.readlink()) for one in Path("/proc/self/fd").iterdir() if one.exists()}
    return {"env": dict(os.environ), "fds": open_now, "group": os.getpgid(0), "argv": sys.argv[1:]}


def fork(params: Any) -> int:
    """Start a child of its own, which no polite end reaches."""
    script = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); time.sleep(600)"
    grandchild = subprocess.Popen([sys.executable, "-ISc", script], stdout=subprocess.PIPE)
    assert grandchild.stdout is not None
    grandchild.stdout.readline()
    return grandchild.pid


def obstinate(params: Any) -> None:
    """Ignore SIGTERM and the end of input."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def flood_stderr(params: Any) -> None:
    """Write far more to stderr than a pipe holds."""
    for number in range(params["lines"]):
        sys.stderr.write(f"line {number} {'x' * 100}\n")


def send_all(params: Any) -> None:
    """Send messages of the test's choice."""
    for message in params["messages"]:
        send(message)


def die(request: Any, params: Any) -> None:
    """End without an answer."""
    sys.stderr.write(params.get("stderr", ""))
    sys.stderr.flush()
    os._exit(params["status"])


def answer_and_die(request: Any, params: Any) -> None:
    """End right after the answer."""
    answer(request, "last words")
    os._exit(0)


def say_instead(request: Any, params: Any) -> None:
    """Write something in place of an answer."""
    say(params["raw"].replace("ID", json.dumps(request["id"])).encode("latin-1"))


def endless_line(request: Any, params: Any) -> None:
    """Write a line that does not end."""
    while True:
        say(b"x" * 65536)


def close_stdout(request: Any, params: Any) -> None:
    """Live on, mute."""
    os.close(1)
    time.sleep(600)


ANSWERED: dict[str, Callable[[Any], Any]] = {
    "echo": lambda params: params,
    "release": release,
    "received": lambda params: received,
    "world": world,
    "fork": fork,
    "obstinate": obstinate,
    "say": lambda params: say(params["raw"].encode("latin-1")),
    "send": send_all,
    "flood stderr": flood_stderr,
}
UNANSWERED: dict[str, Callable[[Any, Any], Any]] = {
    "hold": lambda request, params: held.append(request),
    "say instead": say_instead,
    "die": die,
    "answer and die": answer_and_die,
    "signal": lambda request, params: os.kill(os.getpid(), params["number"]),
    "endless line": endless_line,
    "close stdout": close_stdout,
    "sleep": lambda request, params: time.sleep(600),
}


def act(request: Any, params: Any) -> None:
    """Do what the method says."""
    method = request["method"]
    if method in ANSWERED:
        answer(request, ANSWERED[method](params))
    elif method in UNANSWERED:
        UNANSWERED[method](request, params)
    else:
        send({"id": request["id"], "error": {"code": -32601, "message": "no such method"}})


def main() -> None:
    """Obey until the end of input, or for ever when told to be obstinate."""
    for line in sys.stdin.buffer:
        message = json.loads(line)
        received.append(message)
        if "method" in message and "id" in message:
            act(message, message.get("params") or {})
    while signal.getsignal(signal.SIGTERM) is signal.SIG_IGN:
        time.sleep(600)


main()
