"""The administrator's limits hold at every door; where a person would have to be asked, `exec` refuses at once."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fake_server import FakeServer, call, message, turn
from installed import Spindle
from spindle.config.load import load_config
from spindle.core.settings import apply_op
from spindle.errors import ConfigError
from spindle.protocol.ops import OverrideTurnContext, UserTurn
from spindle.protocol.settings import Allowed, SandboxPolicy, ThreadSettings

LIMITS = """
allowed_approval_policies = ["untrusted", "on-request"]
allowed_sandbox_modes = ["read-only", "workspace-write"]
"""
ALLOWED = Allowed(approval_policies=("untrusted", "on-request"), sandbox_modes=("read-only", "workspace-write"))
SETTINGS = ThreadSettings(cwd="/usr", model="m", model_provider="p")

TOO_MUCH: list[dict[str, Any]] = [
    {"approval_policy": "never"},
    {"approval_policy": "on-failure"},
    {"sandbox_policy": "danger-full-access"},
    {"sandbox_policy": {"type": "danger-full-access"}},
    {"sandbox_policy": {"mode": "danger-full-access"}},
    {"sandbox_policy": {"type": "external-sandbox", "network_access": "enabled"}},
    {"sandbox_policy": {"type": "workspace-write", "writable_roots": ["/"]}},
    {"sandbox_policy": {"type": "workspace-write", "writable_roots": ["/srv", "//"]}},
    {"sandbox_policy": {"type": "workspace-write", "writable_roots": ["/usr/.."]}},
    {"sandbox_policy": {"type": "workspace-write", "writable_roots": ["/proc/self/root"]}},
    {"sandbox_policy": {"type": "workspace-write"}, "cwd": "/"},
    {"sandbox_policy": {"type": "workspace-write"}, "cwd": "/usr/.."},
    {"sandbox_policy": {"type": "read-only", "permissions": {"name": "x", "rules": [[":root", "write"]]}}},
    {"sandbox_policy": {"type": "workspace-write", "permissions": {"name": "x", "rules": [["/", "write"]]}}},
    *(
        {"sandbox_policy": {"type": "workspace-write", "permissions": {"name": "x", **rights}}}
        for rights in (
            {"rules": [["/usr/..", "write"]]},
            {"rules": [[":root/.", "write"]]},
            {"rules": [[":workspace_roots", "write"]], "workspace_roots": ["/"]},
            {"rules": [[":workspace_roots/..", "write"]], "workspace_roots": ["/usr"]},
        )
    ),
]


@pytest.mark.parametrize("change", TOO_MUCH, ids=json.dumps)
@pytest.mark.parametrize(
    "kind", [OverrideTurnContext, lambda **given: UserTurn(items=[], **given)], ids=["set", "turn"]
)
def test_18_no_op_goes_beyond_the_administrators_limits(change: dict[str, Any], kind: Callable[..., Any]) -> None:
    with pytest.raises(ConfigError, match="not allowed here by the administrator"):
        apply_op(SETTINGS, kind(**change), ALLOWED)
    apply_op(SETTINGS, kind(**change), Allowed())


@pytest.mark.parametrize(
    "change",
    [{"approval_policy": "untrusted"}, {"sandbox_policy": "workspace-write"}, {"model": "other"}, {"cwd": "/"}],
    ids=json.dumps,
)
def test_18_what_is_allowed_can_be_chosen(change: dict[str, Any]) -> None:
    apply_op(SETTINGS, OverrideTurnContext(**change), ALLOWED)


def test_18_the_workspace_does_not_become_all_of_the_disk() -> None:
    changed = apply_op(SETTINGS, OverrideTurnContext(sandbox_policy="workspace-write"), ALLOWED)
    with pytest.raises(ConfigError, match="danger-full-access is not allowed here by the administrator"):
        apply_op(changed, OverrideTurnContext(cwd="/"), ALLOWED)


def test_18_exec_does_not_take_all_of_the_disk_for_its_workspace(
    spindle: Spindle, server: FakeServer, limited: list[str]
) -> None:
    done = spindle("exec", "--skip-git-repo-check", "-s", "workspace-write", "-C", "/", "go", wrap=limited)
    assert done.code == 1 and server.requests == [] and "not allowed here by the administrator" in done.err


@pytest.fixture
def limited(tmp_path: Path) -> list[str]:
    """Starts a program on a machine whose administrator has set limits."""
    (tmp_path / "requirements.toml").write_text(LIMITS)
    there = (
        f"cp /etc/passwd {tmp_path} && mount -t tmpfs none /etc && mkdir /etc/codex && cp {tmp_path}/passwd /etc && "
        f'cp {tmp_path}/requirements.toml /etc/codex && exec "$@"'
    )
    wrap = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", there, "sh"]
    if shutil.which("unshare") is None or subprocess.run([*wrap, "true"], check=False).returncode != 0:
        pytest.skip("a program cannot be given another /etc here")
    return wrap


def test_18_exec_refuses_what_it_would_have_to_ask_about_and_never_waits(
    spindle: Spindle, server: FakeServer, limited: list[str]
) -> None:
    server.script(turn(call("exec_command", {"cmd": "touch made"}, "c1")), turn(message("understood")))
    done = spindle("exec", "--skip-git-repo-check", "-s", "workspace-write", "go", wrap=limited)
    assert done.code == 0 and not (spindle.workspace / "made").exists()
    told = json.dumps(server.requests[1].json["input"])
    assert "nobody can be asked in this run" in told
    assert "'never' is not allowed by" in done.err


@pytest.mark.parametrize("words", [("exec", "review", "--skip-git-repo-check"), ("review",)], ids=" ".join)
def test_18_a_review_refuses_what_it_would_have_to_ask_about_and_never_waits(
    spindle: Spindle, server: FakeServer, limited: list[str], words: tuple[str, ...]
) -> None:
    wish = {"cmd": "touch made", "sandbox_permissions": "require_escalated", "justification": "to look"}
    server.script(turn(call("exec_command", wish, "c1")), turn(message('{"findings": []}')))
    done = spindle(*words, "--uncommitted", wrap=limited, timeout=60)
    assert done.code == 0 and not (spindle.workspace / "made").exists(), done.err
    told = json.dumps(server.requests[1].json["input"])
    assert "approval policy is Never; reject command" in told


def test_18_exec_with_full_access_stays_within_the_limits(
    spindle: Spindle, server: FakeServer, limited: list[str]
) -> None:
    done = spindle("exec", "--skip-git-repo-check", "--yolo", "go", wrap=limited)
    assert done.code == 0 and "'danger-full-access' is not allowed by" in done.err
    assert "danger-full-access" not in json.dumps(server.requests[0].json["input"])


def test_18_proto_keeps_to_the_limits(spindle: Spindle, server: FakeServer, limited: list[str]) -> None:
    ops = [
        {"type": "override_turn_context", "sandbox_policy": {"type": "danger-full-access"}},
        {"type": "user_turn", "items": [{"type": "text", "text": "go"}], "cwd": str(spindle.workspace)}
        | {"approval_policy": "never", "sandbox_policy": {"type": "danger-full-access"}, "model": "m"},
        {"type": "shutdown"},
    ]
    lines = "".join(json.dumps({"id": str(number), "op": op}) + "\n" for number, op in enumerate(ops))
    done = spindle("proto", stdin=lines, wrap=limited)
    refused = [event for event in done.events if event["msg"]["type"] == "error"]
    assert [event["id"] for event in refused] == ["0", "1"] and server.requests == []
    assert "not allowed here by the administrator" in refused[0]["msg"]["message"]


def test_18_proto_opens_no_thread_beyond_the_limits(spindle: Spindle, limited: list[str]) -> None:
    op = {"type": "configure_session", "sandbox_policy": {"type": "danger-full-access"}, "cwd": str(spindle.workspace)}
    done = spindle("proto", "--wait-configure", stdin=json.dumps({"id": "1", "op": op}) + "\n", wrap=limited)
    kinds = [event["msg"]["type"] for event in done.events]
    assert "session_configured" not in kinds and "error" in kinds


def test_18_the_app_server_runs_no_command_beyond_the_limits(spindle: Spindle, limited: list[str]) -> None:
    asked = [
        {"sandboxPolicy": {"type": "dangerFullAccess"}},
        {"sandboxPolicy": {"type": "workspaceWrite", "writableRoots": ["/usr/.."]}},
        {"sandboxPolicy": {"type": "workspaceWrite"}, "cwd": "/"},
    ]
    calls = [("initialize", {"clientInfo": {"name": "t", "version": "1"}})]
    calls += [("command/exec", {"command": ["touch", str(spindle.workspace / "made")], **one}) for one in asked]
    lines = [{"id": number, "method": method, "params": params} for number, (method, params) in enumerate(calls)]
    done = spindle("app-server", stdin="".join(json.dumps(line) + "\n" for line in lines), wrap=limited)
    answers = {event["id"]: event for event in done.events if "id" in event and "method" not in event}
    for number in range(1, len(calls)):
        assert "not allowed here by the administrator" in answers[number]["error"]["message"]
    assert not (spindle.workspace / "made").exists()


def test_18_a_session_is_not_opened_beyond_the_limits(tmp_path: Path, workspace: Path) -> None:
    import asyncio

    from spindle.assembly import SessionRequest, open_session

    config = load_config(cwd=str(workspace), env={"CODEX_HOME": str(tmp_path), "HOME": str(tmp_path)})
    config = msgspec.structs.replace(
        config, allowed_sandbox_modes=("read-only",), sandbox=SandboxPolicy(mode="danger-full-access")
    )
    with pytest.raises(ConfigError, match="sandbox mode danger-full-access is not allowed"):
        asyncio.run(open_session(SessionRequest(config=config, source="cli", originator="test")))
