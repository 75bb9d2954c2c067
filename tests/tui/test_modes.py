"""Where Shift-Tab stops, and what each stop means for the thread."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from spindle.config.load import load_config
from spindle.config.schema import Config
from spindle.core.settings import apply_op
from spindle.frontends.tui.modes import Modes
from spindle.protocol.ops import OverrideTurnContext
from spindle.protocol.settings import Allowed, SandboxPolicy, ThreadSettings

LOOSE, STRICT = ["default", "plan", "auto-edit"], ["default", "plan"]


def config(tmp_path: Path, text: str = "", **flags: Any) -> Config:
    (tmp_path / "home").mkdir(exist_ok=True)
    (tmp_path / "home" / "config.toml").write_text(text)
    return load_config(cwd=str(tmp_path), env={"CODEX_HOME": str(tmp_path / "home")}, flags=flags)


def stops(modes: Modes) -> list[str]:
    """Once round."""
    found = [modes.mode]
    while (mode := modes.next()) != "default":
        found.append(mode)
        modes.change(mode)
    return found


@pytest.mark.parametrize(
    ("text", "flags", "expected"),
    [
        ("", {}, LOOSE),  # nothing known of the folder: read-only
        ('[projects."CWD"]\ntrust_level = "trusted"', {}, STRICT),  # it is that already
        ('[projects."CWD"]\ntrust_level = "untrusted"', {}, STRICT),
        ('sandbox_mode = "read-only"', {}, STRICT),
        ('approval_policy = "untrusted"', {}, STRICT),
        ("", {"sandbox_mode": "read-only"}, STRICT),
        ("", {"approval_policy": "untrusted"}, STRICT),
        ("", {"approval_policy": "never"}, LOOSE),  # to be asked is stricter
        ("", {"approval_policy": "never", "sandbox_mode": "danger-full-access"}, STRICT),
        ("[spindle.tui]\ncycle_permissions = false", {}, STRICT),
        ("", {"approval_policy": {"granular": {"rules": True}}}, STRICT),  # it would be asked more
    ],
)
def test_auto_edit_is_left_out_where_it_changes_nothing_or_loosens_what_was_fixed(
    tmp_path: Path, text: str, flags: dict[str, Any], expected: list[str]
) -> None:
    assert stops(Modes(config(tmp_path, text.replace("CWD", str(tmp_path)), **flags))) == expected


def test_an_administrator_has_the_last_word(tmp_path: Path) -> None:
    free = config(tmp_path)
    for limits in ({"allowed_sandbox_modes": ("read-only",)}, {"allowed_approval_policies": ("untrusted",)}):
        assert stops(Modes(msgspec.structs.replace(free, **limits))) == STRICT


def test_auto_edit_is_taken_back_exactly(tmp_path: Path) -> None:
    chosen = config(tmp_path, "[sandbox_workspace_write]\nnetwork_access = true")
    modes = Modes(chosen)
    settings = ThreadSettings(
        cwd=str(tmp_path),
        model="m",
        model_provider="p",
        approval_policy=chosen.approval_policy,
        sandbox=chosen.sandbox,
    )
    before = settings
    seen: list[ThreadSettings] = []
    for mode in ("plan", "auto-edit", "plan", "default"):
        settings = apply_op(settings, modes.change(mode), Allowed())
        seen.append(settings)
    assert [each.collaboration_mode.mode for each in seen] == ["plan", "default", "plan", "default"]
    assert [each.sandbox.mode for each in seen] == ["read-only", "workspace-write", "read-only", "read-only"]
    assert seen[1].sandbox.network_access and seen[1].approval_policy == "on-request"
    assert seen[-1] == before


def test_permissions_that_were_chosen_meanwhile_are_not_taken_back(tmp_path: Path) -> None:
    modes = Modes(config(tmp_path))
    modes.change("auto-edit")
    full = SandboxPolicy(mode="danger-full-access")
    modes.notice(OverrideTurnContext(approval_policy="never", sandbox_policy=full.to_wire()))
    assert modes.mode == "default" and stops(modes) == STRICT
    op = modes.change("plan")
    assert op.sandbox_policy is None and op.approval_policy is None


def test_a_new_thread_in_auto_edit_can_still_leave_it(tmp_path: Path) -> None:
    chosen = config(tmp_path)
    modes = Modes(chosen)
    modes.change("auto-edit")
    modes.opened("on-request", chosen.workspace_write, "default")  # `/new` goes on with the settings in force
    assert modes.mode == "auto-edit"
    op = modes.change(modes.next())
    assert op.sandbox_policy == {"type": "read-only"}
    modes.change("auto-edit")
    modes.opened("never", chosen.sandbox, "plan")  # a thread with settings of its own
    assert modes.mode == "plan" and modes.change("default").sandbox_policy is None
