from __future__ import annotations

import tracemalloc

import pytest

from spindle.protocol.clock import FixedClock, SystemClock, format_uuid7, iso_utc
from spindle.protocol.events import (
    Event,
    ExecCommandOutputDelta,
    encode_event,
)
from spindle.protocol.items import decode_json, encode_payload, is_user_input, item_text, output_for, user_message
from spindle.protocol.ops import BadSubmission, Interrupt, Submission, UserTurn, decode_submission
from spindle.protocol.quote import shell_join
from spindle.protocol.request import Request, VisibleItem
from spindle.protocol.settings import SandboxPolicy


def test_a_submission_is_read_and_unknown_fields_are_ignored() -> None:
    line = b'{"id":"s1","op":{"type":"user_turn","items":[{"type":"text","text":"x"}],"model":"m","new":1}}'
    assert decode_submission(line) == Submission("s1", UserTurn(items=[{"type": "text", "text": "x"}], model="m"))
    assert decode_submission(b'{"id":"i","op":{"type":"interrupt"},"z":0}') == Submission("i", Interrupt())


@pytest.mark.parametrize(
    ("line", "sub_id", "part"),
    [
        (b"this is not json", "", "not a JSON object"),
        (b'{"id": 5}', "", 'string "id"'),
        (b'{"id":"a"}', "a", '"op" must be an object'),
        (b'{"id":"a","op":{"type":"no_such_op"}}', "a", "unknown op 'no_such_op'"),
        (b'{"id":"a","op":{"type":"user_turn"}}', "a", "bad user_turn op"),
        (b'{"id":"a","op":{"type":"user_turn","items":"x"}}', "a", "bad user_turn op"),
        (b"\xff\xfe", "", "not a JSON object"),
    ],
)
def test_what_is_no_submission_is_refused_with_the_id_it_had(line: bytes, sub_id: str, part: str) -> None:
    with pytest.raises(BadSubmission) as caught:
        decode_submission(line)
    assert caught.value.id == sub_id and part in str(caught.value)


def test_output_travels_as_base64() -> None:
    event = Event("s", ExecCommandOutputDelta(call_id="c", stream="stdout", chunk=b"hi\xff"))
    assert encode_event(event).endswith(b'"chunk":"aGn/"}}')


@pytest.mark.parametrize(
    ("wire", "policy"),
    [
        ("read-only", SandboxPolicy()),
        ({"mode": "danger-full-access"}, SandboxPolicy(mode="danger-full-access")),
        (
            {"type": "workspace-write", "writable_roots": ["/x"], "network_access": True},
            SandboxPolicy(mode="workspace-write", writable_roots=("/x",), network_access=True),
        ),
        (
            {"type": "external-sandbox", "network_access": "enabled"},
            SandboxPolicy(mode="external-sandbox", network_access=True),
        ),
    ],
)
def test_sandbox_policies_are_read_in_every_spelling_and_written_in_one(wire: object, policy: SandboxPolicy) -> None:
    assert SandboxPolicy.from_wire(wire) == policy
    assert SandboxPolicy.from_wire(policy.to_wire()) == policy


def test_the_request_has_its_keys_in_the_fixed_order() -> None:
    request = Request(
        model="m",
        instructions=b'"base"',
        items=[VisibleItem.of({"a": 1}), VisibleItem.of({"b": "é"})],
        tools=b"[]",
        reasoning={"effort": "low"},
        include=("reasoning.encrypted_content",),
        prompt_cache_key="t",
        text={"verbosity": "low"},
    )
    assert request.encode() == (
        b'{"model":"m","instructions":"base","input":[{"a":1},{"b":"\xc3\xa9"}],"tools":[],"tool_choice":"auto",'
        b'"parallel_tool_calls":true,"reasoning":{"effort":"low"},"store":false,"stream":true,'
        b'"include":["reasoning.encrypted_content"],"prompt_cache_key":"t","text":{"verbosity":"low"}}'
    )


def test_the_text_of_a_message_is_what_a_person_reads() -> None:
    parts = [{"type": "output_text", "text": "Sorry: "}, {"type": "refusal", "refusal": "no."}, {"text": None}, "odd"]
    assert item_text({"type": "message", "content": parts}) == "Sorry: no."
    assert item_text({"type": "message", "content": "plain"}) == "plain"
    assert item_text({"type": "message", "content": 5}) == ""


def test_outputs_have_the_type_their_call_asks_for() -> None:
    assert output_for({"type": "function_call", "call_id": "c"}, "x")["type"] == "function_call_output"
    assert output_for({"type": "custom_tool_call", "call_id": "c"}, "x")["type"] == "custom_tool_call_output"
    assert output_for({"type": "local_shell_call", "id": "l"}, "x") == {
        "type": "function_call_output",
        "call_id": "l",
        "output": "x",
    }


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("hello", True),
        ("<environment_context>\n", False),
        ("  # AGENTS.md instructions for /w\n", False),
        ("<skill>\n", False),
    ],
)
def test_context_in_the_users_role_is_not_a_persons_input(text: str, typed: bool) -> None:
    assert is_user_input(user_message(text)) is typed


def test_ids_are_version_7_and_sort_by_time() -> None:
    early, late = format_uuid7(1, b"\xff" * 10), format_uuid7(2, b"\x00" * 10)
    assert early < late and early[14] == "7" and early[19] in "89ab" and len(SystemClock().uuid7()) == 36
    assert FixedClock().uuid7() == FixedClock().uuid7()


def test_timestamps_have_milliseconds() -> None:
    assert iso_utc(1_763_230_603.951) == "2025-11-15T18:16:43.951Z"
    assert iso_utc(1_763_230_603.0) == "2025-11-15T18:16:43.000Z"
    assert iso_utc(1_763_230_604.25) == "2025-11-15T18:16:44.250Z"
    assert iso_utc(-0.5) == "1969-12-31T23:59:59.500Z"


def test_commands_are_shown_as_a_shell_would_need_them() -> None:
    assert shell_join(["bash", "-lc", "echo $x", ""]) == "bash -lc 'echo $x' ''"


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_a_request_of_any_length_is_the_json_it_should_be(count: int) -> None:
    items = [VisibleItem.of({"n": n}) for n in range(count)]
    request = Request(model="m", instructions=b'"i"', items=items, tools=b"[1]", prompt_cache_key="t")
    body = decode_json(request.encode())
    assert (body["input"], body["tools"], body["instructions"]) == ([{"n": n} for n in range(count)], [1], "i")


@pytest.mark.parametrize("size", [100, 5000, 100_000])
def test_encoded_bytes_take_no_more_room_than_they_need(size: int) -> None:
    payload = {"text": "x" * size}
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    encoded = encode_payload(payload)
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert len(encoded) <= taken < len(encoded) + 64
