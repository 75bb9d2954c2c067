"""Sessions with a scripted model, a bench for single tools, and clients of the Python API."""

from api.homes import client, own_home  # noqa: F401
from tools.conftest import bench  # noqa: F401  a tool context that keeps what was emitted and asked
from turn.conftest import start  # noqa: F401  the fixture that opens sessions
