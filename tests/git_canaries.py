"""Repositories with a canary in every place that git can run a program from, and git command lines to try them with.

A canary notes its name in a file outside. Those of the agent lie where it may write, or are named there; those of the
user lie in the home, or in the protected `.git`, and may run.
"""

from __future__ import annotations

import os
import pty
import shlex
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

HOOKS = (
    *("applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "prepare-commit-msg"),
    *("commit-msg", "post-commit", "pre-rebase", "post-checkout", "post-merge", "pre-push", "pre-receive", "update"),
    *("proc-receive", "post-receive", "post-update", "reference-transaction", "push-to-checkout", "pre-auto-gc"),
    *("post-rewrite", "sendemail-validate", "post-index-change"),
)
SETTINGS = {
    "core.fsmonitor": ("[core]fsmonitor={}", ""),
    "filter.clean": ('[filter "c"]clean={}', "* filter=c"),
    "filter.smudge": ('[filter "s"]smudge={}', "* filter=s"),
    "filter.process": ('[filter "p"]process={}', "* filter=p"),
    "diff.external": ("[diff]external={}", ""),
    "diff.command": ('[diff "d"]command={}', "* diff=d"),
    "diff.textconv": ('[diff "t"]textconv={}', "* diff=t"),
    "merge.driver": ('[merge "m"]driver={} %A\n[log]diffMerges=remerge', "* merge=m"),
    "core.editor": ("[core]editor={}", ""),
    "sequence.editor": ("[sequence]editor={}", ""),
    "core.pager": ("[core]pager={}", ""),
    "pager.log": ("[pager]log={}", ""),
    "gpg.program": ("[gpg]program={}\n[commit]gpgSign\n[tag]gpgSign\n[log]showSignature", ""),
    "gpg.ssh.program": ('[gpg]format=ssh\n[gpg "ssh"]program={}\n[user]signingKey=k\n[commit]gpgSign', ""),
    "gpg.ssh.defaultKeyCommand": ('[gpg]format=ssh\n[gpg "ssh"]defaultKeyCommand={}\n[commit]gpgSign', ""),
    "alias": ("[alias]x=!{}", ""),
    "credential.helper": ("[credential]helper=!{}", ""),
    "core.sshCommand": ('[core]sshCommand={}\n[remote "o"]url=ssh://h/x', ""),
    "core.gitProxy": ('[core]gitProxy={}\n[remote "o"]url=git://h/x', ""),
    "core.askPass": ("[core]askPass={}", ""),
    "remote.uploadpack": ('[remote "o"]url=.\nuploadpack={}', ""),
    "remote.receivepack": ('[remote "o"]url=.\nreceivepack={}', ""),
    "protocol.ext": ('[protocol "ext"]allow=always\n[remote "o"]url="ext::{}"', ""),
    "trailer.command": ('[trailer "a"]command={}', ""),
    "trailer.cmd": ('[trailer "a"]cmd={}', ""),
    "interactive.diffFilter": ("[interactive]diffFilter={}", ""),
    "difftool.cmd": ('[diff]tool=t\n[difftool "t"]cmd={}', ""),
    "tar.command": ('[tar "x"]command={}', ""),
    "submodule.update": ('[submodule "sub"]update=!{}\nurl=.\nactive=true', ""),
}
"""Every setting that git runs: how it is written, and the attribute that chooses it."""

LINES = [
    line.split("|")
    for line in (
        *("status", "diff", "diff|HEAD", "log|-p|-3", "show", "add|-A", "add|f", "commit|-m|x", "commit|-a|-m|x"),
        *(
            "commit",
            "commit|--amend|--no-edit",
            "commit|-a|-S|-m|x",
            "commit|-a|--trailer|a: b|-m|x",
            "stash",
            "stash|pop",
        ),
        *(
            "checkout|-q|-b|n",
            "checkout|-q|side|--",
            "checkout|--|f",
            "switch|-q|-c|n2",
            "merge|-q|side",
            "rebase|-q|side",
        ),
        *(
            "rebase|-i|HEAD~1",
            "cherry-pick|side",
            "revert|--no-edit|HEAD",
            "tag|-s|t1|-m|x",
            "tag|-a|t2",
            "push|o|HEAD:refs/heads/z",
        ),
        *(
            "fetch|o",
            "fetch|--all",
            "pull|o|main",
            "ls-remote|o",
            "submodule|status",
            "submodule|update",
            "archive|--format=x|HEAD",
        ),
        *(
            "gc|-q",
            "branch|-a",
            "blame|f",
            "grep|-n|1",
            "log|-1|--show-signature",
            "log|--remerge-diff|-2",
            "x",
            "difftool|-y",
        ),
        *("-p|log|-1", "remote|update", "rm|-q|--cached|f", "mv|f|f2", "restore|f", "reset|-q|--hard", "clean|-fdq"),
        *(
            "notes|add|-m|x",
            "interpret-trailers|--trailer|a: b|f",
            "credential|fill",
            "maintenance|run|--quiet",
            "add|-p",
        ),
        *("-C|sub|status", "-C|sub|diff", "-C|sub|commit|-q|-a|-m|x", "--git-dir=sub/.git|--work-tree=sub|diff"),
        *(
            "describe|--all|--dirty",
            "worktree|add|-q|../beside",
            "format-patch|-1|--stdout",
            "range-diff|HEAD~1..HEAD|HEAD~1..HEAD",
        ),
        *(
            "update-index|--refresh",
            "ls-files|-m",
            "stash|-u",
            "read-tree|-m|-u|HEAD",
            "hash-object|-w|f",
            "check-attr|-a|f",
        ),
    )
]
"""Behind `git`."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A home, and a workspace in which the user's own repository is."""

    base: Path
    work: Path
    home: Path
    env: dict[str, str]

    def canary(self, name: str, folder: Path | None = None) -> Path:
        """A program that notes `name` and then does what a filter or a hook should: hand on, and agree."""
        place = folder or self.work / "tools"
        place.mkdir(parents=True, exist_ok=True)
        path = place / name.replace("/", "-").replace(":", "-")
        then = "" if name.endswith(".process") else "[ -t 0 ] || cat\n"  # that one would have to speak a language
        path.write_text(f"#!/bin/sh\necho '{name}' >> {shlex.quote(str(self.base / 'ran'))}\n{then}exit 0\n")
        path.chmod(0o755)
        return path

    def ran(self) -> set[str]:
        path = self.base / "ran"
        return set(path.read_text().splitlines()) if path.exists() else set()

    def git(self, *words: str, cwd: Path | None = None) -> None:
        subprocess.run(["git", *words], cwd=cwd or self.work, env=self.env, capture_output=True, check=True)

    def run(self, argv: list[str], cwd: Path, env: dict[str, str]) -> set[str]:
        """What notes itself when this runs without a fence, on a terminal."""
        outer, inner = pty.openpty()
        reader = threading.Thread(target=_drain, args=(outer,))
        reader.start()
        try:
            running = subprocess.Popen(
                argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=inner, stderr=inner, start_new_session=True
            )
            try:
                running.wait(5)
            except subprocess.TimeoutExpired:
                running.kill()
                running.wait()
        finally:
            os.close(inner)
            reader.join(5)
            os.close(outer)
        return self.ran()


def _drain(descriptor: int) -> None:
    try:
        while os.read(descriptor, 1 << 16):
            pass
    except OSError:
        pass


def template(base: Path) -> Place:
    """The user's own repository: a history with a merge, a branch, a remote, and nothing that runs."""
    work, home = base / "work", base / "home"
    work.mkdir(parents=True)
    home.mkdir()
    settings = "[user]name=u\nemail=u@h\n[init]defaultBranch=main\n[gc]auto=0\n[diff]tool=n\n"
    (home / ".gitconfig").write_text(f'{settings}[difftool "n"]cmd=true\n')
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1", "TERM": "dumb"}
    env |= {"GIT_TERMINAL_PROMPT": "0", "GIT_CEILING_DIRECTORIES": str(base)}
    env |= {"EDITOR": "true", "VISUAL": "true", "PAGER": "cat"}
    env |= {"GIT_AUTHOR_DATE": "1000000000 +0000", "GIT_COMMITTER_DATE": "1000000000 +0000"}
    place = Place(base=base, work=work, home=home, env=env)
    place.git("init", "-q", ".")
    history(place, work)
    return place


def history(place: Place, folder: Path) -> None:
    (folder / "f").write_text("1\n")
    (folder / "g").write_text("1\n")
    place.git("add", "f", "g", cwd=folder)
    place.git("commit", "-qm", "a", cwd=folder)
    place.git("checkout", "-q", "-b", "side", cwd=folder)
    (folder / "f").write_text("1\n2\n")
    place.git("commit", "-qam", "b", cwd=folder)
    place.git("checkout", "-q", "main", cwd=folder)
    (folder / "f").write_text("0\n1\n")
    place.git("commit", "-qam", "c", cwd=folder)
    (folder / "f").write_text("0\n1\n3\n")


def copied(original: Place, base: Path) -> Place:
    """The same again, to be changed."""
    shutil.copytree(original.base, base, symlinks=True)
    env = {name: value.replace(str(original.base), str(base)) for name, value in original.env.items()}
    return Place(base=base, work=base / "work", home=base / "home", env=env)


# ---- what may be there ----------------------------------------------------------------------------------


def plant(place: Place, git_dir: Path, attributes: Path, names: Iterable[str], *, who: str = "agent") -> None:
    """Canaries into a repository: its hooks, and the settings of these names."""
    folder = place.home / "tools" if who == "user" else None
    with (git_dir / "config").open("a") as file:
        for name in names:
            if name == "hooks":
                for hook in HOOKS:
                    (git_dir / "hooks").mkdir(exist_ok=True)
                    place.canary(f"{who}:hook:{hook}", git_dir / "hooks").rename(git_dir / "hooks" / hook)
                continue
            text, attribute = SETTINGS[name]
            file.write(text.replace("{}", str(place.canary(f"{who}:{name}", folder))) + "\n")
            if attribute:
                with attributes.open("a") as chosen:
                    chosen.write(f"{attribute}\n")


EVERYTHING = ("hooks", *SETTINGS)


def nested(place: Place, names: Iterable[str]) -> None:
    inner = place.work / "sub"
    inner.mkdir()
    place.git("init", "-q", ".", cwd=inner)
    history(place, inner)
    plant(place, inner / ".git", inner / ".gitattributes", names)


def gitlink(place: Place, names: Iterable[str]) -> None:
    """A repository of the agent that the user's one has as a submodule."""
    inner = place.work / "sub"
    inner.mkdir()
    place.git("init", "-q", ".", cwd=inner)
    history(place, inner)
    place.git("add", "sub")
    place.git("commit", "-qm", "sub")
    plant(place, inner / ".git", inner / ".gitattributes", names)


def among_files(place: Place, names: Iterable[str]) -> None:
    """A repository that is found by its own files."""
    nested(place, names)
    inner = place.work / "sub"
    for path in (inner / ".git").iterdir():
        path.rename(inner / path.name)
    (inner / ".git").rmdir()
    with (inner / "config").open("a") as file:
        file.write(f"[core]bare=false\nworktree={inner}\n")


def shared(place: Place, names: Iterable[str]) -> None:
    """A head, and the name of a folder with all the rest."""
    nested(place, names)
    inner = place.work / "sub"
    (inner / ".git").rename(place.work / "store")
    for name in ("HEAD", "index"):
        shutil.copy(place.work / "store" / name, inner / name)
    (inner / "commondir").write_text("../store\n")
    with (place.work / "store/config").open("a") as file:
        file.write(f"[core]bare=false\nworktree={inner}\n")


def pointer(place: Place, names: Iterable[str], *, name: str = "store", text: str = "gitdir: ../store\n") -> None:
    nested(place, names)
    (place.work / "sub/.git").rename(place.work / name)
    (place.work / "sub/.git").write_text(text)


def blank_pointer(place: Place, names: Iterable[str]) -> None:
    pointer(place, names, name="store ", text="gitdir: ../store \n")


def worktree(place: Place, names: Iterable[str]) -> None:
    """A worktree of a repository that the agent made, beside the user's."""
    other = place.work / "other"
    other.mkdir()
    place.git("init", "-q", ".", cwd=other)
    history(place, other)
    (other / "f").write_text("0\n1\n")
    place.git("worktree", "add", "-q", "../sub", "-b", "w", cwd=other)
    (place.work / "sub/f").write_text("9\n")
    plant(place, other / ".git", place.work / "sub/.gitattributes", names)


def behind_link(place: Place, names: Iterable[str]) -> None:
    """`cd link/../sub` is another folder to a shell than to the system."""
    nested(place, names)
    (place.work / "far/deep").mkdir(parents=True)
    (place.work / "far/sub").mkdir()
    (place.work / "link").symlink_to("far/deep")


def local_remote(place: Place, names: Iterable[str]) -> None:
    """The user pushes to a repository in the agent's reach."""
    place.git("init", "-q", "--bare", str(place.work / "bare.git"))
    place.git("remote", "add", "o", "./bare.git")
    plant(place, place.work / "bare.git", place.work / "bare.git/attributes", names)


def included(place: Place, names: Iterable[str]) -> None:
    """The user's settings include a file of the tree, by way of another."""
    (place.work / "cfg").mkdir()
    plant(place, place.work / "cfg", place.work / ".gitattributes", [name for name in names if name != "hooks"])
    with (place.home / ".gitconfig").open("a") as file:
        file.write(f"[include]path={place.work}/cfg/config\n")


def conditionally_included(place: Place, names: Iterable[str]) -> None:
    (place.work / "cfg").mkdir()
    plant(place, place.work / "cfg", place.work / ".gitattributes", [name for name in names if name != "hooks"])
    with (place.work / ".git/config").open("a") as file:
        file.write('[includeIf "onbranch:main"]path=inner\n')
    (place.work / ".git/inner").symlink_to("../cfg/config")


def of_the_tree(place: Place, names: Iterable[str]) -> None:
    """The user's own settings name programs that lie in the tree."""
    plant(place, place.work / ".git", place.work / ".gitattributes", [name for name in names if name != "hooks"])


def of_the_tree_by_name(place: Place, names: Iterable[str]) -> None:
    """The same, as seen from the tree."""
    of_the_tree(place, names)
    settings = place.work / ".git/config"
    settings.write_text(settings.read_text().replace(f"{place.work}/tools/", "./tools/"))


def of_the_tree_by_shell(place: Place, names: Iterable[str]) -> None:
    """The same, for an interpreter."""
    of_the_tree(place, names)
    settings = place.work / ".git/config"
    settings.write_text(settings.read_text().replace(f"{place.work}/tools/", "sh tools/"))


def hooks_that_start_scripts(place: Place, names: Iterable[str]) -> None:
    """The user's own hooks start a script of the tree."""
    script = place.canary("agent:script")
    for hook in HOOKS:
        path = place.work / ".git/hooks" / hook
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\nexec ./{script.relative_to(place.work)} </dev/null\n")
        path.chmod(0o755)


def hooks_of(place: Place, text: str) -> None:
    """The user's own hooks, of this text."""
    for hook in HOOKS:
        path = place.work / ".git/hooks" / hook
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)


