"""Moments are shown in the reader's own zone, which is named."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from spindle.frontends.when import local_clock, local_time, zone_of


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    yield monkeypatch
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("zone_name", "shown"),
    [
        ("CET-1CEST,M3.5.0,M10.5.0/3", "2026-11-16 14:03 CET"),
        ("EST5EDT,M3.2.0,M11.1.0", "2026-11-16 08:03 EST"),
        ("<+0530>-5:30", "2026-11-16 18:33 UTC+0530"),
        ("UTC", "2026-11-16 13:03 UTC"),
    ],
)
def test_a_moment_is_told_in_the_local_zone(zone: pytest.MonkeyPatch, zone_name: str, shown: str) -> None:
    zone.setenv("TZ", zone_name)
    time.tzset()
    moment = datetime(2026, 11, 16, 13, 3, 59, tzinfo=UTC)
    assert local_time("2026-11-16T13:03:59.951Z") == local_time(moment) == shown
    # What names no zone was recorded in UTC.
    assert local_time("2026-11-16T13:03:59") == shown
    assert local_clock(moment) == f"{shown[11:16]}:59" and shown.endswith(f" {zone_of(moment)}")


def test_what_is_no_moment_stays_as_it_is() -> None:
    assert [local_time(text) for text in ("", "?", "yesterday")] == ["", "?", "yesterday"]
    assert zone_of("?") == "" and local_clock("?") == "?"
