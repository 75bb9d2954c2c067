"""The file with the token that clients must know: whoever can reach a port is not yet the user."""

from __future__ import annotations

import os
import stat

from spindle.errors import SpindleError
from spindle.policy.ownership import is_own

_TOKEN_MIN = 16
_TOKEN_MAX = 4096


def read_token(path: str) -> str:
    """The token that clients must send. A file that does not exist is made, with a new one, for the owner only."""
    try:
        token = _stored_token(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text, or its name is no path"
        raise SpindleError(f"the token file {path} cannot be used: {reason}") from error
    if len(token) < _TOKEN_MIN or not token.isascii() or not token.isprintable():
        raise SpindleError(f"the token in {path} must be at least {_TOKEN_MIN} printable characters")
    return token


def _stored_token(path: str) -> str:
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        # A pipe in its place must not be waited for.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        with open(fd, encoding="utf-8") as file:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise SpindleError(f"the token file {path} is not an ordinary file; name another") from None
            if not is_own(status.st_uid):
                raise SpindleError(
                    f"the token file {path} belongs to another user ({status.st_uid}), who knows its content; "
                    "name your own file"
                ) from None
            if status.st_mode & 0o077:
                raise SpindleError(
                    f"others can read the token file {path}; `chmod 600` it, or name a new one"
                ) from None
            token = file.read(_TOKEN_MAX + 1)
            if len(token) > _TOKEN_MAX:
                raise SpindleError(
                    f"the token file {path} holds more than {_TOKEN_MAX} characters; name another"
                ) from None
            return token.strip()
    token = os.urandom(32).hex()  # a key, not an id: it must come from the kernel
    with open(fd, "w", encoding="utf-8") as file:
        file.write(token + "\n")
    return token
