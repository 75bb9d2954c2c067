"""The messages before the first prompt, and the ones appended when something changed."""

from __future__ import annotations

import msgspec
import pytest

from spindle.prompt.aborted import aborted_marker, user_command_message
from spindle.prompt.environment import environment_message
from spindle.prompt.instructions import personality_text
from spindle.prompt.snapshot import (
    ContextSnapshot,
    context_changes,
    initial_context,
    snapshot_from_turn_context,
    turn_context_payload,
)
from spindle.protocol.items import CONTEXT_PREFIXES, decode_json, encode_json, is_user_input, item_text
from spindle.protocol.settings import CollaborationMode, SandboxPolicy

PLAN = CollaborationMode(mode="plan")
BASE = ContextSnapshot(
    cwd="/w",
    shell="zsh",
    approval_policy="on-request",
    sandbox=SandboxPolicy(mode="workspace-write"),
    roots=("/w", "/tmp"),
    approved_prefixes=(),
    model="m1",
    model_text="base of m1",
    personality="pragmatic",
    developer_instructions="DEV",
    user_instructions="RULES",
    project_root="/w",
)


def changed(**fields) -> list[tuple[str, str]]:
    return told(context_changes(BASE, msgspec.structs.replace(BASE, **fields)))


def told(items) -> list[tuple[str, str]]:
    """Role and first line of each message."""
    assert all(len(item["content"]) == 1 for item in items)
    return [(item["role"], item_text(item).split("\n")[0]) for item in items]


PERMISSIONS = ("developer", "<permissions instructions>")
ENVIRONMENT = ("user", "<environment_context>")


def test_the_environment_has_exact_white_space():
    assert item_text(environment_message(cwd="/abs/path", shell="bash")) == (
        "<environment_context>\n  <cwd>/abs/path</cwd>\n  <shell>bash</shell>\n</environment_context>"
    )
    assert item_text(environment_message(cwd="/a", shell="sh", current_date="2026-01-02", timezone="UTC")) == (
        "<environment_context>\n  <cwd>/a</cwd>\n  <shell>sh</shell>\n"
        "  <current_date>2026-01-02</current_date>\n  <timezone>UTC</timezone>\n</environment_context>"
    )


def test_a_fully_configured_thread_starts_with_four_messages_in_fixed_order():
    assert told(initial_context(BASE)) == [
        PERMISSIONS,
        ("developer", "DEV"),
        ("user", "# AGENTS.md instructions for /w"),
        ENVIRONMENT,
    ]


def test_mode_and_personality_stand_after_the_developers_text():
    snapshot = msgspec.structs.replace(BASE, collaboration_mode=PLAN, personality="friendly")
    roles = told(initial_context(snapshot, personality_baked=False))
    assert [role for role, _ in roles] == ["developer"] * 4 + ["user"] * 2
    assert roles[2][1].startswith("<collaboration_mode># Plan mode")
    assert roles[3][1].startswith("<personality_spec>")


def test_parts_that_are_switched_off_or_empty_are_left_out():
    bare = ContextSnapshot(cwd="/w", includes_permissions=False, includes_environment=False)
    assert initial_context(bare, personality_baked=False) == []
    assert told(initial_context(ContextSnapshot(cwd="/w"))) == [PERMISSIONS, ENVIRONMENT]


def test_the_documents_message_is_framed():
    assert item_text(initial_context(BASE)[2]) == (
        "# AGENTS.md instructions for /w\n\n<INSTRUCTIONS>\nRULES\n</INSTRUCTIONS>"
    )


def test_nothing_changed_says_nothing():
    assert changed() == []


def test_nothing_told_yet_tells_all():
    assert context_changes(None, BASE) == initial_context(BASE)


@pytest.mark.parametrize(
    ("fields", "messages"),
    [
        ({"approval_policy": "never"}, [PERMISSIONS]),
        ({"sandbox": SandboxPolicy(mode="read-only")}, [PERMISSIONS]),
        ({"sandbox": SandboxPolicy(mode="workspace-write", network_access=True)}, [PERMISSIONS]),
        ({"approved_prefixes": (("git", "push"),)}, [PERMISSIONS]),
        ({"approved_prefixes": None}, []),
        ({"approval_policy": "never", "includes_permissions": False}, []),
        ({"collaboration_mode": PLAN}, [("developer", "<collaboration_mode># Plan mode")]),
        ({"personality": "friendly"}, [("developer", "<personality_spec># Style")]),
        ({"personality": None}, []),
        ({"model": "m2", "model_text": "base of m2"}, [("developer", "<model_switch>")]),
        ({"model": "m2"}, []),
        ({"model": "m2", "model_text": None}, []),
        ({"cwd": "/w/sub"}, [ENVIRONMENT]),
        ({"cwd": "/w/sub", "includes_environment": False}, []),
        ({"current_date": "2026-02-03"}, [ENVIRONMENT]),
        ({"user_instructions": "OTHER"}, [("user", "# AGENTS.md instructions for /w")]),
        ({"cwd": "/x", "project_root": "/x"}, [ENVIRONMENT, ("user", "# AGENTS.md instructions for /x")]),
        ({"developer_instructions": "NEW"}, [("developer", "NEW")]),
        ({"developer_instructions": None}, []),
        ({"shell": "bash", "roots": ("/other",)}, []),
    ],
)
def test_each_difference_is_one_message(fields, messages):
    assert changed(**fields) == messages


def test_approved_prefixes_are_told_only_where_they_are_listed():
    old = msgspec.structs.replace(BASE, approval_policy="never")
    assert context_changes(old, msgspec.structs.replace(old, approved_prefixes=(("git", "push"),))) == []


