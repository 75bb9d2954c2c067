"""What gets into a prompt from files of the project (row 6 of the security findings, and the owners of row 19).

The model and the repository are hostile: they put links, pipes, devices and files of others where documents and skills
are looked for. What must not be read must be in no request; what ordinary projects do must go on working.
"""

from __future__ import annotations

import base64
import errno
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from fake_server import FakeServer, message, turn
from installed import Spindle
from spindle.tools.images import ImageError, read_image
from spindle.workspace.agents_md import load_nested_docs, load_project_docs
from spindle.workspace.files import ProjectFiles
from spindle.workspace.skills import load_skills, project_files, skill_text

SKILL = "---\nname: helper\ndescription: helps\n---\n"


def trust(spindle: Spindle) -> None:
    spindle.configure(f'[projects."{spindle.workspace}"]\ntrust_level = "trusted"')


def prompt_of(spindle: Spindle, server: FakeServer, text: str = "hi") -> str:
    server.script(turn(message("fine")))
    done = spindle("exec", text)
    assert done.code == 0, done.err
    return json.dumps(server.requests[-1].json)


LEADS: dict[str, Callable[[Spindle], str]] = {
    "environ": lambda spindle: "/proc/self/environ",
    "environ by thread": lambda spindle: "/proc/thread-self/environ",
    "command line": lambda spindle: "/proc/self/cmdline",
    "key": lambda spindle: str(spindle.home / "auth.json"),
    "denied": lambda spindle: str(spindle.workspace.parent / "denied/secret.txt"),
    "chain": lambda spindle: str(spindle.workspace / "first"),
}


@pytest.mark.parametrize("is_trusted", [False, True])
@pytest.mark.parametrize("lead", sorted(LEADS))
def test_row_06_no_link_brings_what_commands_may_not_read_into_the_prompt(
    spindle: Spindle, server: FakeServer, lead: str, is_trusted: bool
) -> None:
    spindle.configure(f'[spindle.sandbox]\ndeny_read = ["{spindle.workspace.parent}/denied/**"]')
    if is_trusted:
        trust(spindle)
    (spindle.workspace.parent / "denied").mkdir()
    (spindle.workspace.parent / "denied/secret.txt").write_text(f"{SKILL}CANARY-IN-FILE")
    (spindle.home / "auth.json").write_text('{"OPENAI_API_KEY": "CANARY-KEY"}')
    (spindle.workspace / "first").symlink_to("second")
    (spindle.workspace / "second").symlink_to("/proc/self/environ")
    for name in ("AGENTS.md", ".codex/skills/helper/SKILL.md", ".agents/skills/other/SKILL.md"):
        path = spindle.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(LEADS[lead](spindle))
    spindle.environment["CANARY_VARIABLE"] = "CANARY-IN-ENVIRONMENT"
    sent = prompt_of(spindle, server, "$helper $other do it")
    assert "CANARY" not in sent and "CODEX_HOME=" not in sent


def test_row_06_links_inside_of_the_project_and_ordinary_ones_of_a_trusted_one_are_followed(
    spindle: Spindle, server: FakeServer
) -> None:
    (spindle.workspace / "CLAUDE.md").write_text("WORDS OF THE PROJECT")
    (spindle.workspace / "AGENTS.md").symlink_to("CLAUDE.md")
    assert "WORDS OF THE PROJECT" in prompt_of(spindle, server)
    shared = spindle.workspace.parent / "shared.md"
    shared.write_text("WORDS OF THE TEAM")
    (spindle.workspace / "AGENTS.md").unlink()
    (spindle.workspace / "AGENTS.md").symlink_to(shared)
    assert "WORDS OF THE TEAM" not in prompt_of(spindle, server)
    trust(spindle)
    assert "WORDS OF THE TEAM" in prompt_of(spindle, server)


