"""Where tokens go: the source of each item, the sum by source, the room that is left."""

from __future__ import annotations

import pytest

from spindle.context.account import (
    SOURCES,
    Breakdown,
    ContextUsage,
    ItemCost,
    ServerCount,
    breakdown,
    classify,
    compaction_limit,
    context_usage,
)
from spindle.context.tokens import estimate_tokens
from spindle.context.wording import SUMMARY_PREAMBLE
from spindle.protocol.items import assistant_message, developer_message, encode_json, user_message

PNG = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}


def call(call_id: str, name: str, **arguments) -> dict:
    return {"type": "function_call", "name": name, "arguments": encode_json(arguments).decode(), "call_id": call_id}


def output(call_id: str, text: str | list = "ok") -> dict:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


@pytest.mark.parametrize(
    ("item", "source"),
    [
        (developer_message("<permissions instructions>\nx"), "permissions"),
        (developer_message("Be brief."), "instructions"),
        (developer_message("<collaboration_mode>x</collaboration_mode>"), "instructions"),
        (user_message("<environment_context>\n  <cwd>/w</cwd>"), "environment"),
        (user_message("# AGENTS.md instructions for /w\n\n<INSTRUCTIONS>"), "agents_md"),
        (user_message("<user_instructions>old</user_instructions>"), "agents_md"),
        (user_message("<skill>\n<name>x</name>"), "skills"),
        (user_message("<turn_aborted>\nx"), "other"),
        (user_message("<user_shell_command>\nls"), "outputs"),
        (user_message("<work_ledger>\n## Plan"), "summary"),
        (user_message(f"{SUMMARY_PREAMBLE}\nall is done"), "summary"),
        (user_message("fix it"), "user"),
        ({"type": "message", "role": "user", "content": "a plain string"}, "user"),
        (assistant_message("done"), "assistant"),
        ({"type": "message", "role": "system", "content": []}, "other"),
        ({"type": "reasoning", "summary": []}, "reasoning"),
        ({"type": "compaction", "encrypted_content": "x"}, "summary"),
        (call("c", "exec_command", cmd="ls"), "calls"),
        ({"type": "web_search_call", "status": "completed"}, "calls"),
        (output("c"), "outputs"),
        (output("c", [PNG]), "images"),
        ({"type": "ghost"}, "other"),
        ({}, "other"),
    ],
)
def test_every_item_has_one_source(item: dict, source: str):
    assert classify(item) == source


@pytest.mark.parametrize(
    ("name", "arguments", "source"),
    [
        ("read_file", {"file_path": "/w/a"}, "files"),
        ("exec_command", {"cmd": "sed -n '1,20p' a.py"}, "files"),
        ("shell", {"command": ["bash", "-lc", "cat a.py"]}, "files"),
        ("exec_command", {"cmd": "cat a.py | wc"}, "outputs"),
        ("list_dir", {"dir_path": "/w"}, "outputs"),
    ],
)
def test_the_output_of_a_call_that_shows_one_file_is_a_file(name: str, arguments: dict, source: str):
    assert classify(output("c"), {"c": call("c", name, **arguments)}) == source


def test_a_breakdown_names_every_source_and_adds_up_to_the_estimate_of_all_parts():
    agents = user_message("# AGENTS.md instructions for /w\n\n<INSTRUCTIONS>\nRule.\n\n## Skills\n" + "s" * 400)
    shown = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "look"}, PNG]}
    items = [agents, shown, call("c", "read_file", file_path="/w/a"), output("c", "f" * 400), output("v", [PNG])]
    found = breakdown("i" * 400, b"[" + b"t" * 399, items, each=True)
    costs = [estimate_tokens(item) for item in items]
    skills = -(-len("\n## Skills\n" + "s" * 400) // 4)
    expected = {
        "instructions": 100,
        "tools": 100,
        "agents_md": costs[0] - skills,
        "skills": skills,
        "user": costs[1] - 1_500,
        "images": 3_000,
        "calls": costs[2],
        "files": costs[3],
        "outputs": costs[4] - 1_500,
    }
    assert found == Breakdown(
        {source: expected.get(source, 0) for source in SOURCES},
        (
            ItemCost(0, "agents_md", costs[0], "# AGENTS.md instructions for /w <INSTRUCTIONS> Rule. ## Skills"[:60]),
            ItemCost(1, "user", costs[1], "look"),
            ItemCost(2, "calls", costs[2], "read_file"),
            ItemCost(3, "files", costs[3], "read_file"),
            ItemCost(4, "images", costs[4], ""),
        ),
    )
    assert found.total == 200 + sum(costs)
    assert breakdown("", [], []).tokens == {**dict.fromkeys(SOURCES, 0), "tools": 1}


def test_the_servers_report_is_the_truth_and_new_items_are_added_to_it():
    items = [user_message("one"), assistant_message("a"), user_message("x" * 4_000)]
    counted = ServerCount(total_tokens=61_000, items=2)
    usage = context_usage("i", b"[]", items, window=112_000, limit=100_000, counted=counted)
    used = 61_000 + estimate_tokens(items[2])
    assert usage == ContextUsage(
        window=112_000, limit=100_000, used=used, percent_left=50, breakdown=breakdown("i", b"[]", items)
    )
    assert not usage.is_over_limit
    assert context_usage("i", b"[]", items, window=None, limit=used, counted=counted).is_over_limit


def test_reasoning_the_server_does_not_count_is_added():
    thought = {"type": "reasoning", "encrypted_content": "e" * 4_000}
    items = [user_message("one"), thought, user_message("two")]
    without = ServerCount(total_tokens=900, items=3)
    assert context_usage("", b"", items, window=None, counted=without).used == 900 + estimate_tokens(thought)
    all_of_it = ServerCount(total_tokens=900, items=3, reasoning_included=True)
    assert context_usage("", b"", items, window=None, counted=all_of_it).used == 900


def test_before_the_first_report_everything_is_estimated():
    items = [user_message("one")]
    usage = context_usage("i" * 400, b"t" * 40, items, window=None)
    assert (usage.used, usage.percent_left) == (110 + estimate_tokens(items[0]), None)
    assert usage.used == usage.breakdown.total


@pytest.mark.parametrize(
    ("window", "configured", "catalogue", "limit"),
    [
        (272_000, None, None, 244_800),
        (272_000, 4_000, 100_000, 4_000),
        (272_000, None, 100_000, 100_000),
        (272_000, 999_999, None, 244_800),
        (None, 4_000, None, 4_000),
        (None, None, None, None),
    ],
)
def test_the_limit_is_the_configured_one_within_the_window(window, configured, catalogue, limit):
    assert compaction_limit(window, configured, catalogue) == limit


def test_what_a_program_brought_counts_as_output_on_every_wire() -> None:
    item = {"type": "function_call_output", "id": "fco_1", "name": "ci", "output": "red"}
    (cost,) = breakdown("", [], [item], each=True).items
    assert (cost.source, cost.label) == ("outputs", "ci")
    told = user_message('<external_message tool="ci">red</external_message>')
    assert classify(told) == "outputs"
