"""Findings of a review as SARIF 2.1.0, the form in which code hosts take results. Pure but for paths."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import quote

import msgspec

from spindle import __version__
from spindle.protocol.review_output import Finding, ReviewOutput
from spindle.workspace.git import find_repository

_LEVELS = ("error", "error", "warning", "note")
_RULES = (
    ("P0", "Must be fixed before anything else"),
    ("P1", "Should be fixed before the change is merged"),
    ("P2", "An ordinary defect"),
    ("P3", "Worth knowing"),
)
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif_bytes(output: ReviewOutput, cwd: str) -> bytes:
    """One run of one tool, with a result for each finding; paths are those of the repository."""
    root = find_repository(cwd) or os.path.realpath(cwd)
    rules = [
        {"id": name, "shortDescription": {"text": text}, "defaultConfiguration": {"level": level}}
        for (name, text), level in zip(_RULES, _LEVELS, strict=True)
    ]
    run: dict[str, Any] = {
        "tool": {"driver": {"name": "Spindle", "version": __version__, "rules": rules}},
        "originalUriBaseIds": {"SRCROOT": {"uri": _uri(root) + "/"}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, root) for finding in output.findings],
        "properties": {
            "overallCorrectness": output.overall_correctness,
            "overallExplanation": output.overall_explanation,
            "overallConfidenceScore": output.overall_confidence_score,
        },
    }
    whole = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n"


def _result(finding: Finding, root: str) -> dict[str, Any]:
    urgency = finding.urgency
    title, body = " ".join(finding.title.split()), finding.body.strip()
    result: dict[str, Any] = {
        "ruleId": _RULES[urgency][0],
        "ruleIndex": urgency,
        "level": _LEVELS[urgency],
        "message": {"text": f"{title}\n\n{body}" if body else title or "(no words)"},
        "properties": {"priority": finding.priority, "confidenceScore": finding.confidence_score},
    }
    if path := finding.code_location.absolute_file_path:
        result["locations"] = [{"physicalLocation": _location(finding, path, root)}]
    return result


def _location(finding: Finding, path: str, root: str) -> dict[str, Any]:
    inside = _below(path, root)
    # What is named from the working folder may lie outside of it, and only a whole path makes a valid address.
    whole = path if os.path.isabs(path) else os.path.normpath(f"{root}/{path}")
    artifact = {"uri": _uri(whole)} if inside is None else {"uri": _quoted(inside), "uriBaseId": "SRCROOT"}
    location: dict[str, Any] = {"artifactLocation": artifact}
    lines = finding.code_location.line_range
    if lines.start > 0:
        location["region"] = {"startLine": lines.start, "endLine": lines.end}
    return location


def _below(path: str, root: str) -> str | None:
    """The path as seen from the root; None when it lies elsewhere."""
    if "\0" in path:
        return None
    if not os.path.isabs(path):
        path = f"{root}/{path}"
    try:
        real = os.path.realpath(path)
    except UnicodeEncodeError:  # no path at all
        real = path
    for one in (os.path.normpath(path), real):
        if one.startswith(root.rstrip("/") + "/"):
            return os.path.relpath(one, root)
    return None


def _uri(path: str) -> str:
    return "file://" + _quoted(path)


def _quoted(path: str) -> str:
    try:
        return quote(path.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:  # no path, but a model may write it
        return quote(path.encode("utf-8", "replace"))
