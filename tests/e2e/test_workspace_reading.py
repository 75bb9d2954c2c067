"""`read = "workspace"` through the installed command: shell, file tools, what the model is told, the doctor."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fake_server import FakeServer, call, custom_call, message, turn
from installed import Spindle

FLAGS = ("-s", "workspace-write", "-c", "spindle.jit_tools=true")


@pytest.fixture
def secret(spindle: Spindle) -> Path:
    """A file in a folder beside the workspace, with `read = "workspace"` set."""
    spindle.configure('[spindle.sandbox]\nread = "workspace"\n[sandbox_workspace_write]\nexclude_slash_tmp = true')
    made = spindle.workspace.parent / "beside/secret.txt"
    made.parent.mkdir()
    made.write_text("CANARY\n")
    (spindle.workspace / "mine.txt").write_text("MINE\n")
    (spindle.workspace / "link.txt").symlink_to(made)
    return made


def test_no_tool_reads_beside_the_workspace(spindle: Spindle, server: FakeServer, secret: Path) -> None:
    patch = f"*** Begin Patch\n*** Update File: {secret}\n@@\n-CANARY\n+x\n*** End Patch\n"
    calls = [
        call("exec_command", {"cmd": f"cat mine.txt {secret} link.txt {spindle.home}/config.toml"}, "c0"),
        call("read_file", {"file_path": str(secret)}, "c1"),
        call("read_file", {"file_path": str(spindle.workspace / "link.txt")}, "c2"),
        call("list_dir", {"dir_path": str(secret.parent)}, "c3"),
        call("grep_files", {"pattern": "CANARY", "path": str(secret.parent)}, "c4"),
        call("view_image", {"path": str(secret)}, "c5"),
        custom_call("apply_patch", patch, "c6"),
        call("read_file", {"file_path": str(spindle.home / "config.toml")}, "c7"),
        call("read_file", {"file_path": str(spindle.workspace / "mine.txt")}, "c8"),
        call("grep_files", {"pattern": "MINE", "path": str(spindle.workspace)}, "c9"),
    ]
    server.script(*(turn(one) for one in calls), turn(message("over")))
    done = spindle("exec", *FLAGS, "go")
    assert done.code == 0, done.err
    told = {
        item["call_id"]: json.dumps(item["output"])
        for item in server.requests[-1].json["input"]
        if item["type"].endswith("_output")
    }
    assert [name for name in told if "CANARY" in told[name].replace("-CANARY", "")] == []
    assert "model_provider" not in told["c0"] + told["c7"]
    assert "MINE" in told["c0"] and "MINE" in told["c8"] and "mine.txt" in told["c9"]
    assert "secret.txt" not in told["c3"] and "secret.txt" not in told["c4"].replace(str(secret), "")
    assert secret.read_text() == "CANARY\n"


@pytest.mark.parametrize("mode", ["read-only", "workspace-write"])
def test_the_model_is_told_what_it_can_read(spindle: Spindle, server: FakeServer, secret: Path, mode: str) -> None:
    server.script(turn(message("over")))
    assert spindle("exec", "-s", mode, "go").code == 0
    told = json.dumps(server.requests[-1].json["input"][0])
    assert "Files can be read only in the workspace, the system's folders, language toolchains" in told
    assert "everywhere" not in told and "{" not in told.partition("<permissions")[2].partition("</permissions")[0]


def test_the_doctor_says_and_tries_which_reading_applies(spindle: Spindle) -> None:
    for setting, word in (("all", "everything that you can read"), ("workspace", "nothing else of your home")):
        done = spindle("doctor", "--json", "-c", f'spindle.sandbox.read="{setting}"')
        report = json.loads(done.out)
        details = [check["detail"] for check in report["checks"] if check["name"] == "reads"]
        assert done.code == 0, report["commands"]
        assert f'read = "{setting}"' in details[0] and word in details[0]
        assert all(("neighbours" in trial["could_not"]) is (setting == "workspace") for trial in report["commands"])


def test_the_doctor_names_settings_that_are_not_shown_because_of_keys(spindle: Spindle, tmp_path: Path) -> None:
    home = tmp_path / "person"
    home.mkdir()
    (home / ".npmrc").write_text("//registry.example/:_authToken=abc\n")
    (home / ".gitconfig").write_text("[user]\nname = A\n")
    done = spindle("doctor", "--json", "-c", 'spindle.sandbox.read="workspace"', HOME=str(home))
    details = " ".join(check["detail"] for check in json.loads(done.out)["checks"] if check["name"] == "reads")
    assert f"{home}/.npmrc" in details and ".gitconfig" not in details


def test_a_value_that_does_not_exist_is_refused(spindle: Spindle) -> None:
    done = spindle("sandbox", "-c", 'spindle.sandbox.read="home"', "true")
    assert done.code == 1 and "spindle.sandbox.read is 'home', but must be one of all, workspace" in done.err
