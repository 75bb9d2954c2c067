"""What the diff of a turn shows of files that its commands have changed."""

from __future__ import annotations

import os

from spindle.features.checkpoints.images import Change, Image
from spindle.features.checkpoints.store import Store
from spindle.patch.diff import TurnDiffTracker


def record_change(tracker: TurnDiffTracker, store: Store, change: Change) -> None:
    """Tell the diff of a turn what has become of a path."""
    if change.is_about_folder:
        return
    old, new = content_of(store, change.before), content_of(store, change.after)
    tracker.record(change.path, old, new, mode=git_mode(change.after), before_mode=git_mode(change.before))


def content_of(store: Store, image: Image) -> bytes | None:
    """What a diff shows of an image: None for nothing, and bytes that are no text for what was not kept."""
    match image.kind:
        case "file" if image.digest:
            return store.get(image.digest)
        case "file" | "other":
            return b"\0" + repr(image).encode()
        case "link":
            return os.fsencode(image.target)
        case _:
            return None


def git_mode(image: Image) -> int:
    return 0o120000 if image.kind == "link" else image.mode or 0o644
