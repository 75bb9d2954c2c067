"""Moments as people read them: in their own time zone, with the zone named."""

from __future__ import annotations

from datetime import UTC, datetime


def local_time(moment: str | datetime) -> str:
    """A moment like `2026-11-16 14:03 CET`; a text that is not a moment is returned unchanged."""
    found = _local(moment)
    return str(moment) if found is None else f"{found:%Y-%m-%d %H:%M} {zone_of(found)}"


def local_clock(moment: str | datetime) -> str:
    """Only the time of day, to the second, for rows under a heading that names the zone."""
    found = _local(moment)
    return str(moment) if found is None else f"{found:%H:%M:%S}"


def zone_of(moment: str | datetime) -> str:
    """The name of the local zone at that moment, such as `CET`, or `UTC+03` if it has none; empty for no moment."""
    found = _local(moment)
    name = "" if found is None else found.tzname() or ""
    return f"UTC{name}" if name[:1] in ("+", "-") else name


def _local(moment: str | datetime) -> datetime | None:
    """What has no zone was written in UTC, as every record is."""
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        return moment.astimezone()
    except (OverflowError, OSError, ValueError):
        return None  # a year that no calendar of this machine has