def test_row_06_a_file_that_is_exchanged_between_look_and_open_is_judged_by_what_was_opened(tmp_path: Path) -> None:
    """The race, made certain: the path is resolved while it is harmless, and the link is there when it is opened."""
    project, secret = tmp_path / "project", tmp_path / "secret"
    project.mkdir()
    secret.write_text("SECRET")
    path = project / "AGENTS.md"
    path.write_text("harmless")

    def exchange(place: str) -> bool:
        path.unlink()
        path.symlink_to(secret)
        return True

    files = ProjectFiles(root=str(project), may_read=exchange)
    assert files.read(str(path), 100) == b"harmless"
    with pytest.raises(OSError, match="leads out of the project"):
        files.read(str(path), 100)

    path.unlink()
    path.write_text("harmless")
    folder = project / "sub"
    folder.mkdir()
    (folder / "AGENTS.md").write_text("harmless")
    real = os.path.realpath(folder / "AGENTS.md")
    (folder / "AGENTS.md").unlink()
    folder.rmdir()
    folder.symlink_to("/proc/self")
    with pytest.raises(OSError):
        ProjectFiles().read(real.replace("AGENTS.md", "environ"), 100)


@pytest.mark.parametrize("exchanged", ["file", "folder"])
def test_row_06_a_link_that_appears_after_the_path_was_resolved_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exchanged: str
) -> None:
    """Also where it leads to something that could be read: to open a file may already do something to it."""
    project = tmp_path / "project"
    for name in ("sub", "other"):
        (project / name).mkdir(parents=True)
        (project / name / "AGENTS.md").write_text(name)
    path, resolve = project / "sub/AGENTS.md", os.path.realpath

    def resolved(name: str) -> str:
        found = resolve(name)
        if exchanged == "file":
            path.unlink()
            path.symlink_to(project / "other/AGENTS.md")
        else:
            (project / "sub").rename(project / "was")
            (project / "sub").symlink_to(project / "other")
        return found

    files = ProjectFiles(root=str(project))
    assert files.read(str(path), 100) == b"sub"
    monkeypatch.setattr("os.path.realpath", resolved)
    with pytest.raises(OSError) as refused:
        files.read(str(path), 100)
    assert refused.value.errno in (errno.ELOOP, errno.ENOTDIR)


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "auth.json", "sessions/2026/thread"])
def test_row_06_what_is_no_ordinary_file_of_the_project_is_neither_read_nor_waited_for(
    tmp_path: Path, kind: str
) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    for folder in (home, project / ".git"):
        folder.mkdir(parents=True)
    (home / "sessions/2026").mkdir(parents=True)
    for name in ("auth.json", "sessions/2026/thread"):
        (home / name).write_text("SECRET")
    target = project / "AGENTS.md"
    match kind:
        case "pipe":
            os.mkfifo(target)
        case "device":
            target.symlink_to("/dev/zero")
        case "folder":
            target.mkdir()
        case _:
            os.link(home / kind, target)
    docs = load_project_docs(str(project), str(home))
    assert docs.text is None and docs.sources == []


def test_row_06_documents_of_folders_the_work_moves_to_are_judged_alike(tmp_path: Path) -> None:
    home, project, denied = tmp_path / "home", tmp_path / "project", tmp_path / "denied"
    for folder in (home, project / ".git", denied, *(project / name for name in "abc")):
        folder.mkdir(parents=True)
    (home / "auth.json").write_text("SECRET")
    (denied / "file").write_text("SECRET")
    # A process that gave up rights may not read its own environment; the link to it is then left out for that.
    environ = "/proc/self/environ" if os.access("/proc/self/environ", os.R_OK) else "/proc/self/status"
    (project / "a/AGENTS.md").symlink_to(environ)
    (project / "b/AGENTS.md").symlink_to(home / "auth.json")
    (project / "c/AGENTS.md").symlink_to(denied / "file")
    for name in "abc":
        [(folder, docs)] = load_nested_docs(str(project / name), str(project), str(home))
        assert folder == str(project / name) and docs.text is None
        assert "is left out: it is a link that leads" in docs.warnings[0]


def test_row_06_a_skill_that_is_exchanged_after_it_was_listed_is_not_read(tmp_path: Path) -> None:
    home, project, secret = tmp_path / "home", tmp_path / "project", tmp_path / "secret"
    folder = project / ".agents/skills/helper"
    for one in (home, project / ".git", folder):
        one.mkdir(parents=True)
    secret.write_text("SECRET")
    (folder / "SKILL.md").write_text(f"{SKILL}WORDS")
    files = project_files(str(project), str(home), is_trusted=False)
    [skill] = load_skills(str(project), str(home), user_home=str(home), files=files).skills
    assert "WORDS" in skill_text(skill, files, [])
    for target in (secret, Path("/proc/self/environ"), home / "auth.json"):
        (folder / "SKILL.md").unlink()
        (folder / "SKILL.md").symlink_to(target)
        with pytest.raises(OSError):
            skill_text(skill, files, [])


