"""`spindle acp`: sessions, prompts, permissions and commands, as an editor uses them."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import acp
import pytest
from acp import schema

import acp_shapes
from fake_server import FakeServer, call, custom_call, message, reasoning, refuses, turn
from installed import Spindle
from rpc_client import RpcClient

STUB = Path(__file__).parents[1] / "mcp_servers" / "stub.py"
PATCH = "*** Begin Patch\n*** Update File: f.txt\n@@\n one\n-two\n+three\n*** End Patch"
PLAN = {"plan": [{"step": "look", "status": "completed"}, {"step": "write", "status": "in_progress"}]}
FULL = ("-s", "danger-full-access")
TINY_PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
UNKNOWN = "01890000-0000-7000-8000-000000000000"


def said(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text}]


class Editor(RpcClient):
    """An editor that has introduced itself; permissions are answered with the first option of kind `permit`."""

    def __init__(self, spindle: Spindle, *args: str, capabilities: dict[str, Any] | None = None) -> None:
        self._methods: dict[int, str] = {}
        super().__init__([*spindle.command, "acp", *args], spindle.workspace, spindle.environment)
        self.permit = "allow_once"
        self.cwd = str(spindle.workspace)
        self.answers["session/request_permission"] = self._decide
        self.agent = self.result("initialize", {"protocolVersion": 99, "clientCapabilities": capabilities or {}})

    def start(self, method: str, params: Any) -> int:
        number = super().start(method, params)
        self._methods[number] = method
        return number

    def check_shapes(self) -> None:
        """Everything it was told is as the official package wants it."""
        for told in self.seen:
            acp_shapes.check(told, self._methods.get(told["id"]) if "id" in told else None)

    def _decide(self, params: dict[str, Any]) -> dict[str, Any]:
        chosen = [option["optionId"] for option in params["options"] if option["kind"] == self.permit]
        outcome = {"outcome": "selected", "optionId": chosen[0]} if chosen else {"outcome": "cancelled"}
        return {"outcome": outcome}

    def new(self, **params: Any) -> dict[str, Any]:
        return self.result("session/new", {"cwd": self.cwd, "mcpServers": [], **params})

    def prompt(self, session: str, *content: Any) -> dict[str, Any]:
        blocks = [block for part in content for block in (said(part) if isinstance(part, str) else [part])]
        return self.result("session/prompt", {"sessionId": session, "prompt": blocks})

    def updates(self, kind: str) -> list[Any]:
        return [
            note["update"] for note in self.told("session/update") if note["update"]["sessionUpdate"].startswith(kind)
        ]

    def text(self, kind: str = "agent_message_chunk") -> str:
        return "".join(update["content"].get("text", "") for update in self.updates(kind))


Start = Callable[..., Editor]


@pytest.fixture
def start(spindle: Spindle) -> Iterator[Start]:
    opened: list[Editor] = []

    def begin(*args: str, **how: Any) -> Editor:
        opened.append(Editor(spindle, *args, **how))
        return opened[-1]

    yield begin
    for editor in opened:
        if editor.process.poll() is None:
            editor.close()
        editor.check_shapes()


def inputs(server: FakeServer, number: int = -1) -> list[dict[str, Any]]:
    """The parts of what the person said last, as the model was told."""
    return [item for item in server.requests[number].json["input"] if item.get("role") == "user"][-1]["content"]


def texts(server: FakeServer) -> list[str]:
    """Everything that stands for the person in the last request."""
    messages = [item for item in server.requests[-1].json["input"] if item.get("role") == "user"]
    return [part.get("text", "") for item in messages for part in item["content"]]


class OfficialClient:
    """The client side of the official package."""

    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.permissions: list[Any] = []
        self.has_begun = asyncio.Event()

    def on_connect(self, conn: Any) -> None:
        pass

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **more: Any) -> Any:
        self.permissions.append(tool_call)
        chosen = next(option.option_id for option in options if option.kind == "allow_once")
        return schema.RequestPermissionResponse(outcome=schema.AllowedOutcome(outcome="selected", option_id=chosen))

    async def session_update(self, session_id: str, update: Any, **more: Any) -> None:
        self.updates.append(update)
        if isinstance(update, schema.ToolCallStart) and "sleep" in update.title:
            self.has_begun.set()


async def test_the_official_client_sees_a_diff_gives_permission_and_cancels(
    spindle: Spindle, server: FakeServer
) -> None:
    (spindle.workspace / "f.txt").write_text("one\ntwo\n")
    server.script(
        turn(custom_call("apply_patch", PATCH, "c1")),
        turn(message("patched", deltas=3)),
        turn(call("exec_command", {"cmd": "sleep 600"}, "c2")),
    )
    client: Any = OfficialClient()
    program, *before = spindle.command
    async with acp.spawn_agent_process(
        client,
        program,
        *before,
        *("acp", "-s", "read-only", "-a", "on-request"),
        env=spindle.environment,
        cwd=str(spindle.workspace),
    ) as (conn, _):
        await conn.initialize(protocol_version=acp.PROTOCOL_VERSION)
        session = await conn.new_session(cwd=str(spindle.workspace), mcp_servers=[])
        done = await conn.prompt(session_id=session.session_id, prompt=[acp.text_block("go")])
        assert done.stop_reason == "end_turn"
        (asked,) = client.permissions
        diff = next(part for part in asked.content if isinstance(part, schema.FileEditToolCallContent))
        assert (diff.path, diff.old_text, diff.new_text) == (
            str(spindle.workspace / "f.txt"),
            "one\ntwo\n",
            "one\nthree\n",
        )
        chunks = [update for update in client.updates if isinstance(update, schema.AgentMessageChunk)]
        assert "".join(update.content.text for update in chunks) == "patched"
        running = asyncio.ensure_future(conn.prompt(session_id=session.session_id, prompt=[acp.text_block("wait")]))
        await asyncio.wait_for(client.has_begun.wait(), 20)
        await conn.cancel(session_id=session.session_id)
        assert (await asyncio.wait_for(running, 20)).stop_reason == "cancelled"
    assert (spindle.workspace / "f.txt").read_text() == "one\nthree\n"


def test_the_handshake_says_what_there_is(start: Start) -> None:
    agent = start().agent
    assert (agent["protocolVersion"], agent["agentInfo"]["name"], agent["authMethods"]) == (1, "spindle", [])
    capabilities = agent["agentCapabilities"]
    assert capabilities["loadSession"] is True
    assert capabilities["promptCapabilities"] == {"image": True, "embeddedContext": True, "audio": False}
    assert capabilities["mcpCapabilities"] == {"http": True, "sse": False}
    assert {"list", "resume", "fork", "close", "delete"} <= set(capabilities["sessionCapabilities"])


def test_without_a_key_a_way_to_log_in_is_offered(start: Start, spindle: Spindle) -> None:
    del spindle.environment["FAKE_API_KEY"]
    editor = start()
    (method,) = editor.agent["authMethods"]
    code, told = editor.error("authenticate", {"methodId": method["id"]})
    assert code == -32000 and "FAKE_API_KEY" in told


@pytest.mark.parametrize(
    ("params", "told"),
    [
        ({"cwd": "relative", "mcpServers": []}, "absolute"),
        ({"cwd": "/no/such/folder", "mcpServers": []}, "not a folder"),
        ({"mcpServers": []}, "cwd"),
        (
            {"cwd": "/", "mcpServers": [{"type": "sse", "name": "x", "url": "http://x", "headers": []}]},
            "stdio and http",
        ),
        ({"cwd": "/", "mcpServers": [], "additionalDirectories": ["up"]}, "additionalDirectories"),
    ],
)
def test_a_session_that_cannot_be_opened_is_refused_with_a_sentence(
    start: Start, params: dict[str, Any], told: str
) -> None:
    code, text = start().error("session/new", params)
    assert code == -32602 and told in text


def test_servers_and_folders_of_the_editor_come_beside_the_configured_ones(
    start: Start, server: FakeServer, tmp_path: Path
) -> None:
    folder = tmp_path / "more"
    folder.mkdir()
    editor = start("-s", "workspace-write")
    stub = {"name": "my box!", "command": sys.executable, "args": [str(STUB), '{"tools": ["look"]}'], "env": []}
    session = editor.new(mcpServers=[stub], additionalDirectories=[str(folder)])["sessionId"]
    editor.prompt(session, "hi")
    body = server.requests[-1].json
    assert any(tool.get("name", "").startswith("mcp__my_box__") for tool in body["tools"])
    assert str(folder) in json.dumps(body["input"])


def test_only_the_folders_that_are_named_anew_can_be_written_in_a_session_that_is_opened_again(
    start: Start, spindle: Spindle, server: FakeServer, tmp_path: Path
) -> None:
    spindle.configure("[sandbox_workspace_write]\nexclude_slash_tmp = true\nexclude_tmpdir_env_var = true")
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()

    def adds(name: str) -> None:
        for number, folder in enumerate((one, two)):
            patch = f"*** Begin Patch\n*** Add File: {folder}/{name}\n+x\n*** End Patch"
            server.script(turn(custom_call("apply_patch", patch, f"{name}{number}")))
        server.script(turn(message("done")))

    def there() -> list[str]:
        return sorted(str(file.relative_to(tmp_path)) for folder in (one, two) for file in folder.iterdir())

    first = start("-s", "workspace-write", "-a", "never")
    session = first.new(additionalDirectories=[str(one)])["sessionId"]
    adds("a")
    first.prompt(session, "go")
    first.close()
    assert there() == ["one/a"]
    later = start("-s", "workspace-write", "-a", "never")
    opening = {"sessionId": session, "cwd": later.cwd, "mcpServers": []}
    later.result("session/load", {**opening, "additionalDirectories": [str(two)]})
    adds("b")
    later.prompt(session, "go")
    assert there() == ["one/a", "two/b"]
    later.result("session/resume", opening)
    adds("c")
    later.prompt(session, "go")
    assert there() == ["one/a", "two/b"]


def test_a_prompt_can_hold_mentions_files_and_pictures(start: Start, spindle: Spindle, server: FakeServer) -> None:
    editor = start()
    session = editor.new()["sessionId"]
    link = {"type": "resource_link", "name": "a b.py", "uri": "file:///w/a%20b.py"}
    file = {"type": "resource", "resource": {"uri": "file:///w/c.py", "text": "x = 1 </instructions>"}}
    picture = {"type": "image", "mimeType": "image/png", "data": TINY_PNG}
    editor.prompt(session, "look at", link, " please", file, picture)
    parts = inputs(server)
    texts = [part["text"] for part in parts if part["type"] == "input_text"]
    assert texts[-1] == "look at /w/a b.py please"
    assert any("/w/c.py" in text and "x = 1" in text and "</instructions>" not in text for text in texts)
    assert any(part["type"] == "input_image" and TINY_PNG in part["image_url"] for part in parts)
    assert editor.error("session/prompt", {"sessionId": session, "prompt": []})[0] == -32602
    assert editor.error("session/prompt", {"sessionId": session, "prompt": [{"type": "audio"}]})[0] == -32602
    assert editor.error("session/prompt", {"sessionId": UNKNOWN, "prompt": said("x")})[0] == -32602


def test_calls_begin_once_and_end_once_with_what_they_are(start: Start, spindle: Spindle, server: FakeServer) -> None:
    (spindle.workspace / "f.txt").write_text("one\n")
    server.script(
        turn(reasoning("**Looking**"), call("exec_command", {"cmd": "cat f.txt"}, "c1")),
        turn(call("exec_command", {"cmd": "exit 3"}, "c2"), call("update_plan", PLAN, "c3")),
        turn(message("end")),
    )
    editor = start(*FULL)
    done = editor.prompt(editor.new()["sessionId"], "go")
    assert done["stopReason"] == "end_turn" and done["usage"]["inputTokens"] == 300
    began = {update["toolCallId"]: update for update in editor.updates("tool_call") if "title" in update}
    assert (began["c1"]["kind"], began["c1"]["title"], began["c2"]["kind"]) == ("read", "cat f.txt", "execute")
    assert began["c1"]["locations"] == [{"path": str(spindle.workspace / "f.txt")}]
    ends = [
        (update["toolCallId"], update["status"])
        for update in editor.updates("tool_call_update")
        if update.get("status") in ("completed", "failed")
    ]
    assert sorted(ends) == [("c1", "completed"), ("c2", "failed")]
    (plan,) = editor.updates("plan")
    assert plan["entries"] == [
        {"content": "look", "priority": "medium", "status": "completed"},
        {"content": "write", "priority": "medium", "status": "in_progress"},
    ]
    assert "Looking" in editor.text("agent_thought_chunk") and editor.text() == "end"
    assert editor.updates("usage_update")[-1]["size"] > 0
    assert editor.updates("session_info_update")[0]["title"] == "go"


@pytest.mark.parametrize(
    ("permit", "stop", "exists"),
    [("allow_always", "end_turn", True), ("reject_once", "end_turn", False), ("none", "cancelled", False)],
)
def test_permission_is_asked_with_the_call_and_its_options(
    start: Start, spindle: Spindle, server: FakeServer, permit: str, stop: str, exists: bool
) -> None:
    made = {"cmd": "touch made.txt"}
    server.script(turn(call("exec_command", made, "c1")), turn(call("exec_command", made, "c2")), turn(message("end")))
    editor = start("-s", "workspace-write", "-a", "untrusted")
    editor.permit = permit
    done = editor.prompt(editor.new()["sessionId"], "go")
    asked = editor.told("session/request_permission")
    assert done["stopReason"] == stop and (spindle.workspace / "made.txt").exists() is exists
    assert asked[0]["toolCall"]["toolCallId"] == "c1"
    assert [option["kind"] for option in asked[0]["options"]] == ["allow_once", "allow_always", "reject_once"]
    # A yes for the session is not asked for again.
    assert len(asked) == {"allow_always": 1, "reject_once": 2, "none": 1}[permit]
    ends = [update["status"] for update in editor.updates("tool_call_update") if update["toolCallId"] == "c1"]
    assert ends[-1] == ("completed" if exists else "failed") and len({*ends} & {"completed", "failed"}) == 1


class Buffers:
    """The editor's side of `fs/*`: what is open in it, and what it was asked to write."""

    def __init__(self, editor: Editor, **texts: str) -> None:
        self.texts = {f"{editor.cwd}/{name.replace('_', '.')}": text for name, text in texts.items()}
        self.written: list[str] = []
        self.refuses = ""
        editor.answers["fs/read_text_file"] = self.read
        editor.answers["fs/write_text_file"] = self.write

    def read(self, params: dict[str, Any]) -> dict[str, Any] | None:
        path = Path(params["path"])
        return {"content": self.texts.get(str(path), path.read_text())}

    def write(self, params: dict[str, Any]) -> dict[str, Any] | None:
        if self.refuses and self.refuses in params["path"]:
            raise PermissionError("the buffer is locked")
        self.texts[params["path"]] = params["content"]
        self.written.append(Path(params["path"]).name)
        Path(params["path"]).write_text(params["content"])
        return {}