def test_all_differences_come_in_fixed_order():
    roles = changed(
        approval_policy="never",
        collaboration_mode=PLAN,
        personality="none",
        model="m2",
        model_text="base of m2",
        cwd="/x",
        user_instructions="OTHER",
    )
    assert [text.split(">")[0] for _, text in roles] == [
        "<permissions instructions",
        "<collaboration_mode",
        "<personality_spec",
        "<model_switch",
        "<environment_context",
        "# AGENTS.md instructions for /x",
    ]


def test_a_change_of_folder_names_only_folder_and_shell():
    new = msgspec.structs.replace(BASE, cwd="/x", current_date="2026-02-03")
    old = msgspec.structs.replace(BASE, current_date="2026-02-03")
    (item,) = context_changes(old, new)
    assert item_text(item) == ("<environment_context>\n  <cwd>/x</cwd>\n  <shell>zsh</shell>\n</environment_context>")


def test_leaving_plan_mode_ends_it_in_words():
    old = msgspec.structs.replace(BASE, collaboration_mode=PLAN)
    (item,) = context_changes(old, BASE)
    text = item_text(item)
    assert text.startswith("<collaboration_mode>") and text.endswith("</collaboration_mode>")
    assert "no longer apply" in text


def test_a_modes_own_instructions_replace_ours():
    (item,) = context_changes(
        BASE,
        msgspec.structs.replace(BASE, collaboration_mode=CollaborationMode(mode="plan", developer_instructions="X")),
    )
    assert item_text(item) == "<collaboration_mode>X</collaboration_mode>"


def test_the_plan_text_says_what_it_must():
    (item,) = context_changes(BASE, msgspec.structs.replace(BASE, collaboration_mode=PLAN))
    lines = item_text(item).split("\n")
    assert "<proposed_plan>" in lines and "</proposed_plan>" in lines
    text = item_text(item)
    needed = [
        "until a developer message ends it",
        "request_user_input",
        "update_plan",
        "exactly one block",
        "assumption",
        "shall I proceed",
    ]
    assert [word for word in needed if word not in text] == []


def test_a_new_personality_brings_its_style():
    (item,) = context_changes(BASE, msgspec.structs.replace(BASE, personality="friendly"))
    assert item_text(item) == f"<personality_spec>{personality_text('friendly')}</personality_spec>"
    (none,) = context_changes(BASE, msgspec.structs.replace(BASE, personality="none"))
    assert personality_text("none") == "" and len(item_text(none)) > len("<personality_spec></personality_spec>")


def test_documents_that_no_longer_apply_are_ended_in_words():
    (item,) = context_changes(BASE, msgspec.structs.replace(BASE, user_instructions=None))
    assert item_text(item).startswith("# AGENTS.md instructions for /w") and "no longer hold" in item_text(item)


def test_the_snapshot_survives_the_rollout():
    snapshot = msgspec.structs.replace(BASE, collaboration_mode=PLAN, current_date="2026-02-03", timezone="UTC")
    payload = decode_json(encode_json(turn_context_payload(snapshot, turn_id="t", effort="high")))
    restored = snapshot_from_turn_context(payload)
    assert restored is not None
    assert context_changes(restored, snapshot) == []
    assert told(context_changes(restored, msgspec.structs.replace(snapshot, cwd="/y"))) == [ENVIRONMENT]


def test_a_turn_context_has_the_recorded_form():
    payload = turn_context_payload(BASE, turn_id="t1", effort="high", summary="auto", truncation=("tokens", 10_000))
    assert payload == {
        "turn_id": "t1",
        "cwd": "/w",
        "approval_policy": "on-request",
        "sandbox_policy": {
            "type": "workspace-write",
            "writable_roots": [],
            "network_access": False,
            "exclude_tmpdir_env_var": False,
            "exclude_slash_tmp": False,
        },
        "model": "m1",
        "personality": "pragmatic",
        "collaboration_mode": {
            "mode": "default",
            "settings": {"model": "m1", "reasoning_effort": "high", "developer_instructions": None},
        },
        "effort": "high",
        "summary": "auto",
        "user_instructions": "RULES",
        "developer_instructions": "DEV",
        "truncation_policy": {"mode": "tokens", "limit": 10_000},
    }


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"cwd": 3, "approval_policy": "never", "sandbox_policy": "read-only"},
        {"cwd": "/w", "approval_policy": "sometimes", "sandbox_policy": "read-only"},
        {"cwd": "/w", "approval_policy": "never", "sandbox_policy": {"type": "odd"}},
        {"cwd": "/w", "approval_policy": "never"},
    ],
)
def test_a_turn_context_that_makes_no_sense_is_no_snapshot(payload):
    assert snapshot_from_turn_context(payload) is None


def test_harness_messages_are_not_taken_for_a_persons_words():
    items = [
        aborted_marker(),
        user_command_message("ls", 0, 0.12345, "a\n"),
        *[item for item in initial_context(BASE) if item["role"] == "user"],
    ]
    assert not any(is_user_input(item) for item in items)
    assert item_text(items[0]).startswith("<turn_aborted>\n") and item_text(items[0]).endswith("\n</turn_aborted>")
    assert item_text(items[1]) == (
        "<user_shell_command>\n<command>\nls\n</command>\n<result>\nExit code: 0\nDuration: 0.1235 seconds\n"
        "Output:\na\n\n</result>\n</user_shell_command>"
    )
    assert CONTEXT_PREFIXES
