"""One thread, many servers: what goes to whom, what is learned of them, and that nothing readable is lost."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fake_server import FakeServer, Received, Turn, call, custom_call, fails, message, reasoning, refuses, turn
from sessions import Driver
from spindle.assembly import SessionRequest, open_session
from spindle.config.load import load_config
from spindle.model.scripted import ScriptedModel
from spindle.protocol.clock import FixedClock
from spindle.protocol.events import AgentMessage, Error, Msg, Warning
from spindle.protocol.ops import OverrideTurnContext, UserTurn
from wire_rules import chat_prefix, messages_prefix

Open = Callable[..., Awaitable[Driver]]
WIRES = ("responses", "chat", "messages")
KEYS = {"responses": "key-of-r-0123456789", "chat": "key-of-c-0123456789", "messages": "key-of-m-0123456789"}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}


@pytest.fixture
async def open_thread(
    tmp_path: Path, workspace: Path, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Open]:
    """Opens threads with a provider for each wire, all of them at `server`, each with a key of its own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    home = tmp_path / "codex-home"
    home.mkdir()
    for wire, key in KEYS.items():
        monkeypatch.setenv(f"KEY_{wire.upper()}", key)
    drivers: list[Driver] = []

    async def start(
        provider: str = "responses", table: dict[str, Any] | None = None, *, token: str = "", **request: Any
    ) -> Driver:
        common = {"base_url": server.base_url, "request_max_retries": 0, "stream_max_retries": 1}
        tables = {
            wire: {"name": wire, "wire_api": wire, "env_key": f"KEY_{wire.upper()}", **common, **(table or {})}
            for wire in WIRES
        }
        if token:
            tables["chat"] = {**tables["chat"], "env_key": "", "experimental_bearer_token": token}
        oss = {"CODEX_OSS_BASE_URL": server.base_url}
        config = load_config(
            cwd=str(workspace),
            env={"CODEX_HOME": str(home), "HOME": str(tmp_path), **oss},
            flags={"model": "gpt-5.2-codex", "approval_policy": "never", "sandbox_mode": "danger-full-access"},
            config={"model_provider": provider, "model_providers": tables},
        )
        session = await open_session(SessionRequest(config=config, originator="test", source="exec", **request))
        drivers.append(Driver(session, ScriptedModel()))
        return drivers[-1]

    yield start
    for driver in drivers:
        await driver.close()


async def ask(driver: Driver, server: FakeServer, text: str, *steps: Any, **fields: Any) -> list[Msg]:
    server.script(*steps)
    return await driver.end_of(driver.begin(text, **fields))


def wire_of(request: Received) -> str:
    return {"/responses": "responses", "/completions": "chat", "/messages": "messages"}[
        "/" + request.path.rpartition("/")[2]
    ]


def conversation(request: Received) -> list[str]:
    """What was said, in the form that must only grow."""
    match wire_of(request):
        case "chat":
            return chat_prefix(request.json)
        case "messages":
            return messages_prefix(request.json)
        case _:
            return [json.dumps(item) for item in request.json["input"]]


def working(wire: str, number: int) -> list[Turn]:
    """A turn with everything: reasoning that only its server can read, two kinds of calls, and a message."""
    thought = reasoning(f"thought {number}", encrypted=f"sealed-by-{wire}-{number}")
    patch = f"*** Begin Patch\n*** Add File: f{number}.txt\n+x\n*** End Patch\n"
    return [
        turn(
            thought,
            call("exec_command", {"cmd": f"echo out-{number}"}, f"call_{number}"),
            custom_call("apply_patch", patch, f"patch_{number}"),
        ),
        turn(message(f"answer {number}")),
    ]


