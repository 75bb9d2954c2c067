"""The users the cases run as, and a copy of the programs that both of them can read."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import spindle
from escape.arena import User
from escape.case import ATTACKS
from escape.drive import Battery

UNPRIVILEGED = 54321
HERE = Path(__file__).parent
FORESEEN: dict[str, Callable[[Battery, dict[str, Any]], object]] = {
    "test_an_attack_is_blocked": lambda battery, ask: battery.attack(ask["user"], ask["mode"], ask["way"]),
    "test_an_attack_succeeds_when_nothing_holds_it_back": lambda battery, ask: battery.control(ask["user"]),
    "test_ordinary_work_succeeds": lambda battery, ask: battery.work(ask["user"], ask["mode"], ask["way"]),
}

for module in sorted((HERE / "cases").glob("*.py")):
    importlib.import_module(f"escape.cases.{module.stem}")
assert ATTACKS


@pytest.fixture(scope="session")
def battery(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Battery]:
    stage = Path(tempfile.mkdtemp(prefix="escape-stage-", dir="/var/tmp"))
    stage.chmod(0o755)
    shutil.copytree(HERE, stage / "escape", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(["chmod", "-R", "a+rX", str(stage)], check=True)
    base = tmp_path_factory.getbasetemp()
    shelf = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "escape-shelf"
    shelf.mkdir(exist_ok=True)
    battery = Battery(stage, find_users(), shelf)
    for item in request.session.items:  # what will be asked for is begun now, a few runs at a time
        begin = FORESEEN.get(getattr(item, "originalname", ""))
        if begin and isinstance(item, pytest.Function) and item.callspec.params["user"] in battery.users:
            begin(battery, dict(item.callspec.params))
    yield battery
    battery.close()
    shutil.rmtree(stage)


def find_users() -> dict[str, User]:
    """Root and somebody without rights, or only the latter when the tests do not run as root."""
    source = str(Path(spindle.__file__).parent.parent)
    path = os.pathsep.join([source, *(entry for entry in sys.path if entry.endswith("site-packages"))])
    if os.getuid() != 0:
        return {"user": User("user", os.getuid(), sys.executable, path)}
    users = {"root": User("root", 0, sys.executable, path)}
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, f"/usr/bin/{version}", f"/usr/local/bin/{version}"):
        user = User("user", UNPRIVILEGED, python, path)
        try:
            check = [python, "-c", "import spindle, msgspec"]
            subprocess.run(check, env={"PYTHONPATH": path}, check=True, capture_output=True, **user.how)
        except (OSError, subprocess.CalledProcessError):
            continue
        return {**users, "user": user}
    return users
