"""Bills of materials: which agents, tools, servers and schemas there are, what each needs, and their hashes."""

from weft.registry.sbom.cyclonedx import cyclonedx
from weft.registry.sbom.materials import Materials, materials
from weft.registry.sbom.spdx import spdx

__all__ = ["Materials", "cyclonedx", "materials", "spdx"]