async def test_a_thread_that_changes_its_provider_at_every_turn_is_never_refused(
    open_thread: Open, server: FakeServer, workspace: Path
) -> None:
    driver = await open_thread()
    for number in range(12):
        wire = ("responses", "chat", "messages", "chat")[number % 4]
        said = await ask(driver, server, f"prompt {number}", *working(wire, number), model_provider=wire)
        assert [msg.message for msg in said if isinstance(msg, AgentMessage)] == [f"answer {number}"]
        assert (workspace / f"f{number}.txt").exists()
    assert server.problems == []
    asked = server.turns_asked
    assert len(asked) == 24
    for wire in WIRES:
        own = [request for request in asked if wire_of(request) == wire]
        for before, after in pairwise(own):
            shared = conversation(before)
            assert conversation(after)[: len(shared)] == shared, "a server does not get its own conversation back"
        # What a server sealed goes back to it, to the end; to no other, ever.
        for other in WIRES:
            sent = [f"sealed-by-{other}-" in request.body.decode() for request in own[1:]]
            assert sent == [wire == other and wire != "chat"] * len(sent)
    taken = [item for request in asked if wire_of(request) == "responses" for item in request.json["input"]]
    assert all(item["encrypted_content"] for item in taken if item["type"] == "reasoning"), "it cannot open the others"
    assert all(
        "id" not in item or item["id"].startswith(("msg_resp", "rs_resp", "fc_resp", "ctc_resp")) for item in taken
    )
    last = asked[-1].body.decode()
    assert all(f"answer {number}" in last and f"out-{number}" in last for number in range(11))


async def test_a_resumed_thread_goes_on_with_another_provider_and_returns(
    open_thread: Open, server: FakeServer
) -> None:
    first = await open_thread("messages")
    await ask(first, server, "one", *working("messages", 1))
    thread_id = first.session.thread_id
    await first.close()
    second = await open_thread("responses", thread=thread_id)
    await ask(second, server, "two", turn(reasoning("r", encrypted="sealed-by-r"), message("two")))
    await second.close()
    third = await open_thread("messages", thread=thread_id)
    await ask(third, server, "three", turn(message("three")))
    _, before, elsewhere, again = server.turns_asked
    assert server.problems == [] and "sealed-by-messages" not in elsewhere.body.decode()
    assert "answer 1" in elsewhere.body.decode() and "out-1" in elsewhere.body.decode()
    assert conversation(again)[: len(conversation(before))] == conversation(before)
    assert "sealed-by-r" not in again.body.decode()


def lines_of(driver: Driver) -> list[dict[str, Any]]:
    writer = driver.session.thread.history.writer
    assert writer is not None
    return [json.loads(line) for line in Path(writer.path).read_text().splitlines()]


async def test_the_record_says_beside_each_item_which_model_made_it(open_thread: Open, server: FakeServer) -> None:
    driver = await open_thread("messages")
    await ask(driver, server, "go", turn(reasoning("hm", encrypted="c2lnbmVk"), message("there")))
    items = [line for line in lines_of(driver) if line["type"] == "response_item"]
    thought, said = (line["spindle"] for line in items[-2:])
    assert [line["payload"]["type"] for line in items[-2:]] == ["reasoning", "message"]
    origin = {"wire": "messages", "base_url": server.base_url, "model": "gpt-5.2-codex"}
    assert said == {"origin": {**origin, "account": said["origin"]["account"]}} and said["origin"]["account"]
    assert thought["origin"] == said["origin"]
    assert thought["opaque"]["thinking"]["signature"] == "c2lnbmVk" and "c2lnbmVk" not in json.dumps(
        items[-2]["payload"]
    )
    assert all("spindle" not in line for line in items[:-2]), "a person and the program have no origin"
    assert KEYS["messages"] not in json.dumps(lines_of(driver))


