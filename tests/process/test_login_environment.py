"""The profile is read once, and its effects are there in every command."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from process.fences import READ_ONLY, WORKSPACE_WRITE
from spindle.process.table import Command, ProcessTable

PROFILE = r"""
echo noise from the profile
echo x >> "$HOME/reads"
export FROM_PROFILE='a "quoted" value
with two lines'
PATH="$HOME/bin:$PATH"
plain='not exported'
greet() { echo "hello $1"; }
umask 027
shopt -s nullglob
alias ll='ls -l'
"""


async def said(table: ProcessTable, command: Command) -> str:
    finished = await table.run(command, timeout_s=20)
    return finished.output.peek().text()


@pytest.mark.parametrize("sandbox", [None, READ_ONLY, WORKSPACE_WRITE], ids=["bare", "read-only", "workspace-write"])
async def test_what_the_profile_sets_up_is_there(
    sandbox: object, table: ProcessTable, command: Callable[..., Command], user_home: Path
) -> None:
    (user_home / ".profile").write_text(PROFILE)
    script = 'echo "$FROM_PROFILE|${PATH%%:*}|$plain"; greet you; umask; echo no*match; echo "$BASH_ENV$SHLVL"'
    shown = f'a "quoted" value\nwith two lines|{user_home}/bin|not exported\nhello you\n0027\n\n1\n'
    assert await said(table, command(script, sandbox)) == shown
    assert await said(table, command(script, sandbox)) == shown


async def test_the_profile_is_read_once(table: ProcessTable, command: Callable[..., Command], user_home: Path) -> None:
    (user_home / ".profile").write_text(PROFILE)
    for _ in range(4):
        await said(table, command("true"))
    assert (user_home / "reads").read_text() == "x\n"


async def test_scripts_inside_a_command_do_not_read_it_again(
    table: ProcessTable, command: Callable[..., Command], user_home: Path
) -> None:
    (user_home / ".profile").write_text(PROFILE)
    assert await said(table, command("bash -c 'greet you' 2>/dev/null || echo unknown")) == "unknown\n"


async def test_an_ignored_signal_is_carried_over(
    table: ProcessTable, command: Callable[..., Command], user_home: Path
) -> None:
    (user_home / ".profile").write_text("echo x >> \"$HOME/reads\"\ntrap '' USR1\n")
    for _ in range(2):
        assert await said(table, command("kill -USR1 $$; echo alive")) == "alive\n"
    assert (user_home / "reads").read_text() == "x\n"


@pytest.mark.parametrize("profile", ["trap 'echo bye' EXIT", "cd /", "exit 3"])
async def test_a_profile_that_cannot_be_carried_over_is_read_each_time(
    profile: str, table: ProcessTable, command: Callable[..., Command], user_home: Path
) -> None:
    (user_home / ".profile").write_text(f'echo x >> "$HOME/reads"\n{profile}\n')
    first = await said(table, command("pwd"))
    assert await said(table, command("pwd")) == first
    assert len((user_home / "reads").read_text().splitlines()) == 3  # one look, two commands


async def test_a_command_that_wants_no_profile_gets_none(table: ProcessTable, folder: Path, user_home: Path) -> None:
    (user_home / ".profile").write_text(PROFILE)
    argv = table.shell_argv('echo "[$FROM_PROFILE]"', login=False)
    command = Command(argv=argv, cwd=str(folder), boundary=None)
    assert await said(table, command) == "[]\n"
    assert not (user_home / "reads").exists()


async def test_a_profile_is_never_stopped_half_way(
    table: ProcessTable, command: Callable[..., Command], user_home: Path
) -> None:
    (user_home / ".profile").write_text('touch "$HOME/lock"; sleep 0.5; rm "$HOME/lock"; touch "$HOME/done"\n')
    interrupted = asyncio.create_task(said(table, command("true")))
    while not (user_home / "lock").exists():
        await asyncio.sleep(0.01)
    interrupted.cancel()
    await table.aclose()
    for _ in range(100):
        if (user_home / "done").exists():
            break
        await asyncio.sleep(0.05)
    assert (user_home / "done").exists()


async def test_a_slow_profile_is_used_as_soon_as_it_is_known(
    table: ProcessTable, command: Callable[..., Command], user_home: Path
) -> None:
    (user_home / ".profile").write_text('echo x >> "$HOME/reads"; sleep 1.3; export SLOW=1\n')
    assert await said(table, command("echo $SLOW")) == "1\n"
    assert await said(table, command("echo $SLOW")) == "1\n"
    assert (user_home / "reads").read_text() == "x\nx\n"  # one look, and the command that would not wait for it


STATE = "shopt -p; set +o; umask -p; alias -p; declare -f; trap -p"


def without_login(state: str) -> list[str]:
    return [line for line in state.splitlines() if not line.endswith(" login_shell")]


@pytest.mark.parametrize(
    "profile",
    [
        "",
        "export ONLY=this",
        "shopt -s nullglob extglob; shopt -u sourcepath",
        "set -u -o pipefail; set +o hashall",
        "set -o posix",
        "shopt -s expand_aliases; alias ll='ls -l'",
        "export SHELLOPTS; set -u",
        "export BASHOPTS; shopt -s nullglob",
        "umask 077",
        "export BASH_ENV=$HOME/again; echo 'shopt -s dotglob' > $HOME/again",
        "trap '' USR1; set -u",
        "said() { echo x; }; set -f",
    ],
)
async def test_a_shell_is_set_up_as_its_profile_leaves_it(
    profile: str, table: ProcessTable, command: Callable[..., Command], folder: Path, child_env: dict[str, str]
) -> None:
    Path(child_env["HOME"], ".profile").write_text(f"{profile}\n")
    shell = await asyncio.create_subprocess_exec(
        *("/bin/bash", "-lc", STATE), cwd=folder, env=child_env, stdout=asyncio.subprocess.PIPE
    )
    by_itself = (await shell.communicate())[0].decode()
    # Whether it is one is the single thing that a shell cannot be told later.
    assert without_login(await said(table, command(STATE))) == without_login(by_itself)


async def test_a_profile_that_sets_only_variables_leaves_a_shell_nothing_to_read(
    table: ProcessTable, command: Callable[..., Command], user_home: Path
) -> None:
    (user_home / ".profile").write_text("export FROM_PROFILE=yes\n")
    names = "tr '\\0' '\\n' < /proc/$$/environ | grep -o '^FROM_PROFILE\\|^BASH_ENV'"
    assert await said(table, command(names)) == "FROM_PROFILE\n"
