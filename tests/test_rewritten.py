"""Workers make the compiled test files together."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from rewritten import make_share


@pytest.fixture
def asking(pytestconfig: pytest.Config, tmp_path: Path) -> pytest.Config:
    """A command line that asks for a folder with five test files, one of them broken."""
    for name in ("test_a.py", "test_b.py", "below/test_c.py", "below/conftest.py", "below/helper.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("def test_it():\n    assert 1 == 1\n")
    (tmp_path / "test_d.py").write_text("def (")
    asked = copy.copy(pytestconfig)
    asked.args = [str(tmp_path)]
    return asked


def cached(folder: Path) -> set[str]:
    return {path.name.split(".")[0] for path in folder.rglob("*-pytest-*.pyc")}


def test_each_worker_makes_its_share_and_all_shares_are_everything(asking: pytest.Config, tmp_path: Path) -> None:
    # In their order: below/conftest.py, below/test_c.py, test_a.py, test_b.py, test_d.py.
    assert (make_share(asking, 0, 2), cached(tmp_path)) == (2, {"conftest", "test_a"})
    assert (make_share(asking, 1, 2), cached(tmp_path)) == (2, {"conftest", "test_a", "test_b", "test_c"})


def test_what_is_there_already_is_not_made_again_unless_the_file_has_changed(
    asking: pytest.Config, tmp_path: Path
) -> None:
    assert make_share(asking, 0, 1) == 4
    assert make_share(asking, 0, 1) == 0
    (tmp_path / "test_b.py").write_text("def test_it():\n    assert 2 == 2\n")
    assert make_share(asking, 0, 1) == 1


def test_a_file_that_is_asked_for_by_its_name_is_made_alone(asking: pytest.Config, tmp_path: Path) -> None:
    asking.args = [f"{tmp_path}/test_b.py::test_it"]
    assert (make_share(asking, 0, 1), cached(tmp_path)) == (1, {"test_b"})
