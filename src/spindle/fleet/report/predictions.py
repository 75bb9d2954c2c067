"""Patches in the form in which the evaluation of SWE-bench takes them: one object a line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

from spindle.errors import UsageError
from spindle.fleet.exchange import FILE_BYTES
from spindle.fleet.folder import FILES_OF_TASKS, RunFolder
from spindle.fleet.record import Record

UNKNOWN_MODEL = "unknown"


def swebench_lines(folder: RunFolder, model_name: str | None = None) -> Iterator[bytes]:
    """Every recorded task once, in the order of the list; one without a patch has an empty one."""
    for record in folder.records():
        prediction = {
            "instance_id": record.id,
            "model_name_or_path": model_name or record.model or UNKNOWN_MODEL,
            "model_patch": _patch(folder, record),
        }
        # ASCII: bytes of a patch that are no text stand as lone surrogates, and nothing of it is lost.
        yield json.dumps(prediction).encode() + b"\n"


def _patch(folder: RunFolder, record: Record) -> str:
    if record.patch is None:
        return ""
    path = folder.file(FILES_OF_TASKS, record.id, "patch.diff")
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            return file.read(FILE_BYTES + 1).decode("utf-8", "surrogateescape")
    except OSError as error:
        raise UsageError(f"{path}: the patch of this task cannot be read: {error.strerror}") from error
