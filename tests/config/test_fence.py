"""`[spindle.sandbox]`: how commands are confined."""

from __future__ import annotations

import os

import pytest

from spindle.config.fence import build_fence
from spindle.errors import ConfigError
from spindle.policy.sandbox import MORE_PROTECTED, Fence


def test_an_empty_table_changes_nothing() -> None:
    assert build_fence({}) == Fence() == Fence(protected=MORE_PROTECTED)


def test_every_key_is_used() -> None:
    fence = build_fence(
        {
            "backend": "landlock",
            "protected": ["ci/", "a/./b"],
            "deny_read": ["~/.ssh", "**/.env"],
            "unix_sockets": ["/run/../run/x.sock"],
            "pids_max": 50,
            "memory_max": "2G",
        }
    )
    assert fence == Fence(
        backend="landlock",
        protected=("ci", "a/b"),
        deny_read=(os.path.expanduser("~/.ssh"), "**/.env"),
        unix_sockets=(os.path.realpath("/run/x.sock"),),
        pids_max=50,
        memory_max=2 << 30,
    )


@pytest.mark.parametrize(
    ("size", "wanted"), [(5, 5), ("5", 5), ("5K", 5120), ("3 MiB", 3 << 20), ("1gb", 1 << 30), ("2T", 2 << 40)]
)
def test_a_size_may_have_a_unit(size: int | str, wanted: int) -> None:
    assert build_fence({"memory_max": size}).memory_max == wanted


@pytest.mark.parametrize("size", ["", "much", "-1", "1.5G", "5X", "\u0663G"])
def test_what_is_no_size_is_refused(size: str) -> None:
    with pytest.raises(ConfigError, match=r"spindle\.sandbox\.memory_max: .* is not a size"):
        build_fence({"memory_max": size})


@pytest.mark.parametrize("path", ["/etc", "../x", ".", "a/../.."])
def test_a_protected_path_lies_below_a_root(path: str) -> None:
    with pytest.raises(ConfigError, match=r"spindle\.sandbox\.protected: .* must be a relative path"):
        build_fence({"protected": [path]})
