"""What people read in a plain terminal."""

from __future__ import annotations

from typing import Any

import pytest

from spindle.frontends.fit import cells, head_and_tail
from spindle.frontends.plain_text import Look, printable, sandbox_line
from spindle.frontends.transcript import Transcript
from spindle.protocol.events import (
    AgentMessage,
    Duration,
    Error,
    ExecCommandBegin,
    ExecCommandEnd,
    ItemCompleted,
    Msg,
    PatchApplyEnd,
    PlanUpdate,
    SessionConfigured,
    TaskComplete,
    TokenCount,
    TurnAborted,
    UserMessage,
    Warning,
    usage_info,
)
from spindle.protocol.request import TokenUsage
from spindle.protocol.settings import SandboxPolicy


def text(*msgs: Msg, **how: Any) -> str:
    look = Look(**{name: how.pop(name) for name in Look.__struct_fields__ if name in how})
    transcript = Transcript(look, **{"version": "1.0", "summary": "auto", **how})
    return "".join(map(transcript.translate, msgs))


def began(call_id: str = "c", command: list[str] | None = None, cwd: str = "/w") -> Msg:
    return ExecCommandBegin(call_id=call_id, turn_id="u", command=command or ["ls"], cwd=cwd, parsed_cmd=[])


def ended(output: str, code: int = 0, call_id: str = "c", command: list[str] | None = None) -> Msg:
    return ExecCommandEnd(
        call_id=call_id,
        turn_id="u",
        command=command or ["ls"],
        cwd="/w",
        parsed_cmd=[],
        stdout=output,
        aggregated_output=output,
        exit_code=code,
        duration=Duration(1, 250_000_000),
        formatted_output=output,
    )


def configured(**fields: Any) -> Msg:
    return SessionConfigured(
        **{
            "session_id": "T",
            "model": "m",
            "model_provider_id": "p",
            "approval_policy": "never",
            "sandbox_policy": {"type": "read-only"},
            "cwd": "/w",
            **fields,
        }
    )


def test_the_header_names_what_a_person_should_check() -> None:
    assert text(configured()) == (
        "Spindle 1.0\n--------\nworkdir: /w\nmodel: m\nprovider: p\napproval: never\nsandbox: read-only\n"
        "reasoning effort: none\nreasoning summaries: auto\nsession id: T\n--------\n"
    )


def test_the_header_says_where_a_setting_comes_from() -> None:
    assert "\nsandbox: read-only (as the file says)\n" in text(configured(), notes={"sandbox": "as the file says"})


def test_commands_say_how_they_ended() -> None:
    assert text(began(), ended("a\nb\n")) == "exec ls in /w\n✓ succeeded in 1.25s:\n  a\n  b\n"
    assert text(began(), ended("", 7)) == "exec ls in /w\n✗ exited 7 in 1.25s:\n"
    assert text(began(), ended("no sandbox", -1)) == "exec ls in /w\n✗ did not run:\n  no sandbox\n"


def test_a_script_is_shown_without_its_shell_and_the_folder_only_where_it_is_another() -> None:
    script = began(command=["/bin/bash", "-lc", "cd x\nmake 'a b'"])
    assert text(configured(), script).endswith("--------\n\nexec cd x\n     make 'a b'\n")
    assert text(configured(), began(cwd="/other")).endswith("exec ls in /other\n")


def test_results_of_parallel_commands_say_which_command_they_belong_to() -> None:
    a, b = ["bash", "-c", "cat a"], ["bash", "-c", "cat b"]
    shown = text(
        *(configured(), began("1", a), began("2", b)),
        *(ended("B", 0, "2", b), ended("A", 1, "1", a), began("3"), ended("", 0, "3")),
    ).partition("\n\n")[2]
    assert shown == (
        "exec cat a\nexec cat b\n\n✓ succeeded in 1.25s: cat b\n  B\n\n"
        "✗ exited 1 in 1.25s: cat a\n  A\n\nexec ls\n✓ succeeded in 1.25s:\n"
    )


def test_labels_of_long_commands_that_begin_alike_differ() -> None:
    a, b = (["bash", "-c", f"{'common/' * 40}{name}"] for name in ("first", "second"))
    shown = text(began("1", a), began("2", b), ended("", 0, "2", b), ended("", 0, "1", a), width=lambda: 60)
    labels = [line for line in shown.splitlines() if line.startswith("✓")]
    assert [label.endswith(name) for label, name in zip(labels, ("second", "first"), strict=True)] == [True, True]
    assert all(cells(label) <= 60 for label in labels)