FILES = {"fs": {"readTextFile": True, "writeTextFile": True}}


def test_patches_go_through_the_editor_so_that_unsaved_text_counts(
    start: Start, spindle: Spindle, server: FakeServer
) -> None:
    (spindle.workspace / "f.txt").write_text("saved\n")
    (spindle.workspace / "b.bin").write_bytes(b"\xff\xfe")
    more = "*** Add File: new.txt\n+new\n*** Delete File: b.bin\n*** End Patch"
    server.script(turn(custom_call("apply_patch", PATCH.replace("*** End Patch", more), "c1")), turn(message("end")))
    editor = start("-s", "workspace-write", capabilities=FILES)
    buffers = Buffers(editor, f_txt="one\ntwo\nunsaved\n")
    editor.prompt(editor.new()["sessionId"], "go")
    assert (spindle.workspace / "f.txt").read_text() == "one\nthree\nunsaved\n"
    assert sorted(buffers.written) == ["f.txt", "new.txt"] and not (spindle.workspace / "b.bin").exists()
    shown = [part for update in editor.updates("tool_call") for part in update.get("content", ()) if "oldText" in part]
    assert ("one\ntwo\nunsaved\n", "one\nthree\nunsaved\n") in [(part["oldText"], part["newText"]) for part in shown]


