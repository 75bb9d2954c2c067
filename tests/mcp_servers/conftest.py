"""Sessions with real MCP servers and a scripted model."""

from turn.conftest import start  # noqa: F401  the fixture that opens sessions
