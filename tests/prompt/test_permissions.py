"""The permissions message: every mode with every policy, and exactly the promised frame."""

from __future__ import annotations

import itertools

import pytest

from spindle.prompt.permissions import MAX_BYTES, permissions_message
from spindle.protocol.settings import APPROVAL_POLICIES, SANDBOX_MODES, SandboxPolicy

MODES = (*SANDBOX_MODES, "external-sandbox")
MANY_PREFIXES = tuple(("tool", f"sub-command-{i:03}", "--flag") for i in range(300))


def text_for(mode: str, policy: str, **options) -> str:
    item = permissions_message(SandboxPolicy(mode=mode), policy, options.pop("roots", ("/w", "/tmp")), **options)
    assert item["role"] == "developer" and len(item["content"]) == 1
    return item["content"][0]["text"]


PAIRS = list(itertools.product(MODES, APPROVAL_POLICIES))


@pytest.mark.parametrize(("mode", "policy"), PAIRS)
def test_every_mode_and_policy_has_a_text_of_at_most_six_kib(mode, policy):
    text = text_for(mode, policy, approved_prefixes=MANY_PREFIXES)
    assert text.startswith("<permissions instructions>\n") and text.endswith("\n</permissions instructions>")
    assert f"`sandbox_mode` is `{mode}`" in text and f"The approval policy is `{policy}`" in text
    assert "MCP servers" in text and "{" not in text.replace('{"', "")
    assert len(text.encode()) <= MAX_BYTES


def test_all_pairs_differ():
    assert len({text_for(mode, policy) for mode, policy in PAIRS}) == len(PAIRS)


@pytest.mark.parametrize(
    ("sandbox", "network"),
    [
        (SandboxPolicy(mode="read-only"), "restricted"),
        (SandboxPolicy(mode="workspace-write"), "restricted"),
        (SandboxPolicy(mode="workspace-write", network_access=True), "enabled"),
        (SandboxPolicy(mode="danger-full-access"), "enabled"),
        (SandboxPolicy(mode="external-sandbox"), "restricted"),
        (SandboxPolicy(mode="external-sandbox", network_access=True), "enabled"),
    ],
)
def test_the_network_is_named(sandbox, network):
    text = permissions_message(sandbox, "never", ())["content"][0]["text"]
    assert f"Network access is `{network}`." in text


@pytest.mark.parametrize(
    ("roots", "sentence"),
    [
        (("/w",), "The writable root is `/w`."),
        (("/extra", "/w", "/tmp"), "The writable roots are `/extra`, `/w`, `/tmp`."),
        (("/w", "/tmp", "/w"), "The writable roots are `/w`, `/tmp`."),
        (("/tmp", "/tmp"), "The writable root is `/tmp`."),
    ],
)
def test_the_writable_roots_are_the_last_sentence(roots, sentence):
    lines = text_for("workspace-write", "on-request", roots=roots, approved_prefixes=[("git", "push")]).split("\n")
    assert lines[-2:] == [sentence, "</permissions instructions>"]


@pytest.mark.parametrize("mode", ["read-only", "danger-full-access", "external-sandbox"])
def test_other_modes_name_no_roots(mode):
    assert "writable root" not in text_for(mode, "never")


def test_protected_folders_are_named_below_writable_roots_only():
    named = "these stay read-only and cannot be created: `.git`, `secret`."
    assert named in text_for("workspace-write", "never", protected=(".git", "secret"))
    assert "secret" not in text_for("read-only", "never", protected=(".git", "secret"))


def test_approved_prefixes_are_sorted_json_lines_under_on_request_only():
    prefixes = [("npm", "test"), ("git", "push"), ("npm", "test")]
    lines = text_for("workspace-write", "on-request", approved_prefixes=prefixes).split("\n")
    at = lines.index('["git","push"]')
    assert lines[at - 1].startswith("Already approved") and lines[at + 1] == '["npm","test"]'
    for policy in ("never", "on-failure", "untrusted"):
        assert "npm" not in text_for("workspace-write", policy, approved_prefixes=prefixes)


def test_at_most_a_hundred_prefixes_are_listed():
    text = text_for("read-only", "on-request", approved_prefixes=[(f"{i:03}",) for i in range(150)])
    assert '["099"]' in text and '["100"]' not in text


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("never", ["nobody can be asked", "`sandbox_permissions`", "rejected", "validate"]),
        ("on-failure", ["inside the sandbox", "puts it to the user"]),
        ("untrusted", ["most commands", "known-safe"]),
        (
            "on-request",
            [
                '"require_escalated"',
                "`justification`",
                "question",
                "`prefix_rule`",
                "never the whole command",
                "`&&`, `||`, `;`",
                "subshells",
                "without asking in prose first",
                "destructive",
            ],
        ),
    ],
)
def test_each_policy_says_what_it_must(policy, words):
    text = text_for("workspace-write", policy)
    assert [word for word in words if word not in text] == []
