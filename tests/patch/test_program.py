"""apply_patch as a program."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from spindle.frontends.apply_patch import main


@pytest.fixture
def folder(tmp_path: Path):
    """The folder the program is started in."""
    before = os.getcwd()
    os.chdir(tmp_path)
    yield tmp_path
    os.chdir(before)


def run(*argv: str, stdin: str | bytes = "") -> tuple[int, str, str]:
    source = io.TextIOWrapper(io.BytesIO(stdin)) if isinstance(stdin, bytes) else io.StringIO(stdin)
    out, err = io.StringIO(), io.StringIO()
    return main(list(argv), source, out, err), out.getvalue(), err.getvalue()


def patch(body: str) -> str:
    return f"*** Begin Patch\n{body}*** End Patch\n"


def test_the_patch_is_the_one_argument(folder: Path):
    (folder / "m").write_text("a\n")
    (folder / "d").write_text("a\n")
    body = "*** Delete File: d\n*** Update File: m\n*** Move to: n/m\n@@\n-a\n+b\n*** Add File: x/y\n+z\n"
    assert run(patch(body)) == (0, "Success. Updated the following files:\nA x/y\nM n/m\nD d\n", "")
    assert ((folder / "n/m").read_text(), (folder / "x/y").read_text()) == ("b\n", "z\n")
    assert sorted(os.listdir(folder)) == ["n", "x"]


def test_without_an_argument_the_patch_comes_from_standard_input(folder: Path):
    assert run(stdin=patch("*** Add File: f\n+a\u2028b\n").encode())[0] == 0
    assert (folder / "f").read_text() == "a\u2028b\n"
    assert run(stdin=patch("*** Add File: g\n+x\ry\n").encode())[0] == 0
    assert (folder / "g").read_bytes() == b"x\ry\n"
    assert run(stdin=patch("*** Add File: h\n+x\n"))[0] == 0


def test_a_failure_in_the_middle_leaves_the_earlier_files_changed(folder: Path):
    status = run(patch("*** Add File: a\n+x\n*** Delete File: no\n*** Add File: b\n+y\n"))
    assert status == (1, "", f"Failed to delete file {folder}/no: No such file or directory (os error 2)\n")
    assert os.listdir(folder) == ["a"]


def test_a_refusal_of_the_disk_is_one_sentence(folder: Path):
    status = run(patch("*** Add File: a\n+x\n*** Add File: a/b\n+y\n"))
    assert status == (1, "", f"Failed to write file {folder}/a/b: Not a directory (os error 20)\n")


def test_a_text_that_is_no_patch_and_a_patch_without_hunks_fail(folder: Path):
    assert run("x") == (1, "", "invalid patch: The first line of the patch must be '*** Begin Patch'\n")
    assert run(patch("")) == (1, "", "No files were modified.\n")


def test_links_are_followed_but_never_deleted_for_their_target(folder: Path):
    (folder / "f").write_text("a\n")
    (folder / "link").symlink_to("f")
    assert run(patch("*** Update File: link\n@@\n-a\n+b\n"))[0] == 0
    assert (folder / "f").read_text() == "b\n"
    assert run(patch("*** Delete File: link\n"))[0] == 1
    assert (folder / "f").exists()


def test_wrong_usage_is_exit_code_2(folder: Path):
    assert run("a", "b")[0] == 2
    assert run(stdin="")[0] == 2
    assert run(stdin=b"")[0] == 2