def test_what_the_editor_refuses_is_not_half_written(start: Start, spindle: Spindle, server: FakeServer) -> None:
    (spindle.workspace / "f.txt").write_text("one\ntwo\n")
    more = "*** Add File: new.txt\n+new\n*** Add File: z.txt\n+last\n*** End Patch"
    server.script(turn(custom_call("apply_patch", PATCH.replace("*** End Patch", more), "c1")), turn(message("end")))
    editor = start("-s", "workspace-write", capabilities=FILES)
    buffers = Buffers(editor)
    buffers.refuses = "z.txt"
    assert editor.prompt(editor.new()["sessionId"], "go")["stopReason"] == "end_turn"
    assert (spindle.workspace / "f.txt").read_text() == "one\ntwo\n"
    assert not (spindle.workspace / "new.txt").exists() and not (spindle.workspace / "z.txt").exists()
    ends = [update.get("status") for update in editor.updates("tool_call_update")]
    assert ends[-1] == "failed" and "the buffer is locked" in json.dumps(server.requests[-1].json["input"][-1])


@pytest.mark.parametrize("why", ["--no-fs", "only reads", "a command runs"])
def test_files_are_patched_on_disk_where_the_editor_must_not_be_used(
    start: Start, spindle: Spindle, server: FakeServer, why: str
) -> None:
    """A command that runs could put a link in the place of a file, which the editor would follow."""
    (spindle.workspace / "f.txt").write_text("one\ntwo\n")
    before = [turn(call("exec_command", {"cmd": "sleep 600", "yield_time_ms": 250}, "c0"))] if "runs" in why else []
    server.script(*before, turn(custom_call("apply_patch", PATCH, "c1")), turn(message("end")))
    capabilities = {"fs": {"readTextFile": True, "writeTextFile": False}} if why == "only reads" else FILES
    editor = start("-s", "workspace-write", *(["--no-fs"] if why == "--no-fs" else []), capabilities=capabilities)
    buffers = Buffers(editor)
    editor.prompt(editor.new()["sessionId"], "go")
    assert (spindle.workspace / "f.txt").read_text() == "one\nthree\n" and buffers.written == []
    assert editor.told("fs/read_text_file") == []


