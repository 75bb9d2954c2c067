"""What people see of a message that a program brought into a thread."""

from __future__ import annotations

from typing import Any

import pytest

from spindle.api.exports import _block
from spindle.api.records import _item
from spindle.api.shown import ExternalMessage
from spindle.frontends.acp.replay import replay
from spindle.frontends.app_server.items import shown_item
from spindle.frontends.context_words import shown_text
from spindle.frontends.export_blocks import _blocks
from spindle.frontends.plain_text import Look
from spindle.frontends.transcript import Transcript
from spindle.frontends.tui.cells.cell import Look as CellLook
from spindle.frontends.tui.cells.external import External
from spindle.protocol.events import ItemCompleted
from spindle.protocol.items import user_message
from spindle.thread import view
from spindle.thread.history import History

PARTS = [{"type": "input_text", "text": "red\x1b[2J"}, {"type": "input_image", "image_url": "data:x"}]
ITEM: dict[str, Any] = {"type": "function_call_output", "id": "fco_1", "name": "ci", "namespace": "n", "output": PARTS}
SHOWN = {**ITEM, "type": "FunctionCallOutput"}


def rows(item: dict[str, Any], **look: bool) -> list[str]:
    return ["".join(span.text for span in line.spans) for line in External(item).lines(CellLook(60, **look))]


def test_a_terminal_shows_who_brought_it_and_no_control_characters() -> None:
    done = ItemCompleted(thread_id="t", turn_id="u", item=SHOWN)
    said = Transcript(Look(), version="1.0", summary="auto").translate(done)
    assert said.startswith("message from n.ci\n") and "[1 picture]" in said and "\x1b" not in said
    for words in (False, True):
        first, *rest = rows(SHOWN, words=words)
        assert "Message from n.ci" in first and "red" in rest[0] and "[1 picture]" in rest[1]
        assert not any("\x1b" in row for row in (first, *rest))


def test_the_interface_shows_the_beginning_of_a_long_one() -> None:
    long = {**SHOWN, "output": "\n".join(map(str, range(100)))}
    shown = rows(long)
    assert len(shown) == 12 and "90 lines more" in shown[-1]
    assert len(rows(long, is_whole=True)) == 101


def test_exports_and_the_python_api_have_it() -> None:
    item = _item(SHOWN, "item_0", "/w")
    assert item == ExternalMessage(id="item_0", tool="n.ci", text="red\x1b[2J\n[1 picture]")
    block = _block(item)
    assert block is not None and block.heading == "Message from n.ci"
    shown = shown_item(SHOWN)
    assert shown is not None and next(iter(_blocks(shown))) == block
    assert shown_text(ITEM) == "red\x1b[2J\n[1 picture]"


@pytest.mark.parametrize("has_event", [True, False])
def test_a_record_shows_it_once_and_nobody_takes_it_for_a_persons(has_event: bool) -> None:
    history = History()
    history.append_item(ITEM)
    if has_event:
        history.append_event({"type": "item_completed", "thread_id": "t", "turn_id": "u", "item": SHOWN})
    assert view.preview(history.records) is None and view.spoken_texts(history.records) == []
    history.append_item(user_message("go"))
    items = [item for turn in view.transcript(history.records) for item in turn.items]
    assert [item["type"] for item in items] == ["FunctionCallOutput", "UserMessage"]
    assert items[0] == SHOWN
    call, end, said = replay(history.records, "/w", {})
    assert (call["title"], end["status"], said["sessionUpdate"]) == (
        "Message from n.ci",
        "completed",
        "user_message_chunk",
    )
