"""AGENTS.md files: which are read, in which order, how much of them, and what hostile ones can do."""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from spindle.workspace.agents_md import ProjectDocs, load_project_docs


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """`home`, and a project `repo` with folders `sub/deep`."""
    for name in ("home", "repo/.git", "repo/sub/deep"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def load(folders: Path, files: Mapping[str, str], cwd: str = "repo/sub/deep", **options: Any) -> ProjectDocs:
    for name, text in files.items():
        (folders / name).write_text(text)
    return load_project_docs(str(folders / cwd), str(folders / "home"), **options)


@pytest.mark.parametrize(
    ("files", "options", "text"),
    [
        ({}, {}, None),
        ({"home/AGENTS.md": " \n global \n"}, {}, "global"),
        ({"repo/AGENTS.md": "root\n"}, {}, "root\n"),
        (
            {"home/AGENTS.md": "G", "repo/AGENTS.md": "R", "repo/sub/AGENTS.md": "S", "repo/sub/deep/AGENTS.md": "D"},
            {},
            "G\n\n--- project-doc ---\n\nR\n\nS\n\nD",
        ),
        ({"home/AGENTS.md": "plain", "home/AGENTS.override.md": "override"}, {}, "override"),
        ({"home/AGENTS.md": "plain", "home/AGENTS.override.md": " \n"}, {}, "plain"),
        (
            {"repo/AGENTS.md": "R", "repo/sub/AGENTS.md": "plain", "repo/sub/AGENTS.override.md": "over"},
            {},
            "R\n\nover",
        ),
        ({"repo/GUIDE.md": "guide", "repo/HELP.md": "help"}, {"fallback_names": ["HELP.md", "GUIDE.md"]}, "help"),
        ({"repo/AGENTS.md": "R", "repo/GUIDE.md": "no"}, {"fallback_names": ["GUIDE.md"]}, "R"),
        ({"repo/AGENTS.md": "  \n", "repo/sub/AGENTS.md": "S"}, {"max_bytes": 1}, "S"),
        ({"home/AGENTS.md": "G", "repo/AGENTS.md": "R"}, {"max_bytes": 0}, "G"),
        ({"home/AGENTS.md": "G", "repo/AGENTS.md": "R"}, {"include_project": False}, "G"),
        ({"repo/AGENTS.md": "up", "repo/sub/deep/AGENTS.md": "here"}, {"root_markers": []}, "here"),
        ({"AGENTS.md": "above", "repo/AGENTS.md": "R"}, {}, "R"),
    ],
)
def test_the_text_is_the_global_file_and_one_file_per_folder(
    folders: Path, files: dict[str, str], options: dict[str, Any], text: str | None
):
    docs = load(folders, files, **options)
    assert (docs.text, docs.warnings) == (text, [])


def test_without_a_project_root_only_the_working_folder_counts(folders: Path):
    (folders / "plain/inner").mkdir(parents=True)
    docs = load(folders, {"plain/AGENTS.md": "up", "plain/inner/AGENTS.md": "here"}, cwd="plain/inner")
    assert docs.text == "here"


def test_the_budget_is_shared_and_the_file_that_crosses_it_is_cut_at_the_byte(folders: Path):
    docs = load(
        folders, {"repo/AGENTS.md": "12345", "repo/sub/AGENTS.md": "aé", "repo/sub/deep/AGENTS.md": "z"}, max_bytes=7
    )
    root, sub, deep = (f"{folders}/repo/{name}AGENTS.md" for name in ("", "sub/", "sub/deep/"))
    assert docs == ProjectDocs(
        text="12345\n\na\ufffd",
        sources=[root, sub],
        warnings=[
            f"{sub} was cut after 2 bytes: project_doc_max_bytes is 7",
            f"Project documents exceed project_doc_max_bytes (7); not read: {deep}",
        ],
    )


def test_a_file_of_ten_gigabytes_costs_no_more_than_the_budget(folders: Path):
    with open(folders / "repo/AGENTS.md", "wb") as file:
        file.write(b"start")
        file.truncate(10 << 30)
    docs = load(folders, {}, cwd="repo")
    assert docs.text == "start" + "\\u{0}" * 16 + "…"
    assert "was cut after 32768 bytes" in docs.warnings[0]


@pytest.fixture
def ordinary_user(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Root can read everything, so the test runs as nobody then, whose files are root's as after `sudo`."""
    if os.geteuid() != 0:
        yield
        return
    monkeypatch.setenv("SUDO_UID", "65534")
    libc = ctypes.CDLL(None)  # of this thread alone: others of this process may have given up the right to change
    libc.setfsuid(65534)
    yield
    libc.setfsuid(0)


def test_a_file_without_read_permission_is_named_and_left_out(ordinary_user: None):
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # where everybody may make one
        os.makedirs(f"{folder}/.git")
        os.makedirs(f"{folder}/sub")
        (Path(folder) / "AGENTS.md").touch(mode=0o000)
        (Path(folder) / "sub/AGENTS.md").write_text("S")
        docs = load_project_docs(f"{folder}/sub", f"{folder}/home")
    assert docs.text == "S"
    assert docs.warnings == [f"{folder}/AGENTS.md cannot be read and is left out: Permission denied"]


def test_without_trust_no_link_leads_out_of_the_project(folders: Path):
    (folders / "secret").write_text("SECRET")
    (folders / "repo/AGENTS.md").symlink_to(folders / "secret")
    (folders / "repo/sub/CLAUDE.md").write_text("inside")
    (folders / "repo/sub/AGENTS.md").symlink_to("CLAUDE.md")
    docs = load(folders, {"home/AGENTS.md": "mine"}, is_trusted=False)
    assert docs.text == "mine\n\n--- project-doc ---\n\ninside"
    assert docs.warnings == [f"{folders}/repo/AGENTS.md is left out: it is a link that leads out of the project"]
    assert "SECRET" in str(load(folders, {}).text)


def test_what_is_not_a_file_is_passed_over_and_links_are_followed(folders: Path):
    (folders / "repo/AGENTS.override.md").mkdir()
    (folders / "repo/AGENTS.md").symlink_to(folders / "elsewhere.md")
    (folders / "elsewhere.md").write_text("linked")
    (folders / "repo/sub/AGENTS.override.md").symlink_to("nowhere")
    os.mkfifo(folders / "repo/sub/AGENTS.md")
    (folders / "repo/sub/deep/AGENTS.md").symlink_to("AGENTS.md")
    assert load(folders, {}).text == "linked"


@pytest.mark.parametrize("hidden", ["\u202e", "\u200b", "\U000e0041", "\x1b", "\u3164"])
def test_hidden_characters_are_pointed_out_and_shown_to_the_model(folders: Path, hidden: str):
    clean = "grüße 🎉 🇩🇪 می\u200cخواهم\r\n\tVoilà\xa0!"
    docs = load(folders, {"repo/AGENTS.md": f"be nice\nor{hidden} else\n{hidden}", "repo/sub/AGENTS.md": clean})
    escape = f"\\u{{{ord(hidden):X}}}"
    assert docs.text == f"be nice\nor{escape} else\n{escape}\n\n{clean}"
    assert docs.warnings == [
        f"{folders}/repo/AGENTS.md has invisible or direction-changing characters in line 2, 3; "
        "the model is shown them as escapes, check what it really says"
    ]


def test_a_folder_name_with_control_characters_is_shown_escaped(folders: Path):
    odd = folders / "repo/a\x1b[31m\nb"
    odd.mkdir()
    (odd / "AGENTS.md").write_text("x" * 20)
    docs = load_project_docs(str(odd), str(folders / "home"), max_bytes=5)
    assert docs.text == "xxxxx"
    assert docs.warnings == [
        f"{folders}/repo/a\\u{{1B}}[31m\\u{{A}}b/AGENTS.md was cut after 5 bytes: project_doc_max_bytes is 5"
    ]


def test_a_global_file_of_absurd_size_is_cut_with_a_word(folders: Path) -> None:
    with (folders / "home/AGENTS.md").open("wb") as file:
        file.write(b"rules")
        file.truncate(10 << 30)  # sparse
    docs = load(folders, {})
    assert docs.text is not None and docs.text.startswith("rules") and len(docs.text) <= 4 << 20
    assert len(docs.warnings) == 2 and "was cut after 4 MiB" in docs.warnings[0]


def test_a_file_in_another_encoding_is_named_with_the_line_and_what_to_do(folders: Path) -> None:
    places = [folders / "home/AGENTS.md", folders / "repo/AGENTS.md", folders / "repo/sub/AGENTS.md"]
    places[0].write_bytes(b"one\ncaf\xe9\n")
    places[1].write_bytes("größer\n".encode("latin-1"))
    places[2].write_bytes("ü".encode() * 10)
    docs = load(folders, {}, max_bytes=16)
    assert docs.text is not None and "caf\ufffd" in docs.text and "gr\ufffd\ufffder" in docs.text
    assert docs.warnings == [
        f"{places[0]} is not UTF-8 (line 2): the model is shown \ufffd for what cannot be read; save it as UTF-8",
        f"{places[1]} is not UTF-8 (line 1): the model is shown \ufffd for what cannot be read; save it as UTF-8",
        f"{places[2]} was cut after 9 bytes: project_doc_max_bytes is 16",  # in the middle of a character
    ]