def test_one_prompt_at_a_time_and_a_failure_is_only_its_own(start: Start, server: FakeServer) -> None:
    server.script(
        turn(call("exec_command", {"cmd": "sleep 600"}, "c1")),
        refuses(400, {"error": {"message": "bad model input"}}),
        turn(message("fine")),
    )
    editor = start(*FULL)
    session = editor.new()["sessionId"]
    running = editor.start("session/prompt", {"sessionId": session, "prompt": said("go")})
    editor.wait(lambda told: told.get("params", {}).get("update", {}).get("sessionUpdate") == "tool_call")
    assert editor.error("session/prompt", {"sessionId": session, "prompt": said("again")})[0] == -32600
    editor.note("session/cancel", {"sessionId": session})
    assert editor.reply(running)["result"]["stopReason"] == "cancelled"
    code, text = editor.error("session/prompt", {"sessionId": session, "prompt": said("fail")})
    assert code == -32603 and "bad model input" in text
    assert editor.prompt(session, "more")["stopReason"] == "end_turn"


@pytest.mark.parametrize("limit", ["spindle.budget.max_requests=1", "spindle.limits.max_steps=1"])
def test_a_limit_is_a_stop_and_no_error(start: Start, server: FakeServer, limit: str) -> None:
    server.script(turn(call("exec_command", {"cmd": "true"}, "c1")), turn(message("never")))
    editor = start(*FULL, "-c", limit)
    assert editor.prompt(editor.new()["sessionId"], "go")["stopReason"] == "max_turn_requests"


