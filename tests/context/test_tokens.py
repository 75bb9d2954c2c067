"""Estimates of what items cost and of how much room is left."""

from __future__ import annotations

import pytest

from spindle.context.tokens import ServerCount, context_tokens, estimate_tokens, percent_left
from spindle.protocol.items import assistant_message, encode_json, user_message


def test_an_item_costs_a_quarter_of_its_json():
    item = user_message("x" * 1_000)
    assert estimate_tokens(item) == estimate_tokens(encode_json(item)) == -(-len(encode_json(item)) // 4)


@pytest.mark.parametrize("kind", ["reasoning", "compaction", "compaction_summary"])
def test_encrypted_content_counts_by_its_hidden_length(kind):
    item = {"type": kind, "encrypted_content": "e" * 4_000}
    assert estimate_tokens(item) == estimate_tokens(encode_json(item)) == (4_000 * 3 // 4 - 650 + 3) // 4
    assert estimate_tokens({"type": kind, "encrypted_content": "short"}) == 0


LONG = "x" * 700
IMAGE = {"type": "input_image", "image_url": f"data:{LONG}"}


@pytest.mark.parametrize(
    "item",
    [
        {"type": "function_call_output", "call_id": "c", "output": 'text with "input_image" and "encrypted_content"'},
        {"type": "function_call_output", "call_id": "c" * 200, "output": LONG},
        {
            "type": "function_call_output",
            "call_id": "c",
            "output": [{"type": "input_text", "text": '"output":"'}, IMAGE],
        },
        {"type": "function_call_output", "call_id": '"output":"', "output": [IMAGE, IMAGE]},
        {"output": [IMAGE], "type": "function_call_output", "call_id": "c"},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": LONG * 3},
        {"type": "reasoning", "summary": [], "encrypted_content": None, "content": [{"type": "text", "text": LONG}]},
        {"type": "reasoning", "summary": []},
        {"type": "message", "role": "user", "content": [IMAGE], "encrypted_content": LONG},
    ],
)
def test_an_item_costs_the_same_by_its_json(item):
    assert estimate_tokens(encode_json(item)) == estimate_tokens(item)


def test_a_picture_costs_a_flat_sum_whatever_its_size():
    def shown(url: str) -> dict:
        return {"type": "function_call_output", "call_id": "c", "output": [{"type": "input_image", "image_url": url}]}

    assert estimate_tokens(shown("d" * 100_000)) == estimate_tokens(encode_json(shown("d" * 10)))
    assert 1_500 < estimate_tokens(shown("d")) < 1_550


def test_tokens_in_context_are_the_last_total_and_what_came_after():
    reasoning = {"type": "reasoning", "encrypted_content": "e" * 4_000}
    items = [
        user_message("one"),
        reasoning,
        assistant_message("a"),
        user_message("two"),
        reasoning,
        user_message("new"),
    ]
    after = estimate_tokens(items[5])
    all_of_it = ServerCount(total_tokens=900, items=5, reasoning_included=True)
    assert context_tokens(items, all_of_it) == 900 + after
    without = ServerCount(total_tokens=900, items=5)
    assert context_tokens(items, without) == 900 + after + estimate_tokens(reasoning)


def test_before_the_first_response_the_base_text_counts_too():
    items = [user_message("one")]
    tokens = context_tokens(items, ServerCount(), fixed_bytes=40)
    assert tokens == estimate_tokens(items[0]) + 10


@pytest.mark.parametrize(
    ("window", "used", "left"),
    [
        (258_400, 0, 100),
        (258_400, 12_000, 100),
        (258_400, 258_400, 0),
        (258_400, 999_999, 0),
        (112_000, 62_000, 50),
        (112_000, 62_500, 50),
        (112_000, 62_501, 49),
        (12_000, 0, 0),
        (8_000, 0, 0),
    ],
)
def test_percent_left_leaves_the_baseline_out(window, used, left):
    assert percent_left(window, used) == left
