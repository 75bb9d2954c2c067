"""Configuration, accounts, commands and files through the installed command; and the schemas."""

from __future__ import annotations

import json
import stat
import subprocess
import tomllib
from pathlib import Path

import msgspec

from app_server.client import Client, items, wait_for_pid
from app_server.conftest import Start
from fake_server import FakeServer, message, turn
from spindle.frontends.app_server.registry import METHODS


def test_the_configuration_is_told_with_where_it_comes_from(start: Start, home: Path) -> None:
    client = start("-c", "model_verbosity=low")
    client.initialize()
    read = client.result("config/read", {"includeLayers": True})
    config = read["config"]
    assert (config["model"], config["model_verbosity"], config["approval_policy"]) == ("gpt-5.2-codex", "low", None)
    assert config["model_providers"]["fake"]["env_key"] == "FAKE_API_KEY"
    own = {"type": "user", "file": str(home / "config.toml"), "profile": None}
    assert read["origins"]["model"]["name"] == own
    assert read["origins"]["model_providers.fake.name"]["name"] == own
    assert read["origins"]["model_verbosity"]["name"] == {"type": "sessionFlags"}
    assert [layer["name"]["type"] for layer in read["layers"]] == ["sessionFlags", "user"]
    assert read["layers"][1]["version"] == read["origins"]["model"]["version"]
    assert client.result("config/read", {})["layers"] is None


def test_a_value_is_written_beside_comments_and_counts_at_once(client: Client, home: Path, server: FakeServer) -> None:
    path = home / "config.toml"
    path.write_text("# mine\n" + path.read_text() + "\n# the end\n")
    path.chmod(0o640)
    version = client.result("config/read", {})["origins"]["model"]["version"]
    edit = {"keyPath": "model_reasoning_effort", "value": "low", "mergeStrategy": "replace"}
    done = client.result("config/value/write", {**edit, "expectedVersion": version})
    assert (done["status"], done["filePath"], done["overriddenMetadata"]) == ("ok", str(path), None)
    text = path.read_text()
    assert text.startswith("# mine\n") and text.endswith("# the end\n")
    assert tomllib.loads(text)["model_reasoning_effort"] == "low"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert done["version"] == client.result("config/read", {})["origins"]["model"]["version"] != version
    client.turn(client.start_thread(), "hi")
    assert server.requests[0].json["reasoning"]["effort"] == "low"
    client.result("config/value/write", {"keyPath": "model", "value": "gpt-5.1", "mergeStrategy": "replace"})
    rows = client.result("model/list", {"includeHidden": True})["data"]
    assert [row["id"] for row in rows if row["isDefault"]] == ["gpt-5.1"]
    client.result("config/value/write", {**edit, "value": None})
    assert "model_reasoning_effort" not in tomllib.loads(path.read_text())


def test_a_write_that_would_do_harm_changes_nothing(client: Client, home: Path, workspace: Path) -> None:
    before = (home / "config.toml").read_text()

    def refused(**params: object) -> str:
        edit = {"keyPath": "approval_policy", "value": "never", "mergeStrategy": "replace", **params}
        error = client.error("config/value/write", edit)
        assert error["code"] == -32600 and (home / "config.toml").read_text() == before
        return error["data"]["config_write_error_code"]

    assert refused(value="bogus") == "configValidationError"
    assert refused(keyPath="model.x") == "configValidationError"
    assert refused(keyPath="a..b") == "configValidationError"
    assert refused(expectedVersion="sha256:00") == "configVersionConflict"
    assert refused(filePath=str(workspace / "config.toml")) == "configLayerReadonly"
    edits = [
        {"keyPath": "model", "value": "other", "mergeStrategy": "replace"},
        {"keyPath": "sandbox_mode", "value": 1, "mergeStrategy": "replace"},
    ]
    client.error("config/batchWrite", {"edits": edits})
    assert (home / "config.toml").read_text() == before


