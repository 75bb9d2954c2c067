"""What is said: messages of the person, answers while they stream and after, reasoning, proposed plans."""

from __future__ import annotations

import pytest

from spindle.frontends.tui.shown import texts
from spindle.protocol import events as v1
from spindle.protocol.questions import PlanDelta
from tui.cells.told import Told, begin, delta, done, end, item, said, tokens


def user(text: str, *pictures: str) -> v1.UserMessage:
    return v1.UserMessage(message=text, local_images=list(pictures))


def plan_delta(text: str) -> PlanDelta:
    return PlanDelta(thread_id="th", turn_id="t1", item_id="p1", delta=text)


def test_a_message_of_the_person_is_shown_whole() -> None:
    assert Told().take(user("first\n\tsecond  part\n\nthird")) == ["› first", "  \tsecond  part", "  third"]


def test_a_message_of_hundreds_of_lines_is_folded_and_says_that_all_was_sent() -> None:
    told = Told()
    shown = told.take(user("\n".join(f"row {number}" for number in range(300))))
    assert shown[0] == "› row 0"
    assert shown[-1] == "  row 299"
    assert "  … 250 lines more, all of them sent" in shown
    assert len(told.whole()) == 300


def test_pictures_are_named() -> None:
    assert Told().take(user("look", "/a.png", "/b.png")) == ["› look", "  [Image #1]", "  [Image #2]"]
    assert Told().take(user("look at [Image #1]", "/a.png")) == ["› look at [Image #1]"]


def test_finished_blocks_go_to_the_scrollback_while_the_answer_streams() -> None:
    told = Told()
    assert told.take(delta("A first para")) == []
    assert told.live() == ["• A first para"]
    assert told.take(delta("graph.\n\nA sec")) == ["• A first paragraph."]
    assert told.live() == ["  A sec"]
    assert told.take(delta("ond one."), said("A first paragraph.\n\nA second one.")) == ["  A second one."]
    assert told.live() == []
    assert told.conversation.last_answer == "A first paragraph.\n\nA second one."
    assert told.whole() == ["• A first paragraph.", "  A second one."]


def test_every_line_of_an_answer_is_given_once_and_in_order_however_it_arrives() -> None:
    text = "\n\n".join(
        f"Paragraph {number} of many words.\n\n- one\n- two\n\n```\ncode {number}\n```" for number in range(20)
    )
    whole = Told()
    expected = whole.take(said(text))
    for size in (1, 7, 64):
        told = Told()
        given: list[str] = []
        for start in range(0, len(text), size):
            given += told.take(delta(text[start : start + size]))
        assert given + told.take(said(text)) == expected


def test_an_answer_that_comes_whole_is_shown() -> None:
    assert Told().take(said("**Hello** there")) == ["• Hello there"]


def test_an_empty_answer_is_nothing() -> None:
    told = Told()
    assert told.take(said("  \n")) == []
    assert told.take(delta(" "), said(" ")) == []
    assert told.whole() == []


def test_a_final_text_that_differs_from_what_was_shown_is_printed_again_and_says_so() -> None:
    told = Told()
    assert told.take(delta("The sum is 4.\n\nAnd so")) == ["• The sum is 4."]
    shown = told.take(said("The sum is 5.\n\nAnd so on."))
    assert shown == [
        "⚠ The whole message differs from what was shown above. It reads:",
        "• The sum is 5.",
        "  And so on.",
    ]


def test_a_final_text_that_differs_only_in_what_nobody_saw_is_simply_shown() -> None:
    told = Told()
    told.take(delta("The sum is 4.\n\nAnd s"))
    assert told.take(said("The sum is 4.\n\nOr not.")) == ["  Or not."]


def test_half_an_answer_of_a_retried_request_leaves_the_live_area() -> None:
    told = Told()
    told.begin_turn()
    told.take(delta("half an ans"))
    assert told.take(v1.StreamError(message="Reconnecting... 1/5 (cut)", additional_details="cut")) == []
    assert told.live() == []
    assert told.take(delta("whole", "m2"), said("whole", "m2")) == ["• whole"]


def test_half_an_answer_in_the_scrollback_is_marked_as_abandoned() -> None:
    told = Told()
    told.begin_turn()
    assert told.take(delta("One.\n\nTwo is ha")) == ["• One."]
    shown = told.take(v1.StreamError(message="Reconnecting... 1/5 (cut)", additional_details="cut"))
    assert shown == ["  ⚠ The connection broke: the words above do not count, the answer begins again."]
    assert told.take(delta("One.\n\nTwo.", "m2"), said("One.\n\nTwo.", "m2")) == ["• One.", "  Two."]


def test_an_interrupted_answer_keeps_what_was_seen_of_it() -> None:
    told = Told()
    told.begin_turn()
    told.take(delta("One.\n\nTwo is ha"))
    shown = told.take(v1.TurnAborted(turn_id="t1", reason="interrupted"))
    assert shown == ["  Two is ha", "■ Turn interrupted. Say what to do instead."]
    assert told.live() == []


def test_what_is_done_while_an_answer_streams_waits_for_its_end() -> None:
    told = Told()
    told.take(begin("make"), delta("One.\n\nTwo"))
    assert told.take(end("make", "ok\n")) == []
    assert told.live() == ["  Two", "• Ran make (200ms)", "  └ ok"]
    assert told.take(said("One.\n\nTwo.")) == ["  Two.", "• Ran make (200ms)", "  └ ok"]


def test_a_command_that_runs_does_not_hold_an_answer_back() -> None:
    told = Told()
    told.take(begin("sleep 600"))
    assert told.take(delta("One.\n\nTwo")) == ["• One."]
    assert told.live() == ["  Two", "• Running sleep 600"]


