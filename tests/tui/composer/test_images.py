"""Images: dropped files, the clipboard, and how they stand in a draft."""

from __future__ import annotations

from pathlib import Path

import pytest

from spindle.errors import SpindleError
from spindle.frontends.tui.composer.composer import Composer
from spindle.frontends.tui.composer.images import clipboard_image, dropped_images
from tui.composer.writing import press, rows, write

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "my picture's.png").write_bytes(PNG)
    (tmp_path / "b.JPG").write_bytes(b"\xff\xd8\xff\xe0")
    (tmp_path / "text.png").write_text("no image")
    (tmp_path / "notes.txt").write_text("text")
    return tmp_path


@pytest.mark.parametrize(
    "form",
    [
        "{folder}/my picture's.png",
        '"{folder}/my picture\'s.png"',
        "{folder}/my\\ picture\\'s.png",
        "'{folder}/my picture'\\''s.png'",
        "file://{folder}/my%20picture%27s.png",
        "my picture's.png",
        " {folder}/my\\ picture\\'s.png \n",
    ],
)
def test_every_form_in_which_a_terminal_types_a_dropped_file(folder: Path, form: str):
    assert dropped_images(form.format(folder=folder), str(folder)) == [f"{folder}/my picture's.png"]


def test_several_files_can_be_dropped_at_once(folder: Path):
    text = f"{folder}/b.JPG {folder}/my\\ picture\\'s.png"
    assert dropped_images(text, str(folder)) == [f"{folder}/b.JPG", f"{folder}/my picture's.png"]


@pytest.mark.parametrize(
    "text",
    ["", "notes.txt", "text.png", "gone.png", "b.JPG and text", "b.JPG\nb.JPG", "file://host/b.JPG", "it's", "\0.png"],
)
def test_other_text_is_text(folder: Path, text: str):
    assert dropped_images(text, str(folder)) == []


def test_images_stand_in_the_draft_as_one_piece_each_and_are_counted_as_they_stand(folder: Path):
    composer = Composer()
    composer.furnish(cwd=str(folder))
    write(composer, "compare ")
    composer.paste("b.JPG")
    composer.paste(f"{folder}/my\\ picture\\'s.png")
    assert rows(composer) == ["› compare [Image #1] [Image #2] "]
    press(composer, "alt-b", "alt-b", "delete", "delete")
    draft = composer.take()
    assert (draft.text, draft.images) == ("compare [Image #1] ", (f"{folder}/my picture's.png",))


def test_an_image_survives_the_external_editor(folder: Path):
    composer = Composer()
    composer.furnish(cwd=str(folder))
    composer.paste("b.JPG")
    write(composer, "what is it")
    composer.set_edited("Tell me: " + composer.text + "?\n[Image #7]")
    draft = composer.take()
    assert draft.text == "Tell me: [Image #1] what is it?\n[Image #7]" and draft.images == (f"{folder}/b.JPG",)


# ---- the clipboard ----------------------------------------------------------------------------


def helper(folder: Path, name: str, script: str) -> dict[str, str]:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin"}


async def test_ctrl_v_takes_the_image_that_a_helper_gives(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TMPDIR", str(folder))
    environment = helper(folder, "wl-paste", f'[ "$3" = image/png ] && cat {folder}/b.JPG') | {"WAYLAND_DISPLAY": "w"}
    path = await clipboard_image(environment, "linux")
    assert Path(path).read_bytes() == b"\xff\xd8\xff\xe0" and Path(path).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("exit 1", "no image on the clipboard"),
        ("echo text", "no image on the clipboard"),
        (None, "needs the program xclip"),
    ],
)
async def test_without_an_image_or_a_helper_there_is_one_sentence(folder: Path, script: str | None, message: str):
    environment = {"PATH": str(folder), "DISPLAY": ":0"}
    if script is not None:
        environment |= helper(folder, "xclip", script)
    with pytest.raises(SpindleError, match=message):
        await clipboard_image(environment, "linux")