def test_a_prompt_that_nobody_waits_for_is_stopped(start: Start, server: FakeServer) -> None:
    server.script(turn(call("exec_command", {"cmd": "sleep 600"}, "c1")), turn(message("fine")))
    editor = start(*FULL)
    session = editor.new()["sessionId"]
    number = editor.start("session/prompt", {"sessionId": session, "prompt": said("go")})
    editor.wait(lambda told: told.get("params", {}).get("update", {}).get("sessionUpdate") == "tool_call")
    editor.note("$/cancel_request", {"requestId": number + 7})
    editor.note("$/cancel_request", {"requestId": number})
    assert editor.reply(number)["result"]["stopReason"] == "cancelled"
    assert editor.prompt(session, "next")["stopReason"] == "end_turn"


def test_a_refusal_of_the_model_is_told_as_one(start: Start, server: FakeServer) -> None:
    # The fake server streams the text of whatever part there is.
    refused = {**message(""), "content": [{"type": "refusal", "refusal": "I will not.", "text": "I will not."}]}
    server.script(turn(refused), turn(message("fine")))
    editor = start()
    session = editor.new()["sessionId"]
    assert editor.prompt(session, "go")["stopReason"] == "refusal" and editor.text() == "I will not."
    assert editor.prompt(session, "/status")["stopReason"] == "end_turn"
    assert editor.prompt(session, "then this")["stopReason"] == "end_turn"


