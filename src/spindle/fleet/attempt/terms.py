"""The operator's configuration as data without a secret: read once by the driver, made a `Config` again by workers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def read_settings(
    *, env: Mapping[str, str], overrides: Sequence[str] = (), profile: str | None = None
) -> dict[str, Any]:
    """`Terms.settings`: what the operator's files, `-c` and `-p` come to, without secrets. Raises ConfigError."""
    raise NotImplementedError
