"""The files that `spindle exec` is told of: what is wrong with them is said before a request is paid for."""

from __future__ import annotations

import json
import os
import struct
import zlib
from pathlib import Path

import pytest

from e2e.proto_client import Proto
from e2e.test_bad_input import refused
from fake_server import FakeServer, Received, Turn, message, turn
from installed import Spindle
from spindle.errors import ConfigError
from spindle.frontends.exec.files import check_images, open_output, read_schema, write_last_message


def png(width: int = 1, height: int = 1) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress(b"\0" * (1 + 3 * width) * height)
    size = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", size) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


# ---- pictures ----------------------------------------------------------------------------------------

NO_PICTURES: list[tuple[str, bytes | None, str]] = [
    ("notes.txt", b"just words\n", "it is no picture"),
    ("empty.png", b"", "it is empty"),
    ("words.png", b"no picture", "it is no picture"),
    ("cut.png", png()[:40], "it is damaged"),
    ("cut.webp", b"RIFF\xff\xff\0\0WEBPVP8L\0\0\0\0\x2f" + b"\0" * 15, "it is damaged"),
    ("cut.jpg", b"\xff\xd8\xff\xe0\0\x10JFIF", "it is damaged"),
    ("huge.gif", b"GIF89a" + struct.pack("<HH", 60_000, 60_000), "60000×60000 pixels"),
    ("heavy.png", png() + b"\0" * (33 << 20), "larger than 32 MiB"),
    ("missing.png", None, "No such file or directory"),
]


