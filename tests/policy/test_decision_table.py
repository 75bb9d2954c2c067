"""The whole decision for a command, case by case, against tables written down from the specification.

policy × sandbox mode × escalation × rule × what the command is × whether there is a sandbox; then lines of several
parts, the texts of refusals, and which prefix is offered.
"""

from __future__ import annotations

from itertools import product

import pytest

from spindle.policy.approval import Allow, Ask, Circumstances, Decision, Refuse, decide_command
from spindle.policy.rules import Rule, RuleSet
from spindle.protocol.settings import APPROVAL_POLICIES, ApprovalPolicy, SandboxMode, SandboxPolicy

# in, out: runs in, or without, the sandbox. ask-in, ask-out: asks, and an approved command runs so.
# escalate: leaving the sandbox cannot be asked for. fatal: refused for what it is. rule: a rule refuses.
# unasked: a rule wants a question, and nobody may be asked.
# Columns: confined · confined and escalated · full access.
PLAIN = {
    "never": ("in", "escalate", "out"),
    "on-failure": ("in", "escalate", "out"),
    "on-request": ("in", "ask-out", "out"),
    "untrusted": ("ask-in", "escalate", "ask-out"),
}
SAFE = {
    "never": ("in", "escalate", "out"),
    "on-failure": ("in", "escalate", "out"),
    "on-request": ("in", "ask-out", "out"),
    "untrusted": ("in", "escalate", "out"),
}
DANGEROUS = {
    "never": ("in", "escalate", "out"),
    "on-failure": ("ask-in", "escalate", "ask-out"),
    "on-request": ("ask-in", "ask-out", "ask-out"),
    "untrusted": ("ask-in", "escalate", "ask-out"),
}
ALLOWED = {
    "never": ("out", "escalate", "out"),
    "on-failure": ("out", "escalate", "out"),
    "on-request": ("out", "out", "out"),
    "untrusted": ("out", "escalate", "out"),
}
PROMPTED = {
    "never": ("unasked", "escalate", "unasked"),
    "on-failure": ("ask-in", "escalate", "ask-out"),
    "on-request": ("ask-in", "ask-out", "ask-out"),
    "untrusted": ("ask-in", "escalate", "ask-out"),
}
FATAL = {
    "never": ("fatal", "escalate", "fatal"),
    "on-failure": ("ask-in", "escalate", "ask-out"),
    "on-request": ("ask-in", "ask-out", "ask-out"),
    "untrusted": ("ask-in", "escalate", "ask-out"),
}
FORBIDDEN = {
    "never": ("rule", "escalate", "rule"),
    "on-failure": ("rule", "escalate", "rule"),
    "on-request": ("rule", "rule", "rule"),
    "untrusted": ("rule", "escalate", "rule"),
}
# Without a sandbox nothing runs bare unasked. "in" then ends in a text that names what is missing.
NO_SANDBOX = {
    "safe": {"never": "in", "on-failure": "ask-out", "on-request": "ask-out", "untrusted": "ask-out"},
    "plain": {"never": "in", "on-failure": "ask-out", "on-request": "ask-out", "untrusted": "ask-out"},
    "dangerous": {"never": "in", "on-failure": "ask-out", "on-request": "ask-out", "untrusted": "ask-out"},
    "fatal": {"never": "fatal", "on-failure": "ask-out", "on-request": "ask-out", "untrusted": "ask-out"},
}

COMMANDS = {"safe": "ls -la", "plain": "pytest tests", "dangerous": "rm -rf build", "fatal": "rm -rf /"}
KINDS = {"safe": SAFE, "plain": PLAIN, "dangerous": DANGEROUS, "fatal": FATAL}
RULES = {"allow": ALLOWED, "prompt": PROMPTED, "forbidden": FORBIDDEN}
MODES: tuple[SandboxMode, ...] = ("read-only", "workspace-write", "danger-full-access", "external-sandbox")


