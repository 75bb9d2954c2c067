"""`spindle mcp-server`: its tools, what a call tells meanwhile, approvals, and how calls and threads end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from mcp import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.types import ElicitResult

from fake_server import FakeServer, call, custom_call, message, refuses, turn
from installed import Spindle
from rpc_client import RpcClient
from spindle.frontends.mcp_server.asking import answer, elicitation
from spindle.frontends.mcp_server.revision import can_be_asked
from spindle.frontends.mcp_server.threads import MAX_IDLE
from spindle.protocol.events import Event
from spindle.protocol.ops import ResolveElicitation, UserInputAnswer
from spindle.protocol.questions import RequestUserInput
from spindle.protocol.tool_servers import ElicitationRequest

UNTRUSTED = {"approval-policy": "untrusted", "sandbox": "workspace-write"}
FREE = {"approval-policy": "never", "sandbox": "danger-full-access"}
PATCH = "*** Begin Patch\n*** Add File: p.txt\n+one\n*** End Patch"


class Client(RpcClient):
    """A client that has introduced itself."""

    def __init__(self, spindle: Spindle, *args: str, elicits: bool = True) -> None:
        super().__init__([*spindle.command, "mcp-server", *args], spindle.workspace, spindle.environment)
        capabilities = {"elicitation": {}} if elicits else {}
        about = {
            "protocolVersion": "2025-06-18",
            "capabilities": capabilities,
            "clientInfo": {"name": "t", "version": "1"},
        }
        self.server = self.result("initialize", about)
        self.note("notifications/initialized", {})

    def call(self, name: str, **arguments: Any) -> Any:
        return self.result("tools/call", {"name": name, "arguments": arguments})

    def codex(self, prompt: str, **arguments: Any) -> Any:
        return self.call("codex", prompt=prompt, **arguments)

    def events(self, kind: str) -> list[Any]:
        return [event for event in self.told("codex/event") if event["msg"]["type"] == kind]


Start = Callable[..., Client]


@pytest.fixture
def start(spindle: Spindle) -> Iterator[Start]:
    opened: list[Client] = []

    def begin(*args: str, **how: Any) -> Client:
        opened.append(Client(spindle, *args, **how))
        return opened[-1]

    yield begin
    for client in opened:
        if client.process.poll() is None:
            client.close()


def inputs(server: FakeServer, number: int = -1) -> list[str]:
    """What the person said, as the model was told."""
    said = [item for item in server.requests[number].json["input"] if item.get("role") == "user"]
    return [part["text"] for item in said for part in item["content"] if "text" in part]


async def test_the_official_client_runs_a_turn_with_an_approval_and_a_reply(
    spindle: Spindle, server: FakeServer
) -> None:
    server.script(
        turn(call("exec_command", {"cmd": "touch yes.txt"}, "c1")),
        turn(call("exec_command", {"cmd": "touch no.txt"}, "c2")),
        turn(message("first")),
        turn(message("second")),
    )
    asked: list[str] = []

    async def decide(context: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept" if "yes.txt" in params.message else "decline")

    program = StdioServerParameters(
        command=spindle.command[0],
        args=[*spindle.command[1:], "mcp-server", "--no-events"],
        env=spindle.environment,
        cwd=str(spindle.workspace),
    )
    async with (
        stdio_client(program) as (reader, writer),
        ClientSession(reader, writer, elicitation_callback=decide) as session,
    ):
        await session.initialize()
        assert [tool.name for tool in (await session.list_tools()).tools] == ["codex", "codex-reply"]
        done = await session.call_tool("codex", {"prompt": "go", **UNTRUSTED})
        shown = done.model_dump(by_alias=True)
        assert shown["content"][0]["text"] == "first"
        thread = shown["structuredContent"]["threadId"]
        more = await session.call_tool("codex-reply", {"threadId": thread, "prompt": "more"})
        assert more.model_dump(by_alias=True)["structuredContent"] == {"threadId": thread, "content": "second"}
    assert len(asked) == 2
    assert (spindle.workspace / "yes.txt").exists() and not (spindle.workspace / "no.txt").exists()


async def test_the_official_client_of_the_stateless_revision_is_asked_too(spindle: Spindle, server: FakeServer) -> None:
    official = pytest.importorskip("mcp.client.client", reason="versions below 2 speak only earlier revisions")
    server.script(
        turn(call("exec_command", {"cmd": "touch yes.txt"}, "c1")),
        turn(call("exec_command", {"cmd": "touch no.txt"}, "c2")),
        turn(message("end")),
    )
    asked: list[str] = []

    async def decide(context: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="accept" if "yes.txt" in params.message else "decline")

    program = StdioServerParameters(
        command=spindle.command[0],
        args=[*spindle.command[1:], "mcp-server", "--no-events"],
        env=spindle.environment,
        cwd=str(spindle.workspace),
    )
    async with official.Client(stdio_client(program), elicitation_callback=decide) as client:
        assert client.session.discover_result is not None
        assert [tool.name for tool in (await client.list_tools()).tools] == ["codex", "codex-reply"]
        done = await client.call_tool("codex", {"prompt": "go", **UNTRUSTED})
        assert done.model_dump(by_alias=True)["structuredContent"]["content"] == "end"
    assert len(asked) == 2
    assert (spindle.workspace / "yes.txt").exists() and not (spindle.workspace / "no.txt").exists()


def test_a_call_of_the_stateless_revision_is_answered_by_its_question(
    start: Start, spindle: Spindle, server: FakeServer
) -> None:
    server.script(turn(call("exec_command", {"cmd": "touch a.txt"}, "c1")), turn(message("end")))
    client = start()
    prefix = "io.modelcontextprotocol/"
    meta = {f"{prefix}protocolVersion": "2026-07-28", f"{prefix}clientCapabilities": {"elicitation": {}}}
    found = client.result("server/discover", {"_meta": meta})
    assert found["supportedVersions"] == ["2026-07-28"] and found["resultType"] == "complete"
    code, _ = client.error("tools/list", {"_meta": {f"{prefix}protocolVersion": "2999-01-01"}})
    assert code == -32022
    params = {"name": "codex", "arguments": {"prompt": "x", **UNTRUSTED}, "_meta": meta}
    wanted = client.result("tools/call", params)
    assert wanted["resultType"] == "input_required"
    (key,) = wanted["inputRequests"]
    assert wanted["inputRequests"][key]["params"]["codex_call_id"] == "c1"
    again = {**params, "requestState": wanted["requestState"], "inputResponses": {key: {"action": "accept"}}}
    done = client.result("tools/call", again)
    assert done["resultType"] == "complete" and done["content"][0]["text"] == "end"
    assert (spindle.workspace / "a.txt").exists()
    assert client.result("tools/call", again)["isError"] is True


def test_the_handshake_answers_with_the_version_that_both_know(start: Start) -> None:
    client = start()
    assert client.server["protocolVersion"] == "2025-06-18"
    assert client.server["capabilities"] == {"tools": {"listChanged": True}}
    assert client.server["serverInfo"] | {"version": ""} == {
        "name": "spindle-mcp-server",
        "title": "Spindle",
        "version": "",
    }
    newer = client.result("initialize", {"protocolVersion": "2999-01-01", "capabilities": {}})
    assert newer["protocolVersion"] == "2025-11-25"
    tools = client.result("tools/list", {})["tools"]
    assert [tool["inputSchema"]["required"] for tool in tools] == [["prompt"], ["prompt"]]
    assert tools[0]["outputSchema"]["required"] == ["threadId", "content"]


def test_every_request_is_answered_and_rubbish_is_only_complained_about(start: Start) -> None:
    client = start()
    assert client.result("ping", {}) == {}
    for method in ("resources/list", "resources/templates/list", "prompts/list"):
        assert client.result(method, {})
    assert client.error("no/such", {})[0] == -32601
    client.write('{"id": 90, "method": "ping", torn')
    assert client.reply(90)["error"]["code"] == -32700
    client.put({"method": "notifications/no-such", "params": {}})
    assert client.result("ping", {}) == {}
    code, said = client.close()
    assert code == 0 and "not JSON" in said


def test_a_call_names_its_settings(start: Start, spindle: Spindle, server: FakeServer) -> None:
    (spindle.workspace / "sub").mkdir()
    client = start("-m", "gpt-5.1-codex", "-s", "danger-full-access")
    more = {"developer-instructions": "DEV TEXT", "base-instructions": "BASE TEXT", "unknown": 1}
    config = {"model_reasoning_effort": "low"}
    client.codex("p", cwd="sub", model="gpt-5.2-codex", sandbox="read-only", config=config, **more)
    body = server.requests[-1].json
    assert (body["model"], body["instructions"], body["reasoning"]["effort"]) == ("gpt-5.2-codex", "BASE TEXT", "low")
    told = json.dumps(body["input"])
    assert "DEV TEXT" in told and str(spindle.workspace / "sub") in told and "read-only" in told


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("codex", {}, "prompt"),
        ("codex", {"prompt": "  "}, "empty"),
        ("codex", {"prompt": "x", "sandbox": "loose"}, "read-only"),
        ("codex", {"prompt": "x", "cwd": "/no/such/folder"}, "not a folder"),
        ("codex", {"prompt": "x", "profile": "nowhere"}, "nowhere"),
        ("codex-reply", {"prompt": "x"}, "threadId"),
        ("codex-reply", {"prompt": "x", "threadId": "nope"}, "no thread 'nope'"),
        ("codex-reply", {"prompt": "x", "threadId": "01890000-0000-7000-8000-000000000000"}, "no thread"),
        ("no-such-tool", {"prompt": "x"}, "codex"),
    ],
)
def test_what_cannot_be_done_is_a_result_with_a_sentence(
    start: Start, name: str, arguments: dict[str, Any], told: str
) -> None:
    done = start().call(name, **arguments)
    text = done["content"][0]["text"]
    assert done["isError"] is True and told in text and done["structuredContent"]["content"] == text


def test_a_failed_turn_names_its_thread_which_can_go_on(start: Start, server: FakeServer) -> None:
    server.script(refuses(400, {"error": {"message": "bad model input"}}), turn(message("alive")))
    client = start()
    failed = client.codex("x")
    assert failed["isError"] is True and "bad model input" in failed["content"][0]["text"]
    again = client.call("codex-reply", threadId=failed["structuredContent"]["threadId"], prompt="y")
    assert again["content"][0]["text"] == "alive"


def test_events_carry_the_call_and_progress_grows(start: Start, server: FakeServer) -> None:
    server.script(turn(call("exec_command", {"cmd": "true"}, "c1")), turn(message("hello there", deltas=3)))
    client = start()
    params = {"name": "codex", "arguments": {"prompt": "x", **FREE}, "_meta": {"progressToken": "tok"}}
    number = client.start("tools/call", params)
    thread = client.reply(number)["result"]["structuredContent"]["threadId"]
    events = client.told("codex/event")
    assert {(event["_meta"]["requestId"], event["_meta"]["threadId"]) for event in events} == {(number, thread)}
    kinds = [event["msg"]["type"] for event in events]
    assert (kinds[0], kinds[-1]) == ("session_configured", "task_complete")
    assert "".join(event["msg"]["delta"] for event in client.events("agent_message_content_delta")) == "hello there"
    assert "".join(event["msg"]["delta"] for event in client.events("agent_message_delta")) == "hello there"
    progress = client.told("notifications/progress")
    assert {note["progressToken"] for note in progress} == {"tok"}
    assert [note["progress"] for note in progress] == list(range(1, len(progress) + 1))
    assert any(note["message"].startswith("running ") for note in progress)


def test_without_events_only_the_result_comes(start: Start, server: FakeServer) -> None:
    client = start("--no-events")
    assert client.codex("x")["content"][0]["text"] == "done"
    assert [message.get("method") for message in client.seen if "method" in message] == []


def test_warnings_are_logged_from_the_level_that_was_asked_for(start: Start, spindle: Spindle) -> None:
    spindle.configure("no_such_key = 1")
    client = start()
    client.codex("x")
    assert client.told("notifications/message") == []
    assert client.error("logging/setLevel", {"level": "loud"})[0] == -32602
    assert client.result("logging/setLevel", {"level": "info"}) == {}
    client.codex("x")
    (note,) = client.told("notifications/message")
    assert note["level"] == "warning" and "no_such_key" in note["data"]


def test_an_approval_says_what_it_is_about_and_decisions_of_codex_count(
    start: Start, spindle: Spindle, server: FakeServer
) -> None:
    server.script(
        turn(call("exec_command", {"cmd": "touch a.txt"}, "c1")), turn(custom_call("apply_patch", PATCH, "c2")), turn()
    )
    client = start()
    # `decision` counts before the action: this is how Codex answers.
    client.answers["elicitation/create"] = lambda params: {"action": "decline", "decision": "approved"}
    number = client.start("tools/call", {"name": "codex", "arguments": {"prompt": "x", "approval-policy": "untrusted"}})
    thread = client.reply(number)["result"]["structuredContent"]["threadId"]
    command, patch = client.told("elicitation/create")
    turn_id = client.events("task_started")[0]["msg"]["turn_id"]
    assert command | {"codex_parsed_cmd": []} == {
        "message": f"Allow Spindle to run `{spindle.command and command['codex_command'][0]} -lc 'touch a.txt'` "
        f"in `{spindle.workspace}`?",
        "requestedSchema": {"type": "object", "properties": {}},
        "threadId": thread,
        "codex_mcp_tool_call_id": str(number),
        "codex_event_id": turn_id,
        "codex_elicitation": "exec-approval",
        "codex_call_id": "c1",
        "codex_command": command["codex_command"],
        "codex_cwd": str(spindle.workspace),
        "codex_parsed_cmd": [],
    }
    assert patch["codex_elicitation"] == "patch-approval" and patch["codex_call_id"] == "c2"
    assert patch["codex_changes"] == {str(spindle.workspace / "p.txt"): {"type": "add", "content": "one\n"}}
    assert (spindle.workspace / "p.txt").read_text() == "one\n"


@pytest.mark.parametrize(("elicits", "answer"), [(False, None), (True, None), (True, {"action": "maybe"})])
def test_who_cannot_be_asked_says_no_and_the_turn_goes_on(
    start: Start, spindle: Spindle, server: FakeServer, elicits: bool, answer: Any
) -> None:
    server.script(turn(call("exec_command", {"cmd": "touch no.txt"}, "c1")), turn(message("went on")))
    client = start(elicits=elicits)
    if answer is not None:
        client.answers["elicitation/create"] = lambda params: answer
    assert client.codex("x", **UNTRUSTED)["content"][0]["text"] == "went on"
    assert not (spindle.workspace / "no.txt").exists()


def test_cancel_as_an_answer_stops_the_turn(start: Start, spindle: Spindle, server: FakeServer) -> None:
    server.script(turn(call("exec_command", {"cmd": "touch no.txt"}, "c1")), turn(message("never")))
    client = start()
    client.answers["elicitation/create"] = lambda params: {"action": "cancel"}
    done = client.codex("x", **UNTRUSTED)
    assert done["isError"] is True and "interrupted" in done["content"][0]["text"] and len(server.requests) == 1


def test_a_cancelled_call_has_no_answer_and_its_thread_goes_on(start: Start, server: FakeServer) -> None:
    server.script(turn(call("exec_command", {"cmd": "sleep 600"}, "c1")), turn(message("next")))
    client = start()
    number = client.start("tools/call", {"name": "codex", "arguments": {"prompt": "x", **FREE}})
    client.wait(lambda told: told.get("params", {}).get("msg", {}).get("type") == "exec_command_begin")
    client.note("notifications/cancelled", {"requestId": number, "reason": "enough"})
    thread = client.events("session_configured")[0]["msg"]["session_id"]
    assert client.call("codex-reply", threadId=thread, prompt="go on")["content"][0]["text"] == "next"
    assert len(client.events("turn_aborted")) == 1
    assert not any(told.get("id") == number and "method" not in told for told in client.seen)


def test_a_thread_that_is_put_away_while_its_next_call_waits_for_it_is_opened_again(
    start: Start, server: FakeServer
) -> None:
    server.script(turn(call("exec_command", {"cmd": "sleep 600"}, "c1")))
    server.otherwise(lambda asked: turn(message("next")))
    client = start()
    number = client.start("tools/call", {"name": "codex", "arguments": {"prompt": "first", **FREE}})
    client.wait(lambda told: told.get("params", {}).get("msg", {}).get("type") == "exec_command_begin")
    thread = client.events("session_configured")[0]["msg"]["session_id"]
    for _ in range(MAX_IDLE):
        client.codex("x", **FREE)
    client.note("notifications/cancelled", {"requestId": number, "reason": "enough"})
    done = client.call("codex-reply", threadId=thread, prompt="go on")  # by now it is the one used longest ago
    assert done["content"][0]["text"] == "next" and "isError" not in done
    assert inputs(server)[-1] == "go on" and "first" in inputs(server)


def test_calls_run_side_by_side_but_a_thread_has_one_at_a_time(start: Start, server: FakeServer) -> None:
    server.script(
        turn(message("first")), turn(call("exec_command", {"cmd": "sleep 600"}, "c1")), turn(message("other"))
    )
    client = start()
    thread = client.codex("x", **FREE)["structuredContent"]["threadId"]
    number = client.start("tools/call", {"name": "codex-reply", "arguments": {"threadId": thread, "prompt": "y"}})
    client.wait(lambda told: told.get("params", {}).get("msg", {}).get("type") == "exec_command_begin")
    client.put({"id": number, "method": "tools/call", "params": {"name": "codex", "arguments": {"prompt": "again"}}})
    assert client.reply(number)["error"]["code"] == -32600
    busy = client.call("codex-reply", threadId=thread, prompt="z")
    assert busy["isError"] is True and "thread is busy" in busy["content"][0]["text"]
    assert client.codex("x")["content"][0]["text"] == "other"


def test_a_recorded_thread_of_another_run_goes_on_and_keeps_its_settings(
    start: Start, spindle: Spindle, server: FakeServer
) -> None:
    server.script(turn(message("one")), turn(message("two")))
    thread = spindle("exec", "--json", "-s", "danger-full-access", "first").thread_id
    client = start()
    done = client.call("codex-reply", conversationId=thread, prompt="second")
    assert done["structuredContent"] == {"threadId": thread, "content": "two"}
    assert inputs(server)[-1] == "second" and "first" in inputs(server)
    (configured,) = client.events("session_configured")
    assert configured["msg"]["sandbox_policy"]["type"] == "danger-full-access"


def test_questions_of_the_model_are_a_form() -> None:
    options = [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}]
    question = {"id": "q1", "header": "Colour", "question": "Which one?", "options": options}
    asked = elicitation(Event("t", RequestUserInput(call_id="c1", turn_id="t", questions=[question])), "thread", "7")
    assert asked is not None and asked.params["codex_elicitation"] == "user-input"
    assert asked.params["requestedSchema"]["properties"] == {
        "q1": {
            "type": "string",
            "title": "Colour",
            "description": "Which one?\nRed: warm\nBlue: cold",
            "enum": ["Red", "Blue"],
        }
    }
    said = answer(asked, {"action": "accept", "content": {"q1": "Blue", "q2": 5}})
    assert said == UserInputAnswer(id="c1", response={"answers": {"q1": {"answers": ["Blue"]}}})
    assert answer(asked, {"action": "decline"}) == UserInputAnswer(id="c1", response={})


def test_who_only_opens_addresses_is_not_asked_for_a_form() -> None:
    assert can_be_asked({"elicitation": {}}) and can_be_asked({"elicitation": {"form": {}, "url": {}}})
    assert not can_be_asked({"elicitation": {"url": {}}}) and not can_be_asked(None)


def test_what_other_servers_ask_is_passed_on_with_its_form() -> None:
    form = {"type": "object", "properties": {"name": {"type": "string"}}}
    question = ElicitationRequest(server_name="box", id="box:1", message="Who?", requested_schema=form)
    asked = elicitation(Event("t", question), "thread", "7")
    assert asked is not None and asked.params["requestedSchema"] == form and asked.params["message"] == "Who?"
    filled = answer(asked, {"action": "accept", "content": {"name": "me"}})
    assert filled == ResolveElicitation(
        server_name="box", request_id="box:1", decision="accept", content={"name": "me"}
    )
    assert answer(asked, {"action": "cancel"}) == ResolveElicitation(
        server_name="box", request_id="box:1", decision="cancel"
    )
    assert answer(asked, "rubbish") == ResolveElicitation(server_name="box", request_id="box:1", decision="decline")


def test_the_end_of_input_stops_and_records_what_runs(start: Start, spindle: Spindle, server: FakeServer) -> None:
    server.script(turn(call("exec_command", {"cmd": "sleep 600"}, "c1")))
    client = start()
    client.start("tools/call", {"name": "codex", "arguments": {"prompt": "x", **FREE}})
    client.wait(lambda told: told.get("params", {}).get("msg", {}).get("type") == "exec_command_begin")
    assert client.close()[0] == 0
    (rollout,) = spindle.rollouts()
    assert "turn_aborted" in rollout.read_text()


@pytest.mark.parametrize(("depth", "told"), [(1, "from inside"), (0, "agents.max_depth allows 0")])
def test_a_spindle_can_use_another_as_its_mcp_server_down_to_a_depth(
    spindle: Spindle, server: FakeServer, depth: int, told: str
) -> None:
    program, *before = spindle.command
    names = ("CODEX_HOME", "FAKE_API_KEY", "NO_PROXY")
    lines = "\n".join(f'{name} = "{spindle.environment[name]}"' for name in names)
    arguments = json.dumps([*before, "-c", "mcp_servers.inner.enabled=false", "mcp-server"])
    spindle.configure(
        f'[mcp_servers.inner]\ncommand = "{program}"\nargs = {arguments}\ndefault_tools_approval_mode = "approve"\n'
        f"[mcp_servers.inner.env]\n{lines}\n[agents]\nmax_depth = {depth}"
    )
    inner = [turn(message("from inside"))] if depth else []
    server.script(turn(call("mcp__inner__codex", {"prompt": "inner task"}, "c1")), *inner, turn(message("end")))
    done = spindle("exec", "--json", "outer task")
    (item,) = done.items("mcp_tool_call")
    assert done.code == 0 and told in item["result"]["structured_content"]["content"], done.out
