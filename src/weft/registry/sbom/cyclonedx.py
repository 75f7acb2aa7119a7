"""A bill of materials as CycloneDX 1.6: agents and schemas are components, tools and servers are services."""

from __future__ import annotations

from typing import Any

from weft.registry.sbom.materials import Materials, Part, as_text

SERVICES = frozenset({"tool", "server"})
TYPES = {"agent": "application", "schema": "data"}


def cyclonedx(made: Materials, *, weft: str) -> str:
    """Return the bill as JSON; `weft` is the version that wrote it."""
    root = f"weft:{made.sha256[:16]}"
    metadata: dict[str, Any] = (
        {} if made.created is None else {"timestamp": made.created.strftime("%Y-%m-%dT%H:%M:%SZ")}
    )
    metadata["tools"] = {"components": [{"type": "application", "name": "weft", "version": weft}]}
    metadata["component"] = {"type": "application", "bom-ref": root, "name": made.title}
    needs = {root: made.roots, **made.needs}
    return as_text(
        {
            "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "serialNumber": f"urn:uuid:{made.serial}",
            "version": 1,
            "metadata": metadata,
            "components": [_component(part) for part in made.parts if part.kind not in SERVICES],
            "services": [_service(part) for part in made.parts if part.kind in SERVICES],
            "dependencies": [_dependency(ref, several) for ref, several in sorted(needs.items())],
        }
    )


def _component(part: Part) -> dict[str, Any]:
    told: dict[str, Any] = {"type": TYPES[part.kind], **_named(part)}
    if part.sha256 is not None:
        told["hashes"] = [{"alg": "SHA-256", "content": part.sha256}]
    return told | {"properties": _properties(part)}


def _service(part: Part) -> dict[str, Any]:
    told = _named(part)
    if part.url is not None:
        told["endpoints"] = [part.url]
    properties = _properties(part)
    if part.sha256 is not None:
        # The format has no hashes for services.
        properties.append({"name": "weft:sha256", "value": part.sha256})
    return told | {"properties": properties}


def _named(part: Part) -> dict[str, Any]:
    told: dict[str, Any] = {"bom-ref": part.ref, "name": part.name}
    if part.version:
        told["version"] = part.version
    if part.description is not None:
        told["description"] = part.description
    return told


def _properties(part: Part) -> list[dict[str, str]]:
    told = [{"name": "weft:kind", "value": part.kind}]
    if part.deprecated:
        told.append({"name": "weft:deprecated", "value": "true"})
    if part.sha256 is None:
        told.append({"name": "weft:registered", "value": "false"})
    return told


def _dependency(ref: str, several: tuple[str, ...]) -> dict[str, Any]:
    return {"ref": ref, **({"dependsOn": list(several)} if several else {})}
