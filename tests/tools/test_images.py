"""Pictures: files become data URLs, input becomes parts, and the model can look for itself."""

from __future__ import annotations

import base64
import io
import os
import sys
from pathlib import Path

import pytest
from PIL import Image

from spindle.errors import ToolError
from spindle.policy.sandbox import Fence
from spindle.protocol.events import Msg, ViewImageToolCall
from spindle.protocol.settings import SandboxPolicy
from spindle.tools import specs
from spindle.tools.images import ImageError, input_parts, read_header, read_image
from spindle.tools.tool import ToolResult
from tools.bench import Bench

URL = "https://example.com/a.png"


def picture(kind: str, size: tuple[int, int] = (8, 6), **options) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", size, (200, 10, 10)).save(out, kind, **options)
    return out.getvalue()


def decoded(url: str) -> tuple[str, tuple[int, int], bytes]:
    mime, data = url.removeprefix("data:").split(";base64,")
    raw = base64.b64decode(data)
    with Image.open(io.BytesIO(raw)) as image:
        return mime, image.size, raw


def text(value: str) -> dict:
    return {"type": "input_text", "text": value}


@pytest.fixture
def save(tmp_path):
    def save(name: str, data: bytes) -> str:
        (tmp_path / name).write_bytes(data)
        return str(tmp_path / name)

    return save


@pytest.mark.parametrize(
    ("kind", "mime", "options"),
    [
        ("PNG", "image/png", {}),
        ("JPEG", "image/jpeg", {}),
        ("JPEG", "image/jpeg", {"progressive": True}),
        ("GIF", "image/gif", {}),
        ("WEBP", "image/webp", {}),
        ("WEBP", "image/webp", {"lossless": True}),
        ("WEBP", "image/webp", {"exif": b"Exif\0\0II*\0\x08\0\0\0\0\0"}),
    ],
)
def test_small_pictures_of_the_usual_kinds_pass_unchanged(save, kind, mime, options):
    data = picture(kind, **options)
    assert read_header(data) == (mime, 8, 6)
    assert decoded(read_image(save("p", data)).url) == (mime, (8, 6), data)


@pytest.mark.parametrize(
    ("size", "scaled"),
    [((2048, 768), (2048, 768)), ((4096, 768), (2048, 384)), ((100, 1536), (50, 768)), ((2049, 10), (2048, 10))],
)
def test_larger_pictures_are_scaled_to_fit_and_keep_their_ratio(save, size, scaled):
    mime, got, _ = decoded(read_image(save("p.png", picture("PNG", size))).url)
    assert (mime, got) == ("image/png", scaled)


def test_a_scaled_photograph_stays_a_jpeg(save):
    mime, size, raw = decoded(read_image(save("p.jpg", picture("JPEG", (4096, 1536)))).url)
    assert (mime, size) == ("image/jpeg", (2048, 768))
    assert read_header(raw) == ("image/jpeg", 2048, 768)


def test_tables_before_the_frame_are_not_taken_for_its_size():
    table = b"\xff\xc4" + (11).to_bytes(2, "big") + b"\x09" * 9
    frame = (
        b"\xff\xc0" + (11).to_bytes(2, "big") + b"\x08" + (6).to_bytes(2, "big") + (8).to_bytes(2, "big") + b"\0" * 4
    )
    assert read_header(b"\xff\xd8" + table + b"\xff" + frame) == ("image/jpeg", 8, 6)


def test_other_kinds_are_sent_as_png(save):
    mime, size, _ = decoded(read_image(save("p.bmp", picture("BMP"))).url)
    assert (mime, size) == ("image/png", (8, 6))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"just text", "not a readable image"),
        (picture("PNG")[:40], "damaged"),
        (picture("JPEG")[:30], "damaged"),
        (b"GIF89a", "damaged"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "damaged"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (60_000).to_bytes(4, "big") * 2 + b"IEND", "too many"),
    ],
)
def test_what_is_no_picture_says_why(save, data, reason):
    with pytest.raises(ImageError, match=reason):
        read_image(save("p.png", data))


