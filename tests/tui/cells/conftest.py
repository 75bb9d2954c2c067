"""Sessions for tests of what is shown of them."""

from turn.conftest import start  # noqa: F401  the fixture that opens sessions