def hooks_by_variable(place: Place, names: Iterable[str]) -> None:
    script = place.canary("agent:script")
    hooks_of(place, f'#!/bin/sh\nroot=$(git rev-parse --show-toplevel)\n"$root/tools/{script.name}" </dev/null\n')


def hooks_after_cd(place: Place, names: Iterable[str]) -> None:
    script = place.canary("agent:script")
    hooks_of(place, f"#!/bin/sh\ncd {place.work}/tools && ./{script.name} </dev/null\n")


def hooks_that_make(place: Place, names: Iterable[str]) -> None:
    """Hooks in another language that start a program which does what the tree says."""
    (place.work / "Makefile").write_text(f"all:; @{place.canary('agent:script')} </dev/null\n")
    hooks_of(place, f'#!/usr/bin/env python3\nimport subprocess\nsubprocess.call(["make", "-sC", "{place.work}"])\n')


def hooks_by_module(place: Place, names: Iterable[str]) -> None:
    """A filter of the user that looks for its code in the folder it is started in."""
    note = f"open({str(place.base / 'ran')!r}, 'a').write('agent:module\\n')"
    (place.work / "mine.py").write_text(f"import sys\n{note}\nsys.stdout.write(sys.stdin.read())\n")
    with (place.home / ".gitconfig").open("a") as file:
        file.write('[filter "y"]clean=python3 -m mine\n')
    (place.work / ".gitattributes").write_text("* filter=y\n")


