"""Which shell runs the user's commands."""

from __future__ import annotations

import os

import msgspec

_KNOWN = ("bash", "zsh", "sh")
_FALLBACKS = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/bin/sh", "/usr/bin/sh")


class Shell(msgspec.Struct, frozen=True):
    """A shell we know how to call: `name` is bash, zsh or sh, `path` is absolute."""

    name: str
    path: str


def user_shell() -> Shell:
    """The login shell of the password file if we know how to call it, else bash, else sh."""
    return choose_shell(_login_shell())


def choose_shell(login_shell: str) -> Shell:
    for path in (login_shell, *_FALLBACKS):
        name = os.path.basename(path)
        if name in _KNOWN and path.startswith("/") and os.access(path, os.X_OK):
            return Shell(name, path)
    return Shell("sh", "/bin/sh")


def _login_shell() -> str:
    import pwd  # not on every platform

    try:
        return pwd.getpwuid(os.getuid()).pw_shell
    except KeyError:  # a container may run under a uid without an entry
        return ""
