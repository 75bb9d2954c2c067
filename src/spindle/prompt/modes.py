"""Developer messages that set how the model works with the person: collaboration mode, personality, model."""

from __future__ import annotations

from spindle.prompt.bundled import text
from spindle.prompt.instructions import personality_text
from spindle.protocol.items import Item, developer_message
from spindle.protocol.settings import CollaborationMode


def mode_text(mode: CollaborationMode) -> str | None:
    """The instructions of a mode; None when it has none, as the default mode."""
    if mode.developer_instructions:
        return mode.developer_instructions
    return text("mode_plan") if mode.mode == "plan" else None


def mode_message(mode: CollaborationMode) -> Item:
    """Entering `mode`; one without instructions of its own ends the former mode in words."""
    return developer_message(f"<collaboration_mode>{mode_text(mode) or text('mode_default')}</collaboration_mode>")


def personality_message(personality: str) -> Item:
    """A new style from here on."""
    style = personality_text(personality) or text("personality_none")
    return developer_message(f"<personality_spec>{style}</personality_spec>")


def model_switch_message(model_text: str) -> Item:
    """Another model takes over; `model_text` is its own base text."""
    return developer_message(f"<model_switch>\n{text('model_switch')}\n\n{model_text}\n</model_switch>")
