"""What a reviewer answers: read tolerantly, rendered for people, judged by its priorities."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spindle.errors import SpindleError
from spindle.protocol.review import hint_of, read_target
from spindle.protocol.review_output import NO_ANSWER, ReviewOutput, read_output, render


def finding(title: str = "[P1] Guard", body: str = "Fails for 0.", **more: Any) -> dict[str, Any]:
    place = {"absolute_file_path": "/w/f.py", "line_range": {"start": 2, "end": 3}}
    return {"title": title, "body": body, "confidence_score": 0.9, "priority": 1, "code_location": place, **more}


def answer(*findings: Any, text: str = "It breaks.") -> str:
    correctness = "patch is incorrect" if findings else "patch is correct"
    told = {"overall_correctness": correctness, "overall_explanation": text, "overall_confidence_score": 0.8}
    return json.dumps({"findings": list(findings), **told})


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (answer(), "It breaks."),
        (answer(finding()), "It breaks.\n\nReview comment:\n\n- [P1] Guard — /w/f.py:2-3\n  Fails for 0."),
        (answer(finding(), text=" "), "Review comment:\n\n- [P1] Guard — /w/f.py:2-3\n  Fails for 0."),
        (
            answer(finding(), finding("Two", "a\n\nb\n")),
            "It breaks.\n\nFull review comments:\n\n- [P1] Guard — /w/f.py:2-3\n  Fails for 0.\n\n"
            "- Two — /w/f.py:2-3\n  a\n  \n  b",
        ),
        (f"Here it is:\n```json\n{answer()}\n```\nDone.", "It breaks."),
        ("  only words  ", "only words"),
        ("a { b", "a { b"),
        ('{"unrelated": 1}', '{"unrelated": 1}'),
        ("[" * 5000, "[" * 5000),
        ("", NO_ANSWER),
        (None, NO_ANSWER),
        ('{"findings": [], "overall_explanation": ""}', NO_ANSWER),
    ],
)
def test_an_answer_becomes_the_text_that_people_read(said: str | None, shown: str) -> None:
    assert render(read_output(said)) == shown


def test_what_a_finding_lacks_or_has_wrong_costs_nothing_else() -> None:
    odd = {
        "title": 3,
        "body": None,
        "confidence_score": 7,
        "priority": 9,
        "code_location": {"line_range": {"start": -4}},
    }
    one, two = read_output(json.dumps({"findings": [odd, "no finding", finding()]})).findings
    assert (one.title, one.body, one.confidence_score, one.priority) == ("", "", 1.0, None)
    assert (one.code_location.line_range.start, one.code_location.line_range.end) == (0, 0)
    assert two.title == "[P1] Guard"
    assert render(ReviewOutput(findings=[one])) == "Review comment:\n\n- "


@pytest.mark.parametrize(
    ("title", "priority", "urgency"),
    [("[P2] x", 2, 2), ("[P0] x", 3, 0), ("x", 1, 1), ("[p1] x", None, 1), ("x", None, 3), ("[P9] x", True, 3)],
)
def test_the_worse_of_number_and_title_counts_and_nothing_at_all_is_the_mildest(
    title: str, priority: Any, urgency: int
) -> None:
    (found,) = read_output(answer(finding(title, priority=priority))).findings
    assert found.urgency == urgency


@pytest.mark.parametrize(
    ("target", "hint"),
    [
        ({"type": "uncommittedChanges"}, "current changes"),
        ({"type": "baseBranch", "branch": " main "}, "changes against 'main'"),
        ({"type": "commit", "sha": "1234567890ab", "title": "T"}, "commit 1234567: T"),
        ({"type": "commit", "sha": "123", "title": " "}, "commit 123"),
        ({"type": "custom", "instructions": " look\n"}, "look"),
    ],
)
def test_a_target_has_a_hint_for_people(target: dict[str, Any], hint: str) -> None:
    assert hint_of(read_target(target)) == hint


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ({"type": "custom", "instructions": "  "}, "instructions must not be empty"),
        ({"type": "baseBranch", "branch": ""}, "branch must not be empty"),
        ({"type": "commit", "sha": "\t"}, "sha must not be empty"),
        ({"type": "moon"}, "uncommittedChanges, baseBranch"),
        (None, "uncommittedChanges, baseBranch"),
    ],
)
def test_a_target_that_cannot_be_is_refused_with_a_sentence(target: Any, problem: str) -> None:
    with pytest.raises(SpindleError, match=problem):
        read_target(target)


@pytest.mark.parametrize(
    ("given", "priority"),
    [(1.0, 1), ("P0", 0), ("[p2]", 2), ("1", None), ("P9", None), (1.5, None), (True, None), (-1, None), ([], None)],
)
def test_a_priority_in_another_form_is_no_way_past_a_gate(given: Any, priority: int | None) -> None:
    (found,) = read_output(answer(finding("no mark", priority=given))).findings
    assert found.priority == priority
