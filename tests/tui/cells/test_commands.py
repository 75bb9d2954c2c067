"""Commands: while they run, when they are over, when they were refused, in groups and in the background."""

from __future__ import annotations

import pytest

from spindle.frontends.tui.cells import running_commands
from spindle.frontends.tui.cells.commands import TAIL_BYTES, Command
from spindle.protocol import events as v1
from tui.cells.told import CWD, Told, begin, done, end, printed, tokens

MANY = "".join(f"line {number}\n" for number in range(1, 101))


def test_a_command_shows_itself_its_output_and_how_long_it_took() -> None:
    told = Told()
    assert told.take(begin("make all")) == []
    assert told.live() == ["• Running make all"]
    told.clock.advance(12.4)
    assert told.live() == ["• Running make all (12s)"]
    assert told.take(end("make all", "one\ntwo\n", took_s=12.4)) == ["• Ran make all (12.4s)", "  └ one", "    two"]
    assert told.live() == []
    assert told.finished() == []


def test_of_a_long_output_the_first_and_last_lines_are_shown() -> None:
    told = Told()
    assert told.take(begin("seq"), end("seq", MANY)) == [
        "• Ran seq (200ms)",
        "  └ line 1",
        "    line 2",
        "    … +96 lines",
        "    line 99",
        "    line 100",
    ]


def test_lines_that_are_not_kept_are_counted_too() -> None:
    told = Told()
    told.take(begin("seq"))
    for start in range(1, 100_001, 5_000):
        told.take(printed("".join(f"line {number}\n" for number in range(start, start + 5_000))))
    every = "".join(f"line {number}\n" for number in range(1, 100_001))
    assert told.take(end("seq", every[:5_000] + every[-5_000:]))[3] == "    … +99,996 lines"
    assert Told().take(end("seq", every))[3] == "    … +99,996 lines or more", "the engine keeps no more of a flood"


def test_five_lines_of_output_are_shown_whole() -> None:
    assert len(Told().take(end("seq 5", "1\n2\n3\n4\n5\n"))) == 6


def test_of_a_long_command_five_lines_are_shown_and_the_rest_is_counted() -> None:
    script = "\n".join(f"step {number}" for number in range(1, 9))
    told = Told()
    assert told.take(begin(script), end(script)) == [
        "• Ran step 1",
        *(f"  │ step {number}" for number in range(2, 6)),
        "  │ … +3 lines (200ms)",
        "  └ (no output)",
    ]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (3, "(exit 3, 200ms)"),
        (143, "(killed by SIGTERM, exit 143, 200ms)"),
        (137, "(killed by SIGKILL, exit 137, 200ms)"),
        (124, "(timed out, exit 124, 200ms)"),
        (255, "(exit 255, 200ms)"),
    ],
)
def test_how_a_command_failed_is_said_in_words(code: int, words: str) -> None:
    assert Told().take(end("make", "oops\n", code)) == [f"✗ Ran make {words}", "  └ oops"]


def test_a_command_that_was_refused_never_reads_as_if_it_had_run() -> None:
    told = Told()
    shown = told.take(begin("rm -rf /"), end("rm -rf /", "the policy forbids it", -1))
    assert shown == ["✗ Not run: rm -rf /", "  └ the policy forbids it"]
    assert told.live() == []


def test_a_refused_command_that_would_only_look_is_no_exploration() -> None:
    told = Told()
    assert told.take(begin("cat a.py"), end("cat a.py", "not allowed", -1)) == [
        "✗ Not run: cat a.py",
        "  └ not allowed",
    ]


def test_live_output_is_the_last_lines() -> None:
    told = Told()
    told.take(begin("make"), printed("a\nb\nc\n"), printed("d\nhalf a li"))
    assert told.live() == ["• Running make", "  └ c", "    d", "    half a li"]


def test_a_progress_bar_shows_its_last_state() -> None:
    told = Told()
    told.take(begin("make"), printed("10 %\r50 %\r90 %"))
    assert told.live() == ["• Running make", "  └ 90 %"]


def test_a_flood_of_output_keeps_a_few_kilobytes_and_is_redrawn_a_few_times_a_second() -> None:
    told = Told()
    told.take(begin("yes"))
    command = told.conversation.commands.waited_for["c1"]
    shown = set()
    for number in range(2000):
        told.take(printed(f"{number} {'x' * 90}\n" * 10))
        told.clock.advance(0.001)
        shown.add(tuple(told.live()))
    assert command.tail is not None
    assert len(command.tail._held) <= TAIL_BYTES  # pyright: ignore[reportPrivateUsage]
    assert len(shown) <= 2 + 2 / 0.2 + 2  # two seconds, five states a second, and the elapsed time


def test_output_cannot_drive_the_terminal() -> None:
    shown = Told().take(end("x", "\x1b]0;evil\x07\x1b[2Jred \x1b[31mtext\x1b[0m\x07\n"))
    assert shown[1:] == ["  └ red text"]


def test_an_endless_line_is_cut() -> None:
    (_, row, *_) = shown = Told().take(end("x", "y" * 500_000))
    assert max(map(len, shown)) < 600
    assert row.endswith("…")