async def test_another_key_is_another_origin(
    open_thread: Open, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await open_thread()
    await ask(first, server, "one", turn(reasoning("r", encrypted="sealed"), message("one")))
    await first.close()
    monkeypatch.setenv("KEY_RESPONSES", "another-key-9876543210")
    second = await open_thread(thread=first.session.thread_id)
    await ask(second, server, "two", turn(message("two")))
    assert "sealed" not in server.turns_asked[-1].body.decode()


NOT_MINE = {
    "error": {
        "message": "The encrypted content gAAA could not be verified.",
        "type": "invalid_request_error",
        "code": "invalid_encrypted_content",
    }
}


@pytest.mark.parametrize("wire", ["responses", "messages"])
async def test_a_server_that_cannot_read_its_own_reasoning_is_asked_without_it_for_the_rest_of_the_thread(
    open_thread: Open, server: FakeServer, wire: str
) -> None:
    unsigned = {"type": "error", "error": {"type": "invalid_request_error", "message": _UNSIGNED}}
    refusal = refuses(400, NOT_MINE if wire == "responses" else unsigned)
    driver = await open_thread(wire)
    await ask(driver, server, "one", turn(reasoning("r", encrypted="c2VhbGVk"), message("one")))
    said = await ask(driver, server, "two", refusal, turn(message("two")))
    assert [msg.message for msg in said if isinstance(msg, AgentMessage)] == ["two"]
    assert (
        sum("could not read its own earlier reasoning" in msg.message for msg in said if isinstance(msg, Warning)) == 1
    )
    said = await ask(driver, server, "three", turn(message("three")))
    assert not any(isinstance(msg, Warning) for msg in said)
    await driver.close()
    resumed = await open_thread(wire, thread=driver.session.thread_id)
    await ask(resumed, server, "four", turn(message("four")))
    assert ["c2VhbGVk" in request.body.decode() for request in server.turns_asked] == [False, True, False, False, False]
    assert all(text in server.turns_asked[-1].body.decode() for text in ("one", "two", "three"))


_UNSIGNED = "messages.1.content.0: Invalid `signature` in `thinking` block"


async def test_a_stream_that_fails_over_sealed_reasoning_is_asked_for_again_without_it(
    open_thread: Open, server: FakeServer
) -> None:
    driver = await open_thread()
    await ask(driver, server, "one", turn(reasoning("r", encrypted="sealed"), message("one")))
    failed = fails("invalid_encrypted_content", "The encrypted content could not be verified.")
    said = await ask(driver, server, "two", failed, turn(message("two")))
    assert [msg.message for msg in said if isinstance(msg, AgentMessage)] == ["two"]
    assert ["sealed" in request.body.decode() for request in server.turns_asked] == [False, True, False]


async def test_keys_of_every_provider_that_was_used_are_masked(open_thread: Open, server: FakeServer) -> None:
    token = "a-literal-token-42"
    driver = await open_thread(token=token)
    await ask(driver, server, "one", turn(message(f"chat has {KEYS['messages']}")))
    await ask(driver, server, "two", turn(message(f"it is {token}")), model_provider="chat")
    record = json.dumps(lines_of(driver))
    assert token not in record and KEYS["messages"] not in record and "it is [" in record


async def test_a_provider_that_does_not_exist_is_refused_and_nothing_changes(
    open_thread: Open, server: FakeServer
) -> None:
    driver = await open_thread()
    driver.submit(OverrideTurnContext(model_provider="nowhere"), "x")
    refused = await driver.until(Error, sub_id="x")
    assert "unknown model provider 'nowhere'; use one of openai, ollama" in refused.message
    await ask(driver, server, "go", turn(message("done")))
    assert wire_of(server.turns_asked[0]) == "responses"


async def test_each_server_gets_its_own_key_in_its_own_header(open_thread: Open, server: FakeServer) -> None:
    driver = await open_thread()
    for wire in WIRES:
        await ask(driver, server, "go", turn(message("done")), model_provider=wire)
    responses, chat, messages = (request.headers for request in server.turns_asked)
    assert responses["authorization"] == f"Bearer {KEYS['responses']}"
    assert chat["authorization"] == f"Bearer {KEYS['chat']}" and "session_id" not in chat
    assert messages["x-api-key"] == KEYS["messages"] and "authorization" not in messages
    assert messages["anthropic-version"] == "2023-06-01"


# ---- what is learned of a server ---------------------------------------------------------------------

REFUSED_OPTIONS = {"error": {"message": "Unrecognized request argument supplied: stream_options", "param": None}}


def unless(word: str, refusal: dict[str, Any], answer: Turn) -> Callable[[Received], Turn]:
    return lambda request: refuses(400, refusal) if word in request.body.decode() else answer


def learned(driver: Driver, server: FakeServer, wire: str) -> dict[str, Any]:
    path = Path(driver.session.store.home, "spindle", "capabilities.json")
    assert path.stat().st_mode & 0o777 == 0o600
    kept = json.loads(path.read_text())
    assert kept["version"] == 1
    return kept["endpoints"][f"{wire} {server.base_url}"]["gpt-5.2-codex"]


async def test_what_a_server_refuses_is_left_out_told_once_and_remembered(
    open_thread: Open, server: FakeServer
) -> None:
    clock = FixedClock()
    steps = [unless("stream_options", REFUSED_OPTIONS, turn(message("done"))) for _ in range(4)]
    driver = await open_thread("chat", clock=clock)
    said = await ask(driver, server, "one", *steps)
    (told,) = [msg.message for msg in said if isinstance(msg, Warning)]
    assert told.startswith("chat does not take stream_options.") and "models --forget" in told
    lesson = learned(driver, server, "chat")["stream_options"]
    assert lesson == {"value": False, "since": int(clock.now()), "reason": REFUSED_OPTIONS["error"]["message"]}
    clock.advance(29 * 24 * 3600)
    again = await open_thread("chat", clock=clock)
    said = await ask(again, server, "two")
    assert not any(isinstance(msg, Warning) for msg in said)
    clock.advance(2 * 24 * 3600)
    later = await open_thread("chat", clock=clock)
    await ask(later, server, "three", *steps[:2])
    assert ["stream_options" in request.json for request in server.turns_asked] == [True, False, False, True, False]


async def test_the_users_word_counts_more_than_what_was_learned(open_thread: Open, server: FakeServer) -> None:
    driver = await open_thread("chat", {"capabilities": {"stream_options": False}})
    await ask(driver, server, "one", turn(message("one")))
    assert "stream_options" not in server.turns_asked[0].json
    said = await ask(driver, server, "two", refuses(400, REFUSED_OPTIONS))
    assert any(isinstance(msg, Error) for msg in said) and len(server.turns_asked) == 2


async def test_a_refusal_that_is_not_mended_is_final_after_one_more_request(
    open_thread: Open, server: FakeServer
) -> None:
    driver = await open_thread("chat")
    said = await ask(driver, server, "one", *([refuses(400, REFUSED_OPTIONS)] * 3))
    assert len(server.turns_asked) == 2
    (failure,) = [msg for msg in said if isinstance(msg, Error)]
    assert "Unrecognized request argument" in failure.message


async def test_a_responses_server_that_knows_functions_only_gets_functions_and_the_thread_keeps_its_calls(
    open_thread: Open, server: FakeServer, workspace: Path
) -> None:
    refusal = {"error": {"message": "'type' of tool must be 'function'", "code": 400}}
    patch = "*** Begin Patch\n*** Add File: n.txt\n+x\n*** End Patch\n"
    answers = [turn(call("apply_patch", {"input": patch}, "p1")), turn(message("done"))]
    driver = await open_thread()
    await ask(driver, server, "go", *(unless('"type":"custom"', refusal, answer) for answer in (turn(), *answers)))
    assert (workspace / "n.txt").exists() and len(server.turns_asked) == 3
    body = server.turns_asked[-1].json
    assert {tool["type"] for tool in body["tools"]} == {"function"}
    (tool,) = [tool for tool in body["tools"] if tool["name"] == "apply_patch"]
    assert tool["parameters"]["required"] == ["input"] and "grammar" in tool["description"]
    assert {item["type"] for item in body["input"]} == {"message", "function_call", "function_call_output"}
    assert set(learned(driver, server, "responses")) == {"custom_tools", "hosted_tools"}


async def test_a_schema_that_the_server_does_not_keep_is_asked_for_in_words_and_checked_here(
    open_thread: Open, server: FakeServer
) -> None:
    refusal = {"error": {"message": "response_format json_schema is not supported by this model"}}
    driver = await open_thread("chat")
    said = await ask(
        driver,
        server,
        "how many?",
        refuses(400, refusal),
        turn(message("```json\n3\n```")),
        turn(message('{"n": 3}')),
        final_output_json_schema=SCHEMA,
    )
    first, second, third = (request.json for request in server.turns_asked)
    assert "response_format" in first and "response_format" not in second and "response_format" not in third
    asked = second["messages"][-1]["content"]
    assert asked.startswith("how many?") and json.dumps(SCHEMA, separators=(",", ":")) in asked
    assert "it is not JSON" in third["messages"][-1]["content"]
    assert [msg.message for msg in said if isinstance(msg, AgentMessage)][-1] == '{"n": 3}'
    said = await ask(
        driver, server, "again?", turn(message("no")), turn(message("no")), final_output_json_schema=SCHEMA
    )
    assert len(server.turns_asked) == 5, "it is asked for once more, not for ever"
    assert any("does not fit the output schema" in msg.message for msg in said if isinstance(msg, Warning))


@pytest.mark.parametrize("wire", WIRES)
async def test_a_server_that_sees_no_pictures_gets_a_text_in_their_place(
    open_thread: Open, server: FakeServer, wire: str
) -> None:
    refusal = {"error": {"message": "image input is not supported - hint: you may need to provide the mmproj"}}
    driver = await open_thread(wire)
    said = await ask(driver, server, "no picture yet", refuses(400, refusal))
    assert any(isinstance(msg, Error) for msg in said), "a refusal of what was not sent teaches nothing"
    picture = {"type": "image", "image_url": "data:image/png;base64,iVBORw0KGgo="}
    server.script(refuses(400, refusal), turn(message("done")))
    said = await driver.end_of(driver.submit(UserTurn(items=[{"type": "text", "text": "look"}, picture])))
    assert [msg.message for msg in said if isinstance(msg, AgentMessage)] == ["done"]
    assert ["iVBORw0KGgo=" in request.body.decode() for request in server.turns_asked] == [False, True, False]
    assert "picture left out" in server.turns_asked[-1].body.decode() and server.problems == []


async def test_the_last_thread_of_a_provider_may_have_moved_there(open_thread: Open, server: FakeServer) -> None:
    moved = await open_thread("responses")
    await ask(moved, server, "one", turn(message("one")))
    other = await open_thread("messages", newest=True)
    assert other.session.thread_id != moved.session.thread_id, "nothing of this provider yet"
    await ask(moved, server, "two", turn(message("two")), model_provider="chat")
    await moved.close()
    resumed = await open_thread("chat", newest=True)
    assert resumed.session.thread_id == moved.session.thread_id


async def test_a_local_server_without_the_responses_api_is_spoken_to_in_chat_completions_from_then_on(
    open_thread: Open, server: FakeServer
) -> None:
    answers = iter([turn(), *working("chat", 1), turn(message("two"))])

    def old_server(request: Received) -> Turn:
        answer = next(answers)
        return refuses(404, "404 page not found") if request.path.endswith("/responses") else answer

    server.otherwise(old_server)
    driver = await open_thread("ollama", {"replay_reasoning": True})
    said = await ask(driver, server, "one")
    assert [msg.message for msg in said if isinstance(msg, AgentMessage)] == ["answer 1"]
    assert sum("Chat Completions is used instead" in msg.message for msg in said if isinstance(msg, Warning)) == 1
    await driver.close()
    resumed = await open_thread("ollama", thread=driver.session.thread_id)
    await ask(resumed, server, "two")
    paths = [request.path.removeprefix("/v1") for request in server.turns_asked]
    assert paths == ["/responses", *["/chat/completions"] * 3] and server.problems == []
    _, _, before, after = (conversation(r) if "/chat" in r.path else [] for r in server.turns_asked)
    assert after[: len(before)] == before


async def test_what_only_its_server_can_read_outlives_a_list_that_is_replaced(
    open_thread: Open, server: FakeServer
) -> None:
    driver = await open_thread("messages")
    await ask(driver, server, "one", *working("messages", 1))
    thread = driver.session.thread
    entries = [entry.item for entry in thread.history.entries]
    thread.replace_visible([*entries], "context_edit")
    await ask(driver, server, "two", turn(message("two")))
    await driver.close()
    resumed = await open_thread("messages", thread=driver.session.thread_id)
    await ask(resumed, server, "three", turn(message("three")))
    assert ["sealed-by-messages-1" in request.body.decode() for request in server.turns_asked] == [False, *[True] * 3]
    elsewhere = await open_thread("responses", thread=driver.session.thread_id, fork=True)
    await ask(elsewhere, server, "four", turn(message("four")))
    back = await open_thread("messages", thread=elsewhere.session.thread_id, fork=True)
    await ask(back, server, "five", turn(message("five")))
    assert ["sealed-by-messages-1" in request.body.decode() for request in server.turns_asked[-2:]] == [False, True]
    assert server.problems == []
