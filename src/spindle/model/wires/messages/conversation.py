"""A thread as the messages of the Messages API: which block each item becomes, and where it stands. Pure.

The server's rules, which this keeps: roles alternate and the user begins and ends; what calls gave comes first in the
user message right after them, each exactly once; no text is empty; an assistant message does not end in thinking.
Blocks are only ever added behind those that are there.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence

from spindle.context.calls import exit_code_of, output_text
from spindle.context.visible import ABORTED
from spindle.model.call_ids import SentIds
from spindle.model.wires.item_parts import CONTINUE, CONTINUED, call_name, developer_block, texts_of
from spindle.model.wires.messages.blocks import (
    Block,
    call_block,
    result_block,
    said_block,
    shown_blocks,
    text_block,
    thinking_block,
    user_block,
)
from spindle.protocol.items import Item, call_id_of, is_call, is_output
from spindle.protocol.request import VisibleItem

_FIRST_WORD = user_block(text_block(CONTINUED))
_LAST_WORD = user_block(text_block(CONTINUE))

THINKING = "thinking"
"""Key of an item's opaque part: the block of thinking, as the server sent it."""
PAUSED = "paused"
"""Key of the opaque part of an answer's last item: the model paused, and was asked to go on."""

_FAILED = re.compile(
    r"aborted|failed to |unable to |unsupported (?:custom tool )?call|err: |rejected: |`[^`\n]{1,200}` rejected: "
    r"|(?:\w+|exec command|tool call) (?:failed|rejected)(?:: | by user)|apply_patch verification failed"
    r"|tool \S{1,99} failed internally|This call was not run"
)
"""How outputs of our own tools begin that tell of a failure, beside those that state an exit code."""


class Conversation:
    """The blocks of a growing thread. What `take` has put into `blocks` and `lead` stays as it is."""

    def __init__(self) -> None:
        self.lead: list[str] = []
        """What the developer said before the first person did: part of the system text."""
        self.blocks: list[Block] = []
        self.weight = 0
        """Their length, in bytes of text."""
        self.called: dict[str, None] = {}
        """The names of all tools that were called, in the order of their first call."""
        self._is_lead = True
        self._run: list[Block] = []
        """What the model says now; another item of its own may still join it."""
        self._given: list[Block] = []
        """What the calls in `_run` gave."""
        self._ids = SentIds()

    def take(self, items: Sequence[VisibleItem]) -> None:
        """Go on with these items. What answers a call must be among them, as it is in every request."""
        outputs = _outputs(items)
        for place, visible in enumerate(items):
            item = visible.item
            if is_call(item):
                self._call(item, outputs.get(place))
            elif is_output(item):
                self._end_run()
            elif item.get("type") == "message":
                self._message(item)
            elif item.get("type") == "reasoning" and visible.opaque and isinstance(visible.opaque.get(THINKING), dict):
                self._run.append(thinking_block(visible.opaque[THINKING]))
            if visible.opaque and visible.opaque.get(PAUSED):
                self._end_run()
                self._hand_over()

    def tail(self) -> list[Block]:
        """What follows `blocks` in a request made now: what the model said last, and a word of the user's."""
        run = _whole_run(self._run)
        last = (self._given or run or self.blocks)[-1:]
        first = [_FIRST_WORD] if run and not self.blocks else []
        return [*first, *run, *self._given, *([] if last and last[0].is_user else [_LAST_WORD])]

    # ---- items -----------------------------------------------------------------------------------------

    def _message(self, item: Item) -> None:
        role, content = item.get("role"), item.get("content")
        if role == "developer":
            texts = texts_of(content)
            if self._is_lead:
                self.lead += texts
            elif texts:
                self._end_run()
                self._add(user_block(text_block(developer_block("\n\n".join(texts)))))
        elif role == "assistant":
            for text in texts_of(content):
                self._run.append(said_block(text))
        elif role == "user":
            self._is_lead = False
            self._end_run()
            for block in shown_blocks(content):
                self._add(user_block(block))
            self._hand_over()  # whatever they said, it is the model's turn

    def _call(self, item: Item, output: Item | None) -> None:
        call_id = self._ids.of_call(call_id_of(item))
        self._run.append(call_block(item, call_id))
        self.called[call_name(item)] = None
        given = ABORTED if output is None else output.get("output", "")
        is_error = output is None or tells_of_failure(output)
        self._given.append(result_block(given, call_id, is_error=is_error))

    # ---- blocks ----------------------------------------------------------------------------------------

    def _end_run(self) -> None:
        """Somebody else has the word: what the model said is an assistant message, what its calls gave follows."""
        if run := _whole_run(self._run):
            for block in (*run, *self._given):
                self._add(block)
        self._run, self._given = [], []

    def _hand_over(self) -> None:
        """A request was made here, so the last word was not the model's."""
        if self.blocks and not self.blocks[-1].is_user:
            self._add(_LAST_WORD)

    def _add(self, block: Block) -> None:
        if not self.blocks and not block.is_user:
            self.blocks.append(_FIRST_WORD)
        self.blocks.append(block)
        self.weight += block.weight


def tells_of_failure(output: Item) -> bool:
    """Whether what a call gave says that it failed."""
    text = output_text(output)
    return _FAILED.match(text) is not None or (exit_code_of(text) or 0) != 0


def _outputs(items: Sequence[VisibleItem]) -> dict[int, Item]:
    """The place of each call → what answers it. Of several calls with one id, each has its own, in their order."""
    waiting: dict[str, deque[int]] = {}
    found: dict[int, Item] = {}
    for place, visible in enumerate(items):
        item = visible.item
        if is_call(item):
            waiting.setdefault(call_id_of(item), deque()).append(place)
        elif is_output(item) and (calls := waiting.get(call_id_of(item))):
            found[calls.popleft()] = item
    return found


def _whole_run(run: list[Block]) -> list[Block]:
    """What of the model's words makes a message: thinking that led to nothing does not."""
    if any(block.kind == "call" for block in run):
        return run  # the server wants it back as it was, down to the last block
    end = len(run)
    while end and run[end - 1].kind == "thinking":
        end -= 1
    return run[:end]
