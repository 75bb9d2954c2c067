"""A granular approval policy: kinds of question that it closes are refused without being asked; it never opens one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from app_server.client import Client
from app_server.conftest import Start
from app_server.test_thread_rights import ID, foreign
from fake_server import FakeServer, call, message, turn
from mcp_servers.kit import STUB

KINDS = ("sandbox_approval", "rules", "skill_approval", "request_permissions", "mcp_elicitations")
OPEN = dict.fromkeys(KINDS, True)
QUESTIONS = {
    "item/commandExecution/requestApproval": {"decision": "accept"},
    "item/fileChange/requestApproval": {"decision": "accept"},
    "item/permissions/requestApproval": {"permissions": {"network": {"enabled": True}}, "scope": "turn"},
    "mcpServer/elicitation/request": {"action": "accept", "content": {"colour": "red"}},
}
ESCAPES = {"sandbox_permissions": "require_escalated", "justification": "May I?"}


def closing(*kinds: str) -> dict[str, Any]:
    return {"granular": {kind: kind not in kinds for kind in KINDS}}


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    return tmp_path / "outside"


@pytest.fixture
def configured(home: Path) -> Path:
    """The user's file: the tool, a rule that asks, a server that asks and whose tool is asked about."""
    (home / "rules").mkdir()
    (home / "rules" / "mine.rules").write_text('prefix_rule(pattern=["touch", "ruled"], decision="prompt")\n')
    config = home / "config.toml"
    how = json.dumps({"tools": ["paint"], "elicit_on": "paint", "read_only": False})
    config.write_text(
        f"features.request_permissions_tool = true\n{config.read_text()}\n"
        f"[mcp_servers.tiny]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps([str(STUB), how])}\n"
    )
    return config


def acts(server: FakeServer, outside: Path, time: int = 0) -> None:
    """One call of every kind, then the answer. No two calls of a thread have the same id."""
    patch = f"*** Begin Patch\n*** Add File: {outside}-patch\n+x\n*** End Patch\n"
    calls = {
        "escape": ("exec_command", {"cmd": f"touch {outside}", **ESCAPES}),
        "danger": ("exec_command", {"cmd": "rm -rf nothing-here"}),
        "patch": ("exec_command", {"cmd": f"apply_patch <<'EOF'\n{patch}EOF\n"}),
        "rule": ("exec_command", {"cmd": "touch ruled"}),
        "rule_out": ("exec_command", {"cmd": "touch ruled", **ESCAPES}),
        "more": ("request_permissions", {"permissions": {"network": {"enabled": True}}, "reason": "to fetch"}),
        "server": ("mcp__tiny__paint", {"text": "x"}),
    }
    server.script(
        *(turn(call(name, given, f"{key}-{time}")) for key, (name, given) in calls.items()), turn(message("done"))
    )


class Asked:
    """What a client was asked, by the call that it was about; every question gets a yes."""

    def __init__(self, client: Client) -> None:
        self.about: list[str] = []
        for method, reply in QUESTIONS.items():
            client.answers[method] = lambda params, method=method, reply=reply: self.note(method, params) or reply

    def note(self, method: str, params: Any) -> None:
        is_form = method.startswith("mcpServer") and params["message"] == "Which colour?"
        is_tool = method.startswith("mcpServer") and not is_form
        self.about.append("form" if is_form else "tool" if is_tool else params["itemId"].partition("-")[0])


def outputs(server: FakeServer) -> dict[str, str]:
    found = server.turns_asked[-1].json["input"]
    given = [item for item in found if item["type"] == "function_call_output"]
    return {item["call_id"].partition("-")[0]: str(item["output"]) for item in given}


