"""Puts what is made of a run into files: each is there as a whole, or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress

from spindle.errors import UsageError
from spindle.fleet.folder import RunFolder
from spindle.fleet.report.rows import csv_text

PAGE, TABLE = "report.html", "results.csv"


def write_report(
    folder: RunFolder, output: str | None, now: float, put: Callable[[bytes, str], None] | None = None
) -> str:
    """Write the page and the table of all records; gives the path of the page. `now` is the time of day.

    `put` writes a file that a person named: it knows which links lead there by the person's will.
    """
    from spindle.fleet.report.page import render  # only for a page

    path = os.path.abspath(output) if output else folder.file(PAGE)
    write_file(folder.file(TABLE), (piece.encode() for piece in csv_text(folder)))
    page = render(folder, os.path.dirname(path), now).encode()
    if output and put is not None:
        put(page, path)
    else:
        write_file(path, [page])
    return path


def write_file(path: str, pieces: Iterable[bytes]) -> None:
    """Replace a file. Raises UsageError."""
    beside = f"{path}.{os.getpid()}.new"
    try:
        with open(beside, "xb") as file:
            for piece in pieces:
                file.write(piece)
        os.replace(beside, path)
    except OSError as error:
        with suppress(OSError):
            os.unlink(beside)
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise
