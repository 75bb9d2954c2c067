"""Tasks are kept apart from each other, from the operator's files and from every secret; repositories run nothing."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fake_server import call, message, turn
from fleet_attempts import Fleet, commit, git, make_repo, runs
from git_canaries import HOOKS, SETTINGS
from spindle.fleet.attempt import read_settings

SECRET = "sk-fake-0123456789abcdef"


def printed(fleet: Fleet) -> str:
    """What the model was told of its last command."""
    return json.dumps(fleet.server.turns_asked[-1].json["input"][-1])


async def test_a_command_sees_neither_the_run_nor_the_operators_home_nor_other_workspaces(fleet: Fleet) -> None:
    (fleet.out / "tasks.jsonl").write_text("THE-LIST")
    (fleet.home / "skills/one").mkdir(parents=True)
    (fleet.home / "skills/one/SKILL.md").write_text("---\nname: one\ndescription: d\n---\nSKILL-TEXT")
    other = fleet.cache / "attempts/other/work"
    look = (
        f"cat {fleet.out}/tasks.jsonl {fleet.home}/config.toml $CODEX_HOME/config.toml; cat {other}/f; "
        f"cat {fleet.home}/skills/one/SKILL.md; ls {fleet.cache}/attempts {fleet.cache}/mirrors; git log --oneline; "
        "echo t > $TMPDIR/t && echo TMP-IS-WRITABLE; echo $TMPDIR"
    )
    fleet.ready()
    other.mkdir(parents=True)
    (other / "f").write_text("OTHERS-WORK")
    fleet.server.script(*runs(look))
    outcome = await fleet.run()
    assert outcome.ended == "ok", outcome.error
    seen = printed(fleet)
    for hidden in ("THE-LIST", "model_provider", "OTHERS-WORK", "\\nother"):
        assert hidden not in seen, seen
    for shown in ("SKILL-TEXT", "TMP-IS-WRITABLE", "work"):
        assert shown in seen, seen


async def test_the_same_holds_below_a_folder_that_everybody_may_write(fleet_below_tmp: Fleet) -> None:
    fleet = fleet_below_tmp
    (fleet.out / "tasks.jsonl").write_text("THE-LIST")
    mirrors = fleet.cache / "mirrors"
    fleet.server.script(
        *runs(
            f"cat {fleet.out}/tasks.jsonl; echo x > {fleet.out}/tasks.jsonl; mv {fleet.out} {fleet.out}-moved; "
            f"for f in {mirrors}/*.git; do echo x > $f/HEAD; done; touch {fleet.home}/AGENTS.md; echo 1 > mine"
        )
    )
    outcome = await fleet.run()
    assert outcome.ended == "ok", outcome.error
    assert outcome.patch is not None and outcome.patch.files == 1
    assert (fleet.out / "tasks.jsonl").read_text() == "THE-LIST" and not (fleet.home / "AGENTS.md").exists()
    assert "THE-LIST" not in printed(fleet)
    assert all((path / "HEAD").read_text().startswith("ref:") for path in mirrors.glob("*.git"))


async def test_file_tools_see_no_more_than_commands(fleet: Fleet) -> None:
    fleet.configure("[spindle]\njit_tools = true\n")
    (fleet.out / "tasks.jsonl").write_text("THE-LIST")
    fleet.server.script(
        turn(call("read_file", {"file_path": str(fleet.out / "tasks.jsonl")}, "c1")),
        turn(call("read_file", {"file_path": str(fleet.home / "config.toml")}, "c2")),
        turn(message("done")),
    )
    outcome = await fleet.run()
    assert outcome.ended == "ok", outcome.error
    sent = fleet.server.turns_asked[-1].body.decode()
    assert "THE-LIST" not in sent and "model_providers" not in sent


async def test_keys_are_in_no_file_and_no_command_has_them(fleet: Fleet) -> None:
    fleet.terms = {"keep": "always"}
    look = "env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; ps axeww 2>/dev/null"
    fleet.server.script(*runs(look))
    outcome = await fleet.run(setup=look, verify=look)
    assert outcome.ended == "ok", outcome.error
    assert all(asked.headers["authorization"] == f"Bearer {SECRET}" for asked in fleet.server.turns_asked)
    assert SECRET not in "".join(asked.body.decode() for asked in fleet.server.turns_asked)
    files = [path for path in fleet.folder.rglob("*") if path.is_file() and not path.is_symlink()]
    assert len(files) > 20 and not [path for path in files if SECRET.encode() in path.read_bytes()]


def test_settings_that_are_handed_on_hold_no_secret(fleet: Fleet) -> None:
    text = (fleet.home / "config.toml").read_text()
    (fleet.home / "config.toml").write_text(
        text.replace("[model_providers.fake]", '[model_providers.fake]\nexperimental_bearer_token = "tok-1234567890ab"')
        + '[model_providers.fake.http_headers]\n"X-Api-Key" = "hdr-1234567890ab"\nplain = "yes"\n'
        + '[model_providers.fake.env_http_headers]\n"X-Api-Key" = "MY_VARIABLE"\n'
        + '[shell_environment_policy.set]\nMY_TOKEN = "env-1234567890ab"\n'
    )
    env = {**os.environ, "CODEX_HOME": str(fleet.home)}
    settings = read_settings(env=env, cwd="/", overrides=["spindle.budget.max_cost=3"], model="other")
    told = json.dumps(settings)
    assert "1234567890ab" not in told
    provider = settings["model_providers"]["fake"]
    assert provider["env_key"] == "FAKE_KEY" and provider["env_http_headers"] == {"X-Api-Key": "MY_VARIABLE"}
    assert provider["http_headers"] == {"plain": "yes"}
    assert settings["model"] == "other" and settings["spindle"]["budget"]["max_cost"] == 3


async def test_a_worker_adds_the_secrets_of_its_own_node(fleet: Fleet) -> None:
    text = (
        (fleet.home / "config.toml")
        .read_text()
        .replace('env_key = "FAKE_KEY"', 'experimental_bearer_token = "tok-12345"')
    )
    (fleet.home / "config.toml").write_text(text)
    outcome = await fleet.run()
    assert outcome.ended == "ok", outcome.error
    assert fleet.server.turns_asked[0].headers["authorization"] == "Bearer tok-12345"


def plant(repo: Path, canary: Path) -> None:
    """Put a canary into every place of a repository that git could run a program from."""
    program = repo.parent / "program"
    program.write_text(f'#!/bin/sh\necho "$0 $@" >> {canary}\ncat\n')
    program.chmod(0o755)
    lines, attributes = [], []
    for setting, attribute in SETTINGS.values():
        lines.append(setting.format(program))
        attributes.append(attribute)
    lines.append(f"[uploadpack]packObjectsHook={program}\n[core]alternateRefsCommand={program}\nhooksPath={repo}/h")
    with open(repo / ".git/config", "a") as file:
        file.write("\n".join(lines) + "\n")
    (repo / ".git/info/attributes").write_text("\n".join(attributes) + "\n")
    for folder in (repo / ".git/hooks", repo / "h"):
        folder.mkdir(exist_ok=True)
        for hook in HOOKS:
            (folder / hook).write_text(program.read_text())
            (folder / hook).chmod(0o755)


async def test_nothing_that_a_repository_names_is_run(fleet: Fleet, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    attributes = "".join(f"{attribute}\n" for _, attribute in SETTINGS.values() if attribute)
    files = {
        ".gitattributes": attributes,
        "a.txt": "a\n",
        ".gitmodules": '[submodule "s"]\npath=s\nurl=ext::sh\nupdate=!sh\n',
    }
    repo = make_repo(tmp_path / "hostile", files)
    plant(repo, canary)
    fleet.server.script(*runs("echo b >> a.txt"))
    outcome = await fleet.run(repo=str(repo), verify="grep b a.txt", restore=[".gitattributes"])
    assert outcome.ended == "ok", outcome.error
    assert not canary.exists(), canary.read_text()


async def test_a_source_that_would_fetch_the_rest_by_a_program_is_not_followed(fleet: Fleet, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    repo = make_repo(tmp_path / "partial")
    blob = git("rev-parse", "HEAD:README.md", cwd=repo)
    (repo / ".git/objects" / blob[:2] / blob[2:]).unlink()
    with open(repo / ".git/config", "a") as file:
        file.write(
            f'[extensions]\n\tpartialClone = o\n[remote "o"]\n\turl = ext::touch {canary}\n\tpromisor = true\n'
            f'\tuploadpack = touch {canary}\n[protocol "ext"]\n\tallow = always\n'
            f"[core]\n\tsshCommand = touch {canary}\n"
        )
    outcome = await fleet.run(repo=str(repo))
    assert outcome.ended == "setup_failed", outcome.error
    assert not canary.exists()


async def test_files_of_a_repository_cannot_be_written_outside_of_the_workspace(fleet: Fleet, tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "odd")
    outside = tmp_path / "outside"
    outside.mkdir()
    blob = git("hash-object", "-w", "--stdin", cwd=repo, given=b"bad\n")
    link = git("hash-object", "-w", "--stdin", cwd=repo, given=str(outside).encode())
    for name in ("..", ".git", ".GIT"):
        inner = git("mktree", cwd=repo, given=f"100644 blob {blob}\tx\n".encode())
        tree = git("mktree", cwd=repo, given=f"040000 tree {inner}\t{name}\n".encode())
        made = git("commit-tree", "-m", "odd", tree, cwd=repo)
        git("update-ref", "refs/heads/odd", made, cwd=repo)
        outcome = await fleet.run(repo=str(repo), base=made)
        assert outcome.ended == "setup_failed" or name == ".GIT", (name, outcome.error)
    inner = git("mktree", cwd=repo, given=f"100644 blob {blob}\tx\n".encode())
    both = git("mktree", cwd=repo, given=f"120000 blob {link}\td\n".encode())
    assert inner and both
    git("update-ref", "refs/heads/link", git("commit-tree", "-m", "link", both, cwd=repo), cwd=repo)
    fleet.server.script(*runs("rm d; mkdir d; echo mine > d/x"))
    outcome = await fleet.run(repo=str(repo), base="link", verify="test -f d/x")
    assert outcome.ended == "ok", outcome.error
    assert list(outside.iterdir()) == []


async def test_a_fetch_that_was_killed_leaves_a_mirror_that_works(fleet: Fleet) -> None:
    await fleet.run()
    mirror = next((fleet.cache / "mirrors").glob("*.git"))
    for name in ("packed-refs.lock", "refs/heads/main.lock", "shallow.lock"):
        path = mirror / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (fleet.cache / "mirrors/half.git.new").mkdir()
    (fleet.repo / "more").write_text("x")
    new = commit(fleet.repo)
    outcome = await fleet.run(base=new)
    assert (outcome.ended, outcome.base_commit) == ("ok", new), outcome.error


async def test_a_mirror_that_was_not_finished_is_made_anew(fleet: Fleet) -> None:
    fleet.ready()
    key = hashlib.sha256(os.path.realpath(fleet.repo).encode()).hexdigest()[:32]
    half = fleet.cache / f"mirrors/{key}.git.new"
    half.mkdir()
    (half / "HEAD").write_text("half")
    outcome = await fleet.run()
    assert outcome.ended == "ok", outcome.error


async def test_a_fetch_waits_for_another_process_on_the_node(fleet: Fleet) -> None:
    fleet.ready()
    key = hashlib.sha256(os.path.realpath(fleet.repo).encode()).hexdigest()[:32]
    with open(fleet.cache / f"mirrors/{key}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        task = fleet.start()
        done, _ = await asyncio.wait([task], timeout=0.5)
        assert not done
    assert (await task).ended == "ok"


@pytest.fixture
def fleet_below_tmp(fleet: Fleet) -> Iterator[Fleet]:
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    yield Fleet(folder, fleet.server)
    shutil.rmtree(folder)
