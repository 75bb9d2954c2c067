"""A turn in plan mode: the block with the plan is shown as an item of its own, and not in the message around it.

What the model is sent keeps the whole text; only what people are shown and what the record says was shown is split.
Loaded with the first turn in plan mode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from spindle.core.feature import Feature
from spindle.core.running_turn import RunningTurn
from spindle.core.showing import MessageView
from spindle.protocol.events import AgentMessageContentDelta, ItemCompleted, ItemStarted, Msg
from spindle.protocol.questions import PlanDelta
from spindle.protocol.tagged import Piece, TagParser

TAGS = {"plan": ("<proposed_plan>", "</proposed_plan>")}


class PlanMode(Feature):
    """Turns in plan mode show their plans apart."""

    async def before_input(self, turn: RunningTurn) -> bool:
        if turn.settings.collaboration_mode.mode == "plan":
            turn.view = PlanView(turn)
        return True


class PlanView(MessageView):
    """What one turn shows of the messages in it."""

    def __init__(self, turn: RunningTurn) -> None:
        super().__init__(turn)
        self._thread = turn.thread
        self._turn_id = turn.turn_id
        self._emit = turn.emit
        self._parsers: dict[str, TagParser] = {}
        self._held: dict[str, dict[str, Any]] = {}
        """Messages that have begun and of which nothing is to be seen yet."""
        self._blank: dict[str, str] = {}
        """White space that such a message began with; it goes before its first words."""
        self._has_begun = False

    @property
    def _plan_id(self) -> str:
        return f"{self._turn_id}-plan"

    def announce(self, item_id: str, shown: dict[str, Any]) -> None:
        """A message begins. It is shown with its first words: there may be none beside the plan."""
        self._held[item_id] = shown

    def show(self, msg: Msg) -> None:
        """Emit a message of the stream; pieces of a text go where they belong."""
        if not isinstance(msg, AgentMessageContentDelta):
            self._emit(msg)
            return
        parser = self._parsers.get(msg.item_id)
        if parser is None:
            parser = self._parsers[msg.item_id] = TagParser(TAGS)
        self._tell(parser.feed(msg.delta), msg)

    def finish(self, item_id: str) -> None:
        """The message has ended: show what was held back of it."""
        parser = self._parsers.pop(item_id, None)
        if parser is not None:
            empty = AgentMessageContentDelta(
                thread_id=self._thread.thread_id, turn_id=self._turn_id, item_id=item_id, delta=""
            )
            self._tell(parser.finish(), empty)

    def _tell(self, pieces: list[Piece], like: AgentMessageContentDelta) -> None:
        for piece in pieces:
            match piece.kind:
                case "text":
                    said = self._blank.pop(like.item_id, "") + piece.text
                    if said.strip() or like.item_id not in self._held:
                        self._reveal(like.item_id, self._emit)
                        self._emit(msgspec.structs.replace(like, delta=said))
                    else:
                        self._blank[like.item_id] = said
                case "start":
                    self._begin_plan()
                case "inner":
                    self._emit(
                        PlanDelta(
                            thread_id=like.thread_id, turn_id=like.turn_id, item_id=self._plan_id, delta=piece.text
                        )
                    )
                case "end":
                    pass

    def _reveal(self, item_id: str, tell: Callable[[Msg], None]) -> None:
        if (shown := self._held.pop(item_id, None)) is not None:
            tell(ItemStarted(thread_id=self._thread.thread_id, turn_id=self._turn_id, item=shown))

    def _begin_plan(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            item = {"type": "Plan", "id": self._plan_id, "text": ""}
            self._emit(ItemStarted(thread_id=self._thread.thread_id, turn_id=self._turn_id, item=item))

    def complete(self, item_id: str, text: str, tell: Callable[[Msg], None]) -> str | None:
        """The whole message has come: record its plan; gives what is left of it, None when there is nothing.

        `tell` takes what people are to see of it once the message itself is recorded.
        """
        parser = TagParser(TAGS)
        pieces = [*parser.feed(text), *parser.finish()]
        plan = _last_block(pieces)
        if plan is not None:
            self._begin_plan()
            item = {"type": "Plan", "id": self._plan_id, "text": plan}
            done = ItemCompleted(thread_id=self._thread.thread_id, turn_id=self._turn_id, item=item)
            self._thread.history.append_event(msgspec.to_builtins(done))
            tell(done)
        rest = "".join(piece.text for piece in pieces if piece.kind == "text")
        is_seen = item_id not in self._held
        if plan is not None and not rest.strip() and not is_seen:
            del self._held[item_id]
            return None
        self._reveal(item_id, tell)
        return rest


def _last_block(pieces: list[Piece]) -> str | None:
    """A model that gives two plans means the second."""
    found: str | None = None
    for piece in pieces:
        if piece.kind == "start":
            found = ""
        elif piece.kind == "inner" and found is not None:
            found += piece.text
    return found
