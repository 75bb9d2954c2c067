"""A small shell that outlives this process when it is killed, to do what this process no longer can.

It waits on a pipe: the kernel closes our end however we die. A script for it begins with `WAIT`.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

from spindle.process import kill

WAIT = "read -r _ && exit\n"


class Survivor:
    """Runs `script` after our death; `arguments` are its $0, $1 and so on."""

    def __init__(self, script: str, arguments: Sequence[str]) -> None:
        waited_on, self._ours = os.pipe()
        try:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", script, *arguments],
                stdin=waited_on,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={"PATH": "/usr/bin:/bin"},
                cwd="/",
                start_new_session=True,
            )
        except OSError:
            os.close(self._ours)
            raise
        finally:
            os.close(waited_on)
        kill.note_leader(self._process.pid)

    def close(self) -> None:
        """Not needed any more: there is nothing left to do after us."""
        self._process.kill()
        self._process.wait()
        kill.note_leader(self._process.pid, is_over=True)
        os.close(self._ours)
