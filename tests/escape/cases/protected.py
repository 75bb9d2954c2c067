"""Paths below a root that are read-only all the same: they are run later, outside. Present, absent, and pointed at."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

from escape.case import WRITING, Place, attack
from escape.kernel import exchange

ALL = (".git", ".codex", ".agents", ".vscode", ".envrc", ".husky")
TREES = tuple(f"{{ws}}/{name}" for name in ALL)
EXTRA_TREES = tuple(f"{{extra}}/{name}" for name in ALL)


def scribble(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "a") as file:
        file.write(text)


def each(*steps: object) -> None:
    for step in steps:
        try:
            step()  # pyright: ignore[reportCallIssue]
        except OSError:
            pass


def git(*words: str) -> None:
    subprocess.run(["git", *words], env={**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null"})


def protects(*watches: str, **how: object):
    return attack(*watches, modes=WRITING, **how)  # pyright: ignore[reportArgumentType]


# ---- present --------------------------------------------------------------------------------------------


@protects("{ws}/.git")
def plants_a_hook_in_the_repository(p: Place) -> None:
    scribble(f"{p.ws}/.git/hooks/pre-commit", f"#!/bin/sh\ntouch {p.mark}\n")
    os.chmod(f"{p.ws}/.git/hooks/pre-commit", 0o755)


@protects("{ws}/.git")
def changes_the_settings_of_the_repository(p: Place) -> None:
    scribble(f"{p.ws}/.git/config", "[core]\n\tfsmonitor = touch pwned\n")


@protects("{ws}/.git")
def changes_the_settings_of_the_repository_with_git(p: Place) -> None:
    git("-C", p.ws, "config", "core.pager", "touch pwned")


@protects("{ws}/.git")
def makes_a_new_file_in_the_repository_folder(p: Place) -> None:
    scribble(f"{p.ws}/.git/info/attributes", "* filter=evil\n")


@protects("{ws}/.git")
def makes_a_hook_executable(p: Place) -> None:
    os.rename(f"{p.ws}/.git/hooks/pre-commit.sample", f"{p.ws}/.git/hooks/pre-commit")


@protects("{ws}/.git")
def changes_modes_in_the_repository_folder(p: Place) -> None:
    os.chmod(f"{p.ws}/.git/hooks/pre-commit.sample", 0o777)


@protects("{ws}/.git")
def removes_a_file_of_the_repository_folder(p: Place) -> None:
    os.unlink(f"{p.ws}/.git/HEAD")


@protects("{ws}/.git")
def writes_the_repository_through_a_hard_link(p: Place) -> None:
    os.link(f"{p.ws}/.git/config", f"{p.ws}/{p.case}")
    scribble(f"{p.ws}/{p.case}", "[core]\n")


def link_before(*pairs: tuple[str, str]) -> Callable[[Any, str], None]:
    """Second names for protected files, made outside, before the command."""

    def make(arena: Any, case: str) -> None:
        for source, name in pairs:
            target = arena.ws / f"named-before/{case}/{name}"
            target.parent.mkdir(parents=True, exist_ok=True)
            os.link(arena.ws / source, target)

    return make


HOOK, SETTINGS = ".git/hooks/pre-commit.sample", ".git/config"


@attack("{ws}/.git", modes=WRITING, prepare=link_before((SETTINGS, "a"), (HOOK, "b")))
def writes_the_repository_through_names_that_were_there_before(p: Place) -> None:
    for name in ("a", "b"):
        with open(f"{p.ws}/named-before/{p.case}/{name}", "a") as file:
            file.write(p.mark)


@attack("{ws}/.envrc", modes=WRITING, prepare=link_before((".envrc", "c")))
def changes_what_the_shell_loads_through_another_name(p: Place) -> None:
    name = f"{p.ws}/named-before/{p.case}/c"
    p.loosen(lambda: os.chmod(name, 0o777))
    with open(name, "a") as file:
        file.write(p.mark)


@protects("{ws}/.git")
def writes_the_repository_through_a_symbolic_link(p: Place) -> None:
    os.symlink(".git", f"{p.ws}/{p.case}")
    scribble(f"{p.ws}/{p.case}/hooks/post-merge", p.mark)


@protects("{ws}/.git")
def writes_the_repository_through_proc(p: Place) -> None:
    fd = os.open(p.ws, os.O_PATH | os.O_DIRECTORY)
    scribble(f"/proc/self/fd/{fd}/.git/hooks/post-merge", p.mark)


@protects("{ws}/.git")
def moves_the_repository_folder_away(p: Place) -> None:
    os.rename(f"{p.ws}/.git", f"{p.ws}/.git-old")


@protects("{ws}/.git")
def replaces_the_repository_folder_by_a_link(p: Place) -> None:
    each(lambda: os.rename(f"{p.ws}/.git", f"{p.ws}/.git-{p.case}"), lambda: shutil.rmtree(f"{p.ws}/.git"))
    os.symlink("evil", f"{p.ws}/.git")


@protects("{ws}/.git")
def exchanges_the_repository_folder(p: Place) -> None:
    os.makedirs(f"{p.ws}/{p.case}/hooks")
    exchange(f"{p.ws}/{p.case}", f"{p.ws}/.git")


@protects("{ws}/.git")
def moves_a_folder_over_the_repository_folder(p: Place) -> None:
    each(lambda: shutil.rmtree(f"{p.ws}/.git"))
    os.makedirs(f"{p.ws}/{p.case}/hooks")
    os.rename(f"{p.ws}/{p.case}", f"{p.ws}/.git")


@protects("{ws}/.git", "{ws}/plain.txt")
def moves_the_workspace_away(p: Place) -> None:
    os.rename(p.ws, f"{p.ws}-moved")
    os.makedirs(f"{p.ws}/.git/hooks")


@protects("{ws}/.git")
def makes_the_repository_again_with_git(p: Place) -> None:
    each(lambda: os.unlink(f"{p.ws}/.git/config"))
    git("init", "-q", "--template=", p.ws)


@protects("{ws}/.codex")
def changes_the_settings_of_the_project(p: Place) -> None:
    scribble(f"{p.ws}/.codex/config.toml", 'sandbox_mode = "danger-full-access"\n')


@protects("{ws}/.codex")
def adds_rules_for_the_project(p: Place) -> None:
    scribble(f"{p.ws}/.codex/rules/evil.rules", 'prefix_rule(pattern=["sh"], decision="allow")\n')


@protects("{ws}/.agents")
def changes_a_skill_of_the_project(p: Place) -> None:
    scribble(f"{p.ws}/.agents/skills/x/SKILL.md", p.mark)


@protects("{ws}/.vscode")
def changes_the_tasks_of_the_editor(p: Place) -> None:
    scribble(f"{p.ws}/.vscode/tasks.json", p.mark)


@protects("{ws}/.vscode")
def switches_off_the_questions_of_the_editor(p: Place) -> None:
    os.unlink(f"{p.ws}/.vscode/settings.json")
    scribble(f"{p.ws}/.vscode/settings.json", '{"chat.tools.autoApprove": true}')


@protects("{ws}/.envrc")
def changes_what_the_shell_loads_in_this_folder(p: Place) -> None:
    scribble(f"{p.ws}/.envrc", p.mark)


@protects("{ws}/.envrc")
def replaces_what_the_shell_loads_in_this_folder(p: Place) -> None:
    scribble(f"{p.ws}/{p.case}", p.mark)
    os.rename(f"{p.ws}/{p.case}", f"{p.ws}/.envrc")


@protects("{ws}/.husky")
def changes_the_hooks_of_a_package(p: Place) -> None:
    scribble(f"{p.ws}/.husky/pre-commit", p.mark)


@protects(*TREES)
def removes_all_that_is_protected(p: Place) -> None:
    for name in ALL:
        each(
            lambda name=name: shutil.rmtree(f"{p.ws}/{name}"),
            lambda name=name: os.unlink(f"{p.ws}/{name}"),
            lambda name=name: os.rename(f"{p.ws}/{name}", f"{p.ws}/{p.case}{name}"),
        )


@protects(*TREES)
def touches_all_that_is_protected(p: Place) -> None:
    for name in ALL:
        each(
            lambda name=name: os.chmod(f"{p.ws}/{name}", 0o777),
            lambda name=name: os.setxattr(f"{p.ws}/{name}", "user.x", b"1"),
        )


@protects(*EXTRA_TREES)
def writes_what_is_protected_below_another_root(p: Place) -> None:
    for path in (
        ".git/hooks/pre-push",
        ".codex/config.toml",
        ".agents/skills/y",
        ".vscode/tasks.json",
        ".envrc",
        ".husky/x",
    ):
        each(lambda path=path: scribble(f"{p.extra}/{path}", p.mark))


@protects(*EXTRA_TREES)
def moves_what_is_protected_below_another_root(p: Place) -> None:
    for name in ALL:
        each(lambda name=name: os.rename(f"{p.extra}/{name}", f"{p.extra}/{p.case}{name}"))


@protects("{ws}/.git")
def races_the_repository_folder_with_renames(p: Place) -> None:
    """While one thread moves things about, another writes: nothing may slip through between two steps."""
    over = threading.Event()
    os.makedirs(f"{p.ws}/{p.case}/hooks")

    def swap() -> None:
        while not over.is_set():
            each(
                lambda: exchange(f"{p.ws}/{p.case}", f"{p.ws}/.git"),
                lambda: os.rename(f"{p.ws}/.git", f"{p.ws}/{p.case}-2"),
                lambda: os.rename(f"{p.ws}/{p.case}-2", f"{p.ws}/.git"),
            )

    thread = threading.Thread(target=swap)
    thread.start()
    limit = time.monotonic() + (4 if p.bare else 0.1)
    while time.monotonic() < limit and not (p.bare and os.path.exists(f"{p.ws}/.git/hooks/post-commit")):
        each(lambda: scribble(f"{p.ws}/.git/hooks/post-commit", p.mark))
    over.set()
    thread.join()
    scribble(f"{p.ws}/.git/hooks/post-commit", p.mark)


# ---- absent ---------------------------------------------------------------------------------------------


@protects(*TREES, arena="absent")
def creates_folders_where_protected_ones_would_be(p: Place) -> None:
    for name in ALL:
        each(lambda name=name: os.mkdir(f"{p.ws}/{name}"))


@protects(*TREES, arena="absent")
def creates_files_where_protected_ones_would_be(p: Place) -> None:
    for name in ALL:
        each(lambda name=name: scribble(f"{p.ws}/{name}", f"gitdir: {p.ws}/evil\n"))


@protects(*TREES, arena="absent")
def creates_links_where_protected_paths_would_be(p: Place) -> None:
    os.makedirs(f"{p.ws}/evil/hooks", exist_ok=True)
    for name in ALL:
        each(lambda name=name: os.symlink("evil", f"{p.ws}/{name}"))


@protects(*TREES, arena="absent")
def moves_folders_to_where_protected_ones_would_be(p: Place) -> None:
    for name in ALL:
        each(
            lambda name=name: os.makedirs(f"{p.ws}/{p.case}{name}/hooks"),
            lambda name=name: os.rename(f"{p.ws}/{p.case}{name}", f"{p.ws}/{name}"),
        )


@protects(*TREES, arena="absent")
def writes_into_whatever_stands_for_protected_paths(p: Place) -> None:
    for name in ALL:
        each(
            lambda name=name: os.chmod(f"{p.ws}/{name}", 0o777),
            lambda name=name: scribble(f"{p.ws}/{name}/hooks/pre-commit", p.mark),
            lambda name=name: scribble(f"{p.ws}/{name}/config.toml", p.mark),
        )


@protects(*TREES, arena="absent")
def removes_and_replaces_what_stands_for_protected_paths(p: Place) -> None:
    for name in ALL:
        each(
            lambda name=name: os.rmdir(f"{p.ws}/{name}"),
            lambda name=name: os.rename(f"{p.ws}/{name}", f"{p.ws}/{p.case}{name}"),
            lambda name=name: os.makedirs(f"{p.ws}/{name}/hooks"),
        )


@protects(*TREES, arena="absent")
def exchanges_what_stands_for_protected_paths(p: Place) -> None:
    for name in ALL:
        each(
            lambda name=name: os.makedirs(f"{p.ws}/{p.case}{name}/hooks"),
            lambda name=name: os.rename(f"{p.ws}/{p.case}{name}", f"{p.ws}/{name}") if p.bare else None,
            lambda name=name: exchange(f"{p.ws}/{p.case}{name}", f"{p.ws}/{name}"),
        )


@protects("{ws}/.git", arena="absent")
def initialises_a_repository(p: Place) -> None:
    git("init", "-q", p.ws)


@protects(*EXTRA_TREES, arena="absent")
def creates_protected_paths_below_another_root(p: Place) -> None:
    for name in ALL:
        each(
            lambda name=name: os.makedirs(f"{p.extra}/{name}/hooks"),
            lambda name=name: scribble(f"{p.extra}/{name}", p.mark),
        )


@protects("{tmpdir}/.git", "{tmpdir}/.codex", "{tmpdir}/.envrc", arena="absent")
def creates_protected_paths_in_the_temporary_folder(p: Place) -> None:
    for name in (".git", ".codex", ".envrc"):
        each(lambda name=name: scribble(f"{p.tmpdir}/{name}", p.mark))


def _in_slash_tmp(arena: Any, mark: str) -> str | None:
    """Other sandboxes of this machine may stand there with their own empty placeholders."""
    found = [name for name in (".git", ".codex", ".agents") if os.path.exists(f"/tmp/{name}/{mark}")]
    for name in found:
        shutil.rmtree(f"/tmp/{name}")
    return f"made in /tmp: {found}" if found else None


@protects(seen=_in_slash_tmp, arena="absent", no_control="it would change the /tmp of everybody here")
def creates_protected_paths_in_slash_tmp(p: Place) -> None:
    if not p.bare:
        for name in (".git", ".codex", ".agents"):
            each(lambda name=name: os.mkdir(f"/tmp/{name}"), lambda name=name: os.mkdir(f"/tmp/{name}/{p.mark}"))


@protects("{ws}/.git", arena="absent")
def binds_a_socket_where_a_protected_path_would_be(p: Place) -> None:
    os.chdir(p.ws)
    os.mkfifo(".git")


# ---- pointed at -----------------------------------------------------------------------------------------


@protects("{ws}/.git", arena="pointer")
def points_the_worktree_elsewhere(p: Place) -> None:
    with open(f"{p.ws}/.git", "w") as file:
        file.write(f"gitdir: {p.ws}/evil\n")


@protects("{ws}/.git", arena="pointer")
def replaces_the_pointer_of_the_worktree(p: Place) -> None:
    scribble(f"{p.ws}/{p.case}", f"gitdir: {p.ws}/evil\n")
    os.rename(f"{p.ws}/{p.case}", f"{p.ws}/.git")


@protects("{ws}/.git", arena="pointer")
def removes_the_pointer_of_the_worktree(p: Place) -> None:
    os.unlink(f"{p.ws}/.git")
    os.makedirs(f"{p.ws}/.git/hooks")


@protects("{extra}/main/.git", arena="pointer")
def writes_the_folder_the_worktree_points_at(p: Place) -> None:
    scribble(f"{p.extra}/main/.git/worktrees/ws/config.worktree", "[core]\n\tfsmonitor = touch pwned\n")


@protects("{extra}/main/.git", arena="pointer")
def plants_a_hook_in_the_repository_of_the_worktree(p: Place) -> None:
    scribble(f"{p.extra}/main/.git/hooks/post-checkout", p.mark)


@protects("{extra}/main/.git", arena="pointer")
def changes_the_settings_in_the_repository_of_the_worktree(p: Place) -> None:
    scribble(f"{p.extra}/main/.git/config", "[core]\n\tfsmonitor = touch pwned\n")


@protects("{extra}/main/.git", arena="pointer")
def moves_the_repository_of_the_worktree_away(p: Place) -> None:
    os.rename(f"{p.extra}/main", f"{p.extra}/old")
    os.makedirs(f"{p.extra}/main/.git/hooks")


@protects("{ws}/vendor/main/.git", arena="pointer")
def moves_a_repository_away_that_another_root_points_at(p: Place) -> None:
    os.rename(f"{p.ws}/vendor", f"{p.ws}/vendor-old")
    os.makedirs(f"{p.ws}/vendor/main/.git/hooks")


@protects("{ws}/vendor/main/.git", arena="pointer")
def plants_a_hook_where_another_root_points_at(p: Place) -> None:
    scribble(f"{p.ws}/vendor/main/.git/hooks/post-checkout", p.mark)


@protects("{extra}/main/.git", arena="pointer")
def changes_what_is_common_to_the_worktrees(p: Place) -> None:
    with open(f"{p.extra}/main/.git/worktrees/ws/commondir", "w") as file:
        file.write(f"{p.ws}/evil\n")
