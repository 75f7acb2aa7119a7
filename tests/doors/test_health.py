"""Health, readiness and metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.doors.serving import asked, serving
from weft.doors.guard import Guard
from weft.doors.health import health_routes
from weft.doors.sites import Site


class Report:
    def __init__(self, **report: Any) -> None:
        self._report = report

    def report(self) -> Mapping[str, Any]:
        return self._report


async def metrics(accept: str) -> tuple[bytes, str]:
    return b"weft_calls_total 3\n", f"text/plain; for={accept}"


def site(**report: Any) -> Guard:
    return Guard(health_routes(Report(**report), metrics=metrics), site=Site())


async def test_a_gateway_that_is_not_ready_is_alive():
    async with serving(site(ready=False)) as listener:
        assert (await asked(listener, path="/healthz")).status == 200
        assert (await asked(listener, path="/readyz")).status == 503


@pytest.mark.parametrize(
    ("report", "status", "said"),
    [
        ({"ready": True, "degraded": [], "problems": []}, 200, "ready"),
        ({"ready": True, "degraded": ["crm"]}, 200, "degraded"),
        ({"ready": True, "problems": ["registry.json:3:4: no tool 'x'"]}, 200, "degraded"),
        ({"ready": False, "degraded": ["crm"]}, 503, "unready"),
    ],
)
async def test_readiness_names_what_is_not_well(report: dict[str, Any], status: int, said: str):
    async with serving(site(**report, upstreams={"crm": {"state": "degraded", "problem": "refused"}})) as listener:
        got = await asked(listener, path="/readyz")
    assert (got.status, got.json["status"]) == (status, said)
    assert got.json["upstreams"]["crm"]["problem"] == "refused"


async def test_metrics_are_what_the_scraper_accepts():
    async with serving(site(ready=True)) as listener:
        got = await asked(listener, path="/metrics", accept="application/openmetrics-text")
    assert (got.body, got.headers["content-type"]) == (
        b"weft_calls_total 3\n",
        "text/plain; for=application/openmetrics-text",
    )


async def test_health_is_only_read():
    async with serving(site(ready=True)) as listener:
        for path in ("/healthz", "/readyz", "/metrics"):
            assert (await asked(listener, "POST", path, body=b"")).status == 405
