"""`fs/…`: files for clients."""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import pytest

from app_server.client import Client


def test_files_are_written_read_copied_and_removed(client: Client, tmp_path: Path) -> None:
    folder, data = tmp_path / "a" / "b", bytes(range(256))
    assert client.result("fs/createDirectory", {"path": str(folder)}) == {}
    file = folder / "x.bin"
    assert client.result("fs/writeFile", {"path": str(file), "dataBase64": b64encode(data).decode()}) == {}
    assert b64decode(client.result("fs/readFile", {"path": str(file)})["dataBase64"]) == data == file.read_bytes()
    (folder / "link").symlink_to("x.bin")
    entries = client.result("fs/readDirectory", {"path": str(tmp_path / "a")})["entries"]
    assert entries == [{"fileName": "b", "isDirectory": True, "isFile": False}]
    names = [entry["fileName"] for entry in client.result("fs/readDirectory", {"path": str(folder)})["entries"]]
    assert names == ["link", "x.bin"]
    assert client.result("fs/copy", {"sourcePath": str(file), "destinationPath": str(tmp_path / "y")}) == {}
    assert (tmp_path / "y").read_bytes() == data
    whole = {"sourcePath": str(tmp_path / "a"), "destinationPath": str(tmp_path / "c"), "recursive": True}
    assert client.result("fs/copy", whole) == {}
    assert (tmp_path / "c/b/x.bin").read_bytes() == data and os.readlink(tmp_path / "c/b/link") == "x.bin"
    assert client.result("fs/remove", {"path": str(tmp_path / "a")}) == {} and not (tmp_path / "a").exists()
    assert client.result("fs/remove", {"path": str(tmp_path / "a")}) == {}


def test_a_file_copied_onto_itself_stays_as_it_is(client: Client, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("words")
    (tmp_path / "same").symlink_to(tmp_path)
    for target in ("x", "same/x"):
        onto_itself = {"sourcePath": str(tmp_path / "x"), "destinationPath": str(tmp_path / target)}
        assert client.result("fs/copy", onto_itself) == {}
    assert (tmp_path / "x").read_text() == "words"
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        os.link(tmp_path / "x", tmp_path / folder / "x")
    whole = {"sourcePath": str(tmp_path / "a"), "destinationPath": str(tmp_path / "b"), "recursive": True}
    assert client.result("fs/copy", whole) == {}


def test_a_folder_that_cannot_be_copied_whole_says_how_much_is_missing(client: Client, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    os.mkfifo(tmp_path / "a" / "pipe")
    (tmp_path / "a" / "x").write_text("words")
    whole = {"sourcePath": str(tmp_path / "a"), "destinationPath": str(tmp_path / "b"), "recursive": True}
    said = client.error("fs/copy", whole)["message"]
    assert said == f"cannot copy {tmp_path}/a: 1 entry could not be copied, {tmp_path}/a/pipe first"
    assert (tmp_path / "b" / "x").read_text() == "words"


def test_a_path_that_is_refused_is_named_once(client: Client) -> None:
    said = client.error("fs/readFile", {"path": "/no/such/file"})["message"]
    assert said == "cannot read /no/such/file: No such file or directory"


def test_metadata_tells_kinds_and_times(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("x")
    os.utime(file, (1_700_000_000, 1_700_000_000))
    (tmp_path / "l").symlink_to(file)

    def look(path: Path) -> tuple[Any, ...]:
        found = client.result("fs/getMetadata", {"path": str(path)})
        assert isinstance(found.pop("createdAtMs"), int)
        return found["isFile"], found["isDirectory"], found["isSymlink"], found["modifiedAtMs"]

    assert look(file) == (True, False, False, 1_700_000_000_000)
    assert look(tmp_path / "l") == (True, False, True, 1_700_000_000_000)
    assert look(tmp_path)[:3] == (False, True, False)


@pytest.mark.parametrize(
    ("method", "params", "said"),
    [
        ("fs/readFile", {"path": "relative"}, "is not an absolute path"),
        ("fs/readFile", {"path": "/no/such\0file"}, "holds a NUL character"),
        ("fs/readFile", {"path": "/no/such/file"}, "No such file"),
        ("fs/readFile", {"path": "/"}, "is not a file"),
        ("fs/readFile", {"path": "/dev/zero"}, "is not a file"),
        ("fs/writeFile", {"path": "/tmp", "dataBase64": ""}, "Is a directory"),
        ("fs/writeFile", {"path": "/tmp/x", "dataBase64": "%"}, "dataBase64 is not base64"),
        ("fs/createDirectory", {"path": "/no/such/folder/x", "recursive": False}, "No such file"),
        ("fs/remove", {"path": "/no/such/file", "force": False}, "No such file"),
        ("fs/remove", {"path": "HERE", "recursive": False}, "not empty"),
        ("fs/copy", {"sourcePath": "HERE", "destinationPath": "/tmp/x"}, "`recursive` copies it"),
        ("fs/copy", {"sourcePath": "HERE", "destinationPath": "HERE/in", "recursive": True}, "into itself"),
        ("fs/readDirectory", {"path": "/no/such/folder"}, "No such file"),
    ],
)
def test_what_the_disk_refuses_is_said_in_a_sentence(
    client: Client, tmp_path: Path, method: str, params: dict[str, Any], said: str
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    given = {
        name: value.replace("HERE", str(tmp_path / "full")) if isinstance(value, str) else value
        for name, value in params.items()
    }
    error = client.error(method, given)
    assert error["code"] in (-32600, -32602) and said in error["message"]
    assert (tmp_path / "full" / "file").exists()
