"""A private terminal for a program that wants one: 24 lines of 80 columns, unless somebody wants another size, and
really its controlling terminal.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Sequence

ROWS, COLUMNS = 24, 80
_TIOCSWINSZ = 0x5414
_TIOCSWINSZ_BSD = 0x80087467

_ACQUIRE = 'exec "$@" <>"$0" >&0 2>&0'
"""A session leader without a terminal gets the first one it opens by name; $0 is that name."""

_ACQUIRE_DEAF = "trap '' INT QUIT TSTP; " + _ACQUIRE
"""The same for a launcher that must outlive a Ctrl-C typed at the program inside it."""


class Terminal:
    """Both ends of a pseudo-terminal. `outer` is ours, `inner` becomes the program's standard streams."""

    __slots__ = ("inner", "outer", "path")

    def __init__(self, outer: int, inner: int, path: str) -> None:
        self.outer = outer
        self.inner = inner
        self.path = path


def open_terminal(size: tuple[int, int] | None = None) -> Terminal:
    """`size` is in rows and columns."""
    outer, inner = os.openpty()
    try:
        resize(inner, *(size or (ROWS, COLUMNS)))
        os.set_blocking(outer, False)
        return Terminal(outer, inner, os.ttyname(inner))
    except BaseException:
        os.close(outer)
        os.close(inner)
        raise


def resize(fd: int, rows: int, columns: int) -> None:
    """Give the terminal another size; the program in it is told by the system."""
    import sys  # already loaded; only to know which ioctl number this system uses

    request = _TIOCSWINSZ if sys.platform == "linux" else _TIOCSWINSZ_BSD
    fcntl.ioctl(fd, request, struct.pack("HHHH", rows, columns, 0, 0))


def with_controlling_terminal(argv: Sequence[str], path: str, *, has_launcher: bool) -> list[str]:
    """`argv` behind a small shell that opens the terminal first, as `login` would, then becomes the program.

    Without it there is no /dev/tty: password prompts, editors and Ctrl-C would not work.
    """
    script = _ACQUIRE_DEAF if has_launcher else _ACQUIRE
    return ["/bin/sh", "-c", script, path, *argv]
