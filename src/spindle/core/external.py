"""A message that a program sends from outside the conversation. Loaded with the first one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from spindle.context.truncate import truncate_output
from spindle.core.secrecy import mask_output
from spindle.protocol.events import ItemCompleted, ItemStarted
from spindle.protocol.items import external_output
from spindle.protocol.ops import ToolOutput

if TYPE_CHECKING:
    from spindle.core.running_turn import RunningTurn


def append_external(turn: RunningTurn, given: ToolOutput) -> None:
    """Record it as what it is, an output that no call asked for, and show it. The model gets it cut as any output."""
    thread, mask = turn.thread, turn.thread.secrets.mask_known
    # Secrets go whole, before the output is cut, or a part of one would come through.
    output = mask_output(given.output, secrets=thread.secrets)
    item_id, name = f"fco_{thread.clock.uuid7()}", mask(given.name)
    namespace = None if given.namespace is None else mask(given.namespace)
    cut = truncate_output(output, thread.truncation.mode, thread.truncation.limit)
    thread.history.append_item(external_output(item_id, name, namespace, cut))
    shown = {**external_output(item_id, name, namespace, output), "type": "FunctionCallOutput"}
    done = ItemCompleted(thread_id=thread.thread_id, turn_id=turn.turn_id, item=shown)
    thread.history.append_event(msgspec.to_builtins(done))
    turn.emit(ItemStarted(thread_id=thread.thread_id, turn_id=turn.turn_id, item=shown))
    turn.emit(done)
