"""The templates of a running gateway, over its HTTP API."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from weft.cli.output import note
from weft.cli.remote import KEY, header_given
from weft.cli.templates_service import Display
from weft.errors import (
    DocumentInvalid,
    ExecutionFailed,
    InputError,
    Problem,
    UpstreamAuth,
    UpstreamProtocolError,
    UpstreamUnavailable,
    WeftError,
    shown,
)
from weft.ports import is_array, is_object

API = "/api/v1/compositions"
PATIENCE = 30.0
LONGEST = 24 * 3600.0 + PATIENCE
DENIED = (401, 403)
BUSY = (429,)


class There:
    """The templates of the gateway at a URL; what is said of it may end in `/mcp`, as with other commands."""

    def __init__(self, url: str, headers: tuple[str, ...] = ()) -> None:
        if urlsplit(url).scheme not in ("http", "https"):
            raise InputError(f"--url: {shown(url)} is not a URL", code="InvalidUrl", hint="http://127.0.0.1:15000")
        self._url = url.rstrip("/").removesuffix("/mcp")
        self._headers = dict(map(header_given, headers))
        if (key := os.environ.get(KEY)) and "authorization" not in map(str.lower, self._headers):
            self._headers["Authorization"] = f"Bearer {key}"

    def cards(self, **choice: str | None) -> list[dict[str, Any]]:
        given = {name: value for name, value in choice.items() if value is not None}
        return _rows(self._ask("/templates" + _query(given)), "templates")

    def get(self, id: str) -> dict[str, Any]:
        return self._ask(_template(id))

    def create(self, template: dict[str, Any]) -> dict[str, Any]:
        return self._ask("/templates", method="POST", body=template)

    def update(self, id: str, template: dict[str, Any]) -> dict[str, Any]:
        return self._ask(_template(id), method="PUT", body=template)

    def delete(self, id: str) -> None:
        self._ask(_template(id), method="DELETE")

    def stats(self, id: str) -> dict[str, Any]:
        return self._ask(f"{_template(id)}/stats")

    def runs(self, *, template: str | None, status: str | None, limit: int) -> dict[str, Any]:
        given = {"template": template, "status": status, "limit": limit}
        return self._ask("/runs" + _query({name: value for name, value in given.items() if value is not None}))

    def execute(self, body: dict[str, Any], display: Display) -> dict[str, Any]:
        """Run something; how its steps went is told when it has ended, since the answer is all that comes."""
        try:
            done = self._ask("/execute", method="POST", body=body, patience=LONGEST)
        except KeyboardInterrupt:
            # The gateway ends a run whose caller has gone.
            note(f"the gateway was told to stop; `weft templates runs --url {self._url}` tells how the run ended")
            raise
        if "steps" in done:
            display.hear({"event": "run_started", "data": {"steps": [one["id"] for one in done["steps"]]}})
            for step in done["steps"]:
                display.hear({"event": "step_ended", "data": step})
        return done

    def _ask(self, path: str, *, method: str = "GET", body: Any = None, patience: float = PATIENCE) -> dict[str, Any]:
        status, told = self._fetched(path, method=method, body=body, patience=patience)
        if not is_object(told):
            raise UpstreamProtocolError(self._url, "it answered something that is not an object")
        if status < 400:
            return told
        raise self._refusal(status, told)

    def _fetched(self, path: str, *, method: str, body: Any, patience: float) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        headers = {**self._headers, **({} if body is None else {"content-type": "application/json"})}
        # As for calls of tools: a proxy of the environment is not for the gateway.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            request = urllib.request.Request(self._url + API + path, data=data, headers=headers, method=method)
            with opener.open(request, timeout=patience) as answer:
                return answer.status, json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _json_of(error.read())
        except OSError as error:
            failed = UpstreamUnavailable(self._url, str(getattr(error, "reason", error)))
            failed.hint = "start a gateway with `weft serve`"
            raise failed from None
        except ValueError:
            raise UpstreamProtocolError(self._url, "it answered something that is not JSON") from None

    def _refusal(self, status: int, told: dict[str, Any]) -> WeftError:
        detail: object = told.get("detail")
        if not isinstance(detail, str):
            return UpstreamProtocolError(self._url, f"it answered {status}: it is no gateway that keeps templates")
        if status in DENIED:
            error = UpstreamAuth(self._url, detail)
            error.hint = f"put a key or a token into ${KEY}, or send --header 'Authorization: Bearer ..'"
            return error
        problems: object = told.get("errors")
        if is_array(problems) and problems:
            return _invalid(str(told.get("code")), [_problem(one) for one in problems if is_object(one)])
        hint: object = told.get("hint")
        kind = InputError if status < 500 and status not in BUSY else ExecutionFailed
        return kind(detail, code=str(told.get("code")), hint=hint if isinstance(hint, str) else None)


def _invalid(code: str, problems: list[Problem]) -> DocumentInvalid:
    error = DocumentInvalid(problems)
    error.code = code
    return error


def _problem(told: dict[str, Any]) -> Problem:
    pointer = str(told.get("pointer", ""))
    parts = [one.replace("~1", "/").replace("~0", "~") for one in pointer.split("/")[1:]]
    details = {name: told[name] for name in ("value", "expected", "suggestion") if isinstance(told.get(name), str)}
    return replace(
        Problem(code=str(told.get("code")), message=str(told.get("message"))),
        severity="warning" if told.get("severity") == "warning" else "error",
        pointer=pointer,
        loc=tuple(int(one) if one.isdecimal() else one for one in parts),
        **details,
    )


def _template(id: str) -> str:
    return f"/templates/{quote(id, safe='')}"


def _query(given: dict[str, Any]) -> str:
    return f"?{urlencode(given)}" if given else ""


def _rows(told: dict[str, Any], key: str) -> list[dict[str, Any]]:
    rows: object = told.get(key)
    return [one for one in rows if is_object(one)] if is_array(rows) else []


def _json_of(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return {}