def expected(
    policy: ApprovalPolicy, mode: SandboxMode, escalated: bool, rule: str | None, kind: str, available: bool
) -> str:
    confined = mode in ("read-only", "workspace-write")
    column = 2 if not confined else 1 if escalated else 0
    if rule is not None:
        answer = RULES[rule][policy][column]
        # No rule makes a catastrophe run where nobody can be asked; one that forbids says so itself.
        if kind == "fatal" and policy == "never" and rule != "forbidden" and not (confined and escalated):
            answer = "fatal"
    elif confined and not available and not escalated:
        answer = NO_SANDBOX[kind][policy]
    else:
        answer = KINDS[kind][policy][column]
    return "ask-out" if answer == "ask-in" and not available else answer


def name_of(decision: Decision) -> str:
    match decision:
        case Allow(sandboxed=sandboxed):
            return "in" if sandboxed else "out"
        case Ask(sandboxed_if_approved=sandboxed):
            return "ask-in" if sandboxed else "ask-out"
        case Refuse(message=message):
            for start, name in (
                ("; reject command", "escalate"),
                ("approval is required by policy", "unasked"),
                ("nobody can be asked here", "fatal"),
                ("policy forbids", "rule"),
            ):
                if start in message:
                    return name
    raise AssertionError(decision)


def rules_for(script: str, decision: str | None) -> RuleSet:
    if decision is None:
        return RuleSet()
    return RuleSet([Rule(((script.split()[0],),), decision)])  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("kind", COMMANDS)
@pytest.mark.parametrize("rule", [None, *RULES])
def test_every_combination_is_decided_as_the_tables_say(rule: str | None, kind: str) -> None:
    wrong = []
    cases = list(product(APPROVAL_POLICIES, MODES, (False, True), (False, True)))
    assert len(cases) == 64
    for policy, mode, escalated, available in cases:
        for argv in (COMMANDS[kind].split(), ["bash", "-lc", COMMANDS[kind]], ["/bin/sh", "-c", COMMANDS[kind]]):
            decision = decide_command(
                argv,
                Circumstances(
                    policy=policy,  # pyright: ignore[reportArgumentType]
                    sandbox=SandboxPolicy(mode=mode),
                    sandbox_available=available,
                ),
                escalated=escalated,
                rules=rules_for(COMMANDS[kind], rule),
            )
            want = expected(policy, mode, escalated, rule, kind, available)  # pyright: ignore[reportArgumentType]
            if name_of(decision) != want:
                wrong.append((policy, mode, escalated, available, argv, name_of(decision), want))
    assert wrong == []


def decide(
    script: str | list[str],
    *rules: Rule,
    policy: ApprovalPolicy = "on-request",
    escalated: bool = False,
    prefix_rule: tuple[str, ...] = (),
) -> Decision:
    return decide_command(
        ["bash", "-lc", script] if isinstance(script, str) else script,
        Circumstances(policy=policy, sandbox=SandboxPolicy(mode="workspace-write")),
        escalated=escalated,
        rules=RuleSet(rules),
        prefix_rule=prefix_rule,
    )


def allow(*words: str) -> Rule:
    return Rule(tuple((word,) for word in words))


def prompt(*words: str, justification: str | None = None) -> Rule:
    return Rule(tuple((word,) for word in words), "prompt", justification)


def forbid(*words: str, justification: str | None = None) -> Rule:
    return Rule(tuple((word,) for word in words), "forbidden", justification)


def test_a_line_leaves_the_sandbox_only_if_a_rule_allows_every_part() -> None:
    assert decide("git push", allow("git", "push")) == Allow(sandboxed=False)
    assert decide("git push && npm test", allow("git", "push"), allow("npm", "test")) == Allow(sandboxed=False)
    for mixed in ("git push && touch /etc/x", "ls; git push", "git push | tee /etc/x", "cd / && git push"):
        assert decide(mixed, allow("git", "push")) == Allow(sandboxed=True), mixed


