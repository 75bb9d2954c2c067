"""Secrets in events: every kind of message says which of its fields quote text from outside, and those are masked."""

from __future__ import annotations

import base64
from typing import Any, get_args, get_type_hints

import msgspec
import pytest

from messages import every_kind
from spindle.core.secrecy import Kind, StreamedText, masked_msg
from spindle.policy.secrets import Secrets
from spindle.protocol.events import (
    AgentMessageContentDelta,
    ApplyPatchApprovalRequest,
    Duration,
    ItemCompleted,
    Msg,
    PatchApplyBegin,
    ReasoningContentDelta,
    ReasoningRawContentDelta,
    UserMessage,
)
from spindle.protocol.outside import Outside

OWN, KNOWN, SHAPED = "own-key-5d1f0e6a7b", "known-token-93ac77e1", "ghp_0123456789abcdefghijklmnopqrstuvwx"

MASKED_BEFORE = {
    "agent_message_content_delta": ("item_id", "delta"),
    "reasoning_content_delta": ("item_id", "delta"),
    "reasoning_raw_content_delta": ("item_id", "delta"),
    "plan_delta": ("delta",),
    "exec_command_output_delta": ("chunk",),
    "exec_command_end": ("stdout", "stderr", "aggregated_output", "formatted_output"),
}
"""What comes through a masker of its own before it is put into a message. tests/e2e/test_secrets.py looks at these."""

OURS = {
    *("session_id", "thread_id", "turn_id", "forked_from_id", "conversation_id", "process_id", "process_ids"),
    *("sender_thread_id", "new_thread_id", "parent_thread_id", "plan_delta.item_id"),
    *("approval_policy", "reasoning_effort", "collaboration_mode_kind", "codex_error_info"),
    *("turn_aborted.reason", "grant_revoked.reason", "source", "stream", "elicitation_request.kind"),
    *("token_count.info", "usage", "python_tool_call_begin.tool", "python_tool_call_end.tool"),
    *("error.budget", "approval_resolved.decision", "model_reroute.reason"),
}
"""Fields of text that quote nobody: ids that we give, fixed words, figures. A new one is declared, or comes here."""


def registry() -> Secrets:
    return Secrets(own=lambda: [("OWN", OWN)], known=[("KNOWN", KNOWN)])


def tag(kind: type[Msg]) -> str:
    return str(kind.__struct_config__.tag)


def filled(hint: Any, text: str) -> Any:
    """A value of the type with the text in it, as deep as it may be: in values, in keys, in lists."""
    nested = {text: [text, {"deep": {text: f"a {text} b"}}]}
    flat = {text: f"{text}!"}
    candidates = (f"x {text} y", [text, f"{text}."], [flat], [nested], {text: 1}, flat, nested, {text: [text, nested]})
    fitting = [value for value in candidates if fits(value, hint)]
    if fitting:
        return fitting[-1]
    return next((filled(part, text) for part in get_args(hint) if part is not type(None)), None)


def fits(value: Any, hint: Any) -> bool:
    try:
        return msgspec.convert(value, hint) == value
    except msgspec.ValidationError:
        return False


def plain(hint: Any) -> Any:
    """Any value of the type that has nothing to hide."""
    if hint is Duration:
        return Duration(0, 0)
    return next(value for value in ("", 0, False, {}, [], b"") if fits(value, hint))


def message_with(kind: type[Msg], fields: tuple[str, ...], text: str) -> Msg:
    hints = get_type_hints(kind)
    required = [field.name for field in msgspec.structs.fields(kind) if field.required]
    values = {name: plain(hints[name]) for name in required}
    return kind(**{**values, **{name: filled(hints[name], text) for name in fields}})


@pytest.mark.parametrize("kind", every_kind(), ids=tag)
def test_a_declaration_names_fields_that_there_are_and_each_once(kind: type[Msg]) -> None:
    declared = kind.outside.fields
    assert set(declared) <= set(kind.__struct_fields__)
    assert len(set(declared)) == len(declared)


def test_a_kind_that_declares_nothing_cannot_be_defined() -> None:
    with pytest.raises(TypeError, match="Forgetful must declare which of its fields quote text from outside"):

        class Forgetful(Msg, frozen=True, kw_only=True, tag="forgetful"):
            text: str


def test_only_what_has_a_masker_of_its_own_is_declared_as_masked_before() -> None:
    assert {tag(kind): kind.outside.masked for kind in every_kind() if kind.outside.masked} == MASKED_BEFORE


SECRETS_OF = {"words": (OWN, KNOWN), "tools": (OWN, KNOWN, SHAPED), "person": (OWN,), "items": (OWN, KNOWN)}


