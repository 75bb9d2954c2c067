"""What belongs to another user of the machine says nothing here (row 19 of the security findings).

As with git: what we own counts, and what the system owns. Exceptions are git's own `safe.directory`, the person behind
`sudo`, and folders that were mounted into a container. Only root can make files that belong to others.
"""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from fake_server import FakeServer, call, message, turn
from installed import Done, Spindle
from spindle.auth.mcp_tokens import all_tokens
from spindle.config.consent import Consents
from spindle.errors import ConfigError
from spindle.frontends.custom_prompts import load_prompts
from spindle.mcp.spec import McpServer
from threats.cli import in_own_mounts

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")

OTHER = 65534
SKILL = "---\nname: helper\ndescription: FOREIGN SKILL\n---\n"


def give_away(*paths: Path, uid: int = OTHER) -> None:
    for top in paths:
        for path in (top, *top.rglob("*")):
            os.chown(path, uid, uid, follow_symlinks=False)


def trust(spindle: Spindle, folder: Path) -> None:
    spindle.configure(f'[projects."{folder}"]\ntrust_level = "trusted"')


def documents(folder: Path) -> None:
    """What a project can tell the model, and its settings."""
    (folder / "AGENTS.md").write_text("FOREIGN DOCUMENT")
    for root in (".codex/skills", ".agents/skills"):
        (folder / root / "helper").mkdir(parents=True)
        (folder / root / "helper/SKILL.md").write_text(SKILL)
    (folder / ".codex/config.toml").write_text('developer_instructions = "FOREIGN SETTINGS"')


def run(spindle: Spindle, server: FakeServer, cwd: Path | None = None, **more: Any) -> tuple[str, Done]:
    server.script(turn(message("fine")))
    done = spindle("exec", "--skip-git-repo-check", "hi", cwd=cwd, **more)
    assert done.code == 0, done.err
    return json.dumps(server.requests[-1].json), done


