"""A recorded day of ordinary commands asks no more questions, and refuses no more, than it did before the rules of this
release: `ordinary_day.txt` has, before each command, what was decided about it then.

One letter for each of `SETTINGS`: `i` runs in the sandbox, `o` outside, `p` asks, `f` is refused. `⏎` is a line end.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from spindle.policy.approval import Allow, Ask, Circumstances, Decision, decide_command
from spindle.policy.catastrophe import Place
from spindle.policy.rules import Rule, RuleSet
from spindle.protocol.settings import ApprovalPolicy, SandboxMode, SandboxPolicy

ALLOWED = (
    *("git add", "git commit", "git fetch", "git push", "npm test", "npm install", "npm run build", "pytest", "ruff"),
    *("python3 -m pytest", "make test", "cargo test", "cargo build", "go test", "pip install", "docker build"),
    *("uv run pytest", "gh pr", "rg", "cd"),
)
RULES = RuleSet(
    [
        *(Rule(tuple((word,) for word in rule.split())) for rule in ALLOWED),
        Rule((("terraform",), ("apply",)), "forbidden"),
        Rule((("npm",), ("publish",)), "prompt"),
        Rule((("git",), ("push",), ("--force",)), "forbidden"),
    ]
)


class Setting(NamedTuple):
    policy: ApprovalPolicy
    mode: SandboxMode
    escalated: bool = False
    has_rules: bool = False


SETTINGS = (
    Setting("untrusted", "workspace-write"),
    Setting("on-request", "workspace-write"),
    Setting("on-failure", "workspace-write"),
    Setting("never", "workspace-write"),
    Setting("never", "danger-full-access"),
    Setting("untrusted", "workspace-write", has_rules=True),
    Setting("on-request", "workspace-write", has_rules=True),
    Setting("on-request", "workspace-write", escalated=True, has_rules=True),
)
STRICTER: dict[str, str] = {}
"""Commands that are decided more strictly than before, each with the reason. There is none."""

PROGRAMS = frozenset(
    (
        *(
            "ls",
            "cat",
            "test",
            "install",
            "sort",
            "find",
            "make",
            "git",
            "npm",
            "node",
            "python3",
            "pytest",
            "bash",
            "sh",
        ),
        *("watch", "time", "link", "split", "join", "sync", "env", "touch", "rm", "cp", "mv", "tar", "zip", "docker"),
    )
)


def letter(decision: Decision) -> str:
    if isinstance(decision, Allow):
        return "i" if decision.sandboxed else "o"
    return "p" if isinstance(decision, Ask) else "f"


def judged(script: str) -> str:
    decisions = [
        decide_command(
            ["bash", "-lc", script],
            Circumstances(
                policy=setting.policy,
                sandbox=SandboxPolicy(mode=setting.mode),
                is_program=PROGRAMS.__contains__,
                is_path=lambda word: word in ("src", "tests", "docs", "build", "app"),
                place=Place(cwd="/home/me/work", workspace=("/home/me/work",), home="/home/me"),
            ),
            escalated=setting.escalated,
            rules=RULES if setting.has_rules else None,
        )
        for setting in SETTINGS
    ]
    return "".join(map(letter, decisions))


def recorded() -> dict[str, str]:
    lines = Path(__file__).with_name("ordinary_day.txt").read_text(encoding="utf-8").splitlines()
    return {script.replace("⏎", "\n"): letters for letters, _, script in (line.partition(" ") for line in lines)}


def test_an_ordinary_day_asks_no_more_questions_than_before() -> None:
    before = recorded()
    assert len(before) >= 300
    now = {script: judged(script) for script in before}
    strictness = {"o": 0, "i": 1, "p": 2, "f": 3}
    stricter = {
        script: (before[script], letters)
        for script, letters in now.items()
        if any(strictness[new] > strictness[old] for new, old in zip(letters, before[script], strict=True))
    }
    assert set(stricter) == set(STRICTER), stricter
    for kind in "pf":
        assert sum(text.count(kind) for text in now.values()) <= sum(text.count(kind) for text in before.values())


def test_row_11_nothing_of_an_ordinary_day_is_refused_where_nobody_can_be_asked() -> None:
    before = recorded()
    assert sum(text.count("f") for text in before.values()) > 30
    assert [script for script in before if "f" in judged(script)] == []