ABOUT = {
    "sandbox_approval": {"escape", "danger", "patch", "rule_out"},
    "rules": {"rule", "rule_out"},
    "skill_approval": set[str](),
    "request_permissions": {"more"},
    "mcp_elicitations": {"form"},
}
EVERYTHING = ["escape", "danger", "patch", "rule", "rule_out", "more", "tool", "form"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_that_is_closed_is_refused_and_no_other(
    configured: Path, start: Start, server: FakeServer, outside: Path, kind: str
) -> None:
    client = start()
    client.initialize(experimentalApi=True)
    asked = Asked(client)
    acts(server, outside)
    opened = client.result("thread/start", {"sandbox": "workspace-write", "approvalPolicy": closing(kind)})
    assert opened["approvalPolicy"] == closing(kind)
    client.turn(opened["thread"]["id"], "go")
    assert asked.about == [name for name in EVERYTHING if name not in ABOUT[kind]]
    said = outputs(server)
    refused = f"the approval policy is granular with {kind} = false, so the user is not asked"
    assert {name for name, text in said.items() if refused in text} == ABOUT[kind] - {"form"}
    assert ('{"action": "decline"}' in said["server"].replace("\\", "")) is (kind == "mcp_elicitations")
    assert outside.exists() is (kind != "sandbox_approval")
    told = json.dumps(server.turns_asked[0].json["input"])
    assert (f"- `{kind}`: " in told) is (kind != "skill_approval")
    assert ("require_escalated" in told) is (kind != "sandbox_approval")


def test_it_comes_by_turn_and_by_configuration_and_a_name_ends_it(
    configured: Path, start: Start, server: FakeServer, outside: Path
) -> None:
    client = start("-c", "approval_policy.granular.rules=true")
    client.initialize(experimentalApi=True)
    asked = Asked(client)
    rest = [name for name in EVERYTHING if name not in ("rule", "rule_out")]
    opened = client.result("thread/start", {"sandbox": "workspace-write"})
    thread_id = opened["thread"]["id"]
    assert opened["approvalPolicy"] == closing(*(kind for kind in KINDS if kind != "rules"))
    acts(server, outside, time=0)
    client.turn(thread_id, "go")
    # What is not named is a no.
    assert asked.about == ["rule", "tool"]
    asked.about.clear()
    acts(server, outside, time=1)
    client.turn(thread_id, "go", approvalPolicy=closing("rules"))
    told = client.note("thread/settings/updated")
    assert asked.about == rest and told["threadSettings"]["approvalPolicy"] == closing("rules")
    asked.about.clear()
    acts(server, outside, time=2)
    client.turn(thread_id, "go", approvalPolicy="on-request")
    assert asked.about == EVERYTHING


def test_a_yes_for_the_session_does_not_outlive_it(start: Start, server: FakeServer, outside: Path) -> None:
    client = start()
    client.initialize(experimentalApi=True)
    client.answers["item/commandExecution/requestApproval"] = lambda _: {"decision": "acceptForSession"}
    escape = turn(call("exec_command", {"cmd": f"touch {outside}", **ESCAPES}, "escape"))
    server.script(escape, turn(message("done")), escape, turn(message("done")))
    thread_id = client.start_thread(approvalPolicy="on-request", sandbox="workspace-write")
    client.turn(thread_id, "go")
    assert outside.exists()
    outside.unlink()
    client.turn(thread_id, "again", approvalPolicy=closing("sandbox_approval"))
    assert not outside.exists()


def test_a_thread_keeps_it_when_it_is_opened_again_and_so_does_its_fork(start: Start, server: FakeServer) -> None:
    client = start()
    client.initialize(experimentalApi=True)
    wanted = closing("rules", "mcp_elicitations")
    thread_id = client.start_thread(approvalPolicy=wanted, sandbox="read-only")
    client.turn(thread_id, "hello")
    fork = client.result("thread/fork", {"threadId": thread_id})
    client.close()
    later = start()
    later.initialize(experimentalApi=True)
    assert fork["approvalPolicy"] == later.result("thread/resume", {"threadId": thread_id})["approvalPolicy"] == wanted
    # Nothing has changed, so nothing is told again.
    later.turn(thread_id, "again")
    told = [json.dumps(item) for item in server.turns_asked[-1].json["input"] if item.get("role") == "developer"]
    assert sum("permissions instructions" in text for text in told) == 1


def test_a_foreign_record_opens_no_kind_that_is_closed(home: Path, workspace: Path, start: Start) -> None:
    foreign(home, str(workspace), approval=closing("rules"))  # pyright: ignore[reportArgumentType]
    client = start("-c", "approval_policy.granular.rules=true", "-c", "approval_policy.granular.sandbox_approval=true")
    client.initialize(experimentalApi=True)
    opened = client.result("thread/resume", {"threadId": ID})
    assert opened["approvalPolicy"] == closing(*(kind for kind in KINDS if kind != "sandbox_approval"))


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        ({"granular": {"rules": "yes"}}, "Expected `bool`, got `str` - at `$.rules`"),
        ({"granular": True}, "Expected `object`, got `bool`"),
        ({"fine": {}}, "`granular` is missing"),
    ],
)
def test_a_table_that_says_nothing_clear_is_refused(
    spindle_cmd: list[str], environment: dict[str, str], workspace: Path, client: Client, policy: Any, why: str
) -> None:
    text = f"the approval policy is not a table of kinds of question: {why}"
    assert client.error("thread/start", {"approvalPolicy": policy})["message"] == text
    thread_id = client.start_thread()
    asks = {"threadId": thread_id, "input": [{"type": "text", "text": "x"}], "approvalPolicy": policy}
    assert client.error("turn/start", asks)["message"] == text
    setting = f"approval_policy={json.dumps(policy).replace(':', ' =')}"
    done = subprocess.run(
        [*spindle_cmd, "exec", "-c", setting, "hello"], cwd=workspace, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 1 and text in done.stderr