def test_a_folder_a_pipe_and_a_missing_file_are_no_pictures(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, reason in [(tmp_path, "not a file"), (tmp_path / "pipe", "not a file"), (tmp_path / "x", "No such file")]:
        with pytest.raises(ImageError, match=reason):
            read_image(str(path))


@pytest.fixture
def without_pillow(monkeypatch):
    """An installation without the optional package: None is how Python marks a module that cannot be imported."""
    monkeypatch.setitem(sys.modules, "PIL", None)


# Drawn beforehand: drawing needs the package, too.
LARGE, SMALL, BITMAP = picture("PNG", (3000, 1000)), picture("PNG"), picture("BMP")


def test_without_pillow_a_large_picture_is_sent_as_it_is_with_a_warning(save, without_pillow):
    image = read_image(save("p.png", LARGE))
    assert image.url.endswith(base64.b64encode(LARGE).decode())
    assert image.warning is not None and "Pillow" in image.warning


def test_without_pillow_other_kinds_are_refused(save, without_pillow):
    with pytest.raises(ImageError, match="Pillow is not installed"):
        read_image(save("p.bmp", BITMAP))


def test_without_pillow_a_small_picture_needs_nothing(save, without_pillow):
    assert read_image(save("p.png", SMALL)).warning is None


# ---- a person's input --------------------------------------------------------------------------------


def test_input_items_become_parts_in_their_order(save):
    path = save("a.png", picture("PNG"))
    url = read_image(path).url
    items = [
        {"type": "local_image", "path": path},
        {"type": "image", "image_url": URL},
        {"type": "local_image", "path": "a.png"},
        {"type": "text", "text": "look", "text_elements": []},
        {"type": "skill", "name": "s", "path": "/s"},
        {"type": "mention", "name": "m", "path": "app://m"},
    ]
    got = input_parts(items, os.path.dirname(path))
    assert got.warnings == []
    assert got.parts == [
        text("<image name=[Image #1]>"),
        {"type": "input_image", "image_url": url},
        text("</image>"),
        text("<image>"),
        {"type": "input_image", "image_url": URL},
        text("</image>"),
        text("<image name=[Image #2]>"),
        {"type": "input_image", "image_url": url},
        text("</image>"),
        text("look"),
    ]


def test_a_picture_that_cannot_be_read_is_named_in_a_text():
    (part,) = input_parts([{"type": "local_image", "path": "gone.png"}], "/nowhere").parts
    assert part["type"] == "input_text"
    assert "/nowhere/gone.png" in part["text"] and "No such file" in part["text"]


def test_unknown_input_is_left_out_with_a_warning():
    got = input_parts([{"type": "hologram"}, {"text": "x"}, {"type": "text", "text": "y"}], "/")
    assert got.parts == [text("y")]
    assert len(got.warnings) == 2 and "hologram" in got.warnings[0]


# ---- the tool ----------------------------------------------------------------------------------------


async def view(
    path: str, cwd: str, *, accepts_images=True, image_as_message=False, fence: Fence | None = None
) -> tuple[ToolResult, list[Msg]]:
    bench = Bench(Path(cwd), SandboxPolicy())
    bench.accepts_images, bench.image_as_message, bench.fence = accepts_images, image_as_message, fence
    return await bench.result(specs.view_image(), {"path": path}, "v1"), bench.events


async def test_the_model_gets_the_picture_as_output(save, tmp_path):
    path = save("a.png", picture("PNG"))
    result, emitted = await view("a.png", str(tmp_path))
    assert result == ToolResult(output=[{"type": "input_image", "image_url": read_image(path).url}])
    assert emitted == [ViewImageToolCall(call_id="v1", path=path)]


async def test_a_provider_may_want_the_picture_as_a_message(save, tmp_path):
    path = save("a.png", picture("PNG"))
    result, _ = await view(path, str(tmp_path / "elsewhere"), image_as_message=True)
    part = {"type": "input_image", "image_url": read_image(path).url}
    message = {"type": "message", "role": "user", "content": [part]}
    assert result == ToolResult(output="attached local image path", follow_up=[message])


async def test_failures_name_the_path(save, tmp_path):
    save("notes.txt", b"words")
    (tmp_path / "folder").mkdir()
    for name, start in [
        ("gone.png", f"unable to locate image at `{tmp_path}/gone.png`: No such file or directory"),
        ("folder", f"image path `{tmp_path}/folder` is not a file"),
        ("notes.txt", f"unable to read image at `{tmp_path}/notes.txt`: "),
        ("a\0b", "unable to locate image at "),
    ]:
        with pytest.raises(ToolError) as failure:
            await view(name, str(tmp_path))
        assert str(failure.value).startswith(start)


async def test_a_model_that_reads_text_only_is_refused(save, tmp_path):
    save("a.png", picture("PNG"))
    with pytest.raises(ToolError, match="reads text only"):
        await view("a.png", str(tmp_path), accepts_images=False)


async def test_a_picture_that_may_not_be_read_is_not_shown_whatever_it_is_called(tmp_path):
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "p.png").write_bytes(picture("PNG"))
    (tmp_path / "link.png").symlink_to("secret/p.png")
    fence = Fence(deny_read=(str(tmp_path / "secret"),))
    for name in ("secret/p.png", "link.png", "secret/../secret/p.png"):
        with pytest.raises(ToolError, match="denied by the user"):
            await view(name, str(tmp_path), fence=fence)
