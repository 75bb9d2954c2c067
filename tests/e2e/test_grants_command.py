"""`spindle grants`: what is allowed for good, listed and taken back by hand."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from installed import Done, Spindle

RULES = """# mine
prefix_rule(pattern=["npm", "test"], decision="allow")
prefix_rule(pattern=["git", ["push", "fetch"]], decision="prompt")
prefix_rule(pattern=["cargo", ["test", "check"]])
prefix_rule(pattern=["terraform"], decision="forbidden")
prefix_rule(pattern=["gh", "pr", "view"], decision="allow")
"""


@pytest.fixture
def grants(spindle: Spindle) -> Callable[..., Done]:
    return partial(spindle, "grants")


def test_nothing_is_allowed_at_first(grants: Callable[..., Done]) -> None:
    done = grants()
    assert (done.code, done.out, done.err) == (0, "", "nothing is allowed for good\n")


def test_what_was_allowed_is_listed_and_only_what_is_named_is_taken_back(
    grants: Callable[..., Done], home: Path
) -> None:
    (home / "rules").mkdir()
    file = home / "rules" / "default.rules"
    file.write_text(RULES)
    first, second = grants("list").out.splitlines()
    assert "`npm test` without the sandbox" in first and "`gh pr view`" in second
    grant_id = first.split()[0]
    done = grants("revoke", grant_id)
    assert done.code == 0 and grant_id in done.out
    assert file.read_text() == RULES.replace('prefix_rule(pattern=["npm", "test"], decision="allow")\n', "")
    assert grants().out.splitlines() == [second]


def test_an_id_that_is_not_there_changes_nothing(grants: Callable[..., Done], home: Path) -> None:
    (home / "rules").mkdir()
    file = home / "rules" / "default.rules"
    file.write_text(RULES)
    known = grants().out.split()[0]
    done = grants("revoke", known, "rule-00000000")
    assert done.code == 1 and "there is no grant 'rule-00000000'" in done.err
    assert file.read_text() == RULES


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["revoke"], "usage: spindle grants revoke ID..."),
        (["list", "x"], "usage: spindle grants list"),
        (["frobnicate"], "there are: list, revoke"),
    ],
)
def test_a_wrong_line_is_a_usage_error(grants: Callable[..., Done], words: list[str], said: str) -> None:
    done = grants(*words)
    assert done.code == 2 and said in done.err
