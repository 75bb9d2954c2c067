"""The dialects of model servers: each turns a request into a body, and the frames of an answer into model events."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spindle.model.wires.wire import Wire

_CLASSES = {"responses": "ResponsesWire", "chat": "ChatWire", "messages": "MessagesWire", "forced": "ForcedWire"}
"""By the name of the wire. Of each there is a package here, with the modules `wire` and `decoder`."""


def make_wire(name: str) -> Wire:
    """The dialect for one thread; of the others nothing is loaded."""
    return getattr(import_module(f"spindle.model.wires.{name}.wire"), _CLASSES[name])()


def load_decoder(name: str) -> None:
    """Load what reads answers: nothing of it is needed to ask, and a server takes longer than this."""
    import_module(f"spindle.model.wires.{name}.decoder")
