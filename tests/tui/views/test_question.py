"""Questions of the model, as a person answers them."""

from __future__ import annotations

from typing import Any

from spindle.frontends.tui.shown import texts
from spindle.frontends.tui.views.question import QuestionView
from spindle.protocol.ops import Interrupt, UserInputAnswer
from spindle.protocol.questions import RequestUserInput
from tui.hands import OPEN, answer, press, shown, write

COLOUR = {
    "id": "q1",
    "header": "Colour",
    "question": "Which colour then?",
    "isOther": True,
    "options": [
        {"label": "Red-one", "description": "warm-desc"},
        {"label": "Blue-two", "description": "cold-desc"},
    ],
}
SIZE = {"id": "q2", "header": "Size", "question": "How big?", "options": None}


def ask(*questions: dict[str, Any]) -> QuestionView:
    return QuestionView(RequestUserInput(call_id="c1", turn_id="t", questions=list(questions)))


def answers(view: QuestionView) -> Any:
    reply = answer(view)
    assert isinstance(reply.op, UserInputAnswer) and reply.op.id == "c1"
    return reply.op.response["answers"]


async def test_a_question_shows_its_number_options_and_a_way_out() -> None:
    view = ask(COLOUR)
    seen = shown(view)
    assert seen[:2] == ["Which colour then?", "Question 1 of 1 · Colour"]
    assert "› 1. Red-one            warm-desc" in seen and "  2. Blue-two           cold-desc" in seen
    assert "  3. None of the above  say what instead" in seen
    assert view.guards_typing


async def test_an_answer_is_the_label() -> None:
    view = ask(COLOUR)
    press(view, "down", "enter")
    assert answers(view) == {"q1": {"answers": ["Blue-two"]}}
    assert texts(answer(view).record) == ["? Which colour then?", "  ✔ Blue-two"]


async def test_a_digit_answers_at_once() -> None:
    view = ask(COLOUR)
    press(view, "2")
    assert answers(view) == {"q1": {"answers": ["Blue-two"]}}


async def test_the_answer_that_a_note_is_written_for_is_marked() -> None:
    view = ask(COLOUR)
    press(view, "3")
    assert "› 3. None of the above  say what instead" in shown(view)
    write(view, "green")
    press(view, "enter")
    assert answers(view) == {"q1": {"answers": ["None of the above", "user_note: green"]}}


async def test_tab_adds_a_note_to_the_highlighted_answer() -> None:
    view = ask(COLOUR)
    press(view, "down", "tab")
    write(view, "but pale 1")
    seen = shown(view)
    assert "Notes:" in seen and "> but pale 1" in seen
    row, column = view.cursor() or (0, 0)
    assert seen[row] == "> but pale 1" and column == len("> but pale 1")
    press(view, "enter")
    assert answers(view) == {"q1": {"answers": ["Blue-two", "user_note: but pale 1"]}}


async def test_none_of_the_above_asks_for_words_and_may_go_without() -> None:
    view = ask(COLOUR)
    press(view, "3")
    assert answer(view) == OPEN
    view.paste("green\nplease")
    press(view, "enter")
    assert answers(view) == {"q1": {"answers": ["None of the above", "user_note: green please"]}}
    view = ask(COLOUR)
    press(view, "3", "enter")
    assert answers(view) == {"q1": {"answers": ["None of the above"]}}


async def test_words_of_ones_own_are_an_answer_beside_those_that_are_offered() -> None:
    view = ask(COLOUR)
    view.paste("green, please")
    press(view, "enter")
    assert answers(view) == {"q1": {"answers": ["None of the above", "user_note: green, please"]}}


async def test_esc_leaves_the_notes_first_and_then_stops_the_turn() -> None:
    view = ask(COLOUR)
    press(view, "tab", "x", "esc")
    assert answer(view) == OPEN
    press(view, "esc")
    assert answer(view).op == Interrupt()
    for view in (ask(COLOUR), ask(SIZE)):
        press(view, "ctrl-c")
        assert answer(view).op == Interrupt()


async def test_several_questions_come_one_after_another() -> None:
    view = ask(COLOUR, SIZE)
    assert "Question 1 of 2 · Colour" in shown(view)
    press(view, "1")
    assert shown(view)[:2] == ["How big?", "Question 2 of 2 · Size"]
    press(view, "enter")
    assert answer(view) == OPEN
    write(view, "12 m")
    press(view, "enter")
    assert answers(view) == {"q1": {"answers": ["Red-one"]}, "q2": {"answers": ["user_note: 12 m"]}}


async def test_one_can_go_back_to_an_earlier_question() -> None:
    view = ask(COLOUR, {**COLOUR, "id": "q3", "question": "And the other?"})
    press(view, "1", "left")
    assert shown(view)[0] == "Which colour then?"
    press(view, "2")
    assert shown(view)[0] == "And the other?"
    press(view, "1")
    assert answers(view) == {"q1": {"answers": ["Blue-two"]}, "q3": {"answers": ["Red-one"]}}


async def test_a_skipped_question_is_come_back_to() -> None:
    view = ask(COLOUR, {**COLOUR, "id": "q3", "question": "And the other?"})
    press(view, "right", "1")
    assert shown(view)[0] == "Which colour then?"
    press(view, "1")
    assert set(answers(view)) == {"q1", "q3"}


async def test_a_secret_is_never_shown() -> None:
    view = ask({"id": "s", "question": "Password?", "isSecret": True, "options": None})
    write(view, "hunter2")
    assert "hunter2" not in "\n".join(shown(view)) and "> •••••••" in shown(view)
    press(view, "enter")
    assert answers(view) == {"s": {"answers": ["user_note: hunter2"]}}
    assert "hunter2" not in "\n".join(texts(answer(view).record))


async def test_options_of_others_drive_no_terminal_and_fit_every_room() -> None:
    hostile = {
        "id": "q",
        "header": "h\x1b[2J",
        "question": "long \u202e words " * 30,
        "options": [{"label": "l\x1b]0;x\x07", "description": "d " * 200}],
    }
    for width in (8, 20, 60, 100):
        for height in (2, 3, 5, 9, 24):
            view = ask(hostile)
            text = "\n".join(shown(view, width, height))
            assert not any(char in text for char in "\x1b\x07\u202e") and "›" in text
            press(view, "tab", "x")
            assert any(row.startswith("> x") for row in shown(view, width, height)), (width, height)


async def test_a_question_without_the_way_out_has_none() -> None:
    view = ask({**COLOUR, "isOther": False})
    assert not any("None of the above" in row for row in shown(view))
