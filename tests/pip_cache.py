"""Python packages for tests that must not stand in our own environment, kept in the user's cache."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

_refused: dict[str, str] = {}
"""Packages that could not be installed by this process, and why."""


def installed(package: str) -> Path:
    """The folder that `package` (NAME==VERSION) is in, without what it depends on; skips the test where pip cannot."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "spindle-tests"
    place = cache / package
    if place.exists():
        return place
    if package in _refused:
        pytest.skip(_refused[package])
    cache.mkdir(parents=True, exist_ok=True)
    # Installed aside and renamed: another worker may be doing the same.
    with tempfile.TemporaryDirectory(dir=cache, prefix=f"{package}.") as aside:
        fresh = Path(aside, "fresh")
        command = [sys.executable, "-m", "pip", "install", "--no-deps", "--quiet", "--retries=1"]
        try:
            subprocess.run([*command, "--target", str(fresh), package], capture_output=True, timeout=100, check=True)
        except subprocess.SubprocessError as error:
            reason = (getattr(error, "stderr", None) or b"").decode(errors="replace").strip()[-300:]
            # Asked once: without a way to the package index each try takes long.
            _refused[package] = f"pip cannot install {package} here: {reason or 'no package index within reach'}"
            pytest.skip(_refused[package])
        try:
            fresh.rename(place)
        except OSError:
            assert place.exists()
    return place
