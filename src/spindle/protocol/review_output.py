"""What a reviewer answers: its form, how it is read, and how people see it. Pure."""

from __future__ import annotations

import math
import re
from typing import Any

import msgspec

from spindle.protocol.items import decode_foreign

NO_ANSWER = "Reviewer failed to output a response."
LOWEST_PRIORITY = 3
_MOST_LINES = 2**31 - 1
_PRIORITY = re.compile(r"\s*\[P([0-3])\]", re.IGNORECASE)


class LineRange(msgspec.Struct, frozen=True, kw_only=True):
    start: int
    end: int


class CodeLocation(msgspec.Struct, frozen=True, kw_only=True):
    absolute_file_path: str
    line_range: LineRange


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that the author of the change should know."""

    title: str
    body: str
    confidence_score: float
    priority: int | None
    """0 (drop everything) to 3 (nice to have); None where the reviewer gave none."""
    code_location: CodeLocation

    @property
    def urgency(self) -> int:
        """Its priority for those who must decide: the worse of the number and of what the title begins with."""
        marked = _PRIORITY.match(self.title)
        told = LOWEST_PRIORITY if self.priority is None else self.priority
        return min(told, int(marked[1])) if marked else told

    @property
    def place(self) -> str:
        where, lines = self.code_location.absolute_file_path, self.code_location.line_range
        return f"{where}:{lines.start}-{lines.end}"


class ReviewOutput(msgspec.Struct, frozen=True, kw_only=True):
    """What a review found."""

    findings: list[Finding] = []
    overall_correctness: str = ""
    """"patch is correct" or "patch is incorrect"; empty when the reviewer did not answer in the form."""
    overall_explanation: str = ""
    overall_confidence_score: float = 0.0

    @property
    def is_structured(self) -> bool:
        """The reviewer answered in the form that was asked for, so that no finding can be a good sign."""
        return bool(self.overall_correctness or self.findings)


def read_output(text: str | None) -> ReviewOutput:
    """The whole message as JSON, else the outermost object in it, else the text is the explanation."""
    said = (text or "").strip()
    first, last = said.find("{"), said.rfind("}")
    for candidate in (said, said[first : last + 1] if 0 <= first < last else ""):
        found = _decoded(candidate)
        if isinstance(found, dict) and ("findings" in found or "overall_explanation" in found):
            return form_of(found)
    return ReviewOutput(overall_explanation=said)


def render(output: ReviewOutput) -> str:
    """The review as people read it."""
    parts: list[str] = []
    if explanation := output.overall_explanation.strip():
        parts.append(explanation)
    if output.findings:
        heading = "Review comment:" if len(output.findings) == 1 else "Full review comments:"
        parts += [heading, *map(_rendered, output.findings)]
    return "\n\n".join(parts) or NO_ANSWER


def _rendered(finding: Finding) -> str:
    where = f" — {finding.place}" if finding.code_location.absolute_file_path else ""
    body = finding.body.rstrip().split("\n") if finding.body.strip() else []
    return "\n".join([f"- {' '.join(finding.title.split())}{where}", *(f"  {line}" for line in body)])


# ---- reading what a model wrote ----------------------------------------------------------------------


def _decoded(text: str) -> Any:
    if not text.startswith("{"):
        return None
    try:
        return decode_foreign(text)
    except (msgspec.DecodeError, ValueError):
        return None


def form_of(found: dict[str, Any]) -> ReviewOutput:
    """What an object says, as far as it has the form; what is missing or wrong in it is left out."""
    findings = found.get("findings")
    return ReviewOutput(
        findings=[_finding(one) for one in findings if isinstance(one, dict)] if isinstance(findings, list) else [],
        overall_correctness=_text(found.get("overall_correctness")),
        overall_explanation=_text(found.get("overall_explanation")),
        overall_confidence_score=_score(found.get("overall_confidence_score")),
    )


def _finding(found: dict[str, Any]) -> Finding:
    location = found.get("code_location")
    location = location if isinstance(location, dict) else {}
    lines = location.get("line_range")
    lines = lines if isinstance(lines, dict) else {}
    start = _line(lines.get("start"))
    return Finding(
        title=_text(found.get("title")).strip(),
        body=_text(found.get("body")),
        confidence_score=_score(found.get("confidence_score")),
        priority=_priority(found.get("priority")),
        code_location=CodeLocation(
            absolute_file_path=_text(location.get("absolute_file_path")).strip(),
            line_range=LineRange(start=start, end=max(start, _line(lines.get("end")))),
        ),
    )


def _priority(value: Any) -> int | None:
    """Also as `1.0` or "P1": what a gate does not see, it lets through."""
    if isinstance(value, str):
        value = {f"P{number}": number for number in range(LOWEST_PRIORITY + 1)}.get(value.strip(" []").upper())
    if isinstance(value, bool) or not isinstance(value, int | float) or value not in range(LOWEST_PRIORITY + 1):
        return None
    return int(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _score(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return 0.0
    return min(1.0, max(0.0, float(value)))


def _line(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return 0
    return min(_MOST_LINES, max(0, int(value)))
