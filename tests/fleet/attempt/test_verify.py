"""`verify` sees a fresh checkout of the base with the patch, and nothing else of the agent's."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet_attempts import Fleet, make_repo, runs

FILES = {"tests/check.sh": "test -f answer.txt && ! test -e left.log\n", ".gitignore": "*.log\n"}
CHEAT = "echo 'exit 0' > tests/check.sh; touch left.log"


@pytest.mark.parametrize(
    ("script", "restore", "ended", "code"),
    [
        ("echo a > answer.txt; touch left.log", ["tests"], "ok", 0),
        (CHEAT, ["tests"], "verify_failed", 1),
        (CHEAT, [], "ok", 0),
        ("rm tests/check.sh", ["tests/check.sh"], "verify_failed", 1),
        ("rm -r tests; ln -s /etc tests", ["tests"], "verify_failed", 1),
    ],
    ids=["good", "cheat", "loose", "removed", "link"],
)
async def test_paths_of_the_base_are_restored_before_verify(
    fleet: Fleet, tmp_path: Path, script: str, restore: list[str], ended: str, code: int
) -> None:
    repo = make_repo(tmp_path / "checked", FILES)
    fleet.server.script(*runs(script))
    outcome = await fleet.run(repo=str(repo), verify="sh tests/check.sh", restore=restore)
    assert outcome.ended == ended, outcome.error
    assert outcome.verify is not None and outcome.verify.exit_code == code and outcome.verify.duration_s > 0


async def test_files_that_the_agent_added_below_a_restored_path_do_not_count(fleet: Fleet, tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "checked", FILES)
    fleet.server.script(*runs("touch tests/conftest.py; echo a > answer.txt"))
    outcome = await fleet.run(repo=str(repo), verify="test ! -e tests/conftest.py", restore=["tests/"])
    assert outcome.ended == "ok", outcome.error


async def test_set_up_runs_again_and_the_patch_goes_over_what_it_changed(fleet: Fleet) -> None:
    setup = "echo set up >> README.md; mkdir made; ls -A . > /dev/null"
    fleet.server.script(*runs("echo agent >> README.md; rm src/a.py"))
    verify = "grep agent README.md && test -d made && test ! -e src/a.py"
    outcome = await fleet.run(setup=setup, verify=verify)
    assert outcome.ended == "ok", outcome.error
    assert b"agent" in fleet.file(outcome, "verify.log")


async def test_nothing_is_written_or_removed_through_a_link_that_set_up_made(fleet: Fleet, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.py").write_text("mine\n")
    # Only in the second run: in the first one the agent works in the real folder.
    setup = f"case $PWD in */check) rm -r src; ln -s {outside} src;; esac"
    fleet.server.script(*runs("echo 2 > src/a.py; echo 3 > src/b.py"))
    outcome = await fleet.run(setup=setup, verify="test -f src/b.py", restore=["README.md"])
    assert outcome.ended == "ok", outcome.error
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"a.py": "mine\n"}
    fleet.server.script(*runs("rm src/a.py"))
    await fleet.run(setup=setup, verify="true")
    assert (outside / "a.py").exists()


async def test_restored_paths_cannot_leave_the_checkout(fleet: Fleet, tmp_path: Path) -> None:
    fleet.server.otherwise(runs("true")[1])
    for path in ("../../..", "/etc/passwd", ".git/config", ".."):
        outcome = await fleet.run(verify="true", restore=[path])
        assert outcome.ended == "ok", outcome.error


async def test_verify_has_no_network_and_its_time(fleet: Fleet) -> None:
    fleet.terms = {"setup_network": True}
    port = fleet.server.base_url.split(":")[2].split("/")[0]
    connect = f"python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 2)'"
    outcome = await fleet.run(setup=connect, verify=connect)
    assert outcome.ended == "verify_failed", outcome.error
    late = await fleet.run(verify="sleep 100", verify_timeout=0.5)
    assert late.ended == "verify_failed" and late.verify is not None and late.verify.exit_code == 124


async def test_set_up_has_no_network_unless_the_operator_says_so(fleet: Fleet) -> None:
    port = fleet.server.base_url.split(":")[2].split("/")[0]
    connect = f"python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 2)'"
    outcome = await fleet.run(setup=connect)
    assert outcome.ended == "setup_failed"
