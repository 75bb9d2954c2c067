"""The list that replaces a thread: what of it stays word for word, in which order, and what a model is asked."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.context.compaction import (
    OVERFLOW,
    CompactionReport,
    compress_by_model,
    drop_oldest,
    fit,
    keep_section,
    kept_messages,
    ledger_message,
    remote_replacement,
    replacement,
    retention_rules,
    summary_request,
    summary_text,
    tail_start,
    with_standing_rules,
)
from spindle.context.ledger import WorkLedger
from spindle.context.tokens import estimate_tokens
from spindle.context.visible import pair_calls
from spindle.context.wording import SUMMARY_PREAMBLE, SUMMARY_PROMPT, compaction_warning, is_summary
from spindle.errors import ModelError
from spindle.protocol.items import (
    Item,
    assistant_message,
    developer_message,
    encode_json,
    is_user_input,
    item_text,
    user_message,
)
from spindle.thread.entry import Record
from spindle.thread.history import History

PERMISSIONS = developer_message("<permissions instructions>\nold\n</permissions instructions>")
AGENTS = user_message("# AGENTS.md instructions for /w\n\n<INSTRUCTIONS>\nrule\n</INSTRUCTIONS>")
ENVIRONMENT = user_message("<environment_context>\n  <cwd>/w</cwd>\n</environment_context>")
CONTEXT = [PERMISSIONS, AGENTS, ENVIRONMENT]
ABORTED = user_message("<turn_aborted>\nstopped\n</turn_aborted>")
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e" * 2_000}


def step(call_id: str, text: str = "out") -> list[dict]:
    call = {
        "type": "function_call",
        "id": f"fc_{call_id}",
        "name": "exec_command",
        "arguments": "{}",
        "call_id": call_id,
    }
    return [call, {"type": "function_call_output", "call_id": call_id, "output": text}]


THREAD = [
    *CONTEXT,
    user_message("first"),
    THOUGHT,
    *step("c1"),
    assistant_message("a"),
    ABORTED,
    user_message("second"),
]


class Model:
    """A model that can take so many tokens, and answers with the next text or error."""

    def __init__(self, *answers: str | ModelError, window: int = 10**9) -> None:
        self.answers = list(answers)
        self.window = window
        self.asked: list[list[dict]] = []

    async def answer(self, items: list[dict]) -> str:
        self.asked.append(items)
        if sum(map(estimate_tokens, items)) > self.window:
            raise ModelError("it does not fit", OVERFLOW)
        answer = self.answers.pop(0)
        if isinstance(answer, ModelError):
            raise answer
        return answer


# ---- the new list ------------------------------------------------------------------------------------


def test_a_compacted_thread_is_context_ledger_messages_and_summary():
    fresh = [developer_message("<permissions instructions>new"), ENVIRONMENT]
    assert replacement(fresh, THREAD, "SUMMARY", ledger="## Plan\n- [ ] test") == [
        *fresh,
        user_message("<work_ledger>\n## Plan\n- [ ] test\n</work_ledger>"),
        *(user_message("first"), ABORTED, user_message("second")),
        user_message(f"{SUMMARY_PREAMBLE}\nSUMMARY"),
    ]


def test_neither_the_ledger_nor_a_summary_counts_as_a_message_of_the_user():
    once = replacement(CONTEXT, THREAD, "one", ledger="known")
    twice = replacement(CONTEXT, [*once, user_message("third")], "two", ledger="known better")
    assert [item_text(item) for item in twice[3:]] == [
        item_text(ledger_message("known better")),
        *("first", item_text(ABORTED), "second", "third"),
        summary_text("two"),
    ]
    assert not is_user_input(ledger_message("x")) and is_summary(once[-1])


def test_messages_keep_their_texts_and_lose_their_pictures():
    shown = {
        "type": "message",
        "role": "user",
        "content": [
            {"type": "input_text", "text": "<image>"},
            {"type": "input_image", "image_url": "data:x"},
            {"type": "input_text", "text": "what is this?"},
        ],
    }
    only = {"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": "data:x"}]}
    assert kept_messages([shown, only, {"type": "message", "role": "user", "content": "plain"}]) == [
        user_message("what is this?"),
        user_message("plain"),
    ]


def test_the_newest_messages_stay_and_the_one_that_crosses_the_budget_is_cut_in_the_middle():
    items = [user_message("o" * 400), user_message("a" * 200 + "b" * 200), user_message("n" * 40)]
    assert kept_messages(items, budget_tokens=60) == [
        user_message("a" * 100 + "…50 tokens truncated…" + "b" * 100),
        items[2],
    ]
    assert kept_messages(items, budget_tokens=110) == items[1:]
    assert kept_messages(items, budget_tokens=0) == []
    assert kept_messages([user_message("x" * 90_000)]) == [
        user_message("x" * 40_000 + "…2500 tokens truncated…" + "x" * 40_000)
    ]


def test_an_empty_summary_is_said_to_be_missing():
    assert item_text(replacement([], [], "  \n")[-1]) == f"{SUMMARY_PREAMBLE}\n(no summary available)"


def test_what_an_endpoint_returns_stays_as_it_is_without_the_context_that_is_rebuilt():
    opaque = {"type": "compaction", "encrypted_content": "T1BBUVVF", "id": "cmp_1"}
    returned = [*CONTEXT, user_message("kept"), ABORTED, user_message("<skill>\nx"), opaque, assistant_message("a")]
    assert remote_replacement(CONTEXT[:1], returned, returned, ledger="known") == [
        CONTEXT[0],
        ledger_message("known"),
        *returned[3:],
    ]


def test_a_ledger_holds_the_messages_that_the_thread_no_longer_does():
    picture = {"type": "input_image", "image_url": "data:x"}
    shown = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "see"}, picture]}
    items = [user_message("first of all"), shown, user_message("x" * 4_000), ABORTED, *step("c1"), user_message("last")]
    ledger = WorkLedger.of(items)

    def asked(new: list[dict]) -> list[str]:
        (text,) = (item_text(item) for item in new if item_text(item).startswith("<work_ledger>"))
        return [line for line in text.splitlines() if line.startswith(("- first", "- see", "- x", "- last"))]

    assert asked(replacement(CONTEXT, items, "S", ledger=ledger, kept_tokens=1_011)) == ["- first of all", "- see"]
    twice = replacement(CONTEXT, replacement(CONTEXT, items, "S", ledger=ledger, kept_tokens=1_011), "T", ledger=ledger)
    assert asked(twice) == ["- first of all", "- see"]
    assert asked(remote_replacement(CONTEXT, [items[0]], ledger=ledger)) == ["- see", "- " + "x" * 4_000, "- last"]
    ledger.note_pin("the port is 8123")
    assert asked(replacement(CONTEXT, items, "S", ledger=ledger, tail_tokens=200)) == []
    assert replacement([], [], "S", ledger=WorkLedger()) == [user_message(summary_text("S"))]


# ---- a recent tail -----------------------------------------------------------------------------------


def test_a_recent_tail_follows_the_summary_and_its_messages_are_not_said_twice():
    items = [user_message("first"), *step("c1", "x" * 4_000), user_message("second"), THOUGHT, *step("c2")]
    new = replacement(CONTEXT, items, "S", tail_tokens=500)
    assert new == [*CONTEXT, user_message("first"), user_message(summary_text("S")), *items[3:]]


def test_a_tail_begins_with_a_whole_response_and_goes_not_behind_an_earlier_summary():
    items = [user_message("go"), THOUGHT, *step("c1"), *step("c2")]
    costs = [estimate_tokens(item) for item in items]
    assert tail_start(items, 0) == len(items)
    assert tail_start(items, sum(costs[4:])) == 4
    # With its call but without its reasoning, the first response would be torn.
    assert tail_start(items, sum(costs[2:])) == 4
    assert tail_start(items, sum(costs[1:])) == 1
    assert tail_start([*items, user_message(summary_text("S")), *step("c3")], 10**6) == 7
    # Two calls of one response are answered after both.
    (a, answer_a), (b, answer_b) = step("a"), step("b")
    assert tail_start([user_message("go"), a, b, answer_a, answer_b], estimate_tokens(answer_b) + 30) == 5


def test_context_in_the_tail_is_not_repeated():
    items = [user_message("first"), ENVIRONMENT, user_message("second"), assistant_message("a")]
    assert replacement(CONTEXT, items, "S", tail_tokens=10**6) == [
        *CONTEXT,
        user_message(summary_text("S")),
        *(items[0], *items[2:]),
    ]


# ---- retention rules ---------------------------------------------------------------------------------


def test_rules_come_from_the_configuration_the_documents_and_the_moment():
    document = """# Project
