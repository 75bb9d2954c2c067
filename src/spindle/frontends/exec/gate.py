"""What a review found, as an exit code and as a file for code hosts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import msgspec

from spindle.protocol.events import Msg
from spindle.protocol.review import ExitedReviewMode
from spindle.protocol.review_output import ReviewOutput

if TYPE_CHECKING:
    from spindle.workspace.output_file import OutputFile

FOUND = 3
"""The exit code of a review that found what it was to fail on."""


class Gate:
    """Hears a run, and judges it when it is over."""

    def __init__(self, fail_on: int | None, report: OutputFile | None, cwd: str) -> None:
        self._fail_on = fail_on
        """The lowest priority that fails the run; None = none does."""
        self._report = report
        self._cwd = cwd
        self._output: ReviewOutput | None = None

    def hear(self, msg: Msg) -> None:
        if isinstance(msg, ExitedReviewMode) and msg.review_output is not None:
            self._output = msgspec.convert(msg.review_output, ReviewOutput)

    def code(self) -> int:
        """The exit code of a run that ended well; writes the report first."""
        output = self._output
        if output is None:
            return 1
        if self._report is not None and not self._write(self._report, output):
            return 1
        if self._fail_on is None:
            return 0
        if not output.is_structured:
            print(
                "error: the reviewer did not answer in the form it was asked for, so --fail-on cannot judge it; "
                "run the review again",
                file=sys.stderr,
            )
            return 1
        return FOUND if any(finding.urgency <= self._fail_on for finding in output.findings) else 0

    def _write(self, report: OutputFile, output: ReviewOutput) -> bool:
        from spindle.frontends.exec.sarif import sarif_bytes  # few lines name a file

        try:
            report.write(sarif_bytes(output, self._cwd))
        except OSError as error:
            print(f"error: the report cannot be written to {report.path} (--sarif): {error.strerror}", file=sys.stderr)
            return False
        finally:
            report.close()
        return True
