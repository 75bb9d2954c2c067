"""What shows a run, to a program or to a person."""

from __future__ import annotations

import os
import signal
import sys
from typing import Protocol

from spindle.errors import SpindleError
from spindle.protocol.events import Msg


class Printer(Protocol):
    """Gets every event of a run. `programs.py` has the one for programs, `people.py` the one for people."""

    is_json = False
    wants_deltas = False
    """Whether what streams is shown while it streams."""

    def show(self, msg: Msg) -> None: ...

    def stopping(self) -> None:
        """The turn was asked to stop, and will."""

    def abandon(self) -> None:
        """The process ends at once; nothing more is shown."""

    def close(self) -> None:
        """No more events come."""

    def finish(self, last_message: str | None) -> None:
        """The run is over, and this is its result."""


class Judge(Protocol):
    """Says with which exit code a run ends that ended well."""

    def hear(self, msg: Msg) -> None: ...

    def code(self) -> int: ...


def write_out(data: bytes) -> None:
    """Write to stdout at once. A reader that went away ends the run like a closed pipe ends any filter."""
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        os.kill(os.getpid(), signal.SIGTERM)
    except OSError as error:
        raise SpindleError(f"stdout cannot be written: {error.strerror}") from error