def test_several_edits_and_tables_that_are_merged(client: Client, home: Path, workspace: Path) -> None:
    edits = [
        {"keyPath": f'projects."{workspace}".trust_level', "value": "trusted", "mergeStrategy": "upsert"},
        {"keyPath": "model_providers.fake", "value": {"name": "renamed"}, "mergeStrategy": "upsert"},
        {"keyPath": "features", "value": {"undo": True, "steer": None}, "mergeStrategy": "replace"},
    ]
    assert client.result("config/batchWrite", {"edits": edits})["status"] == "ok"
    written = tomllib.loads((home / "config.toml").read_text())
    assert written["projects"] == {str(workspace): {"trust_level": "trusted"}}
    assert written["model_providers"]["fake"]["name"] == "renamed" and "base_url" in written["model_providers"]["fake"]
    assert written["features"] == {"undo": True}


def test_a_write_that_is_overridden_says_by_what(start: Start) -> None:
    client = start("-c", "model_verbosity=low")
    client.initialize()
    done = client.result(
        "config/value/write", {"keyPath": "model_verbosity", "value": "high", "mergeStrategy": "replace"}
    )
    assert done["status"] == "okOverridden"
    assert done["overriddenMetadata"]["effectiveValue"] == "low"
    assert done["overriddenMetadata"]["overridingLayer"]["name"] == {"type": "sessionFlags"}


def test_a_skill_is_switched_off_and_on(client: Client, workspace: Path) -> None:
    skill = workspace / ".agents" / "skills" / "alpha" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: alpha\ndescription: D\n---\nbody\n")

    def is_on() -> bool:
        (entry,) = client.result("skills/list", {"cwds": [str(workspace)]})["data"]
        return next(found["enabled"] for found in entry["skills"] if found["name"] == "alpha")

    assert is_on()
    change = {"path": str(skill), "enabled": False}
    assert client.result("skills/config/write", change) == {"effectiveEnabled": False}
    assert not is_on()
    assert client.result("skills/config/write", {**change, "enabled": True}) == {"effectiveEnabled": True}
    assert is_on()
    assert client.error("skills/config/write", {"enabled": True})["code"] == -32602


def test_signing_in_with_a_key_and_out_again(start: Start, home: Path) -> None:
    client = start("-c", "model_provider=openai")
    client.initialize()
    assert client.result("account/read", {}) == {"account": None, "requiresOpenaiAuth": True}
    assert client.result("account/login/start", {"type": "apiKey", "apiKey": "sk-mine"}) == {"type": "apiKey"}
    assert client.note("account/login/completed") == {"loginId": None, "success": True, "error": None}
    assert client.note("account/updated")["authMode"] == "apikey"
    assert json.loads((home / "auth.json").read_text())["OPENAI_API_KEY"] == "sk-mine"
    assert client.result("account/read", {})["account"] == {"type": "apiKey"}
    since = len(client.seen)
    assert client.result("account/logout") == {}
    assert client.note("account/updated", since=since)["authMode"] is None
    assert not (home / "auth.json").exists()
    bad = client.error("account/login/start", {"type": "apiKey", "apiKey": "two words"})
    assert bad["message"].startswith("this is not an API key: ") and not (home / "auth.json").exists()


def test_rate_limits_are_those_of_the_last_answer(client: Client, server: FakeServer) -> None:
    assert "yet" in client.error("account/rateLimits/read")["message"]
    headers = {"x-codex-primary-used-percent": "12.4", "x-codex-primary-window-minutes": "300"}
    server.script(turn(message("hi"), headers=headers))
    client.turn(client.start_thread(), "hi")
    window = {"usedPercent": 12, "windowDurationMins": 300, "resetsAt": None}
    assert client.note("account/rateLimits/updated")["rateLimits"]["primary"] == window
    assert client.result("account/rateLimits/read")["rateLimits"]["primary"] == window


def test_a_command_of_the_client_runs_in_the_sandbox(client: Client, workspace: Path) -> None:
    script = ["/bin/sh", "-c", "echo out; echo err >&2; pwd; echo $MINE; exit 3"]
    done = client.result("command/exec", {"command": script, "cwd": str(workspace), "env": {"MINE": "set"}})
    assert done == {"exitCode": 3, "stdout": f"out\n{workspace}\nset\n", "stderr": "err\n"}
    write = ["/bin/sh", "-c", "echo x > made"]
    read_only = client.result(
        "command/exec", {"command": write, "cwd": str(workspace), "sandboxPolicy": {"type": "readOnly"}}
    )
    assert read_only["exitCode"] != 0 and not (workspace / "made").exists()
    free = {"command": write, "cwd": str(workspace), "sandboxPolicy": {"type": "dangerFullAccess"}}
    assert client.result("command/exec", free)["exitCode"] == 0 and (workspace / "made").exists()
    slow = client.result("command/exec", {"command": ["sleep", "600"], "timeoutMs": 50})
    assert slow["exitCode"] == 124
    assert client.error("command/exec", {"command": []})["message"] == "command must not be empty"
    assert "no-such-program cannot be run" in client.error("command/exec", {"command": ["no-such-program"]})["message"]


def test_a_command_of_the_client_ends_with_it(client: Client, workspace: Path) -> None:
    script = ["/bin/sh", "-c", "echo $$ > pid; exec sleep 600"]
    client.send(
        "command/exec",
        {"command": script, "cwd": str(workspace), "timeoutMs": 600000, "sandboxPolicy": {"type": "dangerFullAccess"}},
    )
    pid = wait_for_pid(workspace / "pid")
    assert client.close() == 0
    assert not Path(f"/proc/{pid}").exists()


def test_files_are_found_by_a_few_letters(client: Client, workspace: Path) -> None:
    for name in ("src/app_server.py", "src/server/app.py", "docs/ignored.md", "AGENTS.md"):
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text("")
    (workspace / ".gitignore").write_text("docs\n")
    search = {"query": "apps", "roots": [str(workspace)], "cancellationToken": "t"}
    files = client.result("fuzzyFileSearch", search)["files"]
    assert files[0] == {
        "root": str(workspace),
        "path": "src/app_server.py",
        "match_type": "file",
        "file_name": "app_server.py",
        "score": files[0]["score"],
        "indices": [4, 5, 6, 8],
    }
    assert [found["path"] for found in files] == ["src/app_server.py"]
    assert client.result("fuzzyFileSearch", {**search, "query": "ignored"})["files"] == []
    assert client.result("fuzzyFileSearch", {**search, "query": ""})["files"] == []
    assert client.error("fuzzyFileSearch", {**search, "roots": ["relative"]})["code"] == -32600


def test_a_command_of_the_person_runs_in_the_thread(client: Client, server: FakeServer, workspace: Path) -> None:
    thread_id = client.start_thread(sandbox="read-only", approvalPolicy="untrusted")
    assert client.result("thread/shellCommand", {"threadId": thread_id, "command": "echo mine | tee made"}) == {}
    done = client.note("turn/completed")["turn"]
    assert done["status"] == "completed" and (workspace / "made").read_text() == "mine\n"
    (ran,) = items(client.seen, "commandExecution")
    assert (ran["source"], ran["aggregatedOutput"], ran["exitCode"]) == ("userShell", "mine\n", 0)
    client.turn(thread_id, "what did I do?")
    sent = server.requests[0].body.decode()
    assert "<user_shell_command>" in sent and "echo mine | tee made" in sent and "Exit code: 0" in sent
    assert client.error("thread/shellCommand", {"threadId": thread_id, "command": " "})["code"] == -32600


def test_a_command_of_the_person_is_interrupted_like_a_turn(client: Client, workspace: Path) -> None:
    thread_id = client.start_thread()
    client.result("thread/shellCommand", {"threadId": thread_id, "command": "echo $$ > pid; sleep 600"})
    turn_id = client.note("turn/started")["turn"]["id"]
    pid = wait_for_pid(workspace / "pid")
    busy = client.error("thread/shellCommand", {"threadId": thread_id, "command": "true"})
    assert "when the turn has ended" in busy["message"]
    client.result("turn/interrupt", {"threadId": thread_id, "turnId": turn_id})
    assert client.note("turn/completed")["turn"]["status"] == "interrupted"
    assert not Path(f"/proc/{pid}").exists()


def test_injected_items_reach_the_model(client: Client, server: FakeServer) -> None:
    thread_id = client.start_thread()
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "from elsewhere"}]}
    assert client.result("thread/inject_items", {"threadId": thread_id, "items": [item]}) == {}
    client.turn(thread_id, "hi")
    assert item in server.requests[0].json["input"]
    assert client.error("thread/inject_items", {"threadId": thread_id, "items": [{"type": "x"}]})["code"] == -32602


def test_the_schemas_describe_what_is_sent(
    spindle_cmd: list[str], environment: dict[str, str], tmp_path: Path, client: Client
) -> None:
    out = tmp_path / "schemas"
    subprocess.run([*spindle_cmd, "app-server", "generate-json-schema", "--out", str(out)], env=environment, check=True)
    everything = json.loads((out / "app_server.schemas.json").read_text())
    assert everything["methods"].keys() == {"initialize", *METHODS}
    for schemas in everything["methods"].values():
        for name in schemas.values():
            assert json.loads((out / f"{name}.json").read_text())["title"] == name
    opened = client.result("thread/start", {})
    schema = json.loads((out / "ThreadStartResponse.json").read_text())
    assert set(schema["$defs"]["ThreadOpened"]["properties"]) == set(opened)
    assert set(schema["$defs"]["Thread"]["properties"]) == set(opened["thread"])
    subprocess.run([*spindle_cmd, "app-server", "generate-ts", "--out", str(out)], env=environment, check=True)
    types = (out / "index.ts").read_text()
    assert "export type Turn = {" in types and 'status?: "completed" | "failed"' in types
    named = {line.split()[2] for line in types.splitlines() if line.startswith("export type ")}
    assert {"ThreadStartParams", "TurnCompletedNotification", "ItemFileChangeRequestApprovalResponse"} <= named
    without = subprocess.run(
        [*spindle_cmd, "app-server", "generate-ts"], env=environment, capture_output=True, text=True
    )
    assert without.returncode == 2 and "--out" in without.stderr


