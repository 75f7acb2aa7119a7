"""Run the official MCP conformance suite against weft in front of the fixture server.

    python -m scripts.conformance              # through weft; what `make conformance` does
    python -m scripts.conformance --direct     # the fixture server alone
    python -m scripts.conformance --upstream legacy --only 2026-07-28

Writes build/conformance/summary.json, and ends with 1 when a scored check fails that tests/conformance/expected.yaml
does not list, or when one passes that it lists.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from scripts.nodejs import install, node
from scripts.programs import BUILD, ROOT, free_port, gateway, listening

HOME = BUILD / "conformance"
PACKAGE = "@modelcontextprotocol/conformance"
EXPECTED = ROOT / "tests" / "conformance" / "expected.yaml"
UPSTREAMS = ["modern", "legacy", "stdio", "modern-workers", "legacy-workers"]
Check: TypeAlias = dict[str, Any]
RESULT = re.compile(r"(?P<scenario>.+)-\d{4}-\d\d-\d\dT[\d-]+Z")


@dataclass(frozen=True, slots=True)
class Suite:
    """One way to run the suite: a version of it, and what it is asked for."""

    name: str
    version: str
    options: tuple[str, ...]

    @property
    def home(self) -> Path:
        """Where it is installed."""
        return HOME / f"suite-{self.version}"

    @property
    def package(self) -> Path:
        """The package as npm unpacked it."""
        return self.home / "node_modules" / PACKAGE

    def scored(self, leg: str = "server") -> list[str] | None:
        """Return the scenarios that count; None when all that run do."""
        if "--requirements" not in self.options:
            return None
        page = self.package / "requirements" / f"{self.name}.yaml"
        return list(yaml.safe_load(page.read_text())[leg])


SUITES = (
    Suite("0.1.16", "0.1.16", ()),
    Suite("2025-11-25", "0.2.0-alpha.12", ("--requirements", "2025-11-25")),
    Suite("2026-07-28", "0.2.0-alpha.12", ("--requirements", "2026-07-28")),
)


@dataclass(frozen=True, slots=True)
class Failure:
    """A check that did not pass."""

    scenario: str
    check: str
    message: str
    status: str
    scored: bool
    reason: str | None = None
    """Why it is expected; None when it is not."""

    @property
    def bad(self) -> bool:
        """Whether it counts against weft; a warning is about a recommendation, and does not."""
        return self.scored and self.status == "FAILURE" and self.reason is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one run of the suite found."""

    suite: str
    requirements: str
    upstream: str
    scenarios: dict[str, int]
    checks: dict[str, int]
    unscored: dict[str, int]
    failures: list[Failure]
    stale: list[str] = field(default_factory=list[str])

    @property
    def good(self) -> bool:
        """Whether everything that counts passed, or was expected not to."""
        return not self.stale and not any(one.bad for one in self.failures)


def run_suite(suite: Suite, url: str, *, upstream: str) -> Outcome:
    """Run the suite against a URL, and read what it wrote."""
    install(suite.home, f"{PACKAGE}@{suite.version}")
    place = HOME / "results" / upstream / suite.name
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    index = str(suite.package / "dist" / "index.js")
    argv = [node(suite.home), index, "server", "--url", url, "-o", str(place), *suite.options]
    done = subprocess.run(argv, cwd=suite.home, capture_output=True, text=True, timeout=600, check=False)
    (place / "output.txt").write_text(done.stdout + done.stderr)
    found = {name.removeprefix("server-"): checks for name, checks in results_in(place).items()}
    if not found:
        raise SystemExit(f"The suite {suite.name} reported nothing:\n{done.stdout}{done.stderr}")
    return judge(suite, found, upstream=upstream, scored=suite.scored())


def results_in(place: Path) -> dict[str, list[Check]]:
    """Return the checks of each scenario that the suite has written there; one that broke off has written none."""
    return {
        match["scenario"]: json.loads(page.read_text())
        for page in sorted(place.glob("*/checks.json"))
        if (match := RESULT.fullmatch(page.parent.name))
    }


