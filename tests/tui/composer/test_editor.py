"""The external editor."""

from __future__ import annotations

from pathlib import Path

import pytest

from spindle.errors import SpindleError
from spindle.frontends.tui.composer.editor import edit


class Terminal:
    def __init__(self) -> None:
        self.log: list[str] = []

    def suspend(self) -> None:
        self.log.append("suspend")

    def resume(self) -> None:
        self.log.append("resume")


async def edit_in(terminal: Terminal, text: str) -> str:
    return await edit(text, terminal.suspend, terminal.resume)


def set_editor(folder: Path, patch: pytest.MonkeyPatch, script: str, variable: str = "EDITOR") -> None:
    program = folder / "my editor"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    patch.delenv("VISUAL", raising=False)
    patch.delenv("EDITOR", raising=False)
    patch.setenv(variable, f"'{program}' --wait")
    patch.setenv("TMPDIR", str(folder))


@pytest.mark.parametrize("variable", ["VISUAL", "EDITOR"])
async def test_the_text_goes_to_the_editor_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
):
    script = (
        f'[ "$1" = --wait ] && stat -c %a "$2" > {tmp_path}/mode && echo "$2" > {tmp_path}/name && echo " more" >> "$2"'
    )
    set_editor(tmp_path, monkeypatch, script, variable)
    terminal = Terminal()
    assert await edit_in(terminal, "日本\ttext") == "日本\ttext more"
    assert terminal.log == ["suspend", "resume"]
    assert (tmp_path / "mode").read_text() == "600\n"
    name = Path((tmp_path / "name").read_text().strip())
    assert name.suffix == ".md" and not name.exists()


@pytest.mark.parametrize("text", ["kept\n", "", "a\n\n"])
async def test_what_was_not_changed_stays_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str):
    set_editor(tmp_path, monkeypatch, "true")
    assert await edit_in(Terminal(), text) == text


async def test_an_editor_that_fails_is_told_and_the_terminal_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    set_editor(tmp_path, monkeypatch, "exit 3")
    terminal = Terminal()
    with pytest.raises(SpindleError, match="exit code 3; the draft is as it was"):
        await edit_in(terminal, "text")
    assert terminal.log == ["suspend", "resume"]
    monkeypatch.setenv("EDITOR", "/no/such/editor")
    with pytest.raises(SpindleError, match="'/no/such/editor' cannot be started: No such file"):
        await edit_in(terminal, "text")
    assert terminal.log == ["suspend", "resume"] * 2


async def test_without_an_editor_it_says_how_to_set_one(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)
    terminal = Terminal()
    with pytest.raises(SpindleError, match="set VISUAL or EDITOR"):
        await edit_in(terminal, "text")
    assert terminal.log == []
