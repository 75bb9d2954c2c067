"""Sessions with a scripted model, and a bench for single tools."""

from tools.conftest import bench  # noqa: F401  a tool context that keeps what was emitted and asked
from turn.conftest import start  # noqa: F401  the fixture that opens sessions