def judge(suite: Suite, found: dict[str, list[Check]], *, upstream: str, scored: Sequence[str] | None) -> Outcome:
    """Count what passed, and tell what did not; only the scored scenarios count, or all."""
    expected = _expected(suite.name, upstream)
    counts = {name: Counter[str]() for name in ("scenarios", "checks", "unscored")}
    failures = [
        Failure(name, "the scenario", "the suite did not report it", "FAILURE", True)
        for name in scored or ()
        if name not in found
    ]
    counts["scenarios"]["failed"] += len(failures)
    for name, checks in found.items():
        counted = scored is None or name in scored
        counts["scenarios" if counted else "unscored"][_verdict(checks)] += 1
        if counted:
            counts["checks"].update(_word(check["status"]) for check in checks)
        failures += [
            Failure(name, check["id"], check.get("errorMessage") or "", check["status"], counted,
                    expected.get(f"{name}:{check['id']}"))
            for check in checks
            if check["status"] in {"FAILURE", "WARNING"}
        ]  # fmt: skip
    seen = {f"{one.scenario}:{one.check}" for one in failures}
    return Outcome(
        suite=suite.version,
        requirements=suite.name,
        upstream=upstream,
        **{name: dict(count) for name, count in counts.items()},
        failures=failures,
        stale=[key for key in expected if key not in seen],
    )


def _word(status: str) -> str:
    return {"SUCCESS": "passed", "FAILURE": "failed", "WARNING": "warned"}.get(status, "skipped")


def _verdict(checks: Sequence[Check]) -> str:
    words = {_word(check["status"]) for check in checks}
    return next((word for word in ("failed", "passed", "warned") if word in words), "skipped")


def _expected(requirements: str, upstream: str) -> dict[str, str]:
    """Return the reasons for checks that are known to fail in this run, by `scenario:check`."""
    entries: list[dict[str, Any]] = yaml.safe_load(EXPECTED.read_text()) or []
    return {
        entry["check"]: entry["reason"]
        for entry in entries
        if entry["requirements"] == requirements and upstream in entry["upstream"]
    }


@contextmanager
def target(upstream: str) -> Generator[str]:
    """Run the fixture server, with weft in front of it unless it is to be met directly, and give the URL."""
    folder = HOME / "runs" / upstream
    if upstream == "stdio":
        command = [sys.executable, "-m", "tests.conformance.fixture_server", "--stdio"]
        with gateway({"fixtures": {"command": command, "cwd": str(ROOT)}}, folder=folder) as url:
            yield url
        return
    port = free_port()
    argv = [sys.executable, "-m", "tests.conformance.fixture_server", "--port", str(port)]
    with listening(argv, port, log=folder / "fixtures.log"):
        there = f"http://127.0.0.1:{port}/mcp"
        if upstream == "direct":
            yield there
            return
        era, _, several = upstream.partition("-")
        workers = 2 if several else 1
        with gateway({"fixtures": {"url": there, "era": era}}, folder=folder, workers=workers) as url:
            yield url


def show(outcomes: Sequence[Outcome]) -> None:
    """Print the table, and below it what did not pass."""
    print(f"\n{'suite':<16}{'requirements':<14}{'upstream':<16}{'scenarios':>12}{'checks':>12}{'warned':>8}  unscored")
    for one in outcomes:
        print(
            f"{one.suite:<16}{one.requirements:<14}{one.upstream:<16}{_share(one.scenarios):>12}{_share(one.checks):>12}"
            f"{one.checks.get('warned', 0):>8}  {_share(one.unscored)}"
        )
    for one in outcomes:
        for failure in one.failures:
            if failure.scored:
                known = f" (expected: {failure.reason})" if failure.reason else ""
                print(f"{one.upstream} {one.requirements} {failure.scenario}:{failure.check} {failure.status}{known}")
                print(f"    {failure.message}")
        for key in one.stale:
            print(f"{one.upstream} {one.requirements} {key} passes now: remove it from {EXPECTED.relative_to(ROOT)}")


def _share(counts: dict[str, int]) -> str:
    return f"{counts.get('passed', 0)}/{sum(counts.get(word, 0) for word in ('passed', 'failed', 'warned'))}"


def main() -> int:
    """Run what was asked for."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--direct", action="store_true", help="the fixture server alone, without weft")
    options.add_argument(
        "--upstream",
        action="append",
        choices=UPSTREAMS,
        help="how weft reaches the fixture server; `-workers` is with two processes of weft",
    )
    options.add_argument("--only", action="append", choices=[suite.name for suite in SUITES])
    chosen = options.parse_args()
    upstreams = ["direct"] if chosen.direct else chosen.upstream or UPSTREAMS
    outcomes: list[Outcome] = []
    for upstream in upstreams:
        with target(upstream) as url:
            for suite in SUITES:
                if not chosen.only or suite.name in chosen.only:
                    outcomes.append(run_suite(suite, url, upstream=upstream))
    return report(outcomes, HOME / "summary.json")


def report(outcomes: Sequence[Outcome], page: Path) -> int:
    """Write and print what was found, and return the exit code."""
    page.write_text(json.dumps([asdict(one) for one in outcomes], indent=2) + "\n")
    show(outcomes)
    return 0 if all(one.good for one in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
