"""Ends unconfined commands when this process dies without a chance to do so itself.

A confined command dies with its launcher. For the others a small shell waits on a pipe: the kernel closes our end
however we die, and the shell then kills every process that carries the table's mark.
"""

from __future__ import annotations

from spindle.process import kill
from spindle.process.survivor import WAIT, Survivor

_SCRIPT = (
    WAIT
    + """
for pass in 1 2 3; do
  for found in $(grep -lzs "^$0" /proc/[0-9]*/environ); do
    found=${found%/environ}
    kill -9 "${found#/proc/}"
  done
  grep -s "^Max file locks" /proc/[0-9]*/limits | while read -r found _ _ value _; do
    [ "$value" != unlimited ] && [ "$((value >> $2))" = "$1" ] || continue
    found=${found%%/limits*}
    kill -9 "${found#/proc/}"
  done
done 2>/dev/null
"""
)
"""$0 is the mark as a variable, $1 and $2 say which resource limits carry it; see `kill`. What forks meanwhile is met
in a later pass."""


class Watchdog(Survivor):
    """Lives from the first unconfined command to the end of the thread."""

    def __init__(self, mark: kill.Mark) -> None:
        super().__init__(_SCRIPT, (f"{kill.MARK_NAME}={mark.text}", str(mark.table), str(kill.NUMBER_BITS)))
