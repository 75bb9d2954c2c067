"""Completion scripts, tried in the shells they are for. Those of PowerShell and elvish are only looked at."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from spindle.frontends.command_table import SPINDLE
from spindle.frontends.commands import walk

PATIENCE_S = 20.0

Complete = Callable[[str], set[str]]

CASES = [
    ("ex", {"exec", "execpolicy"}),
    ("exec res", {"resume"}),
    ("e res", {"resume"}),
    ("-m some-model exec fo", {"fork"}),
    ("exec --sandbox read-only res", {"resume"}),
    ("exec --js", {"--json"}),
    ("exec resume --la", {"--last"}),
    ("exec resume --js", {"--json"}),
    ("exec -s ", {"read-only", "workspace-write", "danger-full-access"}),
    ("exec --sandbox w", {"workspace-write"}),
    ("exec --color n", {"never"}),
    ("exec --enable shell_t", {"shell_tool"}),
    ("mcp un", {"untrust"}),
    ("mcp add --ur", {"--url"}),
    ("completion ", {"bash", "zsh", "fish", "powershell", "elvish"}),
    ("features enable shell_t", {"shell_tool"}),
    ("threads --arch", {"--archived"}),
    ("help exe", {"exec", "execpolicy"}),
    ("app-server generate-j", {"generate-json-schema"}),
    ("debug p", {"prompt-input"}),
    ("sandbox --mode d", {"danger-full-access"}),
]


@pytest.fixture(scope="session")
def script(spindle_cmd: list[str], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("completion")

    def write(shell: str) -> Path:
        path = folder / shell
        if not path.exists():
            done = subprocess.run([*spindle_cmd, "completion", shell], capture_output=True, check=True, timeout=40)
            path.write_bytes(done.stdout)
        return path

    return write


def needs(shell: str) -> str:
    return shutil.which(shell) or pytest.skip(f"{shell} is not installed, so its script is not tried")


def run(argv: list[str], text: str) -> str:
    done = subprocess.run(argv, input=text, capture_output=True, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def in_bash(script: Path, lines: list[str]) -> list[set[str]]:
    """What is offered for each line; bash takes words apart at `=` as it does for a person."""
    text = f"source {script}\n"
    for line in lines:
        words = [part for word in f"spindle {line}".split(" ") for part in re.split("(=)", word) if part or word == ""]
        quoted = " ".join(f"'{word}'" for word in words)
        text += f'COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _spindle; echo "${{COMPREPLY[*]}}"\n'
    return [set(line.split()) for line in run([needs("bash"), "--norc"], text).splitlines()]


def test_bash_completes(script: Callable[[str], Path]) -> None:
    lines = [typed for typed, _ in CASES]
    assert dict(zip(lines, in_bash(script("bash"), lines), strict=True)) == dict(CASES)


def test_bash_completes_values_behind_an_equals_sign_and_leaves_other_programs_alone(
    script: Callable[[str], Path],
) -> None:
    lines = ["exec --sandbox=w", "exec --sandbox=", "sandbox make --mo", "exec -- --js", "exec -m re", "exec x re"]
    modes = {"read-only", "workspace-write", "danger-full-access"}
    assert in_bash(script("bash"), lines) == [{"workspace-write"}, modes, set(), set(), set(), set()]


def test_bash_offers_every_command_subcommand_and_option(script: Callable[[str], Path]) -> None:
    paths = [path for path in walk(SPINDLE) if path[-1].commands or path[-1].options]
    names = [" ".join(step.name for step in path[1:]) for path in paths]
    offered = in_bash(script("bash"), [f"{name} ".lstrip() for name in names])
    options = in_bash(script("bash"), [f"{name} -".lstrip() for name in names])
    for path, words, dashed in zip(paths, offered, options, strict=True):
        if path[-1].verbatim_from is None:
            assert {command.name for command in path[-1].shown} <= words
        shown = [option for option in path[-1].options if not option.is_hidden]
        assert {name for option in shown for name in option.names} <= dashed


def test_bash_completes_what_follows_the_command_when_the_script_is_evaluated(script: Callable[[str], Path]) -> None:
    text = f'eval "$(cat {script("bash")})"; complete -p spindle\n'
    assert "-F _spindle spindle" in run([needs("bash"), "--norc"], text)


def test_fish_completes(script: Callable[[str], Path]) -> None:
    fish = needs("fish")
    text = f"source {script('fish')}\n"
    for typed, _ in CASES:
        text += f"complete -C 'spindle {typed}'\necho ==\n"
    blocks = run([fish, "--no-config"], text).split("==\n")
    found = [{line.split("\t")[0] for line in block.splitlines()} for block in blocks[: len(CASES)]]
    assert dict(zip([typed for typed, _ in CASES], found, strict=True)) == dict(CASES)


def test_zsh_completes(script: Callable[[str], Path], tmp_path: Path) -> None:
    zsh = needs("zsh")
    (tmp_path / "setup").write_text(
        "PS1='ready> '; unset zle_bracketed_paste; autoload -Uz compinit; compinit -D -u\n"
        f'eval "$(cat {script("zsh")})"\n'
        'spindle() { print -r -- "GOT<$*>" }\nsetopt no_beep\n'
    )
    only = [
        *((typed, words) for typed, words in CASES if len(words) == 1),
        ("exec --sandbox=w", {"--sandbox=workspace-write"}),
    ]
    found = in_zsh(zsh, tmp_path / "setup", [typed for typed, _ in only])
    wanted = [" ".join([*typed.split(" ")[:-1], *words]) for typed, words in only]
    assert found == wanted


def in_zsh(zsh: str, setup: Path, lines: list[str]) -> list[str]:
    """Each line with Tab and Return typed at the end, as the function `spindle` got it."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(zsh, [zsh, "-f", "-i"], {**os.environ, "TERM": "dumb", "HOME": str(setup.parent)})
    screen = Screen(terminal)
    try:
        screen.type(f"source {setup}\n")
        screen.until(rb"ready> ")
        found = []
        for line in lines:
            screen.type(f"spindle {line}\t\n")
            found.append(screen.until(rb"GOT<([^>]*)>\s"))
            screen.until(rb"ready> ")
        return found
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)