def test_text_of_the_model_cannot_drive_the_terminal() -> None:
    told = Told()
    shown = "\n".join([*told.take(said("a\x1b[2Jb \u202ec")), *told.take(user("\x1b]0;x\x07"))])
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "a" in shown and "b" in shown and "c" in shown


def test_answers_can_be_shown_as_they_were_written() -> None:
    told = Told()
    told.conversation.is_raw = True
    text = "# Title\n\n- **one**\n\n```py\n  x = 1\n```\nend"
    given = told.take(delta("# Title\n\n- **o"))
    assert given == ["# Title"]
    assert told.live() == ["- **o"]
    given += told.take(delta(text[len("# Title\n\n- **o") :]), said(text))
    assert given == [row for row in text.split("\n") if row]
    assert told.whole() == given
    told.take(delta("One.\nTw", "m2"))
    assert told.take(said("Zwei.", "m2"))[-1] == "Zwei.", "printed again under a line that says so"


# ---- plans ---------------------------------------------------------------------------------------


def test_a_checklist_is_updated_in_place_until_the_model_speaks() -> None:
    told = Told()
    told.begin_turn()
    steps = [{"step": "Look", "status": "in_progress"}, {"step": "Mend", "status": "pending"}]
    assert told.take(v1.PlanUpdate(plan=steps, explanation="First things first")) == []
    assert told.live() == ["• Plan (0/2 done)", "  First things first", "  ▶ Look", "  □ Mend"]
    steps = [{"step": "Look", "status": "completed"}, {"step": "Mend", "status": "in_progress"}]
    told.take(v1.PlanUpdate(plan=steps))
    assert told.live() == ["• Plan (1/2 done)", "  ✔ Look", "  ▶ Mend"]
    assert told.take(delta("Done."), said("Done.")) == ["• Plan (1/2 done)", "  ✔ Look", "  ▶ Mend", "• Done."]
    assert told.live() == []


def test_a_checklist_is_printed_at_the_end_of_the_turn() -> None:
    told = Told()
    told.begin_turn()
    told.take(v1.PlanUpdate(plan=[{"step": "Look", "status": "completed"}]))
    assert told.take(done())[:2] == ["• Plan (1/1 done)", "  ✔ Look"]


def test_a_proposed_plan_has_a_cell_of_its_own() -> None:
    told = Told()
    told.begin_turn()
    assert told.take(plan_delta("# Steps\n\n1. Look\n")) == ["• Proposed plan", "  Steps"]
    assert told.take(item("Plan", "p1", text="# Steps\n\n1. Look\n")) == ["  1. Look"]
    assert told.conversation.last_plan == "# Steps\n\n1. Look\n"
    told.begin_turn()
    assert told.conversation.last_plan == ""


# ---- reasoning -----------------------------------------------------------------------------------


def reasoning(text: str) -> v1.ReasoningContentDelta:
    return v1.ReasoningContentDelta(thread_id="th", turn_id="t1", item_id="r1", delta=text)


def test_the_headline_of_a_summary_is_what_the_status_row_says() -> None:
    told = Told()
    told.begin_turn()
    assert told.doing() == "Working"
    told.take(reasoning("**Looking at"))
    assert told.doing() == "Looking at"
    told.take(reasoning(" the tests**\n\nThey fail because"))
    assert told.doing() == "Looking at the tests"
    told.take(v1.AgentReasoningSectionBreak(), reasoning("**Mending them**"))
    assert told.doing() == "Mending them"
    told.take(delta("Here"))
    assert told.doing() == "Working"


def test_a_summary_that_comes_whole_has_a_headline_too() -> None:
    told = Told()
    told.begin_turn()
    assert told.take(item("Reasoning", "r1", summary_text=["**Pondering the matter** more"], raw_content=[])) == []
    assert told.doing() == "Pondering the matter"
    assert told.whole() == ["• Pondering the matter more"]


def test_a_headline_lasts_through_the_calls_of_its_response_and_no_longer() -> None:
    told = Told()
    told.begin_turn()
    told.take(reasoning("**Looking at the tests**"), begin("make"))
    assert told.doing() == "Looking at the tests"
    told.take(end("make"), tokens(10))
    assert told.doing() == "Working"


def test_a_summary_without_bold_words_shows_its_last_line() -> None:
    told = Told()
    told.begin_turn()
    told.take(reasoning("First this.\nThen that"))
    assert told.doing() == "Then that"


def test_hidden_reasoning_is_nowhere() -> None:
    told = Told(hides_reasoning=True)
    told.begin_turn()
    told.take(reasoning("**Secret**"), item("Reasoning", "r1", summary_text=["**Secret**"], raw_content=["raw"]))
    assert told.doing() == "Working"
    assert told.whole() == []


@pytest.mark.parametrize("shows", [True, False])
def test_raw_reasoning_is_shown_only_if_wanted(shows: bool) -> None:
    told = Told(shows_raw_reasoning=shows)
    told.take(item("Reasoning", "r1", summary_text=["Short"], raw_content=["The long story"]))
    assert ("The long story" in "\n".join(told.whole())) is shows


def test_cells_stand_apart_by_one_empty_line() -> None:
    told = Told()
    told.take(user("hello"))
    told.conversation.take(v1.Event("t1", delta("One.\n\nTwo.\n\nThr")))
    lines = texts(told.lines())
    told.conversation.take(v1.Event("t1", said("One.\n\nTwo.\n\nThree.")))
    lines += texts(told.lines())
    assert lines == ["", "• One.", "", "  Two.", "", "  Three."]
