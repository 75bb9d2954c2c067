"""`fs/watch` and `skills/changed`: a client hears of changes on the disk."""

from __future__ import annotations

from pathlib import Path

from app_server.client import Client
from app_server.conftest import Start


def test_a_watched_folder_tells_what_changed_in_it(client: Client, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    (folder / "old").write_text("1")
    link = tmp_path / "link"
    link.symlink_to(folder)
    assert client.result("fs/watch", {"watchId": "w", "path": str(link)}) == {"path": str(folder)}
    (folder / "new").write_text("x")
    client.note("fs/changed", lambda note: note == {"watchId": "w", "changedPaths": [str(folder / "new")]})
    (folder / "old").unlink()
    client.note("fs/changed", lambda note: note["changedPaths"] == [str(folder / "old")])
    (folder / "sub" / "deep").write_text("x")
    (folder / "new").write_text("longer")
    client.note("fs/changed", lambda note: str(folder / "new") in note["changedPaths"], len(client.seen))
    told = [
        path
        for message in client.seen
        if message.get("method") == "fs/changed"
        for path in message["params"]["changedPaths"]
    ]
    assert str(folder / "sub" / "deep") not in told


def test_a_file_can_be_watched_before_it_exists(client: Client, tmp_path: Path) -> None:
    file = tmp_path / "not" / "yet" / "file"
    client.result("fs/watch", {"watchId": "w", "path": str(file)})
    file.parent.mkdir(parents=True)
    (file.parent / "other").write_text("x")
    file.write_text("1")
    assert client.note("fs/changed") == {"watchId": "w", "changedPaths": [str(file)]}
    since = len(client.seen)
    file.write_text("other")
    assert client.note("fs/changed", since=since)["changedPaths"] == [str(file)]


def test_what_is_no_longer_watched_is_no_longer_told(client: Client, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        client.result("fs/watch", {"watchId": name, "path": str(tmp_path / name)})
    twice = client.error("fs/watch", {"watchId": "a", "path": str(tmp_path)})
    assert twice["message"] == "watchId already exists: a"
    assert client.error("fs/watch", {"watchId": "c", "path": "relative"})["code"] == -32602
    assert client.result("fs/unwatch", {"watchId": "a"}) == client.result("fs/unwatch", {"watchId": "never"}) == {}
    (tmp_path / "a" / "x").write_text("x")
    (tmp_path / "b" / "x").write_text("x")
    assert client.note("fs/changed")["watchId"] == "b"
    assert [message["params"]["watchId"] for message in client.seen if message.get("method") == "fs/changed"] == ["b"]


def test_a_change_of_skills_is_told_to_those_who_know_them(client: Client, workspace: Path) -> None:
    skill = workspace / ".agents" / "skills" / "alpha" / "SKILL.md"
    client.result("skills/list", {"cwds": [str(workspace)]})
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: alpha\ndescription: first\n---\n")
    assert client.note("skills/changed") == {}
    client.result("skills/list", {"cwds": [str(workspace)]})
    since = len(client.seen)
    skill.write_text("---\nname: alpha\ndescription: second\n---\n")
    client.note("skills/changed", since=since)


def test_extra_roots_bring_skills_to_lists_and_new_threads(start: Start, tmp_path: Path, workspace: Path) -> None:
    client = start()
    client.initialize()
    skill = tmp_path / "more" / "beta" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: beta\ndescription: from elsewhere\n---\nUse it.\n")
    assert client.result("skills/extraRoots/set", {"extraRoots": [str(tmp_path / "more")]}) == {}
    client.note("skills/changed")
    (entry,) = client.result("skills/list", {"cwds": [str(workspace)]})["data"]
    (found,) = [found for found in entry["skills"] if found["name"] == "beta"]
    assert (found["path"], found["scope"], found["enabled"]) == (str(skill), "user", True)
    assert "absolute" in client.error("skills/extraRoots/set", {"extraRoots": ["x"]})["message"]
