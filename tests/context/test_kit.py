"""The kit as a library: its page runs, its names are there, and importing it is free."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import spindle.context
from spindle.context import order_tools

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs" / "context.md").read_text()


@pytest.mark.parametrize(
    ("page", "count", "said"), [("context.md", 8, "2,304 tokens"), ("memory.md", 2, "its name must end in .md")]
)
def test_every_example_on_the_page_runs(page: str, count: int, said: str, tmp_path: Path):
    blocks = re.findall(r"```python\n(.*?)```", (REPOSITORY / "docs" / page).read_text(), re.DOTALL)
    assert len(blocks) >= count
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks))
    done = subprocess.run([sys.executable, "-W", "error", str(script)], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout


def test_the_page_names_every_cause_source_and_parameter():
    from typing import get_args

    from spindle.context.account import SOURCES
    from spindle.context.cache import Cause
    from spindle.context.rule import _CHECKS

    named = set(re.findall(r"`(\w+)`", PAGE))
    assert {*SOURCES, *get_args(Cause), *_CHECKS} - named == set()


@pytest.mark.parametrize("name", spindle.context.__all__)
def test_every_promised_name_is_there(name: str):
    assert getattr(spindle.context, name) is not None
    assert name in dir(spindle.context)


def test_the_three_lists_of_names_are_one():
    tree = ast.parse(Path(spindle.context.__file__).read_text())
    for_types = {
        (node.module or "").rpartition(".")[2]: {alias.name for alias in node.names}
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("spindle.context.")
    }
    assert for_types == {module: set(names.split()) for module, names in spindle.context._HOMES.items()}
    assert set().union(*for_types.values()) == set(spindle.context.__all__)


def test_another_name_is_an_error():
    with pytest.raises(AttributeError, match="has no attribute 'compress_by_magic'"):
        _ = spindle.context.compress_by_magic  # pyright: ignore


def test_importing_the_kit_loads_none_of_it():
    code = "import sys, spindle.context; print([name for name in sys.modules if name.startswith('spindle.context.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_tools_have_one_order_whatever_order_they_come_in():
    def tool(name: str) -> dict:
        return {"type": "function", "name": name}

    mine = [tool("zebra"), tool("ant")]
    listed = [
        *map(
            tool, ("exec_command", "write_stdin", "update_plan", "apply_patch", "grep_files", "read_file", "list_dir")
        ),
        {"type": "web_search", "external_web_access": False},
        *map(tool, ("view_image", "spawn_agent", "mcp__a__z", "mcp__b__a")),
    ]
    assert order_tools([*mine, *reversed(listed)]) == [*listed, *mine]
    assert order_tools([{"type": "local_shell"}, tool("shell")]) == [tool("shell"), {"type": "local_shell"}]
