"""What the tests of doors share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.doors.certificates import made_certificate


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the files of a certificate for localhost, signed by itself, and of its key."""
    return made_certificate(tmp_path_factory.mktemp("tls"))
