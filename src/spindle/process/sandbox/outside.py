"""No fence: full access, or a person approved this very command."""

from __future__ import annotations

from spindle.process.sandbox.launch import Launch, Wanted


def problem() -> str | None:
    return None


def launch(wanted: Wanted) -> Launch:
    assert wanted.boundary is None or wanted.boundary.is_full_access, "a command that has a boundary stays inside"
    return Launch(argv=wanted.argv, env=wanted.env, is_confined=False)
