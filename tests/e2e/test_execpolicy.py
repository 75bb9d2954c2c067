"""`spindle execpolicy check`: what it prints, which files it reads, and what it does with bad ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from installed import Done, Spindle

RULES = """\
prefix_rule(pattern = ["git", ["push", "fetch"]], decision = "prompt", justification = "ask before")
prefix_rule(pattern = ["git"])
prefix_rule(pattern = ["rm"], decision = "forbidden")
"""
PROMPT = {"prefixRuleMatch": {"matchedPrefix": ["git", "push"], "decision": "prompt", "justification": "ask before"}}
ALLOW = {"prefixRuleMatch": {"matchedPrefix": ["git"], "decision": "allow"}}

Check = Callable[..., Done]


@pytest.fixture
def check(spindle: Spindle) -> Check:
    return partial(spindle, "execpolicy")


@pytest.mark.parametrize("words", [("--", "git", "push"), ("git", "push"), ("git", "push", "--rules", "x", "--pretty")])
def test_it_prints_every_matching_rule_and_the_strictest_decision(
    check: Check, workspace: Path, words: tuple[str, ...]
) -> None:
    (workspace / "a.rules").write_text(RULES)
    done = check("check", "--rules", "a.rules", *words)
    expected = {"matchedRules": [PROMPT, ALLOW], "decision": "prompt"}
    assert (done.code, done.err) == (0, "")
    assert done.out == json.dumps(expected, separators=(",", ":")) + "\n"


def test_no_match_is_an_answer_too(check: Check, workspace: Path) -> None:
    (workspace / "a.rules").write_text(RULES)
    done = check("check", "-r", "a.rules", "ls")
    assert (done.code, done.out) == (0, '{"matchedRules":[]}\n')


def test_pretty_indents_and_files_add_up(check: Check, workspace: Path) -> None:
    (workspace / "a.rules").write_text('prefix_rule(pattern=["ls"])')
    (workspace / "b.rules").write_text('prefix_rule(pattern=["ls", "-l"], decision="forbidden")')
    done = check("check", "--rules", "a.rules", "--rules=b.rules", "--pretty", "ls", "-l")
    assert done.out.startswith('{\n  "matchedRules": [\n    {\n      "prefixRuleMatch": {\n')
    assert json.loads(done.out)["decision"] == "forbidden"


def test_without_a_file_it_reads_what_a_session_would(check: Check, workspace: Path, home: Path) -> None:
    (home / "rules").mkdir()
    (home / "rules" / "a.rules").write_text(RULES)
    (home / "rules" / "bad.rules").write_text("nonsense")
    (workspace / ".codex" / "rules").mkdir(parents=True)
    (workspace / ".codex" / "rules" / "own.rules").write_text(
        'prefix_rule(pattern=["make"])\nprefix_rule(pattern=["git"], decision="forbidden")'
    )
    done = check("check", "git", "push")
    assert json.loads(done.out)["decision"] == "forbidden"
    assert done.err.startswith(f"warning: {home}/rules/bad.rules:1: ")
    # Nobody trusts this project, so it may forbid but not allow.
    assert check("check", "make").out == '{"matchedRules":[]}\n'
    with (home / "config.toml").open("a") as config:
        config.write(f'\n[projects."{workspace}"]\ntrust_level = "trusted"\n')
    assert json.loads(check("check", "make").out)["decision"] == "allow"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("prefix_rule(pattern=[])", "error: a.rules:1: `pattern` must not be empty\n"),
        (None, "error: a.rules: cannot be read: No such file or directory\n"),
    ],
)
def test_a_bad_file_is_one_sentence(check: Check, workspace: Path, text: str | None, sentence: str) -> None:
    if text is not None:
        (workspace / "a.rules").write_text(text)
    done = check("check", "--rules", "a.rules", "ls")
    assert (done.code, done.out, done.err) == (1, "", sentence)


@pytest.mark.parametrize(
    "arguments", [(), ("check",), ("check", "--rules", "a.rules"), ("chekc", "ls"), ("check", "--")]
)
def test_a_missing_command_is_a_usage_error(check: Check, workspace: Path, arguments: tuple[str, ...]) -> None:
    (workspace / "a.rules").write_text(RULES)
    done = check(*arguments)
    assert (done.code, done.out) == (2, "")
    assert "spindle execpolicy check" in done.err or "Usage: spindle execpolicy COMMAND" in done.err
