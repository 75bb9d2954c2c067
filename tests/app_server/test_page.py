"""docs/app-server.md says what there is, and its example happens."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec

from app_server.conftest import Start
from fake_server import FakeServer, message, turn
from spindle.frontends.app_server.notifications import kinds_of
from spindle.frontends.app_server.registry import METHODS
from spindle.frontends.app_server.server_requests import Ask

PAGE = (Path(__file__).parent.parent.parent / "docs" / "app-server.md").read_text()


def table(heading: str) -> list[list[str]]:
    part = PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return [line.split("|")[1:-1] for line in part.splitlines() if line.startswith("| `")]


def test_every_method_is_in_the_table_with_its_params() -> None:
    shown: dict[str, str] = {}
    for methods, params, *_ in table("Methods"):
        shown |= dict.fromkeys(re.findall(r"`([^`]+)`", methods), params)
    assert shown.keys() == METHODS.keys()
    for name, params in shown.items():
        fields = msgspec.structs.fields(METHODS[name].params)
        assert set(re.findall(r"`(\w+)`", params)) <= {field.encode_name for field in fields}, name
        required = {field.encode_name for field in fields if field.required}
        assert set(re.findall(r"`(\w+)`\*", params)) == required, name


def test_every_question_is_in_the_table() -> None:
    shown = {method for row in table("Questions to the client") for method in re.findall(r"`([^`]+)`", row[0])}
    assert shown == kinds_of(Ask).keys()


def test_the_session_of_the_page_happens(start: Start, server: FakeServer) -> None:
    server.script(turn(message("Hello.")))
    example = PAGE.split("a test runs it:\n\n```\n", 1)[1].split("```", 1)[0]
    client = start()
    place = 0
    thread_id = ""
    for line in example.splitlines():
        sign, text = line.split(" ", 1)
        shown = json.loads(text.replace("{…}", "{}").replace(",…}", "}").replace("THREAD", thread_id))
        if sign == "→":
            client.write(shown)
            continue
        said = client.wait(lambda message: True, place)
        thread_id = thread_id or said.get("result", {}).get("thread", {}).get("id", "")
        assert holds(said, shown), (line, said)
        place += 1


def holds(value: Any, shown: Any) -> bool:
    """Whether the value is what the page shows, and perhaps more where it leaves something out."""
    if isinstance(shown, dict):
        return isinstance(value, dict) and all(key in value and holds(value[key], shown[key]) for key in shown)
    if isinstance(shown, str) and shown.endswith("…"):
        return value.startswith(shown[:-1])
    return value == shown