def on_the_path(place: Place, names: Iterable[str]) -> None:
    for name in ("ssh", "gpg", "less", "vi", "git-x"):
        place.canary(f"agent:path:{name}", place.work / "bin").rename(place.work / "bin" / name)
    place.env["PATH"] = f"{place.work}/bin:{place.env['PATH']}"
    for name in ("EDITOR", "VISUAL", "PAGER"):
        del place.env[name]
    with (place.work / ".git/config").open("a") as file:
        file.write('[remote "o"]url=ssh://h/x\n[commit]gpgSign\n')


def by_variable(place: Place, names: Iterable[str]) -> None:
    for name in ("GIT_SSH_COMMAND", "GIT_EDITOR", "GIT_PAGER", "GIT_EXTERNAL_DIFF", "GIT_ASKPASS"):
        place.env[name] = str(place.canary(f"agent:{name}"))


def linked_hooks(place: Place, names: Iterable[str]) -> None:
    """Hooks that are links into the tree. What they lead to is protected, so nothing here is the agent's."""
    script = place.canary("user:linked", place.work / "scripts")
    (place.work / ".git/hooks").mkdir(exist_ok=True)
    for hook in ("pre-commit", "commit-msg", "post-checkout"):
        (place.work / ".git/hooks" / hook).unlink(missing_ok=True)
        (place.work / ".git/hooks" / hook).symlink_to(f"../../scripts/{script.name}")


