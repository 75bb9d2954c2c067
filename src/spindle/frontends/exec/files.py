"""The files a command line of `exec` names: pictures, the output schema, where the last message goes.

Everything about them that can be wrong is found before the first request, which somebody pays for.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Sequence

import msgspec

from spindle.errors import ConfigError
from spindle.protocol.items import decode_foreign

MAX_SCHEMA_BYTES = 8 * 1024 * 1024

_NOT_BESIDE = frozenset((errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.EXDEV, errno.ENAMETOOLONG))
"""No file can be put beside the old one, or in its place; it can perhaps be written all the same."""


def check_images(paths: Sequence[str]) -> None:
    """Raise ConfigError for the first that is no picture a model could be shown."""
    if not paths:
        return
    from spindle.tools.images import ImageError, check_image  # only with pictures

    for path in paths:
        try:
            check_image(os.path.abspath(path))
        except ImageError as error:
            raise ConfigError(
                f"the picture {path} cannot be attached: {error}; accepted are PNG, JPEG, GIF and WebP files"
            ) from error


def read_schema(path: str | None) -> dict[str, object] | None:
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            content = file.read(MAX_SCHEMA_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"cannot read the output schema {path}: {error.strerror}") from error
    if len(content) > MAX_SCHEMA_BYTES:
        raise ConfigError(f"the output schema {path} is larger than {MAX_SCHEMA_BYTES >> 20} MiB")
    try:
        schema = decode_foreign(content.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"the output schema {path} is not JSON: {error}") from error
    if not isinstance(schema, dict):
        raise ConfigError(f"the output schema {path} must be a JSON object")
    return schema


# ---- the last message --------------------------------------------------------------------------------


def check_output(path: str | None) -> None:
    """Raise ConfigError unless the last message can be written there, as far as that can be told without writing."""
    if path is None:
        return
    try:
        reason = _why_unwritable(os.path.realpath(path), names_folder=path.endswith("/"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
    if reason is not None:
        raise ConfigError(f"the last message cannot be written to {path} (-o): {reason}")


def _why_unwritable(target: str, *, names_folder: bool) -> str | None:
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        folder = os.path.dirname(target)
        if names_folder:
            return "it names a folder; name a file in it"
        if not os.path.isdir(folder):
            return f"the folder {folder} does not exist"
        if os.access(folder, os.W_OK | os.X_OK):
            return None
        is_read_only = os.statvfs(folder).f_flag & os.ST_RDONLY
        return f"{folder} is on a read-only file system" if is_read_only else f"no permission to write in {folder}"
    if stat.S_ISDIR(mode):
        return "it is a folder; name a file in it"
    if not stat.S_ISREG(mode):
        return None if os.access(target, os.W_OK) else "no permission"
    # Opened as it will be, but not emptied: what it holds is good until there is something better.
    os.close(os.open(target, os.O_WRONLY | os.O_CLOEXEC))
    return None


def write_last_message(path: str | None, message: str | None) -> bool:
    """Put the last message into the file. False, and a sentence on stderr, when that cannot be done."""
    if path is None:
        return True
    try:
        _write_whole(os.path.realpath(path), (message or "").encode("utf-8", "replace"))
    except OSError as error:
        print(f"error: the last message cannot be written to {path} (-o): {error.strerror}", file=sys.stderr)
        return False
    if message is None:
        print(f"warning: there is no last message; {path} is empty", file=sys.stderr)
    return True


def _write_whole(target: str, content: bytes) -> None:
    """Replace the file at once, so that it never holds a half; where that is impossible, write into it."""
    try:
        old = os.stat(target)
    except FileNotFoundError:
        old = None
    if old is None or (stat.S_ISREG(old.st_mode) and old.st_nlink == 1):
        try:
            if _put_in_place(target, content, old):
                return
        except OSError as error:
            if error.errno not in _NOT_BESIDE:
                raise
    _fill(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666), content)


def _put_in_place(target: str, content: bytes, old: os.stat_result | None) -> bool:
    """Write beside the file and rename. False when the new file would belong to somebody else than the old one."""
    beside = f"{os.path.dirname(target)}/.spindle-{os.getpid()}-{os.urandom(4).hex()}"
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        if old is not None:
            new = os.fstat(fd)
            if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
                os.close(fd)
                os.unlink(beside)
                return False
            os.fchmod(fd, stat.S_IMODE(old.st_mode))
        _fill(fd, content)
        os.rename(beside, target)
    except BaseException:
        try:
            os.unlink(beside)
        except OSError:
            pass
        raise
    return True


def _fill(fd: int, content: bytes) -> None:
    try:
        while content:
            content = content[os.write(fd, content) :]
    finally:
        os.close(fd)
