"""Typing into a program that a person or a rule let out of the sandbox is a question of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sessions import Driver, Start, outputs
from spindle.model.scripted import calls, says
from spindle.policy.typed_keys import edits_lines
from spindle.protocol.events import ExecApprovalRequest, TaskComplete
from spindle.protocol.ops import ExecApproval, OverrideTurnContext

ESCALATED = {"sandbox_permissions": "require_escalated", "justification": "to commit"}
READS = 'while read -r line; do echo "got $line"; printf \'%s\\n\' "$line" >> typed; done'


def starts(cmd: str = READS, **more: Any) -> Any:
    return calls("exec_command", {"cmd": cmd, "tty": True, "login": False, "yield_time_ms": 300, **more}, "c1")


def types(chars: str, call_id: str) -> Any:
    def step(request: Any) -> Any:
        text = next(item["output"] for item in request.input if item.get("call_id") == "c1" and "output" in item)
        session = int(text.split("session ID ")[1].split()[0])
        return calls("write_stdin", {"session_id": session, "chars": chars, "yield_time_ms": 500}, call_id)

    return step


async def asked_in(driver: Driver, *answers: str) -> list[ExecApprovalRequest]:
    """Run a turn to its end; each question gets the next answer."""
    sub_id = driver.begin("go")
    found: list[ExecApprovalRequest] = []
    while isinstance(msg := await driver.until(ExecApprovalRequest, TaskComplete, sub_id=sub_id), ExecApprovalRequest):
        driver.submit(ExecApproval(id=msg.call_id, decision=answers[len(found)]))
        found.append(msg)
    return found


ON_REQUEST: dict[str, Any] = {"approval": "on-request", "sandbox": "workspace-write"}


async def test_07_what_is_typed_into_a_program_outside_is_asked_about_each_time(start: Start, workspace: Path) -> None:
    steps = [starts(**ESCALATED), types(":!touch evil\n", "c2"), types("yes\n", "c3"), says("done")]
    driver = await start(*steps, **ON_REQUEST)
    first, second, third = await asked_in(driver, "approved", "denied", "approved")
    assert "the model will type into its terminal" in str(first.if_approved)
    assert second.command[0] == "write_stdin" and second.command[2] == ":!touch evil\n"
    assert "\\u{A}" in str(second.display) and "which runs without the sandbox" in str(second.reason)
    assert third.command[2] == "yes\n"
    assert (workspace / "typed").read_text() == "yes\n"
    assert outputs(driver.inputs[-1])["c2"] == "exec command rejected by user"


async def test_07_the_question_about_a_second_try_says_that_the_model_will_type(start: Start) -> None:
    driver = await start(starts("touch /not-here"), says("done"), approval="on-failure", sandbox="workspace-write")
    (asked,) = await asked_in(driver, "denied")
    assert "run it again without the sandbox" in str(asked.reason)
    assert "the model will type into its terminal" in str(asked.if_approved)


ELSEWHERE = {"type": "workspace-write", "exclude_slash_tmp": True, "exclude_tmpdir_env_var": True}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("danger-full-access", "workspace-write"),
        ("workspace-write", "read-only"),
        ({"type": "workspace-write", "network_access": True}, "read-only"),
        ({"type": "workspace-write", "network_access": True}, {"type": "workspace-write"}),
        ({"type": "workspace-write", "writable_roots": ["BESIDE"]}, {"type": "workspace-write"}),
        ({"type": "workspace-write"}, ELSEWHERE),
    ],
    ids=["full to fenced", "fenced to looking", "network and writing", "network", "a folder", "/tmp"],
)
@pytest.mark.parametrize("approval", ["on-request", "never"])
async def test_07_a_program_with_more_rights_than_commands_have_now_is_not_typed_into_unasked(
    start: Start, workspace: Path, tmp_path: Path, before: Any, after: Any, approval: str
) -> None:
    (tmp_path / "beside").mkdir()
    before = json.loads(json.dumps(before).replace("BESIDE", str(tmp_path / "beside")))
    driver = await start(starts(), says("it waits"), approval="never")
    driver.submit(OverrideTurnContext(sandbox_policy=before))
    assert await asked_in(driver) == []
    driver.submit(OverrideTurnContext(approval_policy=approval, sandbox_policy=after))
    driver.model.script(types("evil\n", "c2"), says("done"))
    found = await asked_in(driver, "denied")
    assert len(found) == (approval != "never") and not (workspace / "typed").exists()
    told = outputs(driver.inputs[-1])["c2"]
    assert told.startswith("write_stdin rejected" if approval == "never" else "exec command rejected by user")


@pytest.mark.parametrize(
    ("before", "after"),
    [("read-only", "workspace-write"), ("workspace-write", "danger-full-access"), (ELSEWHERE, "workspace-write")],
    ids=str,
)
async def test_07_a_program_with_fewer_rights_is_typed_into_as_before(start: Start, before: Any, after: Any) -> None:
    driver = await start(starts("cat"), says("it waits"), approval="never")
    driver.submit(OverrideTurnContext(sandbox_policy=before))
    assert await asked_in(driver) == []
    driver.submit(OverrideTurnContext(sandbox_policy=after))
    driver.model.script(types("fine\n", "c2"), says("done"))
    assert await asked_in(driver) == [] and "fine" in outputs(driver.inputs[-1])["c2"]


async def test_07_a_yes_for_the_session_is_for_the_same_keys_only(start: Start, workspace: Path) -> None:
    keys = [types(text, f"c{n}") for n, text in enumerate(("j\n", "j\n", ":!x\n"), 2)]
    driver = await start(starts(**ESCALATED), *keys, says("done"), **ON_REQUEST)
    found = await asked_in(driver, "approved", "approved_for_session", "denied")
    assert [request.command[-1] for request in found[1:]] == ["j\n", ":!x\n"]
    assert (workspace / "typed").read_text() == "j\nj\n"


async def test_07_a_program_that_a_rule_lets_out_is_not_typed_into_unasked(
    start: Start, workspace: Path, tmp_path: Path
) -> None:
    rules = tmp_path / "codex-home" / "rules"
    rules.mkdir()
    (rules / "mine.rules").write_text('prefix_rule(pattern=["tee"])\n')
    driver = await start(starts("tee typed"), types("evil\n", "c2"), says("done"), sandbox="workspace-write")
    assert await asked_in(driver) == []
    assert "approval policy is never" in outputs(driver.inputs[-1])["c2"]
    assert "evil" not in (workspace / "typed").read_text()


@pytest.mark.parametrize(
    ("approval", "sandbox"),
    [("on-request", "workspace-write"), ("never", "workspace-write"), ("never", "danger-full-access")],
)
async def test_07_typing_inside_the_sandbox_or_without_one_is_as_before(
    start: Start, workspace: Path, approval: str, sandbox: str
) -> None:
    driver = await start(starts(), types("yes\n", "c2"), says("done"), approval=approval, sandbox=sandbox)
    assert await asked_in(driver) == []
    assert (workspace / "typed").read_text() == "yes\n"


async def test_07_looking_and_stopping_need_no_answer(start: Start) -> None:
    driver = await start(starts(**ESCALATED), types("", "c2"), types("\x03", "c3"), says("done"), **ON_REQUEST)
    assert len(await asked_in(driver, "approved")) == 1
    assert "Process exited" in outputs(driver.inputs[-1])["c3"]


FORBIDS = 'prefix_rule(pattern=["touch"], decision="forbidden")\n'


@pytest.mark.parametrize(
    "keys",
    [
        ["touch evil\n"],
        ["tou", "ch evil\n"],
        ["touX\x7fch evil\r"],
        ["ls\x15touch evil\n"],
        ["\x1b[Atouch evil\n"],
        ["bash -c 'touch evil'\n"],
        [":!touch evil\n"],
        ["rm -rf ../*\n"],
        ["x=..; rm -rf $x\n"],
    ],
    ids=repr,
)
async def test_07_rules_and_refusals_are_not_got_around_by_typing(
    start: Start, workspace: Path, tmp_path: Path, keys: list[str]
) -> None:
    rules = tmp_path / "codex-home" / "rules"
    rules.mkdir()
    (rules / "mine.rules").write_text(FORBIDS)
    typed = [types(text, f"c{number}") for number, text in enumerate(keys, 2)]
    driver = await start(starts("cat > typed"), *typed, says("done"), sandbox="workspace-write")
    assert await asked_in(driver) == []
    assert "write_stdin rejected" in outputs(driver.inputs[-1])[f"c{len(keys) + 1}"]


@pytest.mark.parametrize(
    "keys", ["touched it\n", "print('rm')\n", "y\n", "\x1b[B\x1b[B\r", ":wq\n", "rm -rf build\n"], ids=repr
)
async def test_07_other_keys_are_typed_unasked_where_nobody_can_be_asked(
    start: Start, workspace: Path, tmp_path: Path, keys: str
) -> None:
    rules = tmp_path / "codex-home" / "rules"
    rules.mkdir()
    (rules / "mine.rules").write_text(FORBIDS)
    driver = await start(starts("cat > typed"), types(keys, "c2"), says("done"), sandbox="workspace-write")
    assert await asked_in(driver) == []
    assert "rejected" not in outputs(driver.inputs[-1])["c2"]


async def test_07_what_destroys_is_asked_about_when_it_is_typed(start: Start) -> None:
    driver = await start(starts("cat > typed"), types("rm -rf build\n", "c2"), says("done"), **ON_REQUEST)
    (asked,) = await asked_in(driver, "denied")
    assert "it may destroy files or work" in str(asked.reason) and "in the sandbox" in str(asked.if_approved)


@pytest.mark.parametrize(
    "keys",
    [
        ["tou\tevil\n"],
        ["tou\t", " evil\n"],
        ["ouch evil\x01t\n"],
        ["och evil", "\x1b[H", "\x1b[C", "t\n"],
        ["ouch evil\x1bOHt\r"],
        ["\x1b[A\r"],
        ["\x10\n"],
        ["\x12tou\n"],
        ["!!\n"],
        ["!t\n"],
        ["echo a; !-1\n"],
        ["ls\n", "^ls^id\n"],
        ["echo hi\x19\n"],
        ["\x1b.\n"],
        ["\x18\x05"],
        ["echo x\x0f"],
    ],
    ids=repr,
)
@pytest.mark.parametrize("program", ["bash --norc", "less x"])
async def test_07_keys_that_make_another_line_in_a_shell_are_refused_where_nobody_can_be_asked(
    start: Start, workspace: Path, tmp_path: Path, keys: list[str], program: str
) -> None:
    rules = tmp_path / "codex-home" / "rules"
    rules.mkdir()
    (rules / "mine.rules").write_text(FORBIDS)
    (workspace / "x").write_text("x\n")
    first = ["!bash\n"] if program == "less x" else []
    typed = [types(text, f"c{number}") for number, text in enumerate(first + keys, 2)]
    driver = await start(starts(program), *typed, says("done"), sandbox="workspace-write")
    assert await asked_in(driver) == []
    refused = [text for text in outputs(driver.inputs[-1]).values() if "write_stdin rejected" in text]
    assert refused and "than can be compared with the rules" in refused[0]


@pytest.mark.parametrize(
    "program",
    [
        *("bash", "exec bash -l", "bash --rcfile f", "bash -i f", "sh -i", "zsh -f", "env A=1 fish", "nice bash"),
        *("python3 -q", "python3.12 -i x.py", "node", "script", "su", "sudo -s", "unshare -r", "$SHELL", "tmux"),
    ],
)
def test_07_a_shell_that_edits_its_lines_is_known_however_it_is_started(program: str) -> None:
    assert edits_lines(["bash", "-lc", program])


@pytest.mark.parametrize(
    "program",
    [
        *("cat > typed", "less x", "git log", "vim x", "top", "bash x.sh", "sh ./install.sh --all", "bash -c 'read x'"),
        *("python3 x.py", "python3 -m http.server", "node -e 1", "npm init", "nice make menuconfig", "ssh-keygen"),
    ],
)
def test_07_other_programs_are_known_as_such(program: str) -> None:
    assert not edits_lines(["bash", "-lc", program])


async def test_07_keys_that_make_another_line_in_a_shell_are_asked_about(
    start: Start, workspace: Path, tmp_path: Path
) -> None:
    rules = tmp_path / "codex-home" / "rules"
    rules.mkdir()
    (rules / "mine.rules").write_text(FORBIDS)
    steps = [starts("bash --norc"), types("pw\t\n", "c2"), types("\x03echo a\x01b\n", "c3"), says("done")]
    driver = await start(*steps, **ON_REQUEST)
    first, second = await asked_in(driver, "approved_for_session", "denied")
    assert first.command == ["sh", "-c", "pw\t\n"] and "than can be compared with the rules" in str(first.reason)
    assert second.command[2].endswith("echo a\x01b\n") and "\\u{1}" in str(second.display)


@pytest.mark.parametrize(
    "keys",
    [
        ["echo plain\n"],
        ["echo wrongg\x7f \x17right\r"],
        ["\x1b[B", "\x1b[5~", "q"],
        ["\x1b[B\x1b[A", "\x03", "ls\n"],
        ["\x03", "\x04"],
        ["[ ! -e none ] && echo 'done!x' \"hi! you\"\n"],
        ["printf 'a\\na\\n' | awk '!seen[$0]++'\n"],
        ["if [ 1 != 2 ]; then\n\techo a\nfi\n"],
        ["echo ${!HOME} [!a]\n"],
        ["# Tab and !! in a remark\n"],
    ],
    ids=repr,
)
async def test_07_plain_typing_into_a_shell_stays_free_beside_rules(
    start: Start, tmp_path: Path, keys: list[str]
) -> None:
    rules = tmp_path / "codex-home" / "rules"
    rules.mkdir()
    (rules / "mine.rules").write_text(FORBIDS)
    typed = [types(text, f"c{number}") for number, text in enumerate(keys, 2)]
    driver = await start(starts("bash --norc"), *typed, says("done"), sandbox="workspace-write")
    assert await asked_in(driver) == []
    assert "rejected" not in str(outputs(driver.inputs[-1]))


@pytest.mark.parametrize("keys", ["ech\t a\n", "\x1b[A\r", "!!\n", "\x12ec\n"], ids=repr)
async def test_07_without_rules_against_anything_all_keys_are_free(start: Start, keys: str) -> None:
    driver = await start(starts("bash --norc"), types(keys, "c2"), says("done"), sandbox="workspace-write")
    assert await asked_in(driver) == [] and "rejected" not in str(outputs(driver.inputs[-1]))


@pytest.mark.parametrize(
    "keys",
    [
        "touch evil \x16\x15\n",
        "touch evil\x16\x03\n",
        "touch \x16\x17\n",
        "ls \x1ctouch evil\n",
        "ls \x1atouch evil\n",
        "touch evil\x03\n",
        "touch evil\x15\n",
        "tou\x04ch evil\n",
    ],
    ids=repr,
)
async def test_07_keys_that_a_terminal_or_a_program_may_take_otherwise_hide_nothing(
    start: Start, tmp_path: Path, keys: str
) -> None:
    rules = tmp_path / "codex-home" / "rules"
    rules.mkdir()
    (rules / "mine.rules").write_text(FORBIDS)
    driver = await start(starts("cat > typed"), types(keys, "c2"), says("done"), sandbox="workspace-write")
    assert await asked_in(driver) == []
    assert "write_stdin rejected" in outputs(driver.inputs[-1])["c2"]