def test_an_sdk_finds_the_members_of_a_request_where_codex_writes_them(
    spindle_cmd: list[str], environment: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "schemas"
    command = [*spindle_cmd, "app-server", "generate-json-schema", "--experimental", "-o", str(out)]
    subprocess.run(command, env=environment, check=True)
    for name in ("ThreadResumeParams", "ThreadForkParams"):
        assert "excludeTurns" in json.loads((out / "v2" / f"{name}.json").read_text())["properties"]
    start = json.loads((out / "v2" / "TurnStartParams.json").read_text())
    assert start["title"] == "TurnStartParams" and {"threadId", "input"} <= start["properties"].keys()
    assert {"threadId", "input"} == set(start["required"]) and {"TextInput", "ReadOnly"} <= start["$defs"].keys()


def test_schemas_are_not_written_through_a_link_that_lies_in_the_folder(
    spindle_cmd: list[str], environment: dict[str, str], tmp_path: Path
) -> None:
    out, elsewhere = tmp_path / "schemas", tmp_path / "elsewhere"
    out.mkdir()
    elsewhere.mkdir()
    (out / "v2").symlink_to(elsewhere)
    command = [*spindle_cmd, "app-server", "generate-json-schema", "--out", str(out)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and f"{out} cannot be written" in done.stderr
    assert not list(elsewhere.iterdir())


def test_every_result_can_be_made_into_a_schema() -> None:
    for method in METHODS.values():
        msgspec.json.schema(method.params)
        msgspec.json.schema(method.result)


def test_settings_of_a_thread_change_without_a_turn(start: Start, server: FakeServer, workspace: Path) -> None:
    client = start()
    client.initialize(experimentalApi=True)
    thread_id = client.start_thread()
    changes = {
        "model": "gpt-5.1",
        "effort": "low",
        "approvalPolicy": "untrusted",
        "sandboxPolicy": {"type": "readOnly"},
    }
    assert client.result("thread/settings/update", {"threadId": thread_id, **changes}) == {}
    told = client.note("thread/settings/updated")
    assert told["threadId"] == thread_id and told["threadSettings"]["cwd"] == str(workspace)
    present = told["threadSettings"]
    assert (present["model"], present["effort"], present["approvalPolicy"]) == ("gpt-5.1", "low", "untrusted")
    assert present["sandboxPolicy"]["type"] == "readOnly" and present["collaborationMode"]["mode"] == "default"
    assert (
        "approval" in client.error("thread/settings/update", {"threadId": thread_id, "approvalPolicy": "x"})["message"]
    )
    client.turn(thread_id, "hi")
    assert server.requests[-1].json["model"] == "gpt-5.1" and server.requests[-1].json["reasoning"]["effort"] == "low"


def test_permission_profiles_are_listed(start: Start, home: Path) -> None:
    file = home / "config.toml"
    chosen = 'default_permissions = ":workspace"'
    file.write_text(f'{chosen}\n{file.read_text()}\n[permissions.docs.filesystem]\n":root" = "read"\n')
    client = start()
    client.initialize()
    listed = client.result("permissionProfile/list")["data"]
    assert [profile["id"] for profile in listed] == [":read-only", ":workspace", ":danger-full-access", "docs"]
    assert all(profile["allowed"] for profile in listed)


def test_features_set_by_a_client_hold_until_the_server_ends_and_the_users_file_wins(
    client: Client, home: Path
) -> None:
    with (home / "config.toml").open("a") as file:
        file.write("\n[features]\nundo = false\n")
    wanted = {"undo": True, "collab": True, "nothing_of_ours": True, "web_search_request": True}
    done = client.result("experimentalFeature/enablement/set", {"enablement": wanted})
    assert done == {"enablement": {"undo": True, "collab": True}}
    enabled = {flag["name"]: flag["enabled"] for flag in client.result("experimentalFeature/list")["data"]}
    assert (enabled["undo"], enabled["collab"]) == (False, True)


def test_a_feature_set_by_a_client_reaches_new_threads(client: Client, server: FakeServer) -> None:
    client.turn(client.start_thread(), "before")
    client.result("experimentalFeature/enablement/set", {"enablement": {"collab": True}})
    client.turn(client.start_thread(), "after")
    before, after = ({tool.get("name") for tool in asked.json["tools"]} for asked in server.turns_asked)
    assert "spawn_agent" in after - before


def test_what_the_provider_can_do_is_told(client: Client, home: Path) -> None:
    assert client.result("modelProvider/capabilities/read") == {"imageGeneration": False, "webSearch": True}


def test_skills_of_extra_roots_are_told_to_the_model(client: Client, server: FakeServer, tmp_path: Path) -> None:
    skill = tmp_path / "more" / "beta" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: beta\ndescription: from elsewhere\n---\nUse it.\n")
    client.result("skills/extraRoots/set", {"extraRoots": [str(tmp_path / "more")]})
    client.turn(client.start_thread(), "hi")
    assert "from elsewhere" in str(server.turns_asked[0].json["input"])


def test_a_key_that_is_out_of_date_is_told_with_what_to_write_instead(start: Start, home: Path) -> None:
    with (home / "config.toml").open("a") as file:
        file.write("\n[features]\nweb_search_request = true\n")
    client = start()
    client.initialize()
    notice = client.note("deprecationNotice")
    assert notice == {"summary": "`features.web_search_request` is deprecated", "details": 'Use `web_search = "live"`.'}


def test_settings_that_a_turn_changes_are_told_before_it_begins(client: Client, server: FakeServer) -> None:
    thread_id = client.start_thread()
    _, seen = client.turn(thread_id, "one", effort="high", serviceTier="flex")
    told = [note["method"] for note in seen if note.get("method") in ("thread/settings/updated", "turn/started")]
    assert told == ["thread/settings/updated", "turn/started"]
    now = client.note("thread/settings/updated")["threadSettings"]
    assert (now["effort"], now["serviceTier"]) == ("high", "flex")
    _, seen = client.turn(thread_id, "two", effort="high")
    assert not [note for note in seen if note.get("method") == "thread/settings/updated"], "nothing has changed"
    client.turn(thread_id, "three", serviceTier="default")
    assert [asked.json.get("service_tier") for asked in server.turns_asked] == ["flex", "flex", None]
