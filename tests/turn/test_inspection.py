"""A record tells what the model saw: each input that is read back from it is the one that was sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sessions import Driver, Start
from spindle.errors import UsageError
from spindle.lookback.deeds import Turns
from spindle.lookback.inspection import Inspection, inspect_thread
from spindle.model.scripted import calls, drops, fails, patches, says
from spindle.protocol.items import encode_payload
from spindle.protocol.ops import Compact, Pin, ThreadRollback
from spindle.protocol.request import TokenUsage
from spindle.thread.entry import Record
from spindle.thread.reading import RolloutData, read_rollout

FIXTURES = Path(__file__).parent.parent / "fixtures" / "rollouts"
BIG = "seq 1 2000"


def used(total: int, cached: int) -> TokenUsage:
    return TokenUsage(input_tokens=total, cached_input_tokens=cached, output_tokens=50, total_tokens=total + 50)


def runs(number: int, usage: TokenUsage | None = None) -> Any:
    return calls("exec_command", {"cmd": BIG}, f"c{number}", usage=usage)


def record_of(driver: Driver) -> RolloutData:
    return read_rollout(driver.session.thread.history.writer.path)


def saw_what_was_sent(found: Inspection, sent: list[list[dict[str, Any]]]) -> None:
    assert [found.input_of(number) for number in range(1, len(found.report.requests) + 1)] == sent


async def test_every_input_is_read_back_as_it_was_sent(start: Start) -> None:
    context = {"mode": "edit", "rule": {"trigger": {"type": "tool_uses", "value": 4}}}
    driver = await start(config={"features": {"remote_compaction": False}, "spindle": {"context": context}})
    await driver.turn("P1", *[runs(n, used(10_000 + 4_000 * n, 9_984)) for n in range(6)], says("one"))
    await driver.turn("P2", says("two", usage=used(30_000, 29_952)))
    driver.submit(ThreadRollback(num_turns=1))
    await driver.turn("P3", says("three", usage=used(30_000, 0)))
    sent = driver.inputs.copy()
    driver.model.script(says("the summary", usage=used(30_000, 29_952)))
    await driver.end_of(driver.submit(Compact()))
    sent_aside = len(driver.inputs)
    await driver.turn("P4", runs(9, used(9_000, 0)), says("four", usage=used(12_000, 8_960)), model="gpt-5.2")
    found = inspect_thread(record_of(driver))
    saw_what_was_sent(found, [*sent, *driver.inputs[sent_aside:]])
    report = found.report
    assert report.totals.compactions == 1 and report.totals.edits >= 1 and report.totals.alarms == 0
    kinds = [broken.kind for broken in report.breaks]
    assert kinds[-2:] == ["rollback", "compaction"] and set(kinds[:-2]) == {"edit"}
    assert report.totals.side_tokens == 30_050


def without(data: RolloutData, *lost: str) -> RolloutData:
    """The record as a program would have written it that does not know these lines or fields."""
    records = []
    for record in data.records:
        payload = record.payload
        if record.kind in lost or payload.get("type") in lost:
            continue
        if "cache" in lost and record.kind == "spindle_bookmark":
            record = Record(record.kind, encode_payload({**payload, "cache": None}), record.timestamp)
        records.append(record)
    return RolloutData(path=data.path, thread_id=data.thread_id, meta=data.meta, records=records)


@pytest.mark.parametrize(
    "lost", [("cache",), ("spindle_bookmark",), ("spindle_bookmark", "token_count")], ids=["cache", "marks", "both"]
)
async def test_a_record_that_holds_less_gives_the_same_inputs(lost: tuple[str, ...], start: Start) -> None:
    driver = await start(config={"features": {"remote_compaction": False}})
    await driver.turn("P1", runs(1, used(10_000, 0)), runs(2, used(14_000, 9_984)), says("one", usage=used(18_000, 0)))
    sent = driver.inputs.copy()
    driver.model.script(says("the summary", usage=used(18_000, 17_920)))
    await driver.end_of(driver.submit(Compact()))
    await driver.turn("P2", says("two", usage=used(9_000, 0)))
    whole, found = inspect_thread(record_of(driver)), inspect_thread(without(record_of(driver), *lost))
    saw_what_was_sent(found, [*sent, driver.inputs[-1]])
    assert all(request.cache.is_derived for request in found.report.requests)
    assert not any(request.cache.is_derived for request in whole.report.requests)
    sizes = [[request.estimated_input for request in one.report.requests] for one in (whole, found)]
    if "token_count" in lost:
        assert [request.usage for request in found.report.requests] == [None] * 4
        assert found.report.totals.input_tokens == 0 and sizes[1][0] < sizes[0][0]
    else:
        causes = [request.cache.cause for request in found.report.requests]
        assert causes == ["first_request", None, "provider_miss", "compaction"]
        assert causes == [request.cache.cause for request in whole.report.requests]


@pytest.mark.parametrize("lost", ["nothing", "cache"])
async def test_a_request_after_a_broken_stream_holds_what_the_stream_had_finished(lost: str, start: Start) -> None:
    driver = await start()
    half = says("half") if lost == "nothing" else runs(2)  # after a call, its output tells where the answer ended
    await driver.turn("P", runs(1), [half, drops(retry_after_s=0.01)], says("whole"))
    found = inspect_thread(without(record_of(driver), lost))
    assert len(driver.inputs) == 3 and found.input_of(1) == driver.inputs[0]
    assert found.input_of(2) == driver.inputs[2] and len(found.report.requests) == 2


async def test_the_program_that_goes_on_with_a_thread_continues_its_prefix(start: Start) -> None:
    first = await start()
    await first.turn("P1", runs(1, used(20_000, 0)), says("one", usage=used(24_000, 19_968)))
    thread_id = first.session.thread_id
    await first.close()
    second = await start(thread=thread_id)
    await second.turn("P2", says("two", usage=used(25_000, 23_936)))
    await second.turn("P3", says("three", usage=used(26_000, 24_960)))
    found = inspect_thread(record_of(second))
    assert [request.cache.cause for request in found.report.requests] == ["first_request", None, None, None]
    assert [request.shared_items for request in found.report.requests[1:]] == [
        request.items for request in found.report.requests[:-1]
    ]
    await second.close()
    third = await start(thread=thread_id)
    await third.turn("P4", says("four", usage=used(27_000, 0)))
    last = inspect_thread(record_of(third)).report.requests[-1]
    assert (last.cache.cause, last.cache.lost_tokens > 20_000) == ("resume", True)


async def test_a_compaction_by_the_server_is_one_too(start: Start) -> None:
    driver = await start()
    await driver.turn("P1", runs(1, used(10_000, 0)), says("one", usage=used(14_000, 9_984)))
    kept = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "P1"}]}]
    driver.model.compactions.append([*kept, {"type": "compaction", "encrypted_content": "x" * 4_000}])
    await driver.end_of(driver.submit(Compact()))
    await driver.turn("P2", says("two", usage=used(9_000, 0)))
    found = inspect_thread(record_of(driver))
    assert found.input_of(3) == driver.inputs[-1]
    assert [(broken.kind, broken.after_request) for broken in found.report.breaks] == [("compaction", 2)]
    assert found.report.requests[2].cache.cause == "compaction" and found.report.requests[2].sources["summary"] > 500


async def test_the_size_of_a_shorter_thread_may_be_told_before_it(start: Start) -> None:
    driver = await start()
    await driver.turn("P1", says("one", usage=used(14_000, 0)))
    driver.model.compactions.append([{"type": "compaction", "encrypted_content": "x" * 4_000}])
    await driver.end_of(driver.submit(Compact()))
    data = record_of(driver)
    place = next(place for place, record in enumerate(data.records) if record.kind == "compacted")
    size = next(record for record in data.records[place:] if b'"token_count"' in record.raw)
    as_codex = [*data.records[:place], size, *data.records[place:]]
    told = RolloutData(path=data.path, thread_id=data.thread_id, meta=data.meta, records=as_codex)
    assert inspect_thread(told).report.breaks == inspect_thread(data).report.breaks
    (broken,) = inspect_thread(told).report.breaks
    assert broken.tokens_before >= 14_000 > broken.tokens_after


async def test_the_tools_are_what_is_left_of_a_request(start: Start) -> None:
    driver = await start()
    await driver.turn("P", says("x", usage=used(10_000, 0)))
    request = inspect_thread(record_of(driver)).report.requests[0]
    specs = driver.session.thread.tools.specs_bytes
    assert abs(request.sources["tools"] - len(specs) / 4) <= 2
    assert sum(request.sources.values()) == request.estimated_input


async def test_pins_and_the_ledger_are_part_of_the_report(start: Start) -> None:
    driver = await start()
    driver.submit(Pin(text="the port is 7001"))
    await driver.turn("P", runs(1), says("x"))
    report = inspect_thread(record_of(driver)).report
    assert report.pins == [{"text": "the port is 7001", "by": "user"}]
    assert [command["command"] for command in report.ledger["commands"]] == [BIG]


async def test_the_report_tells_what_the_answers_did_and_which_files_they_changed(start: Start) -> None:
    driver = await start()
    add = "*** Begin Patch\n*** Add File: a.txt\n+x\n*** End Patch\n"
    wrong = "*** Begin Patch\n*** Update File: none.txt\n@@\n-x\n+y\n*** End Patch\n"
    look = calls("exec_command", {"cmd": "exit 3"}, "c1")
    await driver.turn("P1", [says("I look."), look], patches(add, "c2"), patches(wrong, "c3"), says("done"))
    await driver.turn("P2", fails("server said no"))
    report = inspect_thread(record_of(driver)).report
    assert [[(deed.kind, deed.text, deed.is_done) for deed in request.deeds] for request in report.requests] == [
        [("message", "I look.", True), ("command", "exit 3", False)],
        [("patch", "a.txt", True)],
        [("patch", "none.txt", False)],
        [("message", "done", True)],
    ]
    assert report.requests[0].deeds[1].exit_code == 3
    assert (report.totals.files_changed, report.totals.edits, report.totals.commands) == (1, 0, 1)
    assert [(turn.prompt, turn.first_request, turn.end) for turn in report.turns] == [
        *(("P1", 1, "answered"), ("P2", 5, "failed"))
    ]
    assert report.totals.turns == 2 and [request.turn for request in report.requests] == [1] * 4


def test_a_message_that_joins_a_running_turn_begins_none() -> None:
    turns, said = Turns(), {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "P"}]}
    numbers = []
    for request, turn_id in enumerate(("a", "a", "b", "", ""), 1):
        turns.take_input(said, "")
        turns.take_id(turn_id)
        numbers.append(turns.note_request(request))
    # Old records name no turns: there every message begins one.
    assert numbers == [1, 1, 2, 3, 4]


async def test_an_edit_that_would_save_nothing_is_not_made(start: Start) -> None:
    context = {"mode": "edit", "rule": {"trigger": {"type": "tool_uses", "value": 2}}}
    driver = await start(config={"spindle": {"context": context}})
    await driver.turn("P", *[calls("exec_command", {"cmd": f"echo {n}"}, f"c{n}") for n in range(8)], says("x"))
    report = inspect_thread(record_of(driver)).report
    assert all(broken.tokens_after < broken.tokens_before for broken in report.breaks)
    assert report.totals.edits == len(report.breaks)


async def test_a_request_that_does_not_exist_is_said(start: Start) -> None:
    driver = await start()
    await driver.turn("P", says("x"))
    found = inspect_thread(record_of(driver))
    for number in (0, 2):
        with pytest.raises(UsageError, match=f"no request {number} in this thread; there is 1"):
            found.input_of(number)


@pytest.mark.parametrize("version", ["0.101.0", "0.166.0"])
def test_threads_of_codex_are_read_by_their_counts(version: str) -> None:
    data = read_rollout(str(FIXTURES / f"codex-{version}.jsonl"))
    report = inspect_thread(data).report
    assert [request.usage and request.usage.input_tokens for request in report.requests] == [100] * 5
    assert [request.turn for request in report.requests] == [1, 1, 1, 2, 2]
    kinds = [[item["type"] for item in inspect_thread(data).input_of(number)][-1] for number in range(1, 6)]
    calls_of = ["function_call_output", "custom_tool_call_output"]
    assert kinds == ["message", *calls_of, "message", "function_call_output"]
    assert all(request.cache.is_derived and not request.cache.is_alarm for request in report.requests)


def test_a_record_that_was_tampered_with_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    lines = (FIXTURES / "codex-0.101.0.jsonl").read_text().splitlines()
    odd = [
        '{"timestamp":"?","type":"spindle_bookmark","payload":{"response_id":7,"cache":{"number":"x"}}}',
        '{"timestamp":"","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":"many"}}}',
        '{"timestamp":"","type":"event_msg","payload":{"type":"token_count","info":{"model_context_window":-1}}}',
        '{"timestamp":"","type":"compacted","payload":{"message":5,"replacement_history":[1,{"type":9}]}}',
        '{"timestamp":"","type":"event_msg","payload":{"type":"thread_rolled_back","num_turns":"all"}}',
        '{"timestamp":"","type":"response_item","payload":{"type":"message","role":"assistant","content":7}}',
        '{"timestamp":"","type":"response_item","payload":{"type":["message"],"role":"assistant","content":[]}}',
        "not json",
    ]
    path = tmp_path / "odd.jsonl"
    path.write_text("\n".join([*lines, *odd, *lines[5:], *odd]) + "\n")
    found = inspect_thread(read_rollout(str(path)))
    for number in range(1, len(found.report.requests) + 1):
        assert found.costs_of(number).total > 0
    assert found.report.notices