def test_row_06_a_folder_of_skills_that_is_a_link_brings_nothing_from_outside(tmp_path: Path) -> None:
    home, project, other = tmp_path / "home", tmp_path / "project", tmp_path / "other"
    for one in (home / "skills/own", project / ".git", project / ".codex", other / "theirs"):
        one.mkdir(parents=True)
    (other / "theirs/SKILL.md").write_text(SKILL)
    (home / "skills/own/SKILL.md").write_text(SKILL.replace("helper", "own"))
    (project / ".codex/skills").symlink_to(other)
    found = load_skills(str(project), str(home), user_home=str(home))
    assert [(skill.scope, skill.name) for skill in found.skills] == [("user", "own")]
    assert [error.message for error in found.errors] == ["left out: it is a link that leads out of the project"]
    files = project_files(str(project), str(home), is_trusted=True)
    found = load_skills(str(project), str(home), user_home=str(home), files=files)
    assert [(skill.scope, skill.name) for skill in found.skills] == [("repo", "helper"), ("user", "own")]


@pytest.mark.parametrize("key", ["model_instructions_file", "experimental_compact_prompt_file"])
def test_row_06_settings_of_a_trusted_project_name_no_file_outside_of_it(
    spindle: Spindle, server: FakeServer, key: str
) -> None:
    spindle.configure('[spindle.sandbox]\ndeny_read = ["**/.env"]')
    trust(spindle)
    (spindle.workspace / ".codex").mkdir()
    (spindle.workspace / ".env").write_text("CANARY")
    (spindle.workspace / "words.md").write_text("WORDS OF THE PROJECT")
    (spindle.workspace / "link.md").symlink_to("/proc/self/environ")
    (spindle.home / "auth.json").write_text('{"OPENAI_API_KEY": "CANARY-KEY"}')
    spindle.environment["CANARY_VARIABLE"] = "CANARY-IN-ENVIRONMENT"
    config = spindle.workspace / ".codex/config.toml"
    for named in ("/proc/self/environ", str(spindle.home / "auth.json"), "../link.md", "../.env", "/etc/passwd"):
        config.write_text(f'{key} = "{named}"')
        server.script(turn(message("fine")))
        done = spindle("exec", "hi")
        sent = json.dumps(server.requests[-1].json)
        assert done.code == 0 and "is ignored" in done.err and "CANARY" not in sent and "root:" not in sent
    config.write_text(f'{key} = "../words.md"')
    sent = prompt_of(spindle, server)
    assert ("WORDS OF THE PROJECT" in sent) == (key == "model_instructions_file")


def test_row_06_a_picture_that_is_a_link_to_a_denied_file_is_not_attached(
    spindle: Spindle, server: FakeServer, tmp_path: Path
) -> None:
    picture = base64.b64decode(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    )
    (tmp_path / "denied").mkdir()
    (tmp_path / "denied/secret.png").write_bytes(picture)
    (spindle.workspace / "open.png").write_bytes(picture)
    spindle.configure(f'[spindle.sandbox]\ndeny_read = ["{tmp_path}/denied/**"]')
    (spindle.workspace / "linked.png").symlink_to(tmp_path / "denied/secret.png")
    (spindle.workspace / "inside.png").symlink_to("open.png")
    for name, is_sent in (("linked.png", False), ("open.png", True), ("inside.png", True)):
        server.script(turn(message("fine")))
        assert spindle("exec", "-i", name, "--", "look").code == 0
        assert ("data:image/png" in json.dumps(server.requests[-1].json)) == is_sent, name


def test_row_06_a_picture_that_was_judged_is_not_looked_up_again(tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_bytes(b"x")
    (tmp_path / "picture.png").symlink_to("secret.png")
    with pytest.raises(ImageError, match="symbolic link"):
        read_image(f"{tmp_path}/picture.png", is_true=True)