## Keep on compaction
- Never touch `core/`.
* Use tabs.

```
## not a heading
```
### Detail
1. Ask before deleting.
## Style
- Be brief.
## KEEP ON COMPACTION ##
Last one
# End
gone"""
    lines = ["Never touch `core/`.", "Use tabs.", "## not a heading", "Ask before deleting.", "Last one"]
    assert keep_section(document) == lines
    assert retention_rules([" mine ", "", "Use tabs."], document, "keep the port") == (
        *("mine", "Use tabs.", "Never touch `core/`.", "## not a heading", "Ask before deleting.", "Last one"),
        "keep the port",
    )
    assert retention_rules() == ()


def test_the_request_for_a_summary_names_the_rules_and_can_be_replaced():
    assert item_text(summary_request()) == SUMMARY_PROMPT
    assert item_text(summary_request("KEEP: core/")) == "KEEP: core/"
    assert item_text(summary_request("P", ["a", "b"])).startswith("P\n\n")
    assert item_text(summary_request("P", ["a", "b"])).endswith("\n- a\n- b")


def test_a_rule_the_summary_left_out_is_appended_word_for_word():
    assert with_standing_rules("I know: use tabs.", ["use tabs", "never  push"]) == (
        "I know: use tabs.\n\n## Standing rules\n- never  push",
        ("never  push",),
    )
    assert with_standing_rules("all", ["all"]) == ("all", ())


# ---- with a model ------------------------------------------------------------------------------------


async def test_a_model_writes_the_summary():
    model = Model("what was done")
    before = encode_json(THREAD)
    new, report = await compress_by_model(THREAD, model, keep_rules=["use tabs"], ledger="L")
    assert model.asked == [[*THREAD, summary_request(None, ["use tabs"])]]
    said = "what was done\n\n## Standing rules\n- use tabs"
    assert new == replacement(CONTEXT, THREAD, said, ledger="L")
    assert report == CompactionReport(
        tokens_before=sum(map(estimate_tokens, THREAD)),
        tokens_after=sum(map(estimate_tokens, new)),
        message=item_text(new[-1]),
        added_rules=("use tabs",),
    )
    assert encode_json(THREAD) == before


async def test_of_repeated_context_the_newest_counts():
    moved = user_message("<environment_context>\n  <cwd>/other</cwd>\n</environment_context>")
    new, _ = await compress_by_model([*THREAD, developer_message("be brief"), moved], Model("S"))
    assert new[:4] == [PERMISSIONS, AGENTS, moved, developer_message("be brief")]


async def test_when_the_model_overflows_ever_more_of_the_oldest_is_left_out():
    items = [user_message("go"), *(item for n in range(300) for item in step(f"c{n}", "x" * 400))]
    model = Model("S", window=4_000)
    new, report = await compress_by_model(items, model)
    assert report.attempts == len(model.asked) <= 11
    assert report.left_out == len(items) + 1 - len(model.asked[-1])
    assert all(pair_calls(asked) == asked for asked in model.asked)
    assert [item_text(item) for item in new] == ["go", summary_text("S")]


async def test_what_is_known_not_to_fit_is_cut_before_the_model_is_asked():
    items = [user_message("go"), *step("c1", "h" * 400_000 + "t" * 400_000), *step("c2")]
    model = Model("S", window=20_000)
    _, report = await compress_by_model(items, model, max_input_tokens=20_000)
    asked = model.asked[0]
    assert (len(model.asked), report.left_out, [*asked[:2], *asked[3:-1]]) == (1, 0, [*items[:2], *items[3:]])
    assert asked[2]["output"].startswith("hhh") and asked[2]["output"].endswith("ttt")


@pytest.mark.parametrize("window", [1, 200])
async def test_a_model_that_takes_nothing_ends_with_its_error(window: int):
    model = Model(window=window)
    with pytest.raises(ModelError, match="does not fit"):
        await compress_by_model(THREAD, model)
    assert len(model.asked) < 8 and len(model.asked[-1]) == 1


async def test_any_other_error_is_passed_on_at_once():
    model = Model(ModelError("no quota", "usage_limit_exceeded"), "S")
    with pytest.raises(ModelError, match="no quota"):
        await compress_by_model(THREAD, model)
    assert len(model.asked) == 1


# ---- leaving out -------------------------------------------------------------------------------------


def test_a_call_goes_with_its_output_and_its_response_loses_the_ids_the_server_would_miss():
    items = [THOUGHT, *step("c1"), *step("c2")]
    left = drop_oldest(items)
    assert left == [{key: value for key, value in items[1].items() if key != "id"}, *items[2:]]
    assert drop_oldest(items, 2) == items[3:]
    assert drop_oldest(items, 99) == []
    assert drop_oldest(items[1:], 0) == items[1:]


def test_what_just_fits_is_left_as_it_is():
    items = step("c1", "x" * 4_000)
    assert fit(items, sum(map(estimate_tokens, items))) == items
    assert fit(items, sum(map(estimate_tokens, items)) - 1) != items


pieces = st.one_of(
    st.integers(0, 9).map(lambda n: step(f"c{n}", "y" * n * 300)),
    st.integers(0, 3).map(lambda n: [user_message("u" * n * 500)]),
    st.just([THOUGHT]),
    st.just([step("open")[0]]),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(pieces, max_size=12), st.integers(0, 3_000))
def test_whatever_is_left_out_the_rest_fits_and_no_pair_is_torn(parts: list[list[dict]], room: int):
    items = [item for part in parts for item in part]
    left = fit(items, room)
    assert sum(map(estimate_tokens, left)) <= room
    assert len(pair_calls(left)) - len(left) <= len(pair_calls(items)) - len(items)
    nameless = [{key: value for key, value in item.items() if key != "id"} for item in items]
    for item in left:
        is_cut = item["type"] == "function_call_output" and "truncated…" in item["output"]
        assert is_cut or item in items or item in nameless
    if sum(map(estimate_tokens, items)) <= room:
        assert left == items


def test_from_the_third_compaction_on_people_are_warned_more_strongly():
    assert compaction_warning(1) == compaction_warning(2) != compaction_warning(3)
    assert "3 times" in compaction_warning(3)


def test_pictures_leave_nothing_behind_but_the_words_beside_them() -> None:
    def part(text: str) -> dict[str, str]:
        return {"type": "input_text", "text": text}

    picture = {"type": "input_image", "image_url": "data:image/png;base64,AA=="}
    opened = (part("<image>"), part("<image name=[Image #1]>"), part('<image name=[Image #2] path="a.png">'))
    shown = [each for tag in opened for each in (tag, picture, part("</image>"))]
    with_words: Item = {"type": "message", "role": "user", "content": [*shown, part("What is it?"), part("<image>")]}
    without: Item = {"type": "message", "role": "user", "content": shown}
    assert kept_messages([with_words, without]) == [user_message("What is it?\n<image>")]
    # Files without a replacement are folded by the same rule, as the program did that wrote them.
    history = History()
    for item in (with_words, without):
        history.append_item(item)
    history._fold(Record("compacted", b'{"message":"SUMMARY"}', ""))
    assert [entry.item for entry in history.entries] == [user_message("What is it?\n<image>"), user_message("SUMMARY")]


@pytest.mark.parametrize("output", [7, None, {"a": "x" * 9_000}, [5, {"type": "input_text", "text": "x" * 9_000}]])
def test_outputs_of_a_damaged_record_are_made_to_fit_too(output: object) -> None:
    call: Item = {"type": "function_call", "name": "x", "arguments": "y" * 9_000, "call_id": "c"}
    items = [call, {"type": "function_call_output", "call_id": "c", "output": output}, user_message("P")]
    assert sum(map(estimate_tokens, fit(items, 100))) <= 100


def test_what_a_program_brought_is_cut_like_any_output_and_ends_a_group() -> None:
    long = {"type": "function_call_output", "id": "fco_1", "name": "ci", "output": "x" * 40_000}
    (cut,) = fit([long], 2_000)
    assert cut["name"] == "ci" and "truncated" in cut["output"] and estimate_tokens(cut) <= 2_000
    items = [user_message("go"), assistant_message("ok"), {**long, "output": "red"}, assistant_message("fixed")]
    assert tail_start(items, estimate_tokens(items[3]) + estimate_tokens(items[2])) == 3