@pytest.mark.parametrize(("name", "content", "reason"), NO_PICTURES, ids=[row[0] for row in NO_PICTURES])
def test_what_is_no_picture_is_named_with_what_is_accepted(
    tmp_path: Path, name: str, content: bytes | None, reason: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    (tmp_path / "good.png").write_bytes(png())
    check_images([f"{tmp_path}/good.png"])
    with pytest.raises(ConfigError) as caught:
        check_images([f"{tmp_path}/good.png", f"{tmp_path}/{name}"])
    text = str(caught.value)
    assert text.startswith(f"the picture {tmp_path}/{name} cannot be attached: ") and reason in text
    assert text.endswith("accepted are PNG, JPEG, GIF and WebP files")


def test_a_folder_and_a_pipe_are_no_pictures(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(ConfigError, match="it is not a file"):
            check_images([str(path)])


@pytest.mark.parametrize("option", [(), ("--json",)])
def test_a_picture_that_is_none_stops_before_any_request(
    spindle: Spindle, server: FakeServer, workspace: Path, option: tuple[str, ...]
) -> None:
    (workspace / "notes.txt").write_text("words")
    refused(spindle("exec", *option, "-i", "notes.txt", "--", "look"), server, "notes.txt", "PNG, JPEG, GIF and WebP")


# ---- the schema --------------------------------------------------------------------------------------


def test_a_schema_may_begin_with_a_byte_order_mark_and_must_be_of_bounded_size(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_bytes(b'\xef\xbb\xbf{"type":"object"}')
    assert read_schema(str(path)) == {"type": "object"}
    with pytest.raises(ConfigError, match=r"/dev/zero is larger than 8 MiB"):
        read_schema("/dev/zero")
    with pytest.raises(ConfigError, match=r"Is a directory"):
        read_schema(str(tmp_path))


# ---- where the last message goes -----------------------------------------------------------------------


def test_a_place_where_nothing_can_be_written_is_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path, reason in [
        (f"{tmp_path}/none/last.txt", f"the folder {tmp_path}/none does not exist"),
        (f"{tmp_path}/file/last.txt", "Not a directory"),
        (str(tmp_path), "it is a folder"),
        (f"{tmp_path}/new/", "it names a folder"),
        (f"{tmp_path}/{'x' * 300}", "File name too long"),
    ]:
        with pytest.raises(ConfigError) as caught:
            open_output(path, None)
        assert str(caught.value).startswith(f"the last message cannot be written to {path} (-o): {reason}")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_place_without_permission_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    (tmp_path / "mine").chmod(0o444)
    with pytest.raises(ConfigError, match="Permission denied"):
        open_output(f"{tmp_path}/mine", None)
    tmp_path.chmod(0o555)
    with pytest.raises(ConfigError, match=f"no permission to write in {tmp_path}"):
        open_output(f"{tmp_path}/new", None)
    tmp_path.chmod(0o755)


def test_looking_whether_a_file_can_be_written_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("good")
    before = (tmp_path / "old").stat()
    for path in ("old", "new", "dangling"):
        if path == "dangling":
            (tmp_path / path).symlink_to("elsewhere")
        open_output(f"{tmp_path}/{path}", None).close()
    open_output("/dev/null", None).close()
    after = (tmp_path / "old").stat()
    assert (tmp_path / "old").read_text() == "good" and before.st_mtime_ns == after.st_mtime_ns
    assert sorted(os.listdir(tmp_path)) == ["dangling", "old"]


def test_the_last_message_replaces_a_file_and_keeps_what_it_is(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("old")
    target.chmod(0o640)
    (tmp_path / "link").symlink_to("target")
    assert write_last_message(open_output(f"{tmp_path}/link", None), "new")
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("new", 0o640)
    os.link(target, tmp_path / "twin")
    assert write_last_message(open_output(str(target), None), "newer")
    assert (tmp_path / "twin").read_text() == "newer"
    assert sorted(os.listdir(tmp_path)) == ["link", "target", "twin"]


def test_the_last_message_goes_into_a_pipe_too(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert write_last_message(open_output(str(pipe), None), "through")
    assert os.read(reading, 100) == b"through"
    os.close(reading)


def test_an_unwritable_place_stops_before_any_request(spindle: Spindle, server: FakeServer, workspace: Path) -> None:
    refused(spindle("exec", "-o", "none/last.txt", "hi"), server, "none/last.txt", f"{workspace}/none does not exist")


@pytest.mark.parametrize("option", [(), ("--json",)])
def test_an_answer_that_cannot_be_written_in_the_end_is_shown_and_the_exit_code_says_so(
    spindle: Spindle, server: FakeServer, workspace: Path, option: tuple[str, ...]
) -> None:
    (workspace / "out").mkdir()

    def folder_vanishes(_: Received) -> Turn:
        (workspace / "out").rmdir()
        return turn(message("paid for"))

    server.script(folder_vanishes)
    done = spindle("exec", *option, "-o", "out/last.txt", "hi")
    assert done.code == 1 and "paid for" in done.out
    assert "error: the last message cannot be written to out/last.txt (-o): No such file" in done.err


def test_what_stood_in_the_file_stays_until_the_answer_is_there(
    spindle: Spindle, server: FakeServer, workspace: Path
) -> None:
    (workspace / "last.txt").write_text("yesterday")
    seen: list[str] = []

    def look(_: Received) -> Turn:
        seen.append((workspace / "last.txt").read_text())
        return turn(message("today"))

    server.script(look)
    assert spindle("exec", "-o", "last.txt", "hi").code == 0
    assert (seen, (workspace / "last.txt").read_text()) == (["yesterday"], "today")


# ---- pictures of clients -------------------------------------------------------------------------------


def test_a_client_is_told_which_picture_could_not_be_attached(
    spindle_cmd: list[str], environment: dict[str, str], server: FakeServer, workspace: Path
) -> None:
    """A client that sends a picture which is none goes on, and so does the model: both are told which one it was."""
    (workspace / "notes.txt").write_text("words")
    items = [{"type": "local_image", "path": "notes.txt"}, {"type": "text", "text": "look"}]
    client = Proto([*spindle_cmd, "proto"], workspace, environment)
    client.send("1", "user_turn", items=items)
    told = [event["msg"] for event in client.until("task_complete")]
    assert client.close() == 0
    assert any(msg["type"] == "warning" and f"{workspace}/notes.txt" in msg["message"] for msg in told)
    assert "notes.txt" in json.dumps(server.requests[0].json["input"][-1])