@pytest.mark.parametrize("kind", every_kind(), ids=tag)
def test_a_secret_in_any_declared_field_is_masked(kind: type[Msg]) -> None:
    secrets = registry()
    for origin, values in SECRETS_OF.items():
        for name in getattr(kind.outside, origin):
            for value in values:
                msg = message_with(kind, (name,), value)
                assert value in str(getattr(msg, name)), f"{kind.__name__}.{name} was not filled"
                masked = masked_msg(msg, secrets)
                assert type(masked) is kind
                assert value not in str(msgspec.to_builtins(masked)), f"{kind.__name__}.{name}"
                # What stood around it is still there, and the message can still be read.
                shown = {"OWN": OWN, "KNOWN": KNOWN, "GitHub token": SHAPED}
                label = next(label for label, secret in shown.items() if secret == value)
                assert str(getattr(masked, name)) == str(getattr(msg, name)).replace(value, f"[secret: {label}]")
                assert msgspec.convert(msgspec.to_builtins(masked), kind) == masked


@pytest.mark.parametrize("kind", every_kind(), ids=tag)
def test_a_message_without_secrets_is_not_copied(kind: type[Msg]) -> None:
    fields = tuple(name for name in kind.outside.fields if name not in kind.outside.masked)
    msg = message_with(kind, fields, "ordinary words")
    assert masked_msg(msg, registry()) is msg


def test_every_field_that_can_hold_text_is_declared_or_our_own() -> None:
    undeclared = [
        f"{tag(kind)}.{name}"
        for kind in every_kind()
        for name, hint in get_type_hints(kind).items()
        if name in kind.__struct_fields__ and name not in kind.outside.fields and filled(hint, "text") is not None
    ]
    assert [name for name in undeclared if name not in OURS and name.partition(".")[2] not in OURS] == []


def test_pieces_of_an_answer_are_masked_with_the_names_of_their_items() -> None:
    told: list[Msg] = []
    streamed = StreamedText(registry(), "t", "u", told.append)
    item_id = f"msg_{OWN}"
    kinds: tuple[Kind, ...] = ("text", "summary", "raw")
    for kind in kinds:
        for piece in ("it is ", KNOWN[:5], KNOWN[5:], " and ", OWN):
            streamed.show(kind, item_id, piece)
    streamed.finish(item_id)
    texts: dict[tuple[str, str], str] = {}
    for msg in told:
        assert isinstance(msg, AgentMessageContentDelta | ReasoningContentDelta | ReasoningRawContentDelta)
        key = tag(type(msg)), msg.item_id
        texts[key] = texts.get(key, "") + msg.delta
    assert texts == {
        (name, "msg_[secret: OWN]"): "it is [secret: KNOWN] and [secret: OWN]" for name in list(MASKED_BEFORE)[:3]
    }


def test_a_persons_words_keep_what_the_person_typed() -> None:
    words = f"{OWN} {KNOWN}"
    item = {"type": "UserMessage", "id": "i", "content": [{"type": "text", "text": words}]}
    shown = f"[secret: OWN] {KNOWN}"
    assert masked_msg(UserMessage(message=words), registry()) == UserMessage(message=shown)
    masked = masked_msg(ItemCompleted(thread_id="t", turn_id="u", item=item), registry())
    assert isinstance(masked, ItemCompleted) and masked.item["content"] == [{"type": "text", "text": shown}]


def test_no_file_vanishes_from_a_question_when_two_names_look_the_same_masked() -> None:
    other = SHAPED.replace("0", "z")
    changes = {f"/w/{name}": {"type": "add", "content": name} for name in (SHAPED, other, "plain.txt")}
    asked = ApplyPatchApprovalRequest(call_id="c", turn_id="u", changes=changes)
    masked = masked_msg(asked, registry())
    assert isinstance(masked, ApplyPatchApprovalRequest)
    assert list(masked.changes) == ["/w/[secret: GitHub token]", "/w/[secret: GitHub token] (2)", "/w/plain.txt"]


def test_a_secret_in_another_writing_is_masked_in_what_tools_bring() -> None:
    coded = base64.b64encode(KNOWN.encode()).decode()
    msg = PatchApplyBegin(
        call_id="c", turn_id="u", auto_approved=True, changes={"/w/a": {"type": "add", "content": coded}}
    )
    masked = masked_msg(msg, registry())
    assert coded not in str(masked) and "[secret: KNOWN" in str(masked)


def test_structs_inside_a_field_are_masked_too() -> None:
    class Inner(msgspec.Struct, frozen=True):
        text: str

    class Carrier(Msg, frozen=True, kw_only=True, tag="carrier"):
        outside = Outside(words=("inner", "pair"))
        inner: Inner
        pair: tuple[str, str] = ("", "")

    masked = masked_msg(Carrier(inner=Inner(KNOWN), pair=("a", KNOWN)), registry())
    assert masked == Carrier(inner=Inner("[secret: KNOWN]"), pair=("a", "[secret: KNOWN]"))