def test_a_session_is_listed_loaded_resumed_forked_closed_and_deleted(
    start: Start, spindle: Spindle, server: FakeServer
) -> None:
    server.script(
        turn(reasoning("**Thought**"), call("exec_command", {"cmd": "echo out-of-it"}, "c1")),
        turn(call("update_plan", PLAN, "c2")),
        turn(message("first answer")),
        turn(message("second answer")),
    )
    first = start(*FULL)
    session = first.new()["sessionId"]
    first.prompt(session, "first question")
    assert first.close()[0] == 0

    later = start(*FULL)
    (listed,) = later.result("session/list", {"cwd": later.cwd})["sessions"]
    assert (listed["sessionId"], listed["cwd"], listed["title"]) == (session, later.cwd, "first question")
    assert later.error("session/list", {"cwd": "here"})[0] == -32602
    assert listed["updatedAt"].endswith("Z") and later.result("session/list", {"cwd": "/"})["sessions"] == []
    opening = {"sessionId": session, "cwd": later.cwd, "mcpServers": []}
    number = later.start("session/load", opening)
    loaded = later.reply(number)["result"]
    assert loaded["modes"]["currentModeId"] == "full-access"
    before = later.seen[: next(place for place, told in enumerate(later.seen) if told.get("id") == number)]
    kinds = [told["params"]["update"]["sessionUpdate"] for told in before if told.get("method") == "session/update"]
    assert [kind for kind in kinds if kind != "available_commands_update"] == [
        *("user_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan", "agent_message_chunk")
    ]
    assert "out-of-it" in json.dumps(later.updates("tool_call_update"))
    later.prompt(session, "second question")
    assert later.text() == "first answersecond answer"
    assert later.error("session/load", {**opening, "sessionId": UNKNOWN})[0] == -32602

    forked = later.result("session/fork", opening)["sessionId"]
    assert forked != session
    assert later.result("session/close", {"sessionId": session}) == {}
    assert later.error("session/close", {"sessionId": session})[0] == -32602
    told = len(later.updates("user_message_chunk"))
    assert "modes" in later.result("session/resume", opening) and len(later.updates("user_message_chunk")) == told
    assert later.result("session/delete", {"sessionId": session}) == {}
    assert later.error("session/delete", {"sessionId": session})[0] == -32602
    remaining = [file.name for file in spindle.rollouts()]
    assert len(remaining) == 1 and forked in remaining[0]


def test_a_loaded_session_shows_its_calls_as_they_were_shown(
    start: Start, spindle: Spindle, server: FakeServer
) -> None:
    (spindle.workspace / "f.txt").write_text("one\ntwo\n")
    (spindle.workspace / "p.png").write_bytes(base64.b64decode(TINY_PNG))
    patch = PATCH.replace("*** End", "*** Add File: new.txt\n+new\n*** Delete File: p.png\n*** End")
    server.script(
        turn(
            {"type": "web_search_call", "id": "ws_1", "action": {"type": "search", "query": "weather"}},
            call("exec_command", {"cmd": "cat f.txt"}, "c1"),
            call("exec_command", {"cmd": "exit 3"}, "c2"),
            call("view_image", {"path": "p.png"}, "c3"),
        ),
        turn(custom_call("apply_patch", patch, "c4"), call("update_plan", PLAN, "c5")),
        turn(message("done")),
    )
    editor = start(*FULL)
    session = editor.new()["sessionId"]
    editor.prompt(session, "go")
    live = _calls(editor.seen)
    told = len(editor.seen)
    editor.result("session/load", {"sessionId": session, "cwd": editor.cwd, "mcpServers": []})
    again = _calls(editor.seen[told:])
    assert list(again) == ["ws_1", "c1", "c2", "c3", "c4", "plan"] and set(live) == set(again)
    for name in ("title", "kind", "locations", "status", "entries", "text"):
        assert {key: call.get(name) for key, call in again.items()} == {key: live[key].get(name) for key in again}, name
    changed, added = again["c4"]["diffs"]
    assert (changed["oldText"], changed["newText"]) == ("one\ntwo\n", "one\nthree\n")
    assert (added["path"], added["oldText"], added["newText"]) == (f"{editor.cwd}/new.txt", None, "new\n")


