"""A copy of a damaged rollout file beside it, made before anything is added, so that the original is not lost."""

from __future__ import annotations

from spindle.thread import layout, private_files

MAX_COPIES = 9


def keep_original(path: str) -> str | None:
    """Copy the file unless a copy of this state is there already; where it is, or None when it cannot be made."""
    try:
        with open(path, "rb") as file:
            data = file.read()
        copies = layout.kept_originals(path)
        for copy in copies:
            with open(copy, "rb") as file:
                # Since that copy was made, lines were only added.
                if data.startswith(file.read()):
                    return copy
        if len(copies) >= MAX_COPIES:
            return copies[-1]
        number = f"-{len(copies) + 1}" if copies else ""
        copy = f"{path}{layout.KEPT_SUFFIX}{number}"
        private_files.replace_private(copy, data)
    except OSError:
        return None
    return copy
