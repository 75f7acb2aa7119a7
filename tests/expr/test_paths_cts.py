"""The public compliance suite of RFC 9535, every case, through `compile_path`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from weft.errors import InvalidJsonPath
from weft.expr.paths import MISSING, compile_path

SUITE = Path(__file__).parents[2].parent / "shared/suites/jsonpath-cts.json"


def outcome(case: dict[str, Any]) -> list[Any] | str:
    try:
        path = compile_path(case["selector"])
    except InvalidJsonPath:
        return "refused"
    found = path.find(case.get("document"))
    if path.singular:
        return [] if found is MISSING else [found]
    return found


def expected(case: dict[str, Any]) -> list[Any]:
    if case.get("invalid_selector"):
        return ["refused"]
    return case["results"] if "results" in case else [case["result"]]


@pytest.mark.skipif(not SUITE.exists(), reason=f"the compliance suite is not at {SUITE}")
def test_every_case_of_the_public_compliance_suite_passes():
    cases = json.loads(SUITE.read_text(encoding="utf-8"))["tests"]
    # As text, because Python takes 1 and true for equal.
    failed = [
        f"{case['name']}: {case['selector']!r} gave {outcome(case)}, not {expected(case)}"
        for case in cases
        if json.dumps(outcome(case)) not in {json.dumps(wanted) for wanted in expected(case)}
    ]
    assert len(cases) == 703
    assert not failed, f"{len(failed)} of {len(cases)} cases:\n" + "\n".join(failed)
