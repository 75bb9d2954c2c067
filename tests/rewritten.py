"""Test files as pytest runs them: compiled, with assertions that can tell what they saw.

Making that of all files takes a process 14 seconds. Workers that start together would each do it for itself, so each
makes its share and finds the rest in the cache that pytest keeps beside the files.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = ("conftest.py", "test_*.py")


def make_share(config: pytest.Config, number: int, workers: int) -> int:
    """Make what worker `number` of `workers` is to make, of the files that the command line asks for.

    Gives how many were made.
    """
    try:
        from _pytest.assertion import rewrite  # no public name of pytest does this without running the file

        makes, reads, writes = rewrite._rewrite_test, rewrite._read_pyc, rewrite._write_pyc
        state = config.stash[rewrite.assertstate_key]
    except (ImportError, AttributeError, KeyError):
        return 0  # another pytest, or one that rewrites nothing: each worker does everything for itself
    made = 0
    for file in sorted(asked_for(config))[number::workers]:
        cached = rewrite.get_cache_dir(file) / f"{file.stem}{rewrite.PYC_TAIL}"
        if reads(file, cached) is None and rewrite.try_makedirs(cached.parent):
            try:
                source, code = makes(file, config)
            except SyntaxError:
                continue  # told when it is collected
            made += writes(state, code, source, cached)
    return made


def asked_for(config: pytest.Config) -> Iterator[Path]:
    for word in config.args:
        path = Path(config.invocation_params.dir, word.split("::")[0])
        if path.is_dir():
            yield from (file for name in NAMES for file in path.rglob(name))
        elif path.is_file():
            yield path


def make_together(config: pytest.Config) -> None:
    """In a worker of several: make this worker's share."""
    # Where the environment says that nothing is to be cached, every run would pay again, in every worker. It still
    # holds for the programs that tests start.
    sys.dont_write_bytecode = False
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if workers > 1:
        make_share(config, int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw")), workers)
