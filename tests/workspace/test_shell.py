"""Which shell runs the user's commands."""

from __future__ import annotations

import os
from pathlib import Path

from spindle.workspace.shell import Shell, choose_shell, user_shell


def test_the_login_shell_is_used_if_we_know_how_to_call_it(tmp_path: Path):
    zsh = tmp_path / "zsh"
    zsh.touch(mode=0o755)
    assert choose_shell(str(zsh)) == Shell("zsh", str(zsh))


def test_any_other_login_shell_gives_bash(tmp_path: Path):
    fish = tmp_path / "fish"
    fish.touch(mode=0o755)
    not_executable = tmp_path / "bash"
    not_executable.touch(mode=0o644)
    for path in (str(fish), str(not_executable), "/nowhere/zsh", "bash", ""):
        found = choose_shell(path)
        assert found.name == "bash" and found.path in ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash")


def test_the_shell_of_this_user_can_be_called():
    shell = user_shell()
    assert os.access(shell.path, os.X_OK) and shell.name == os.path.basename(shell.path)
