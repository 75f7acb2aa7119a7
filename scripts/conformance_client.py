"""Run the official MCP conformance suite against weft as a client: what its servers get to see.

    python -m scripts.conformance_client       # part of `make conformance`

Each scenario is a server; weft stands in front of it, and a client of the SDK uses weft (tests/conformance/client.py).
The scenarios of authorization are about a client with a person and a browser behind it, and are left out. Writes
build/conformance/client.json.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence

from scripts.conformance import HOME, PACKAGE, SUITES, Outcome, Suite, judge, report, results_in
from scripts.nodejs import install, node
from scripts.programs import ROOT

LATER = ("json-schema-2020-12-preservation",)
"""Scenarios that came after the revisions were released: run, and not scored."""


def run_client_leg(suite: Suite) -> Outcome:
    """Run the scenarios of a revision one after the other."""
    install(suite.home, f"{PACKAGE}@{suite.version}")
    place = HOME / "results" / "client" / suite.name
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    scored = [name for name in suite.scored("client") or () if not name.startswith("auth/")]
    for name in (*scored, *LATER):
        (place / f"{name}.txt").write_text(_run(suite, name, str(place)))
    return judge(suite, results_in(place), upstream="client", scored=scored)


def _run(suite: Suite, scenario: str, place: str) -> str:
    command = f"{sys.executable} -m tests.conformance.client"
    options = ["--command", command, "--scenario", scenario, "--spec-version", suite.name, "-o", place]
    argv = [node(suite.home), str(suite.package / "dist" / "index.js"), "client", *options]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    return done.stdout + done.stderr


def main(suites: Sequence[Suite] = SUITES[1:]) -> int:
    """Run both revisions."""
    return report([run_client_leg(suite) for suite in suites], HOME / "client.json")


if __name__ == "__main__":
    sys.exit(main())