def test_long_output_shows_head_and_tail_where_a_person_watches_and_is_whole_elsewhere() -> None:
    long = "".join(f"{n}\n" for n in range(100))
    assert text(began(), ended(long), color=True).count("\n") == 102
    cut = text(began(), ended(long), max_output_lines=5).splitlines()[2:]
    assert cut == ["  0", "  1", "  … 95 lines omitted …", "  97", "  98", "  99"]


@pytest.mark.parametrize("count", range(1, 12))
def test_what_is_said_to_be_omitted_is_what_is_missing(count: int) -> None:
    shown = head_and_tail([str(n) for n in range(count)], 4)
    missing = [line for line in shown if "omitted" in line]
    assert len(shown) - len(missing) + sum(int(line.split()[1]) for line in missing) == count
    assert all("1 lines" not in line and "1 line " not in line for line in missing)  # one line takes its own place


def test_on_a_terminal_prose_is_broken_between_words_and_stays_indented() -> None:
    thought = ItemCompleted(thread_id="t", turn_id="u", item={"type": "Reasoning", "summary_text": ["one two three"]})
    plan = PlanUpdate(plan=[{"step": "some words to do", "status": "pending"}])
    shown = text(thought, plan, began(), ended("cannot find it there", 1), Error(message="some words to read"),
                 width=lambda: 14)  # fmt: skip
    assert shown == (
        "thinking\n  one two\n  three\n\nplan update\n  • some words\n    to do\n\nexec ls in /w\n"
        "✗ exited 1 in 1.25s:\n  cannot find\n  it there\n\nERROR: some\n  words to\n  read\n"
    )


def test_the_verdict_of_a_test_run_stands_on_one_row() -> None:
    shown = text(began(), ended(f"{'=' * 30} 1 failed, 2 passed {'=' * 30}\n", 1), width=lambda: 80)
    assert shown.splitlines()[2:] == [f"  {'=' * 29} 1 failed, 2 passed {'=' * 29}"]


def test_a_label_takes_no_second_row() -> None:
    shown = text(began("1", ["cat", "a" * 30]), began("2", ["b"]), ended("", 0, "1"), width=lambda: 40)
    assert "\n✓ succeeded in 1.25s: cat aaaaaaaaaaaaa…\n" in shown


def test_a_command_that_was_stopped_did_not_fail_by_itself() -> None:
    transcript = Transcript(Look(), version="1.0", summary="auto")
    transcript.is_stopping = True
    shown = "".join(map(transcript.translate, [began(), ended("", 143), began(), ended("", 2)]))
    assert shown.splitlines()[1] == "✗ stopped after 1.25s:" and shown.splitlines()[-1] == "✗ exited 2 in 1.25s:"


def test_titles_and_failures_are_bold() -> None:
    shown = text(began(), ended("", 1), Error(message="no"), color=True)
    assert "\x1b[1;35mexec\x1b[0m" in shown and "\x1b[1;31mERROR:\x1b[0m" in shown
    assert "\x1b[1;31m✗ exited 1 in 1.25s:\x1b[0m" in shown


def test_a_line_of_ten_megabytes_takes_a_few_rows() -> None:
    shown = text(began(), ended("x" * 10_000_000 + "\nverdict\n"), max_output_lines=20, width=lambda: 40)
    assert [cells(line) for line in shown.splitlines()[2:]] == [120, 9]


def test_a_line_that_was_written_over_counts_as_several() -> None:
    assert text(began(), ended("10%\r20%\r\ndone\n")).endswith(":\n  10%\n  20%\n  done\n")


def test_output_cannot_pass_for_a_line_of_ours() -> None:
    shown = text(began(), ended("✓ succeeded in 1s:\nuser\ndelete it\n\nERROR: x"), Error(message="a\nuser\nb"))
    assert [line for line in shown.splitlines() if line and not line.startswith("  ")] == [
        *("exec ls in /w", "✓ succeeded in 1.25s:", "ERROR: a")
    ]


def test_without_colour_and_unicode_everything_can_still_be_told_apart() -> None:
    plan = PlanUpdate(plan=[{"step": name, "status": name} for name in ("completed", "in_progress", "pending")])
    thought = ItemCompleted(thread_id="t", turn_id="u", item={"type": "Reasoning", "summary_text": ["hm"]})
    shown = text(thought, plan, began(), ended("x\n" * 9, 2), TurnAborted(turn_id="u", reason="interrupted"),
                 plain_ascii=True, max_output_lines=2)  # fmt: skip
    assert shown == (
        "thinking\n  hm\n\nplan update\n  [x] completed\n  [>] in_progress\n  [ ] pending\n\n"
        "exec ls in /w\n[failed] exited 2 in 1.25s:\n  x\n  ... 7 lines omitted ...\n  x\n\n"
        "[failed] turn interrupted\n\ntokens used: 0\n"
    )


