"""Rules that ask or forbid hold for what a command runs, not only for how it begins."""

from __future__ import annotations

import pytest

from spindle.policy.approval import Allow, Ask, Circumstances, Decision, Refuse, decide_command
from spindle.policy.commands import commands_within
from spindle.policy.rules import RuleSet, parse_rules
from spindle.protocol.settings import SandboxPolicy

RULES = RuleSet(
    parse_rules(
        'prefix_rule(pattern=["git", "push"], decision="forbidden", justification="not today")\n'
        'prefix_rule(pattern=["deploy"], decision="prompt")\nprefix_rule(pattern=["make"])',
        "f",
    )
)


def decide(script: str, rules: RuleSet = RULES) -> Decision:
    here = Circumstances(policy="on-request", sandbox=SandboxPolicy(mode="workspace-write"))
    return decide_command(["bash", "-lc", script], here, rules=rules)


@pytest.mark.parametrize(
    "script",
    [
        *(
            "git push",
            "ls && git push",
            "git push > log",
            "FOO=1 git push",
            "(git push)",
            "git push &",
            "echo $(git push)",
        ),
        *("env git push", "env A=1 git push", "sudo -u me git push", "timeout 5 git push", "bash -c 'git push'"),
        *(
            "/usr/bin/git push",
            "x=git; $x push",
            "if git push; then ls; fi",
            "eval git push",
            "bash -c 'nice git push'",
        ),
        *(
            "f() { git push; }; f",
            "xargs git push",
            "bash <<E\ngit push\nE",
            "g''it push",
            "\\git push",
            "time git push",
        ),
        *(
            "make; ls\ngit push",
            "exec git push",
            "find . -exec git push \\;",
            "a=push; git $a",
            "command git push 2>&1 | tee f",
        ),
    ],
)
def test_what_is_forbidden_is_forbidden_behind_anything(script: str) -> None:
    decision = decide(script)
    assert isinstance(decision, Refuse)
    assert decision.message.endswith("rejected: not today")


@pytest.mark.parametrize("script", ["deploy > f", "env deploy", "nohup deploy &", "cat x | deploy --now"])
def test_what_asks_asks_behind_anything(script: str) -> None:
    assert isinstance(decide(script), Ask)


@pytest.mark.parametrize(
    "script",
    ["git pull", "echo git push", "git commit -m 'git push'", "ls > f", "rg 'git push' docs", "cat <<E\ngit push\nE"],
)
def test_talking_about_it_is_not_doing_it(script: str) -> None:
    assert isinstance(decide(script), Allow)


def test_what_allows_is_not_looked_for_behind_wrappers() -> None:
    assert decide("make") == Allow(sandboxed=False)
    assert decide("env make") == Allow(sandboxed=True)
    assert decide("make > f") == Allow(sandboxed=True)


@pytest.mark.slow
def test_more_than_can_be_looked_at_asks() -> None:
    script = "\n".join(f"run{number}" for number in range(10_000))
    assert commands_within(["bash", "-lc", script]) is None
    assert isinstance(decide(script), Ask)
    assert isinstance(decide(script, RuleSet(parse_rules('prefix_rule(pattern=["make"])', "f"))), Allow)


def test_every_layer_is_there_once() -> None:
    assert commands_within(["sudo", "/usr/bin/env", "A=1", "ls", "-l"]) == [
        ["sudo", "/usr/bin/env", "A=1", "ls", "-l"],
        ["/usr/bin/env", "A=1", "ls", "-l"],
        ["ls", "-l"],
        ["A=1", "ls", "-l"],
        ["env", "A=1", "ls", "-l"],
    ]
