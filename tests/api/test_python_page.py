"""Every example of docs/python.md runs as it stands, against a model server that answers what the example needs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import spindle
from fake_server import FakeServer, Received, Turn, call, message, turn

PAGE = (Path(__file__).parents[2] / "docs" / "python.md").read_text()
EXAMPLES = re.findall(r"^## ([^\n]+)\n|```python\n(.*?)```", PAGE, re.MULTILINE | re.DOTALL)


def examples() -> list[tuple[str, str]]:
    heading, found = "quickstart", list[tuple[str, str]]()
    for title, code in EXAMPLES:
        heading = title or heading
        if code:
            found.append((heading, code))
    return found


def answer(request: Received) -> Turn:
    """What a helpful model would say to any of the examples."""
    body = request.json
    said = json.dumps(body["input"])
    names = [tool.get("name") for tool in body["tools"]]
    if (body.get("text") or {}).get("format"):
        return turn(message('{"title": "Fix", "files": ["a.py"], "risk": null}'))
    if "lookup" in names and "function_call_output" not in said:
        return turn(call("lookup", {"ticket": 7}, "c1"), call("publish", {"text": "summary"}, "c2"))
    if "Tidy up." in said and "function_call_output" not in said:
        return turn(call("exec_command", {"cmd": "touch tidy"}, "c1"), call("exec_command", {"cmd": "git push"}, "c2"))
    return turn(message("done"))


@pytest.mark.parametrize(("heading", "code"), examples(), ids=[heading for heading, _ in examples()])
def test_an_example_runs_as_it_stands(
    heading: str, code: str, server: FakeServer, environment: dict[str, str], workspace: Path
) -> None:
    server.script(*[answer] * 12)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=workspace,
        env={**environment, "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    if "People" in heading:
        assert (workspace / "tidy").exists() and "git push" in done.stdout
    if "tools" in heading:
        outputs = json.dumps(server.requests[1].json["input"])
        assert "It does not start" in outputs and "published 7 characters" in outputs


def test_the_page_shows_examples_and_names_only_what_there_is() -> None:
    assert len(examples()) >= 9
    used = set(re.findall(r"from spindle import ([\w, ]+)", PAGE))
    names = {name.strip() for line in used for name in line.split(",")}
    assert names <= set(spindle.__all__)
