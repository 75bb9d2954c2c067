"""What the terminal before us is and can do, if there is one."""

from __future__ import annotations

import os
from collections.abc import Mapping

STDIN, STDOUT, STDERR = 0, 1, 2


def is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return False


def is_one_terminal(first: int, second: int) -> bool:
    """Whether both descriptors are the same terminal: what is written to one is seen beside the other's."""
    if not (is_terminal(first) and is_terminal(second)):
        return False
    a, b = os.fstat(first), os.fstat(second)
    return (a.st_dev, a.st_ino, a.st_rdev) == (b.st_dev, b.st_ino, b.st_rdev)


def terminal_size(descriptor: int) -> tuple[int, int]:
    """Columns and rows; 80 × 24 where the terminal does not know its own."""
    try:
        size = os.get_terminal_size(descriptor)
    except OSError:
        return 80, 24
    return size.columns or 80, size.lines or 24


def columns_of(descriptor: int) -> int | None:
    """The width to fit into; None where there is no terminal, because a file or a pipe takes lines of any length."""
    return terminal_size(descriptor)[0] if is_terminal(descriptor) else None


def is_dumb(env: Mapping[str, str]) -> bool:
    """A terminal that only appends: no colours, no moving about."""
    return env.get("TERM", "") in ("", "dumb", "unknown")


def wants_ascii(env: Mapping[str, str]) -> bool:
    """Whether our own signs must be plain ASCII: the locale, or the terminal, may not know more."""
    locale = env.get("LC_ALL") or env.get("LC_CTYPE") or env.get("LANG") or ""
    if env.get("LANG") in ("C", "POSIX") and not env.get("LC_ALL"):
        locale = "C"  # Python itself has put a UTF-8 locale into LC_CTYPE then
    return env.get("TERM") == "dumb" or "utf" not in locale.lower()


def wants_color(when: str, descriptor: int, env: Mapping[str, str]) -> bool:
    """`when` is always, never or auto."""
    if when != "auto":
        return when == "always"
    return is_terminal(descriptor) and not env.get("NO_COLOR") and not is_dumb(env)


def is_in_foreground(descriptor: int) -> bool:
    """Whether the terminal is ours to draw on: a job in the background would draw over what a person types."""
    try:
        return os.tcgetpgrp(descriptor) == os.getpgrp()
    except OSError:
        return True  # a terminal without job control