def test_row_19_a_repository_of_another_user_around_the_folder_brings_nothing(
    spindle: Spindle, server: FakeServer, tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    (shared / ".git").mkdir(parents=True)
    documents(shared)
    own = shared / "own/deep"
    own.mkdir(parents=True)
    (own / "AGENTS.md").write_text("OWN DOCUMENT")
    sent, _ = run(spindle, server, own)
    assert "FOREIGN DOCUMENT" in sent and "FOREIGN SKILL" in sent, "else the test below could not fail"
    give_away(shared / ".git")
    sent, _ = run(spindle, server, own)
    assert "FOREIGN" not in sent and "OWN DOCUMENT" in sent
    give_away(shared / ".git", uid=0)
    give_away(shared)
    give_away(own, uid=0)
    sent, _ = run(spindle, server, own)
    assert "FOREIGN" not in sent and "OWN DOCUMENT" in sent


def test_row_19_single_files_of_another_user_are_left_out_and_named(spindle: Spindle, server: FakeServer) -> None:
    documents(spindle.workspace)
    (spindle.workspace / "sub").mkdir()
    (spindle.workspace / "sub/AGENTS.md").write_text("OWN DOCUMENT")
    give_away(*(spindle.workspace / name for name in ("AGENTS.md", ".codex/skills", ".agents/skills")))
    sent, done = run(spindle, server, spindle.workspace / "sub")
    assert "FOREIGN" not in sent and "OWN DOCUMENT" in sent
    assert f"{spindle.workspace}/AGENTS.md is left out: it belongs to another user ({OTHER})" in done.err


@pytest.mark.parametrize("what", [".", ".git", ".codex"])
def test_row_19_trust_ends_where_the_folder_belongs_to_another_user(
    spindle: Spindle, server: FakeServer, what: str
) -> None:
    (spindle.workspace / ".codex").mkdir()
    (spindle.workspace / ".codex/config.toml").write_text('developer_instructions = "FOREIGN SETTINGS"')
    trust(spindle, spindle.workspace)
    sent, _ = run(spindle, server)
    assert "FOREIGN SETTINGS" in sent, "else the test below could not fail"
    give_away(spindle.workspace / what)
    sent, done = run(spindle, server)
    assert "FOREIGN SETTINGS" not in sent and "belongs to another user" in done.err and "safe.directory" in done.err


def test_row_19_a_file_of_settings_that_belongs_to_another_user_is_not_obeyed(
    spindle: Spindle, server: FakeServer
) -> None:
    for name, text in (("config.toml", None), ("hooks.json", '{"hooks": {}}')):
        path = spindle.home / name
        if text is not None:
            path.write_text(text)
        give_away(path)
        done = spindle("exec", "hi")
        assert done.code == 1 and f"{path}: the " in done.err and f"belongs to another user ({OTHER})" in done.err
        assert server.requests == [] and "Traceback" not in done.err
        give_away(path, uid=0)
    trust(spindle, spindle.workspace)
    (spindle.workspace / ".codex").mkdir()
    path = spindle.workspace / ".codex/config.toml"
    path.write_text('developer_instructions = "FOREIGN SETTINGS"')
    os.chown(path, OTHER, OTHER)
    sent, done = run(spindle, server)
    assert "FOREIGN" not in sent and f"{path} is ignored: it belongs to another user" in done.err


def test_row_19_rules_of_another_user_allow_nothing(spindle: Spindle) -> None:
    (spindle.home / "rules").mkdir()
    path = spindle.home / "rules/default.rules"
    path.write_text('prefix_rule(pattern=["touch"], decision="allow")\n')
    done = spindle("execpolicy", "check", "--rules", str(path), "touch", "x")
    assert '"allow"' in done.out
    give_away(path)
    done = spindle("execpolicy", "check", "--rules", str(path), "touch", "x")
    assert done.code == 1 and "belongs to another user" in done.err


def test_row_19_the_person_behind_sudo_and_safe_directories_of_git_count_as_own(
    spindle: Spindle, server: FakeServer
) -> None:
    documents(spindle.workspace)
    trust(spindle, spindle.workspace)
    give_away(spindle.workspace)
    assert "FOREIGN" not in run(spindle, server)[0]
    give_away(spindle.home / "config.toml")
    sent, done = run(spindle, server, SUDO_UID=str(OTHER))
    assert all(f"FOREIGN {what}" in sent for what in ("DOCUMENT", "SKILL", "SETTINGS"))
    assert "another user" not in done.err
    give_away(spindle.home / "config.toml", uid=0)
    settings = Path(spindle.environment["HOME"]) / ".gitconfig"
    for value, counts in ((str(spindle.workspace), True), ("*", True), ("/elsewhere", False)):
        settings.write_text(f"[user]\n\tname = x\n[safe]\n\tdirectory = {value}\n")
        sent, _ = run(spindle, server)
        assert ("FOREIGN SETTINGS" in sent) == counts and ("FOREIGN DOCUMENT" in sent) == counts, value
    settings.write_text("[safe]\n\tdirectory = *\n\tdirectory =\n")
    assert "FOREIGN" not in run(spindle, server)[0]


def test_row_19_in_a_container_what_was_mounted_from_outside_counts_as_own(
    spindle: Spindle, server: FakeServer, own_mounts: None
) -> None:
    documents(spindle.workspace)
    trust(spindle, spindle.workspace)
    give_away(spindle.workspace)
    here = shlex.quote(str(spindle.workspace))
    mounted = in_own_mounts(f'mount --bind {here} {here} && cd {here} && exec "$@"')
    sent, _ = run(spindle, server, wrap=mounted, container="podman")
    assert all(f"FOREIGN {what}" in sent for what in ("DOCUMENT", "SKILL", "SETTINGS"))
    # A stranger's folder inside of what was mounted is a stranger's.
    give_away(spindle.workspace, uid=0)
    give_away(spindle.workspace / "AGENTS.md")
    sent, _ = run(spindle, server, wrap=mounted, container="podman")
    assert "FOREIGN DOCUMENT" not in sent and "FOREIGN SETTINGS" in sent


@pytest.mark.parametrize("name", ["AGENTS.md", "AGENTS.override.md"])
def test_row_19_instructions_in_the_home_that_are_another_users_are_left_out_and_named(
    spindle: Spindle, server: FakeServer, name: str
) -> None:
    (spindle.home / name).write_text("FOREIGN DOCUMENT")
    assert "FOREIGN" in run(spindle, server)[0], "else the test below could not fail"
    give_away(spindle.home / name)
    sent, done = run(spindle, server)
    assert "FOREIGN" not in sent and f"{spindle.home / name} is left out: it belongs to another user" in done.err


def test_row_19_a_note_of_another_users_is_not_told(spindle: Spindle, server: FakeServer) -> None:
    spindle.configure("[spindle]\nmemory = true\n")
    server.script(turn(call("memory", {"command": "create", "path": "a.md", "text": "FOREIGN NOTE\n"}, "c1")))
    run(spindle, server)
    assert "FOREIGN NOTE" in run(spindle, server)[0]
    give_away(*spindle.home.rglob("a.md"))
    server.script(turn(call("memory", {"command": "view", "path": "a.md"}, "c1")))
    sent, _ = run(spindle, server)
    assert "FOREIGN" not in sent and "belongs to another user" in sent


def test_row_19_a_prompt_of_another_users_is_not_offered(spindle: Spindle) -> None:
    (spindle.home / "prompts").mkdir()
    for name in ("own", "theirs"):
        (spindle.home / f"prompts/{name}.md").write_text("say something")
    give_away(spindle.home / "prompts/theirs.md")
    assert [prompt.name for prompt in load_prompts(str(spindle.home))] == ["own"]


def test_row_19_logins_and_consents_of_another_user_are_none(spindle: Spindle) -> None:
    tokens = [{"server": "s", "url": "https://s.test", "access_token": "FOREIGN"}]
    for name, text in (("auth.json", {"OPENAI_API_KEY": "sk-foreign"}), ("mcp-tokens.json", tokens)):
        (spindle.home / name).write_text(json.dumps(text))
        (spindle.home / name).chmod(0o600)
        give_away(spindle.home / name)
    status = spindle("login", "status")
    assert status.code == 1 and f"auth.json is not used: it belongs to another user ({OTHER})" in status.err
    with pytest.raises(ConfigError, match="belongs to another user"):
        all_tokens(str(spindle.home))
    server = McpServer(name="s", command="true")
    Consents(str(spindle.home)).give(server)
    assert Consents(str(spindle.home)).covers(server)
    give_away(spindle.home / "mcp-consents.json")
    assert not Consents(str(spindle.home)).covers(server)
