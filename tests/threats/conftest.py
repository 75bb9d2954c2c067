"""What some of the threat tests need of this machine."""

from __future__ import annotations

import pytest

from threats.cli import mounts_work


@pytest.fixture(scope="session")
def own_mounts() -> None:
    """Skips where nobody may mount a disk of their own."""
    if not mounts_work():
        pytest.skip("no mount namespaces here")
