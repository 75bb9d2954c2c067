"""A patch while the model is still writing it, for people who watch. Its tool reports later what the patch did."""

from __future__ import annotations

from spindle.patch.partial import changes_so_far
from spindle.policy.secrets import Secrets
from spindle.protocol.model_side import PatchApplyUpdated

_MOST_CHARACTERS = 1 << 18
"""A patch that is longer than this is shown only once it is whole."""


class PatchPreview:
    """One call. Each update shows all of it, so they become rarer as it grows: together they stay in proportion."""

    def __init__(self, call_id: str, turn_id: str, secrets: Secrets) -> None:
        self._call_id = call_id
        self._turn_id = turn_id
        self._masker = secrets.text_stream()
        self._pieces: list[str] = []
        self._size = 0
        self._shown_at = 0

    def feed(self, delta: str) -> PatchApplyUpdated | None:
        """What is to be shown after one more piece, if it is time."""
        if self._size > _MOST_CHARACTERS:
            return None
        shown = self._masker.feed(delta)
        self._pieces.append(shown)
        self._size += len(shown)
        if "\n" not in shown or self._size < self._shown_at * 9 // 8:
            return None
        text = "".join(self._pieces)
        self._pieces = [text]
        self._shown_at = self._size
        changes = changes_so_far(text)
        return PatchApplyUpdated(call_id=self._call_id, turn_id=self._turn_id, changes=changes) if changes else None
