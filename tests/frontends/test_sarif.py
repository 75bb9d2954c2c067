"""Findings as SARIF: whatever a reviewer takes for a path becomes a valid address."""

from __future__ import annotations

import json

import pytest

from spindle.frontends.exec.sarif import sarif_bytes
from spindle.protocol.review_output import CodeLocation, Finding, LineRange, ReviewOutput


@pytest.mark.parametrize(
    ("path", "artifact"),
    [
        ("/project/src/a b.py", {"uri": "src/a%20b.py", "uriBaseId": "SRCROOT"}),
        ("src/x.py", {"uri": "src/x.py", "uriBaseId": "SRCROOT"}),
        ("src/../a:b", {"uri": "a%3Ab", "uriBaseId": "SRCROOT"}),
        ("../other/x.py", {"uri": "file:///other/x.py"}),
        ("../../../etc/passwd", {"uri": "file:///etc/passwd"}),
        ("/elsewhere/\udce9", {"uri": "file:///elsewhere/%E9"}),
        ("x\ud800", {"uri": "x%3F", "uriBaseId": "SRCROOT"}),
    ],
)
def test_a_place_is_named_from_the_folder_or_by_its_whole_path(path: str, artifact: dict[str, str]) -> None:
    place = CodeLocation(absolute_file_path=path, line_range=LineRange(start=1, end=1))
    finding = Finding(title="[P1] t", body="b", confidence_score=0.5, priority=1, code_location=place)
    (result,) = json.loads(sarif_bytes(ReviewOutput(findings=[finding]), "/project"))["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"] == artifact