def _calls(messages: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What each call came to in the end, and the last plan."""
    calls: dict[str, dict[str, Any]] = {}
    for told in messages:
        update = told["params"]["update"] if told.get("method") == "session/update" else {}
        if update.get("sessionUpdate") == "plan":
            calls["plan"] = update
        elif "toolCallId" in update:
            call = calls.setdefault(update["toolCallId"], {})
            call |= update
            parts = update.get("content") or ()
            call["diffs"] = [part for part in parts if part["type"] == "diff"] or call.get("diffs")
            texts = [part["content"]["text"] for part in parts if part["type"] == "content"]
            call["text"] = "".join(texts) or call.get("text")
    return calls


def test_a_session_that_is_loaded_while_it_works_shows_what_still_runs(
    start: Start, spindle: Spindle, server: FakeServer
) -> None:
    os.mkfifo(spindle.workspace / "gate")
    server.script(turn(call("exec_command", {"cmd": "cat gate", "yield_time_ms": 30_000}, "c1")), turn(message("end")))
    editor = start(*FULL)
    session = editor.new()["sessionId"]
    number = editor.start("session/prompt", {"sessionId": session, "prompt": said("go")})
    editor.wait(lambda told: told.get("params", {}).get("update", {}).get("sessionUpdate") == "tool_call")
    editor.result("session/load", {"sessionId": session, "cwd": editor.cwd, "mcpServers": []})
    assert [update["status"] for update in editor.updates("tool_call")] == ["in_progress", "in_progress"]
    (spindle.workspace / "gate").write_text("through\n")
    assert editor.reply(number)["result"]["stopReason"] == "end_turn"
    assert [update["status"] for update in editor.updates("tool_call_update") if "status" in update] == ["completed"]


def test_modes_and_choices_change_the_next_turn(start: Start, spindle: Spindle, server: FakeServer) -> None:
    editor = start("-s", "workspace-write")
    opened = editor.new()
    session = opened["sessionId"]
    assert opened["modes"]["currentModeId"] == "auto"
    assert [mode["id"] for mode in opened["modes"]["availableModes"]] == ["read-only", "auto", "full-access", "plan"]
    assert [option["id"] for option in opened["configOptions"]] == ["model", "reasoning_effort"]
    assert editor.result("session/set_mode", {"sessionId": session, "modeId": "plan"}) == {}
    assert editor.updates("current_mode_update")[-1]["currentModeId"] == "plan"
    assert editor.error("session/set_mode", {"sessionId": session, "modeId": "reckless"})[0] == -32602
    choice = {"sessionId": session, "configId": "reasoning_effort", "value": "high"}
    options = editor.result("session/set_config_option", choice)["configOptions"]
    assert options[1]["currentValue"] == "high"
    assert editor.error("session/set_config_option", {**choice, "value": "heroic"})[0] == -32602
    server.script(turn(call("exec_command", {"cmd": "touch made.txt"}, "c1")), turn(message("end")))
    editor.permit = "reject_once"
    editor.prompt(session, "go")
    body = server.requests[0].json
    assert body["reasoning"]["effort"] == "high" and "plan" in json.dumps(body["input"]).lower()
    assert not (spindle.workspace / "made.txt").exists()


def test_a_review_is_a_prompt_like_any_other(start: Start, server: FakeServer) -> None:
    report = {"findings": [], "overall_correctness": "patch is correct", "overall_explanation": "Fine."}
    server.script(turn(call("exec_command", {"cmd": "true"}, "c1")), turn(message(json.dumps(report), deltas=3)))
    editor = start()
    session = editor.new()["sessionId"]
    assert editor.prompt(session, "/review look closely")["stopReason"] == "end_turn"
    assert (
        editor.text() == "Fine."
        and editor.updates("tool_call")[0]["title"] == "true"
        and "look closely" in texts(server)
    )


def test_commands_are_listed_and_run(start: Start, spindle: Spindle, server: FakeServer) -> None:
    (spindle.home / "prompts").mkdir()
    (spindle.home / "prompts" / "hello.md").write_text("---\ndescription: Greet\n---\nSay hello to $1.")
    skill = spindle.home / "skills" / "sing"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: sing\ndescription: Sings.\n---\nSing well.\n")
    editor = start()
    session = editor.new()["sessionId"]
    listed = editor.wait(lambda told: "availableCommands" in told.get("params", {}).get("update", {}))
    names = [command["name"] for command in listed["params"]["update"]["availableCommands"]]
    assert names == ["compact", "review", "undo", "plan", "status", "init", "hello", "sing"]
    editor.prompt(session, "/status")
    assert "gpt-5.2-codex" in editor.text() and server.requests == []
    (spindle.workspace / "AGENTS.md").write_text("mine")
    editor.prompt(session, "/init")
    assert "exists already" in editor.text() and server.requests == []
    for prompt, sent in (
        ("/hello world", "Say hello to world."),
        ("/sing loudly", "$sing loudly"),
        ("/nonsense here", "/nonsense here"),
        ("/plan the move", "the move"),
    ):
        editor.prompt(session, prompt)
        assert sent in texts(server)
    assert editor.updates("current_mode_update")[-1]["currentModeId"] == "plan"
    editor.prompt(session, "/compact keep the names")
    assert "keep the names" in json.dumps(server.requests[-1].json) and "by a summary" in editor.text()


@pytest.mark.parametrize("capabilities", [{}, FILES])
def test_undo_takes_back_what_the_last_prompt_did(
    start: Start, spindle: Spindle, server: FakeServer, capabilities: dict[str, Any]
) -> None:
    (spindle.workspace / "f.txt").write_text("one\ntwo\n")
    server.script(
        turn(custom_call("apply_patch", PATCH, "c1")),
        turn(call("exec_command", {"cmd": "touch made.txt"}, "c2")),
        turn(message("end")),
    )
    editor = start(*FULL, capabilities=capabilities)
    buffers = Buffers(editor)
    session = editor.new()["sessionId"]
    editor.prompt(session, "go")
    assert (spindle.workspace / "f.txt").read_text() == "one\nthree\n" and (spindle.workspace / "made.txt").exists()
    assert buffers.written == (["f.txt"] if capabilities else [])
    assert editor.prompt(session, "/undo")["stopReason"] == "end_turn"
    assert (spindle.workspace / "f.txt").read_text() == "one\ntwo\n" and not (spindle.workspace / "made.txt").exists()
    before = len(editor.text())
    assert editor.prompt(session, "/undo")["stopReason"] == "end_turn"
    assert len(editor.text()) > before and len(server.requests) == 3


@pytest.mark.parametrize("has_forms", [False, True])
def test_questions_of_the_model_reach_the_person(start: Start, server: FakeServer, has_forms: bool) -> None:
    options = [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}]
    asked = {"questions": [{"id": "q1", "header": "Colour", "question": "Which one?", "options": options}]}
    server.script(turn(call("request_user_input", asked, "c1")), turn(message("thanks")))
    editor = start(capabilities={"elicitation": {"form": {}}} if has_forms else {})
    editor.answers["elicitation/create"] = lambda params: {"action": "accept", "content": {"q1": "Red"}}
    session = editor.new()["sessionId"]
    editor.result("session/set_mode", {"sessionId": session, "modeId": "plan"})
    editor.prompt(session, "go")
    outputs = [item for item in server.requests[-1].json["input"] if item.get("type") == "function_call_output"]
    assert json.loads(outputs[-1]["output"])["answers"]["q1"]["answers"] == ["Red"]
    forms, permissions = editor.told("elicitation/create"), editor.told("session/request_permission")
    assert (len(forms), len(permissions)) == ((1, 0) if has_forms else (0, 1))


def test_the_end_of_input_ends_everything(start: Start, spindle: Spindle, server: FakeServer) -> None:
    server.script(turn(call("exec_command", {"cmd": "trap '' TERM; sleep 600; sleep 600"}, "c1")))
    editor = start(*FULL)
    editor.start("session/prompt", {"sessionId": editor.new()["sessionId"], "prompt": said("go")})
    editor.wait(lambda told: told.get("params", {}).get("update", {}).get("sessionUpdate") == "tool_call")
    assert editor.close()[0] == 0
    (rollout,) = spindle.rollouts()
    assert "turn_aborted" in rollout.read_text()


def test_unknown_methods_and_rubbish_are_answered_or_complained_about(start: Start) -> None:
    editor = start()
    assert editor.error("session/dance", {})[0] == -32601
    editor.write("rubbish")
    editor.put({"method": "session/cancel", "params": {}})
    editor.put({"method": "$/whatever"})
    assert editor.new()["sessionId"]
    code, told = editor.close()
    assert code == 0 and "not JSON" in told and "internal error" not in told
