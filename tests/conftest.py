"""Fixtures every part of the suite may use. Fixtures of one area live in that area's own conftest."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from fake_server import FakeServer
from installed import Spindle
from repository import make_repository
from rewritten import make_together

# Not below /tmp: that is a writable root of every sandbox, and while one runs it has a placeholder named .git in it.
os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", "/var/tmp")

# Continuous integration tries the same examples every time; who works here, others each day. No example fails because
# the machine is slow.
settings.register_profile("others each day", deadline=None)
settings.register_profile("same every time", deadline=None, derandomize=True, database=None)
settings.load_profile("same every time" if os.environ.get("CI") else "others each day")

# A job in the background of a script is started with these ignored, and every program the tests start would be too.
signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGQUIT, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)


MANY_PROGRAMS = ("app_server", "e2e", "escape", "fleet", "frontends", "mcp_servers", "process", "threats")
"""Folders whose tests start many programs. `./test quick` leaves them out, and every test that is marked as slow."""
KEPT = ("e2e/test_exec.py", "fleet/test_governor.py", "fleet/test_leases.py", "fleet/test_schedule.py")
"""But not these: the whole way through, once, and what starts none."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="only tests that need few programs and little time")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes a second or more of processor time; --quick leaves it out")
    make_together(config)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With --quick, the folders above are not even read, unless the command line names something in them."""
    folder = collection_path.parent
    if not config.getoption("quick") or folder.parent != Path(__file__).parent or folder.name not in MANY_PROGRAMS:
        return None
    asked = [Path(config.invocation_params.dir, word.split("::")[0]) for word in config.args]
    is_asked_for = any(path in (collection_path, folder) for path in asked)
    return True if f"{folder.name}/{collection_path.name}" not in KEPT and not is_asked_for else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("quick"):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if not item.get_closest_marker("slow")]


def pytest_collection_finish() -> None:
    # All that was collected stays to the end. Looking through it for garbage, again and again, took a sixth of the time
    # that tests need for themselves.
    gc.collect()
    gc.freeze()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """An empty git repository the agent may write to."""
    folder = tmp_path / "workspace"
    folder.mkdir()
    return make_repository(folder)


@pytest.fixture
def server() -> Iterator[FakeServer]:
    """A running model server without a script; see `fake_server`."""
    with FakeServer() as running:
        yield running


@pytest.fixture
def home(tmp_path: Path, server: FakeServer) -> Path:
    """A `CODEX_HOME` whose default provider is `server`."""
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "config.toml").write_text(
        f"""
model = "gpt-5.2-codex"
model_provider = "fake"

[model_providers.fake]
name = "fake"
base_url = "{server.base_url}"
wire_api = "responses"
env_key = "FAKE_API_KEY"
request_max_retries = 1
stream_max_retries = 1
stream_idle_timeout_ms = 20000
"""
    )
    return folder


@pytest.fixture
def environment(home: Path) -> dict[str, str]:
    """The environment of a child process: nothing of the user's accounts, and no way to another machine."""
    private = ("OPENAI_", "CODEX_", "SPINDLE_")
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith(private)}
    if "PYTHONPATH" in kept:
        # Children run in other folders.
        kept["PYTHONPATH"] = os.pathsep.join(os.path.abspath(entry) for entry in kept["PYTHONPATH"].split(os.pathsep))
    dead = "http://127.0.0.1:9"
    return {
        **{name: value for name, value in kept.items() if not name.lower().endswith("_proxy")},
        "HOME": str(home.parent),  # no profile of the person who runs the tests
        "CODEX_HOME": str(home),
        "FAKE_API_KEY": "test-key",
        "HTTP_PROXY": dead,
        "HTTPS_PROXY": dead,
        "NO_PROXY": "127.0.0.1,localhost",
    }


@pytest.fixture(scope="session")
def spindle_cmd() -> list[str]:
    """The installed command of the environment the tests run in, else this source tree by `python -m`."""
    installed = Path(sys.executable).parent / "spindle"
    return [str(installed)] if installed.exists() else [sys.executable, "-m", "spindle"]


@pytest.fixture
def spindle(spindle_cmd: list[str], workspace: Path, home: Path, environment: dict[str, str]) -> Iterator[Spindle]:
    """The installed command in the workspace, with `home` as its home, against `server`."""
    made = Spindle(spindle_cmd, workspace, home, environment)
    yield made
    made.close()
