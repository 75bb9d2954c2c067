"""`docs/threats.md` names a test for every threat, and every test it names exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
PAGE = TESTS.parent / "docs/threats.md"
DEFAULTS = {
    "Published attacks": "tests/threats/test_published_attacks.py",
    "When things break": "tests/threats/test_robustness.py",
}
AROUND = "Ways around the sandbox"


def rows(heading: str) -> list[list[str]]:
    """The cells of the table below a heading, without its first two lines."""
    part = PAGE.read_text().split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    table = [line for line in part.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table]


def named(cell: str, default: str) -> list[tuple[str, str]]:
    """The tests a cell names: file and function."""
    found = re.findall(r"`(?:(tests/[\w/.]+)::)?(test_\w+)`", cell)
    return [(file or default, name) for file, name in found]


def functions(file: str) -> set[str]:
    tree = ast.parse((TESTS.parent / file).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_published_attack_is_tested_or_said_not_to_apply() -> None:
    table = rows("Published attacks")
    assert [row[0] for row in table] == [str(number) for number in range(1, 46)]
    default = DEFAULTS["Published attacks"]
    assert [row[0] for row in table if not row[3].startswith("does not apply: ") and not named(row[3], default)] == []


def test_every_broken_thing_has_its_promise_and_its_test() -> None:
    table = rows("When things break")
    assert len(table) == 24
    assert [row[0] for row in table if not row[1] or not named(row[2], DEFAULTS["When things break"])] == []


def test_every_way_around_has_its_promise_what_it_rests_on_and_its_test() -> None:
    table = rows(AROUND)
    assert [row[0] for row in table] == [str(number) for number in range(1, 31)]
    assert [row[0] for row in table if len(row) != 5 or not all(row) or not named(row[4], "")] == []
    assert "\n## What is not promised\n" in PAGE.read_text()


@pytest.mark.parametrize("heading", [*DEFAULTS, AROUND])
def test_every_test_that_is_named_exists(heading: str) -> None:
    tests = [test for row in rows(heading) for test in named(row[-1], DEFAULTS.get(heading, ""))]
    known = {file: functions(file) for file in {file for file, _ in tests}}
    assert [f"{file}::{name}" for file, name in tests if name not in known[file]] == []


@pytest.mark.parametrize("heading", DEFAULTS)
def test_every_test_of_its_file_is_named(heading: str) -> None:
    file = DEFAULTS[heading]
    mentioned = {name for row in rows(heading) for where, name in named(row[-1], file) if where == file}
    ours = {name for name in functions(file) if name.startswith("test_")}
    if heading == "When things break":
        mentioned |= {name for row in rows("Published attacks") for where, name in named(row[-1], "") if where == file}
    assert ours - mentioned == set()


def test_the_number_in_a_name_is_the_row_that_names_it() -> None:
    for row in rows("Published attacks"):
        for file, name in named(row[3], DEFAULTS["Published attacks"]):
            numbers = re.match(r"test_((?:\d\d_)+)", name)
            # A test of another number may stand in for a feature that does not exist.
            if file == DEFAULTS["Published attacks"] and not row[3].startswith("does not apply"):
                assert numbers is not None and row[0].zfill(2) in numbers[1].split("_"), (row[0], name)
