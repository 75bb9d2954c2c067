"""The table of `corpus.py`: class and verdicts of every command line in it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from spindle.policy.approval import Allow, Ask, Circumstances, Refuse, decide_command
from spindle.policy.commands import is_dangerous, is_known_safe, parse_command, safe_environment
from spindle.protocol.settings import ApprovalPolicy, SandboxPolicy


def load_corpus() -> ModuleType:
    spec = importlib.util.spec_from_file_location("command_corpus", Path(__file__).with_name("corpus.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["command_corpus"] = module
    spec.loader.exec_module(module)
    return module


corpus = load_corpus()
WORKSPACE_WRITE = SandboxPolicy(mode="workspace-write")
POLICIES: tuple[ApprovalPolicy, ...] = ("untrusted", "on-request", "never")


def kind_of(argv: list[str]) -> str:
    safe, dangerous = is_known_safe(argv), is_dangerous(argv)
    assert not (safe and dangerous)
    return "safe" if safe else "dangerous" if dangerous else "neither"


@pytest.mark.parametrize("case", corpus.CASES, ids=lambda case: f"{case.kind}-{case.script[:50]!r}")
def test_every_line_of_the_corpus_is_judged_as_the_table_says(case: Any) -> None:
    argv = ["bash", "-lc", case.script]
    assert kind_of(argv) == case.kind
    kinds = {Allow: "a", Ask: "p", Refuse: "f"}
    decisions = [decide_command(argv, Circumstances(policy=policy, sandbox=WORKSPACE_WRITE)) for policy in POLICIES]
    assert "".join(kinds[type(decision)] for decision in decisions) == case.verdicts
    assert all(decision.sandboxed for decision in decisions if isinstance(decision, Allow))
    assert parse_command(argv)


@pytest.mark.parametrize(("argv", "kind"), corpus.BARE, ids=repr)
def test_argument_lists_are_judged_without_a_shell(argv: list[str], kind: str) -> None:
    assert kind_of(argv) == kind


def test_the_corpus_is_big_enough() -> None:
    scripts = [case.script for case in corpus.CASES]
    assert len(set(scripts)) == len(scripts)
    assert len(scripts) >= 600
    assert sum(case.adversarial for case in corpus.CASES) >= 350


def test_nothing_but_safe_commands_gets_the_environment_of_safe_commands() -> None:
    for case in corpus.CASES:
        found = safe_environment(["bash", "-lc", case.script])
        assert bool(found) == (case.kind == "safe" and case.script.startswith("git ")), case.script