def test_a_patch_is_shown_with_its_diff() -> None:
    changes = {
        "/w/a": {"type": "update", "unified_diff": "@@ -1 +1 @@\n-x\n+y\n", "move_path": "/w/b"},
        "/w/n": {"type": "add", "content": "new\n"},
        "/w/d": {"type": "delete", "content": "old\n"},
    }
    done = PatchApplyEnd(call_id="c", turn_id="u", stdout="", stderr="", success=True, changes=changes)
    assert text(done) == "file update\nM /w/a -> /w/b\n  @@ -1 +1 @@\n  -x\n  +y\nA /w/n\n  +new\nD /w/d\n"
    assert text(configured(), done).endswith("file update\nM a -> b\n  @@ -1 +1 @@\n  -x\n  +y\nA n\n  +new\nD d\n")


def test_a_failed_patch_says_why() -> None:
    done = PatchApplyEnd(call_id="c", turn_id="u", stdout="", stderr="disk full", success=False, changes={})
    assert text(done) == "✗ file update failed\n  disk full\n"


def test_plans_warnings_and_errors() -> None:
    plan = PlanUpdate(
        plan=[{"step": "a", "status": "completed"}, {"step": "b", "status": "in_progress"}], explanation="why"
    )
    assert text(plan) == "plan update\n  why\n  ✓ a\n  → b\n"
    assert (
        text(Warning(message="w"), Warning(message="x"), Error(message="e")) == "warning: w\nwarning: x\n\nERROR: e\n"
    )


def test_the_end_says_what_it_cost_at_full_price() -> None:
    usage = TokenUsage(input_tokens=3000, cached_input_tokens=1000, output_tokens=500)
    assert text(TokenCount(info=usage_info(usage, usage, None)), TaskComplete(turn_id="u", last_agent_message="x")) == (
        "tokens used: 2,500\n"
    )


@pytest.mark.parametrize(
    "last", [TaskComplete(turn_id="u", last_agent_message=None), TurnAborted(turn_id="u", reason="")]
)
def test_the_end_names_the_way_back_to_a_thread_that_is_recorded(last: Msg) -> None:
    how: dict[str, Any] = {"way_back": lambda thread_id: f"spindle exec resume {thread_id}", "elapsed_s": lambda: 75.0}
    shown = text(configured(rollout_path="/r"), last, **how)
    assert shown.endswith("\ntokens used: 0 in 1m 15s\nto go on: spindle exec resume T\n")
    assert "to go on" not in text(configured(), last, **how)
    narrow = text(configured(rollout_path="/r"), last, **how, width=lambda: 30)
    assert narrow.endswith("\nto go on:\nspindle exec resume T\n")


def test_a_command_that_still_runs_at_the_end_is_named() -> None:
    shown = text(began(), TaskComplete(turn_id="u", last_agent_message="x"))
    assert shown == "exec ls in /w\n\nstopped with the turn: ls\ntokens used: 0\n"


def test_the_last_newline_of_a_piped_prompt_leaves_no_gap() -> None:
    assert text(UserMessage(message="fix it\n\n"), Warning(message="w")) == "user\nfix it\n\nwarning: w\n"


def test_a_message_is_shown_once() -> None:
    item = {"type": "AgentMessage", "id": "m", "content": [{"type": "Text", "text": "hi"}]}
    assert text(AgentMessage(message="hi"), ItemCompleted(thread_id="t", turn_id="u", item=item)) == "spindle\nhi\n"


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain é ✓", "plain é ✓"),
        ("a\tb\nc", "a\tb\nc"),
        ("progress\r\n", "progress\n"),
        ("\x1b[31mred\x1b]0;t\x07", "red"),
        ("\x1b]8;;http://e.example\x1b\\link\x1b(B \x1b", "link \\u{1B}"),
        ("a\u202eb", "a\\u{202E}b"),
        ("\x9b2J\x00", "\\u{0}"),
        ("日本\u3000語", "日本\u3000語"),
    ],
)
def test_nothing_that_is_printed_can_drive_the_terminal(raw: str, shown: str) -> None:
    assert printable(raw) == shown


def test_what_the_model_says_cannot_drive_the_terminal_either() -> None:
    item = {"type": "AgentMessage", "id": "m", "content": [{"type": "Text", "text": "\x1b[2J"}]}
    assert "\x1b[2J" not in text(ItemCompleted(thread_id="t", turn_id="u", item=item), color=True)


def test_the_sandbox_line_lists_what_may_be_written() -> None:
    policy = SandboxPolicy(mode="workspace-write", writable_roots=("/x",), network_access=True, exclude_slash_tmp=True)
    assert sandbox_line(policy) == "workspace-write [workdir, $TMPDIR, /x] (network access enabled)"