class Screen:
    """What a terminal shows, read as far as it is waited for."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._unread = b""

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def until(self, pattern: bytes) -> str:
        while (found := re.search(pattern, self._unread)) is None:
            assert select.select([self._terminal], [], [], PATIENCE_S)[0], self._unread
            self._unread += os.read(self._terminal, 65536)
        self._unread = self._unread[found.end() :]
        return found[1].decode() if found.groups() else ""


@pytest.mark.parametrize(
    ("shell", "check"), [("bash", ["bash", "-n"]), ("zsh", ["zsh", "-n"]), ("fish", ["fish", "-n"])]
)
def test_the_shell_accepts_the_script(script: Callable[[str], Path], shell: str, check: list[str]) -> None:
    needs(shell)
    assert subprocess.run([*check, str(script(shell))], capture_output=True, timeout=PATIENCE_S).returncode == 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "powershell", "elvish"])
def test_every_script_knows_every_command_and_starts_no_program(script: Callable[[str], Path], shell: str) -> None:
    text = script(shell).read_text()
    for path in walk(SPINDLE):
        assert path[-1].name in text
        for option in path[-1].options:
            if option.is_hidden:
                assert not any(name.lstrip("-") in text for name in option.names)
                continue
            assert all((name if shell != "fish" else name.lstrip("-")) in text for name in option.names)
    assert "@" not in re.sub(r"\$@|\"\$@\"|@\(|@\{|@args", "", text)  # nothing left to be filled in
    assert not re.search(r"\$\(spindle|\(spindle |python", text)


def test_the_tables_for_powershell_have_no_key_twice(script: Callable[[str], Path]) -> None:
    """Its tables do not tell upper case from lower case, and a key that stands twice is an error."""
    for table in re.findall(r"= @\{\n(.*?)\n    \}", script("powershell").read_text(), re.DOTALL):
        keys = [line.split(" = ")[0].lower() for line in table.splitlines()]
        assert len(keys) == len(set(keys))


def test_bash_is_the_shell_when_none_is_named_and_another_word_is_refused(spindle_cmd: list[str]) -> None:
    done = subprocess.run([*spindle_cmd, "completion"], capture_output=True, text=True, timeout=40)
    assert done.returncode == 0 and "complete -o bashdefault -o default -F _spindle spindle\n" in done.stdout
    done = subprocess.run([*spindle_cmd, "completion", "fihs"], capture_output=True, text=True, timeout=40)
    assert (done.returncode, done.stdout) == (2, "") and "did you mean `fish`?" in done.stderr