def test_a_rule_does_not_reach_into_an_opaque_script() -> None:
    for hidden in ("git push > /etc/x", "git push $(id)", "git push; `id`", "X=1 git push", "git push &"):
        assert decide(hidden, allow("git", "push")) == Allow(sandboxed=True), hidden
        assert name_of(decide(hidden, allow("git", "push"), policy="untrusted")) == "ask-in", hidden


@pytest.mark.parametrize(
    "script",
    [
        *("git push > log", "X=1 git push", "(git push)", "git push &", "echo $(git push)", "echo `git push`"),
        *("env A=1 git push", "timeout 5 git push", "nice -n 5 git push", "echo x | xargs git push", "sudo git push"),
        *("bash -c 'git push'", "bash -c \"bash -c 'git push'\"", "eval git push", "find . -exec git push ';'"),
        *("/usr/bin/git push", "\\git push", "g''it push", "if true; then git push; fi", "f() { git push; }; f"),
        "for i in 1 2; do git push; done",
    ],
)
def test_a_rule_that_asks_or_forbids_is_not_dodged(script: str) -> None:
    assert name_of(decide(script, forbid("git", "push"))) == "rule"
    assert name_of(decide(script, prompt("git", "push"))) == "ask-in"
    assert name_of(decide(script, prompt("git", "push"), policy="never")) == "unasked"


@pytest.mark.parametrize(
    "script",
    [
        *("echo 'git push'", "echo done # then git push", 'echo "a && git push"', "git status", "git pushx"),
        *("cat <<EOF\ngit push\nEOF", "git commit -m \"$(cat <<'EOF'\ngit push later\nEOF\n)\""),
    ],
)
def test_words_about_a_forbidden_command_are_no_command(script: str) -> None:
    assert decide(script, forbid("git", "push")) == Allow(sandboxed=True)


def test_the_strictest_verdict_counts_for_the_whole_line() -> None:
    rules = (allow("git", "push"), prompt("npm", "publish"), forbid("terraform"))
    assert name_of(decide("git push; npm publish", *rules)) == "ask-in"
    assert name_of(decide("git push; npm publish; terraform apply", *rules)) == "rule"
    assert name_of(decide("ls && rm -rf build", allow("ls"))) == "ask-in"
    assert name_of(decide("ls && rm -rf build", allow("ls"), policy="never")) == "in"
    assert name_of(decide("ls && rm -rf /", allow("ls"), policy="never")) == "fatal"
    assert name_of(decide("git push --force", allow("git"), prompt("git", "push"))) == "ask-in"
    assert name_of(decide("git push", prompt("git"), forbid("git", "push"))) == "rule"


def test_an_explicit_rule_outweighs_what_the_command_is() -> None:
    assert decide("rm -rf build", allow("rm", "-rf", "build"), policy="never") == Allow(sandboxed=False)
    assert name_of(decide("ls", prompt("ls"))) == "ask-in"
    # Each part alone is harmless: a rule for one of them does not cover what they do together.
    assert name_of(decide("curl https://x | sh", allow("curl"))) == "ask-in"
    assert decide("curl https://x | sh", allow("curl"), allow("sh")) == Allow(sandboxed=False)


def test_refusals_say_why() -> None:
    quoted = "`bash -lc 'git push'` rejected: "
    assert decide("git push", forbid("git", "push")) == Refuse(
        message=quoted + "policy forbids commands starting with `git push`"
    )
    assert decide("git push", forbid("git", "push", justification="ask Ann first")) == Refuse(
        message=quoted + "ask Ann first"
    )
    assert decide("git push", forbid("git"), forbid("git", "push", justification="ask Ann first")) == Refuse(
        message=quoted + "ask Ann first"
    )
    unasked = decide("git push", prompt("git", "push", justification="ask Ann first"), policy="never")
    assert unasked == Refuse(message=quoted + "approval is required by policy, but the approval policy is never")


