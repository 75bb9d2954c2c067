"""A work tree in which turns, people and git do things at random, and what must come of an undo."""

from __future__ import annotations

import hashlib
import os
import random
import shlex
import stat
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from spindle.features.checkpoints.exchange import OneStep
from spindle.features.checkpoints.journal import TurnKey
from spindle.features.checkpoints.recorder import Options, Recorder
from spindle.features.checkpoints.talk import TalkTurn
from spindle.features.checkpoints.undoing import Prepared, Undoer
from spindle.protocol.clock import SystemClock
from spindle.protocol.ops import Undo

Tree = dict[str, tuple[str, str, str]]
NAMES = (
    *("a.txt", "bin.dat", "new.txt", "dir/b.txt", "dir/c.txt", "with space.txt", "d2/e/f.txt", "run.sh", "d2/g"),
    "é.txt",
)
GIT_ENVIRONMENT = {
    **os.environ,
    **dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), "t"),
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
}


def look(root: Path) -> Tree:
    """Every file and link below a folder but git's own: its kind, executable bits or target, and a digest."""
    found: Tree = {}
    for base, folders, files in os.walk(root):
        if ".git" in folders:
            folders.remove(".git")
        for name in (*folders, *files):
            path = os.path.join(base, name)
            status = os.lstat(path)
            relative = os.path.relpath(path, root)
            if stat.S_ISLNK(status.st_mode):
                found[relative] = ("link", os.readlink(path), "")
            elif stat.S_ISREG(status.st_mode):
                digest = hashlib.sha1(Path(path).read_bytes()).hexdigest()
                found[relative] = ("file", oct(status.st_mode & 0o111), digest)
    return found


def shell(root: Path, script: str) -> None:
    subprocess.run(["bash", "-c", script], cwd=root, env=GIT_ENVIRONMENT, capture_output=True, check=False)


def random_step(rng: random.Random, *, ignores: bool = False) -> str:
    """One step of a command; it works, or fails, whatever is there. `ignores`: it may change what git ignores."""
    n, m = (shlex.quote(rng.choice(NAMES)) for _ in range(2))
    value = rng.random()
    if ignores and value < 0.15:
        return rng.choice((f"echo {n} >> .gitignore", "rm -f .gitignore", "echo 'd2/' >> .gitignore"))
    return rng.choice(
        (
            f"mkdir -p $(dirname {n}); printf '%s\\n' {value} > {n}",
            f"printf '%s\\n' {value} >> {n}",
            f"rm -rf {n}",
            f"mv -T {n} {m}",
            "mv -T dir moved; mv -T d2 dir; mv -T moved d2",
            f"cp -r {n} {m}",
            f"chmod +x {n}",
            f"chmod -x {n}",
            f"rm -f {n}; ln -s {m} {n}",
            f"ln -f {n} {m}",
            f"sed -i s/0/zero/g {n}",
            f"head -c {rng.randint(0, 5000)} /dev/urandom > {n}",
            f"rm -rf {n}; mkdir -p {n}; echo inside > {n}/inner",
            "rm -rf dir; ln -s d2 dir",
            "rm -rf d2; mkdir d2",
            "git clean -fdq",
            "git checkout -q -- .",
            "git stash -q; git stash pop -q",
            "git stash -uq",
            "git stash pop -q",
            "git add -A; git commit -qm x",
            f"git add -A; git rm -qf --cached {n}",
            "git reset -q --hard",
            f"touch -r run.sh {n}",
        )
    )


OPENED: list[Recorder] = []
"""Every recorder of the test that runs; `checkpoints/conftest.py` closes them, as the end of a process would."""


class Bench:
    """A repository, the recorder of a thread that works in it, and what its turns have left."""

    def __init__(self, folder: Path, options: Options | None = None) -> None:
        self.root = folder / "work"
        self.home = str(folder / "home")
        self.options = options or Options()
        self.root.mkdir(parents=True)
        Path(self.home).mkdir()
        for name, text in (("a.txt", b"alpha\n"), ("dir/b.txt", b"beta\n"), ("bin.dat", bytes(range(256)) * 4)):
            path = self.root / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(text)
        (self.root / "run.sh").write_text("#!/bin/sh\n")
        shell(self.root, "git init -q; git add -A; git commit -qm start; echo mine > untracked.txt; ln -s a.txt link")
        self.turns: list[TalkTurn] = []
        self.names_in_one_step: OneStep | None = None
        """How names are exchanged, if not as this system does it."""
        self.recorder = self.new_recorder()

    def new_recorder(self) -> Recorder:
        OPENED.append(Recorder(self.home, "thread", self.options, SystemClock()))
        return OPENED[-1]

    def restart(self) -> None:
        """Another process goes on with the thread."""
        self.recorder.close()
        self.recorder = self.new_recorder()

    @property
    def key(self) -> TurnKey:
        """The turn that was begun last."""
        return TurnKey(self.turns[-1].number, self.turns[-1].id)

    def begin(self) -> TurnKey:
        number = len(self.turns) + 1
        self.turns.append(
            TalkTurn(number, f"turn-{number}", 0, [], None, prompt=f"prompt {number}", has_input=True, position=0)
        )
        return self.key

    def turn(self, *windows: str) -> None:
        """A turn that runs these scripts, each as a command of its own."""
        key = self.begin()
        for script in windows:
            self.recorder.open_window(key, [str(self.root)])
            shell(self.root, script)
            self.recorder.close_window(key)

    def undoer(self, on_step: Callable[[str], None] = lambda step: None) -> Undoer:
        protected = [f"{self.root}/.git", self.home]
        return Undoer(self.recorder, SystemClock().uuid7, protected, on_step, self.names_in_one_step)

    def undo(self, op: Undo, on_step: Callable[[str], None] = lambda step: None) -> Prepared:
        """Undo as far as files are concerned; nothing is done where that is refused."""
        undoer = self.undoer(on_step)
        prepared = undoer.prepare(op, self.turns, ())
        if not prepared.is_refused:
            undoer.restore(prepared).finish()
        return prepared

    def names(self, prepared: Prepared) -> Sequence[str]:
        return [os.path.relpath(one.path, self.root) for one in prepared.plan.conflicts]
