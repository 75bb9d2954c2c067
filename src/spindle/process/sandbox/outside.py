"""No fence: full access, or a person approved this very command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spindle.process.sandbox.launch import Launch


def launch(argv: Sequence[str], env: Mapping[str, str]) -> Launch:
    return Launch(argv=argv, env=env, is_confined=False)