def of_the_user(place: Place, names: Iterable[str]) -> None:
    """Everything that git can run, in the user's home and in the user's `.git`."""
    (place.home / "git").mkdir()
    wanted = [name for name in names if name != "hooks" and not name.startswith(("remote.", "protocol", "submodule"))]
    plant(place, place.home / "git", place.work / ".gitattributes", wanted, who="user")
    with (place.home / ".gitconfig").open("a") as file:
        file.write("[include]path=git/config\n[core]hooksPath=~/hooks\n")
    for hook in HOOKS:
        place.canary(f"user:hook:{hook}", place.home / "hooks").rename(place.home / "hooks" / hook)


def plain(place: Place, names: Iterable[str]) -> None:
    """Nothing but the user's repository, with a folder in it."""
    (place.work / "sub").mkdir()
    (place.work / "sub/h").write_text("1\n")


KINDS: dict[str, tuple[Callable[[Place, Iterable[str]], None], tuple[str, ...]]] = {
    "plain": (plain, ("", "sub")),
    "of_the_user": (of_the_user, ("",)),
    "linked_hooks": (linked_hooks, ("",)),
    "nested": (nested, ("", "sub")),
    "gitlink": (gitlink, ("", "sub")),
    "among_files": (among_files, ("", "sub", "sub/refs")),
    "shared": (shared, ("", "sub")),
    "pointer": (pointer, ("", "sub")),
    "blank_pointer": (blank_pointer, ("", "sub")),
    "worktree": (worktree, ("", "sub")),
    "behind_link": (behind_link, ("", "link/../sub")),
    "local_remote": (local_remote, ("", "bare.git")),
    "included": (included, ("",)),
    "conditionally_included": (conditionally_included, ("",)),
    "of_the_tree": (of_the_tree, ("",)),
    "of_the_tree_by_name": (of_the_tree_by_name, ("",)),
    "of_the_tree_by_shell": (of_the_tree_by_shell, ("",)),
    "hooks_that_start_scripts": (hooks_that_start_scripts, ("",)),
    "hooks_by_variable": (hooks_by_variable, ("",)),
    "hooks_after_cd": (hooks_after_cd, ("",)),
    "hooks_that_make": (hooks_that_make, ("",)),
    "hooks_by_module": (hooks_by_module, ("",)),
    "on_the_path": (on_the_path, ("",)),
    "by_variable": (by_variable, ("",)),
}
"""How a place is made, and the folders in it that are tried, by the words of a `cd`."""
USERS = ("plain", "of_the_user", "linked_hooks")
"""Where nothing is the agent's: the user's rules hold."""
