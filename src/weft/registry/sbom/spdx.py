"""A bill of materials as SPDX 2.3: every entity is a package."""

from __future__ import annotations

import re
from typing import Any

from weft.registry.sbom.materials import Materials, Part, as_text

UNKNOWN = "NOASSERTION"
PURPOSES = {"agent": "APPLICATION", "server": "APPLICATION", "tool": "LIBRARY", "schema": "FILE"}
NO_TIME = "1970-01-01T00:00:00Z"
"""The format wants a time: without SOURCE_DATE_EPOCH it is this one, which nobody takes for real."""


def spdx(made: Materials, *, weft: str) -> str:
    """Return the bill as JSON; `weft` is the version that wrote it."""
    ids = _ids(made)
    created = NO_TIME if made.created is None else made.created.strftime("%Y-%m-%dT%H:%M:%SZ")
    # The format wants something to be described, also when nothing is registered.
    empty = [_bare(made.title, "SPDXRef-registry")]
    roots = [ids[ref] for ref in made.roots] or ["SPDXRef-registry"]
    described = [_related("SPDXRef-DOCUMENT", "DESCRIBES", root) for root in roots]
    needed = [_related(ids[ref], "DEPENDS_ON", ids[one]) for ref, few in sorted(made.needs.items()) for one in few]
    return as_text(
        {
            "spdxVersion": "SPDX-2.3",
            "dataLicense": "CC0-1.0",
            "SPDXID": "SPDXRef-DOCUMENT",
            "name": made.title,
            "documentNamespace": f"https://spdx.org/spdxdocs/weft-{made.serial}",
            "creationInfo": {"created": created, "creators": [f"Tool: weft-{weft}"]},
            "packages": [_package(part, ids[part.ref]) for part in made.parts] or empty,
            "relationships": described + needed,
        }
    )


def _bare(name: str, identifier: str) -> dict[str, Any]:
    return {
        "SPDXID": identifier,
        "name": name,
        "downloadLocation": UNKNOWN,
        "filesAnalyzed": False,
        "licenseConcluded": UNKNOWN,
        "licenseDeclared": UNKNOWN,
        "copyrightText": UNKNOWN,
    }


def _package(part: Part, identifier: str) -> dict[str, Any]:
    told = _bare(part.name, identifier)
    if part.version:
        told["versionInfo"] = part.version
    told["primaryPackagePurpose"] = PURPOSES[part.kind]
    if part.sha256 is not None:
        told["checksums"] = [{"algorithm": "SHA256", "checksumValue": part.sha256}]
    if part.description is not None:
        told["description"] = part.description
    return told | {"comment": _comment(part)}


def _comment(part: Part) -> str:
    notes = [f"weft:kind={part.kind}"]
    if part.deprecated:
        notes.append("weft:deprecated=true")
    if part.sha256 is None:
        notes.append("weft:registered=false")
    if part.url is not None:
        notes.append(f"weft:url={part.url}")
    return "; ".join(notes)


def _related(one: str, kind: str, other: str) -> dict[str, str]:
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}


def _ids(made: Materials) -> dict[str, str]:
    """Return an identifier for each part, of the few characters that SPDX allows; no two are alike."""
    ids: dict[str, str] = {}
    taken: set[str] = set()
    for part in made.parts:
        base = "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]+", "-", part.ref)
        made_up, number = base, 2
        while made_up in taken:
            made_up, number = f"{base}-{number}", number + 1
        taken.add(made_up)
        ids[part.ref] = made_up
    return ids
