"""Questions in a real terminal: the first start of all, and an approval that is higher than the window."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from fake_server import FakeServer, call, message, refuses, turn
from mcp_servers.kit import stub
from tui.terminals import OpenTui


def test_the_first_start_asks_for_trust_then_for_a_key_and_then_works(
    tui: OpenTui, server: FakeServer, tmp_path: Path
) -> None:
    home, folder = tmp_path / "fresh home", tmp_path / "unknown folder"
    home.mkdir()
    folder.mkdir()
    server.pages = {"/v1/models": refuses(200, {"data": []})}
    server.script(turn(message("it-works")))
    env = {
        "CODEX_HOME": str(home),
        "HOME": str(tmp_path),
        "OPENAI_API_KEY": "",
        "OPENAI_BASE_URL": server.base_url,
        "CODEX_OSS_PORT": "9",
    }
    with tui(env=env, cwd=folder) as t:
        t.wait_for("Do you trust the files in this folder?").wait_for(str(folder))
        assert server.requests == []
        t.key("enter").wait_for("How shall Spindle reach a model?", where="screen")
        assert "trust the files" not in t.screen and "Not signed in" in t.screen
        t.key("1").wait_for("API key for OpenAI", where="screen")
        assert server.requests == []
        t.type("sk-typed-in").wait_for("•••••••••••", where="screen").key("enter")
        t.wait_for("The key is stored in auth.json").ready().submit("hello").wait_for("it-works")
        t.key("ctrl-d")
        assert t.wait_exit() == 0
        t.assert_sane()
        assert b"sk-typed-in" not in t.raw
    checked, asked = server.requests[:2]
    assert (checked.method, checked.path) == ("GET", "/v1/models")
    assert asked.headers["authorization"] == checked.headers["authorization"] == "Bearer sk-typed-in"
    assert tomllib.loads((home / "config.toml").read_text())["projects"] == {str(folder): {"trust_level": "untrusted"}}
    auth = home / "auth.json"
    assert json.loads(auth.read_text())["OPENAI_API_KEY"] == "sk-typed-in" and auth.stat().st_mode & 0o777 == 0o600


def test_plain_mode_asks_the_same_and_shows_no_key(tui: OpenTui, server: FakeServer, tmp_path: Path) -> None:
    home, folder = tmp_path / "fresh", tmp_path / "unknown"
    home.mkdir()
    folder.mkdir()
    server.pages = {"/v1/models": refuses(200, {"data": []})}
    long = "\n".join([*(f"echo line-{number}" for number in range(1100)), "touch made-it"])
    arguments = {"cmd": long, "sandbox_permissions": "require_escalated", "justification": "it is long"}
    server.script(turn(call("exec_command", arguments, "c1")), turn(message("after-it")))
    env = {"CODEX_HOME": str(home), "OPENAI_API_KEY": "", "OPENAI_BASE_URL": server.base_url, "CODEX_OSS_PORT": "9"}
    with tui("--plain", "-a", "on-request", env=env, cwd=folder) as t:
        t.wait_for("Do you trust the files").wait_for("3. Quit").idle().send("1\n")
        t.wait_for("How shall Spindle reach a model?").wait_for("Quit").idle().send("1\n")
        t.wait_for("API key for OpenAI").wait_for("Ctrl-C goes back").idle().send("sk-typed-in\n")
        t.wait_for("stored in auth.json").idle().send("visible words\n").wait_for("Yes, once (y)")
        assert (
            "echo line-0\n" in t.scrollback and "echo line-1099\n" in t.scrollback and "touch made-it" in t.scrollback
        )
        t.idle().send("y\n").wait_for("after-it")
        t.send("\x04")
        assert t.wait_exit() == 0
        t.assert_sane()
        assert b"sk-typed-in" not in t.raw and b"visible words" in t.raw
    assert (folder / "made-it").exists()


def test_quitting_at_the_first_question_leaves_nothing(tui: OpenTui, tmp_path: Path) -> None:
    home, folder = tmp_path / "fresh", tmp_path / "unknown"
    home.mkdir()
    folder.mkdir()
    with tui(env={"CODEX_HOME": str(home)}, cwd=folder) as t:
        t.wait_for("Do you trust the files").key("esc")
        assert t.wait_exit() == 0
        t.assert_sane()
    assert not (home / "config.toml").exists()


def test_an_approval_that_is_higher_than_the_window(tui: OpenTui, server: FakeServer, workspace: Path) -> None:
    lines = [f"echo line-{number:03}" for number in range(80)]
    script = "\n".join([*lines, "touch made-it \u202e"])
    arguments = {"cmd": script, "sandbox_permissions": "require_escalated", "justification": "it is long"}
    server.script(turn(call("exec_command", arguments, "c1")), turn(message("after-it")))
    with tui("-a", "on-request", "-s", "workspace-write", rows=24) as t:
        t.ready().submit("go").wait_for("Yes, once (y)", where="screen").wait_for("echo line-000", where="screen")
        assert "echo line-079" not in t.screen and "line-079" not in t.scrollback
        t.idle(0.6).key("end").wait_for("⟨U+202E⟩", where="screen")
        assert "Yes, once (y)" in t.screen and not (workspace / "made-it").exists()
        t.key("ctrl-a").wait_gone("Yes, once (y)")
        t.wait_for("echo line-000", where="screen").key("end").wait_for("echo line-079", where="screen")
        t.key("q").wait_for("Yes, once (y)", where="screen")
        t.key("y").wait_for("after-it")
        assert b"\xe2\x80\xae" not in t.raw
    assert (workspace / "made-it").exists()


def test_a_refusal_with_a_reason_reaches_the_model(tui: OpenTui, server: FakeServer, workspace: Path) -> None:
    arguments = {"cmd": "touch made-it", "sandbox_permissions": "require_escalated", "justification": "x"}
    server.script(turn(call("exec_command", arguments, "c1")), turn(message("understood")))
    with tui("-a", "on-request", "-s", "workspace-write") as t:
        t.ready().submit("go").wait_for("No, and tell the model why (t)", where="screen").idle(0.6)
        t.key("t").wait_for("Tell the model why", where="screen").type("use the other tool")
        t.wait_for("> use the other tool", where="screen").key("enter")
        t.wait_for("understood").wait_for("✗ refused: touch made-it")
    outputs = [
        item["output"]
        for item in server.turns_asked[1].json["input"]
        if item.get("call_id") == "c1" and "output" in item
    ]
    assert "use the other tool" in str(outputs) and not (workspace / "made-it").exists()


def test_a_tool_of_a_server_is_asked_about_and_its_form_filled_in(tui: OpenTui, server: FakeServer, home: Path) -> None:
    entry = stub({"tools": ["paint"], "elicit_on": "paint", "read_only": False})
    with (home / "config.toml").open("a") as file:
        file.write(
            f"\n[mcp_servers.tiny]\ncommand = {json.dumps(entry['command'])}\nargs = {json.dumps(entry['args'])}\n"
        )
    server.script(turn(call("mcp__tiny__paint", {"wall": "north"}, "c1")), turn(message("painted")))
    with tui("-a", "on-request", "-s", "workspace-write") as t:
        t.ready().submit("go").wait_for("Use this MCP tool?", where="screen").wait_for("Yes, once (y)", where="screen")
        assert "server  tiny" in t.screen and "tool    paint" in t.screen and 'wall = "north"' in t.screen
        t.idle(0.6).key("y").wait_for("The MCP server tiny asks:", where="screen").wait_for("Which colour?")
        t.idle(0.6).type("blue").wait_for("> blue", where="screen").key("enter")
        t.wait_for("colour: blue", where="screen").key("1").wait_for("painted")
    outputs = [item for item in server.turns_asked[1].json["input"] if item.get("call_id") == "c1"]
    assert "blue" in str(outputs)
