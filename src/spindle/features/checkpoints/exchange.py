"""Names of files exchanged, or given without overwriting, in one step of the kernel. Linux and macOS have calls for it.

Whether it works depends on the file system too. Where it does not, the answer is None, and nothing was changed.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from spindle.tools.safe_files import open_parent

_NOT_HERE = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM)
"""The kernel or the file system does not know it, or a fence around us does not let it through."""


class OneStep(msgspec.Struct, frozen=True):
    """How this system does it."""

    call: Callable[..., int] | None = None
    """Folder and name, folder and name, flags: `renameat2` of Linux, `renameatx_np` of macOS. None: it has neither."""
    swap: int = 0
    """The flag to exchange both names."""
    exclusive: int = 0
    """The flag not to overwrite what has the second name."""

    def swapped(self, one: str, other: str) -> bool | None:
        """Exchange two names. False: one of them is not there."""
        return self._rename(one, other, self.swap, errno.ENOENT)

    def moved(self, old: str, new: str) -> bool | None:
        """Give what is at `old` another name. False: something has that already."""
        return self._rename(old, new, self.exclusive, errno.EEXIST)

    def _rename(self, one: str, other: str, flag: int, refusal: int) -> bool | None:
        if self.call is None:
            return None
        with open_parent(one) as (from_folder, from_name), open_parent(other) as (to_folder, to_name):
            ctypes.set_errno(0)
            if self.call(from_folder, os.fsencode(from_name), to_folder, os.fsencode(to_name), flag) == 0:
                return True
        failure = ctypes.get_errno()
        if failure == refusal:
            return False
        if failure in _NOT_HERE:
            return None
        raise OSError(failure, os.strerror(failure), other)


def one_step(platform: str = sys.platform, library: Any = None) -> OneStep:
    """How a system does it; `library` is its C library."""
    names = {"linux": ("renameat2", 2, 1), "darwin": ("renameatx_np", 2, 4)}
    name, swap, exclusive = names.get(platform, ("", 0, 0))
    call = getattr(library or ctypes.CDLL(None, use_errno=True), name, None) if name else None
    return OneStep(call, swap, exclusive)