def test_an_endless_command_is_cut() -> None:
    (head, _) = Told().take(end("echo " + "y" * 500_000))
    assert len(head) < 1100


def test_of_a_huge_output_the_ends_are_kept() -> None:
    told = Told()
    told.take(end("x", "".join(f"line {number}\n" for number in range(100_000))))
    whole = told.whole()
    assert whole[1] == "  └ line 0"
    assert whole[-1] == "    line 99999"
    assert any("characters not kept" in row for row in whole)
    assert sum(map(len, whole)) < 500_000


def test_all_outputs_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_commands, "KEPT_OUTPUTS", 50_000)
    told = Told()
    for number in range(20):
        told.take(end("x", f"begin {number}\n" + "y\n" * 4000 + f"end {number}", call_id=str(number)))
    sizes = [len(cell.output) for cell in told.conversation.stage.cells if isinstance(cell, Command)]
    assert max(sizes[:10]) < 3000
    assert min(sizes[-5:]) > 8000
    assert "    end 0" in told.whole()


def test_commands_that_only_look_are_one_cell() -> None:
    told = Told()
    assert told.take(begin("cat a.py"), end("cat a.py", "x"), begin("cat b.py", "c2")) == []
    assert told.live() == ["• Exploring", "  └ Read a.py, b.py"]
    told.take(end("cat b.py", "x", call_id="c2"), begin("rg needle src", "c3"), end("rg needle src", "x", call_id="c3"))
    assert told.take(begin("ls docs", "c4"), end("ls docs", "x", call_id="c4")) == []
    assert told.take(begin("ls", "c6"), end("ls", "x", call_id="c6")) == []
    assert told.take(begin("make", "c5")) == [
        "• Explored",
        "  └ Read a.py, b.py",
        "    Search needle in src",
        "    List docs",
        "    List .",
    ]
    assert told.live() == ["• Running make"]


def test_a_look_that_failed_says_so() -> None:
    told = Told()
    told.take(begin("cat a.py"), end("cat a.py", "cat: a.py: No such file\n", 1))
    told.take(begin("rg needle", "c2"), end("rg needle", "", 1, "c2"))
    assert told.take(done())[:3] == [
        "• Explored",
        "  └ Read a.py (exit 1: cat: a.py: No such file)",
        "    Search needle (nothing found)",
    ]


def test_commands_appear_in_the_order_in_which_they_are_over() -> None:
    """A command that takes long holds nothing back: it is in the live area."""
    told = Told()
    told.take(begin("sleep 600"), begin("make", "c2"))
    assert told.live() == ["• Running sleep 600", "• Running make"]
    assert told.take(end("make", "ok", call_id="c2"))[0] == "• Ran make (200ms)"
    assert told.live() == ["• Running sleep 600"]


def test_a_command_that_the_model_leaves_running_goes_to_the_background() -> None:
    told = Told()
    told.begin_turn()
    told.take(begin("npm start", process_id="7"))
    assert told.take(tokens(10)) == ["• Runs in the background: npm start"]
    told.clock.advance(5)
    assert told.live() == ["• Running in the background npm start (5s)"]
    assert [command.script for command in told.conversation.commands.background.values()] == ["npm start"]
    told.take(done())
    assert told.live() == []
    assert told.take(end("npm start", "bye\n", took_s=90)) == ["• Ran npm start (1m 30s)", "  └ bye"]
    assert not told.conversation.commands.background


def test_tokens_that_a_sub_agent_spends_do_not_send_a_command_to_the_background() -> None:
    told = Told()
    told.take(begin("npm start", process_id="7"))
    assert told.take(tokens(10), sub_id="") == []
    assert told.live() == ["• Running npm start"]


def test_what_is_typed_into_a_command_is_a_line() -> None:
    told = Told()
    told.take(begin("python", process_id="7"), tokens(1))
    shown = told.take(v1.TerminalInteraction(call_id="c1", process_id="7", stdin="print(1)\n"))
    assert shown == ["• Typed into python: print(1)"]


def test_a_command_of_the_person_says_so_and_shows_more_of_its_output() -> None:
    told = Told()
    told.begin_turn()
    told.take(begin("seq 40", source="user_shell"))
    shown = told.take(end("seq 40", "x\n" * 40, source="user_shell"), done())
    assert shown[0] == "• You ran seq 40 (200ms)"
    assert len(shown) == 41, "no line for the end of the turn: the command has its time already"


def test_a_command_elsewhere_names_its_folder() -> None:
    (head, _) = Told().take(end("make", "x", cwd=f"{CWD}/sub"))
    assert head == "• Ran make in sub (200ms)"


def test_what_still_runs_when_the_turn_is_aborted_was_stopped_with_it() -> None:
    told = Told()
    told.begin_turn()
    told.take(begin("make"))
    told.clock.advance(3)
    shown = told.take(v1.TurnAborted(turn_id="t1", reason="interrupted"))
    assert shown[0] == "✗ Ran make (stopped with the turn, 3.0s)"
    assert told.live() == []
