"""How an attempt ends, and what it leaves."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
from pathlib import Path

import pytest

from fake_server import call, fails, message, refuses, turn
from fleet_attempts import Fleet, commit, git, make_repo, runs
from spindle.fleet.attempt.mirror import Mirrors
from spindle.fleet.exchange import Failure, Used
from spindle.fleet.task_rules import checked_repo

USAGE = {"input": 900, "output": 100}

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def test_an_attempt_gives_a_patch_a_message_and_what_it_cost(fleet: Fleet) -> None:
    first = turn(call("exec_command", {"cmd": "echo 1 > new.txt"}, "c1"), usage=USAGE)
    fleet.server.script(first, turn(message("done"), usage=USAGE))
    outcome = await fleet.run()
    assert outcome.ended == "ok", outcome.error
    assert outcome.final_message == "done"
    assert fleet.file(outcome, "final.md") == b"done\n"
    assert (fleet.applied(outcome) / "new.txt").read_text() == "1\n"
    line = json.loads(fleet.file(outcome, "rollout.jsonl").split(b"\n")[0])
    assert line["payload"]["id"] == outcome.thread_id
    assert outcome.used == Used(input_tokens=1800, output_tokens=200, requests=2)
    assert outcome.cost_usd == pytest.approx(2.0)
    assert [spent.used.requests for spent in fleet.gate.spent] == [1, 1]
    assert fleet.file(outcome, "events.jsonl").count(b"\n") > 5
    assert fleet.left() == []


async def test_without_a_change_there_is_no_patch(fleet: Fleet) -> None:
    outcome = await fleet.run()
    assert outcome.ended == "ok" and outcome.patch is None
    assert not Path(str(outcome.folder), "patch.diff").exists()


async def test_a_task_without_a_repository_begins_with_an_empty_one(fleet: Fleet) -> None:
    fleet.server.script(*runs("git log --oneline > log.txt; ls -A | grep -v '^\\.' > here.txt"))
    outcome = await fleet.run(repo=None, verify="test -f log.txt")
    assert outcome.ended == "ok", outcome.error
    assert outcome.patch is not None and outcome.patch.files == 2
    assert b"An empty repository" in fleet.file(outcome, "patch.diff")


@pytest.mark.parametrize(
    ("answer", "status", "may_retry"),
    [
        (refuses(503), "model_error", True),
        (refuses(500), "model_error", True),
        (refuses(429, {"error": {"message": "slow down"}}), "model_error", True),
        (refuses(429, {"error": {"code": "insufficient_quota", "message": "no money"}}), "model_error", True),
        (refuses(400, {"error": {"message": "no"}}), "agent_failed", False),
        (refuses(401, {"error": {"message": "who"}}), "agent_failed", False),
        (fails("context_length_exceeded", "too long"), "agent_failed", False),
        (turn(message("x"), drop_after=1), "model_error", True),
    ],
    ids=["503", "500", "429", "quota", "400", "401", "context", "dropped"],
)
async def test_a_failed_turn_has_the_status_that_its_reason_has(
    fleet: Fleet, answer: object, status: str, may_retry: bool
) -> None:
    fleet.server.otherwise(answer)  # type: ignore[arg-type]
    outcome = await fleet.run()
    assert (outcome.ended, outcome.may_retry) == (status, may_retry), outcome.error
    assert outcome.error is not None and outcome.error.message
    assert fleet.left() == []


async def test_a_server_that_is_not_there_may_be_there_later(fleet: Fleet) -> None:
    text = (fleet.home / "config.toml").read_text().replace(fleet.server.base_url, "http://127.0.0.1:9/v1")
    (fleet.home / "config.toml").write_text(text)
    outcome = await fleet.run()
    assert (outcome.ended, outcome.may_retry) == ("model_error", True)
    assert outcome.used.requests == 0


async def test_an_attempt_that_takes_too_long_is_a_timeout_and_keeps_its_work(fleet: Fleet) -> None:
    fleet.server.script(*runs("echo 1 > new.txt")[:1], turn(message("late"), delay_s=50))
    outcome = await fleet.run(timeout=2.0)
    assert outcome.ended == "timeout" and not outcome.may_retry
    assert outcome.patch is not None and outcome.patch.files == 1
    assert fleet.left() == []


async def test_a_cancelled_attempt_is_stopped_and_leaves_nothing(fleet: Fleet, tmp_path: Path) -> None:
    fleet.server.script(*runs("echo $$ > pid; sleep 100"))
    task = fleet.start()
    attempts = fleet.cache / "attempts"
    while not any(path.read_text() for path in attempts.rglob("pid")):
        await asyncio.sleep(0.01)
    task.cancel()
    outcome = await task
    assert outcome.ended == "stopped" and not outcome.may_retry
    assert fleet.left() == []
    for folder in (name for name in os.listdir("/proc") if name.isdigit()):
        try:
            assert str(attempts) not in os.readlink(f"/proc/{folder}/cwd")
        except OSError:
            continue


async def test_a_missing_repository_or_commit_is_a_failed_set_up(fleet: Fleet) -> None:
    for task in ({"repo": "/nonexistent/x"}, {"base": "f" * 40}, {"base": "no-such"}, {"base": "--all"}):
        outcome = await fleet.run(**task)
        assert (outcome.ended, outcome.may_retry) == ("setup_failed", False), task
    assert not fleet.server.requests


async def test_a_failed_set_up_says_what_it_printed(fleet: Fleet) -> None:
    outcome = await fleet.run(setup="echo broken >&2; exit 7")
    assert outcome.ended == "setup_failed"
    assert outcome.error == Failure(kind="setup", message="setup ended with exit code 7\nbroken")
    assert fleet.file(outcome, "setup.log") == b"broken\n"
    assert not fleet.server.requests


async def test_a_set_up_that_hangs_is_ended(fleet: Fleet) -> None:
    outcome = await fleet.run(setup="echo begun; sleep 100", setup_timeout=0.5)
    assert outcome.ended == "setup_failed" and "0.5 s" in str(outcome.error)


async def test_output_has_to_fit_its_schema(fleet: Fleet) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    fleet.server.script(turn(message('{"n": 4}')), turn(message("four")), turn(message('{"n": "4"}')))
    good = await fleet.run(output_schema=schema)
    assert (good.ended, good.output) == ("ok", {"n": 4})
    assert json.loads(fleet.file(good, "output.json")) == {"n": 4}
    for _ in range(2):
        bad = await fleet.run(output_schema=schema)
        assert (bad.ended, bad.output) == ("invalid_output", None)


async def test_the_budget_of_a_task_covers_all_of_its_attempts(fleet: Fleet) -> None:
    fleet.server.otherwise(turn(call("exec_command", {"cmd": "true"}, "c1"), usage=USAGE))
    for limit in ({"max_requests": 3}, {"max_tokens": 3000}, {"max_cost": 3.0}):
        before = len(fleet.server.turns_asked)
        used = Used(input_tokens=900, output_tokens=100, requests=1)
        outcome = await fleet.run(number=2, used=used, cost=1.0, **limit)
        assert outcome.ended == "budget", outcome.error
        assert len(fleet.server.turns_asked) - before == 2, limit
    spent = await fleet.run(number=2, used=Used(requests=3), max_requests=3)
    assert spent.ended == "budget" and spent.used.requests == 0


async def test_a_file_that_is_no_picture_is_a_failed_set_up(fleet: Fleet, tmp_path: Path) -> None:
    bad = tmp_path / "no.png"
    bad.write_text("no picture")
    outcome = await fleet.run(image=[str(bad)])
    assert outcome.ended == "setup_failed" and outcome.error is not None and outcome.error.kind == "image"
    outcome = await fleet.run(image=[str(tmp_path / "missing.png")])
    assert outcome.ended == "setup_failed"


async def test_kept_workspaces_stay_and_are_not_swept_away(fleet: Fleet) -> None:
    fleet.terms = {"keep": "failed"}
    fleet.server.script(turn(message("fine")), refuses(400, {"error": {"message": "no"}}))
    fine = await fleet.run()
    assert fleet.left() == []
    bad = await fleet.run()
    assert "work" in fleet.left()
    workshop = fleet.ready()
    for outcome in (fine, bad):
        workshop.discard(outcome.folder)
    workshop.sweep()
    assert "work" in fleet.left()


async def test_what_a_dead_worker_left_is_swept_away_and_nothing_else(fleet: Fleet) -> None:
    outcome = await fleet.run()
    dead = fleet.cache / "attempts/gone"
    (dead / "work/closed").mkdir(parents=True)
    (dead / "lock").touch()
    (dead / "work/closed").chmod(0)
    fleet.ready().sweep()
    assert not dead.exists()
    assert Path(str(outcome.folder)).is_dir()
    fleet.ready().discard(outcome.folder)
    assert os.listdir(fleet.cache / "attempts") == []


async def test_folders_that_the_agent_closed_are_removed(fleet: Fleet) -> None:
    fleet.server.script(*runs("mkdir -p a/b; echo x > a/b/c; chmod 000 a/b; chmod 500 a"))
    outcome = await fleet.run()
    assert outcome.ended == "ok", outcome.error
    assert fleet.left() == []
    assert (fleet.applied(outcome) / "a/b/c").read_text() == "x\n"


async def test_bases_are_commits_tags_branches_and_beginnings_of_hashes(fleet: Fleet) -> None:
    first = git("rev-parse", "HEAD", cwd=fleet.repo)
    git("tag", "-a", "v1", "-m", "one", cwd=fleet.repo)
    git("branch", "side", cwd=fleet.repo)
    (fleet.repo / "second.txt").write_text("2\n")
    second = commit(fleet.repo)
    for base, wanted in (("HEAD", second), ("v1", first), ("side", first), (first, first), (first[:10], first)):
        outcome = await fleet.run(base=base)
        assert outcome.base_commit == wanted, base
    third = commit(fleet.repo)
    assert (await fleet.run(base=third)).base_commit == third  # fetched after the mirror was made


async def test_bundles_and_file_addresses_are_sources(fleet: Fleet, tmp_path: Path) -> None:
    bundle = tmp_path / "all.bundle"
    git("bundle", "create", "-q", str(bundle), "--all", "HEAD", cwd=fleet.repo)
    for source in (str(bundle), f"file://{fleet.repo}"):
        outcome = await fleet.run(repo=source)
        assert outcome.ended == "ok", outcome.error
    for source in ("ext::sh -c true", "ftp://x/y", "git://x/y", "relative"):
        assert (await fleet.run(repo=source)).ended == "setup_failed"


async def test_attempts_at_a_time_share_a_mirror_and_have_workspaces_of_their_own(fleet: Fleet) -> None:
    fleet.server.otherwise(turn(message("done"), delay_s=0.2))
    tasks = [fleet.start(id=f"t{number}") for number in range(6)]
    ended = [outcome.ended for outcome in await asyncio.gather(*tasks)]
    assert ended == ["ok"] * 6
    assert len(list((fleet.cache / "mirrors").glob("*.git"))) == 1


async def test_the_operators_agents_md_counts_and_the_repositorys_hooks_do_not(fleet: Fleet, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    (fleet.home / "AGENTS.md").write_text("OPERATOR-SAYS")
    files = {
        "AGENTS.md": "REPOSITORY-SAYS",
        ".codex/config.toml": f'notify = ["touch", "{canary}"]\nmodel = "other"\n',
        ".codex/hooks.json": json.dumps(
            {"hooks": {"SessionStart": [{"hooks": [{"type": "command", "command": f"touch {canary}"}]}]}}
        ),
    }
    repo = make_repo(tmp_path / "with-hooks", files)
    outcome = await fleet.run(repo=str(repo))
    assert outcome.ended == "ok", outcome.error
    sent = fleet.server.turns_asked[0].body.decode()
    assert "OPERATOR-SAYS" in sent and "REPOSITORY-SAYS" in sent
    assert outcome.model == "gpt-5" and not canary.exists()


async def test_a_task_can_have_a_model_and_settings_of_its_own(fleet: Fleet) -> None:
    outcome = await fleet.run(model="gpt-5-mini", config={"model_reasoning_effort": "high"})
    assert outcome.model == "gpt-5-mini"
    assert fleet.server.turns_asked[0].json["reasoning"]["effort"] == "high"


async def test_a_picture_of_a_task_is_sent_with_its_prompt(fleet: Fleet, tmp_path: Path) -> None:
    picture = tmp_path / "dot.png"
    picture.write_bytes(PNG)
    outcome = await fleet.run(image=[str(picture)])
    assert outcome.ended == "ok", outcome.error
    sent = fleet.server.turns_asked[0].json["input"][-1]["content"]
    assert base64.b64encode(PNG).decode() in next(part["image_url"] for part in sent if part["type"] == "input_image")


async def test_a_fetch_that_takes_too_long_may_be_tried_again(fleet: Fleet) -> None:
    workshop = fleet.ready()
    workshop.mirrors = Mirrors(f"{fleet.cache}/mirrors", workshop.git, fetch_s=1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        outcome = await fleet.run(repo=f"https://127.0.0.1:{silent.getsockname()[1]}/code.git")
    assert outcome.ended == "setup_failed" and outcome.may_retry
    assert outcome.error is not None and outcome.error.kind == "repository" and "took longer" in outcome.error.message
    assert not fleet.server.turns_asked and not [*(fleet.cache / "mirrors").glob("*.git")]


async def test_a_source_that_has_only_its_last_commits_is_good_enough(fleet: Fleet) -> None:
    (fleet.repo / "more.txt").write_text("more\n")
    commit(fleet.repo)
    shallow = fleet.folder / "shallow"
    git("clone", "-q", "--depth", "1", f"file://{fleet.repo}", str(shallow), cwd=fleet.folder)
    fleet.server.script(*runs("git log --oneline | wc -l > commits.txt; git status --short >> commits.txt"))
    outcome = await fleet.run(repo=str(shallow))
    assert outcome.ended == "ok", outcome.error
    assert (fleet.applied(outcome) / "commits.txt").read_text().split("\n")[0].strip() == "1"


async def test_a_commit_can_be_named_by_its_way_from_the_head(fleet: Fleet) -> None:
    first = git("rev-parse", "HEAD", cwd=fleet.repo)
    commit(fleet.repo)
    outcome = await fleet.run(base="HEAD~1")
    assert outcome.ended == "ok" and outcome.base_commit == first


@pytest.fixture
def ssh(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for `ssh` that runs on this machine what it is told to run on another, where HOME is the repository's
    folder; a file `refusal` beside it lets nobody in."""
    programs = fleet.folder / "programs"
    programs.mkdir()
    program = programs / "ssh"
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {programs}/asked\n'
        f"if [ -e {programs}/refusal ]; then echo 'me@host: Permission denied (publickey).' >&2; exit 255; fi\n"
        f'for last; do :; done\nHOME={fleet.folder} exec sh -c "$last"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    return programs


@pytest.mark.parametrize("form", ["ssh://me@host{}", "me@host:{}", "me@host:repo"])
async def test_a_repository_comes_by_ssh_without_a_question(fleet: Fleet, ssh: Path, form: str) -> None:
    outcome = await fleet.run(repo=checked_repo(form.format(fleet.repo), "/"))
    assert outcome.ended == "ok", outcome.error
    assert outcome.base_commit == git("rev-parse", "HEAD", cwd=fleet.repo)
    assert "-oBatchMode=yes" in (ssh / "asked").read_text() and "me@host" in (ssh / "asked").read_text()


async def test_why_ssh_lets_nobody_in_is_told(fleet: Fleet, ssh: Path) -> None:
    (ssh / "refusal").touch()
    outcome = await fleet.run(repo=f"ssh://me@host{fleet.repo}")
    assert outcome.ended == "setup_failed" and outcome.error is not None
    assert outcome.error.message.endswith("git fetch failed: Permission denied (publickey).")
