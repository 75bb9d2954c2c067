"""What a program reads of a run: JSON lines on stdout, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spindle.frontends.exec.jsonl import JsonlTranslator, encode_line
from spindle.frontends.exec.printer import Printer, write_out
from spindle.protocol.events import Msg

if TYPE_CHECKING:
    from spindle.api.door import OpenThread, SessionRequest


class JsonPrinter(Printer):
    """Each event as the lines it has."""

    is_json = True

    def __init__(self, thread: OpenThread, request: SessionRequest) -> None:
        self._translator = JsonlTranslator(hide_reasoning=request.config.hide_agent_reasoning)
        self._translator.set_usage(thread.usage.to_dict())

    def show(self, msg: Msg) -> None:
        if lines := self._translator.translate(msg):
            write_out(b"".join(map(encode_line, lines)))