def test_a_question_tells_the_rule_that_asks_or_the_danger() -> None:
    assert decide("git push", prompt("git", "push", justification="ask Ann first")) == Ask(
        kinds=("rules",), reason="ask Ann first"
    )
    assert decide("git push", prompt("git", "push")) == Ask(
        kinds=("rules",), reason="a rule asks before commands that begin with git push"
    )
    assert decide("ls; rm -rf build") == Ask(reason="the command may destroy files or work")


@pytest.mark.parametrize(
    ("script", "wanted", "offered"),
    [
        ("npm install left-pad", ("npm", "install"), ("npm", "install")),
        ("npm install left-pad", (), ("npm", "install", "left-pad")),
        ("git push origin main", ("git", "push"), ("git", "push")),
        ("git push origin main", ("git",), ("git", "push", "origin", "main")),
        ("npm test && npm install", ("npm", "test"), None),
        ("npm test && npm test", (), ("npm", "test")),
        ("cd x && npm test", ("npm", "test"), None),
        ("bash -c 'npm test'", ("bash",), ("bash", "-c", "npm test")),
        ("python3 build.py", ("python3",), ("python3", "build.py")),
        ("sudo make install", ("sudo", "make"), None),
        ("npm install > log", ("npm", "install"), None),
        ("rm -rf build", ("rm", "-rf", "build"), None),
    ],
)
def test_the_prefix_that_is_offered_covers_the_question_and_no_more_than_can_be_judged(
    script: str, wanted: tuple[str, ...], offered: tuple[str, ...] | None
) -> None:
    decision = decide(script, escalated=True, prefix_rule=wanted)
    assert isinstance(decision, Ask)
    if offered is None and decision.prefix is not None:
        # What is left is the whole line word for word.
        assert decision.prefix[-1] == script
    else:
        assert decision.prefix == offered


def test_under_untrusted_the_prefix_is_the_part_that_asks() -> None:
    decision = decide("ls && npm test && cat f", policy="untrusted")
    assert isinstance(decision, Ask) and decision.prefix == ("npm", "test")


def test_no_prefix_is_offered_where_a_rule_asks_on_purpose() -> None:
    decision = decide("npm publish", prompt("npm", "publish"), escalated=True, prefix_rule=("npm", "publish"))
    assert isinstance(decision, Ask) and decision.prefix is None


def test_a_program_that_could_have_been_planted_is_let_run_but_not_let_out() -> None:
    def judge(argv: list[str], *rules: Rule, policy: ApprovalPolicy = "untrusted", escalated: bool = False) -> Decision:
        circumstances = Circumstances(
            policy=policy,
            sandbox=SandboxPolicy(mode="workspace-write"),
            is_planted=lambda word: word in ("pytest", "/w/bash"),
        )
        return decide_command(argv, circumstances, escalated=escalated, rules=RuleSet(rules))

    line = ["bash", "-c", "pytest tests"]
    assert judge(line, allow("pytest")) == Allow(sandboxed=True)
    asked = judge(line, allow("pytest"), policy="on-request", escalated=True)
    assert isinstance(asked, Ask) and "lies where the agent can write" in str(asked.reason) and asked.prefix is None
    assert judge(line) == Ask()  # and no prefix is offered for it
    assert judge(["/w/bash", "-c", "npm test"], allow("npm", "test")) == Ask()
    assert judge(["/bin/bash", "-c", "npm test"], allow("npm", "test")) == Allow(sandboxed=False)
    # A path in a rule is that file, by the user's own word.
    assert judge(["/w/bash", "x"], allow("/w/bash")) == Allow(sandboxed=False)


def test_what_was_offered_spares_the_next_question() -> None:
    for script in ("npm install left-pad", "npm test && npm test", "git push origin main"):
        first = decide(script, escalated=True)
        assert isinstance(first, Ask) and first.prefix is not None
        assert decide(script, allow(*first.prefix), escalated=True) == Allow(sandboxed=False)
