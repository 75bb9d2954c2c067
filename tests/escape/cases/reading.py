"""Paths that the user said must not be read (`[spindle.sandbox] deny_read`)."""

from __future__ import annotations

import os
import subprocess

from escape.case import WRITING, Place, attack
from escape.kernel import link_descriptor


def read(p: Place, path: str) -> None:
    with open(path) as file:
        if f"denied {p.stamp}" in file.read():
            p.reached(path)


@attack()
def reads_a_file_that_is_denied(p: Place) -> None:
    read(p, f"{p.deny}/secret.txt")


@attack()
def reads_a_file_deep_in_a_folder_that_is_denied(p: Place) -> None:
    read(p, f"{p.deny}/inner/deeper.txt")


@attack()
def lists_a_folder_that_is_denied(p: Place) -> None:
    if "secret.txt" in os.listdir(p.deny):
        p.reached()


@attack(modes=WRITING)
def reads_a_denied_file_through_a_link(p: Place) -> None:
    os.symlink(p.deny, f"{p.ws}/{p.case}")
    read(p, f"{p.ws}/{p.case}/secret.txt")


@attack()
def reads_a_denied_file_through_dots(p: Place) -> None:
    read(p, f"{p.ws}/../deny/../deny/./secret.txt")


@attack()
def reads_a_denied_file_through_proc_self_root(p: Place) -> None:
    read(p, f"/proc/self/root{p.deny}/secret.txt")


@attack(modes=WRITING)
def reads_a_denied_file_through_a_hard_link(p: Place) -> None:
    os.link(f"{p.deny}/secret.txt", f"{p.ws}/{p.case}")
    read(p, f"{p.ws}/{p.case}")


@attack(modes=WRITING)
def reads_a_denied_file_through_a_descriptor(p: Place) -> None:
    fd = os.open(f"{p.deny}/secret.txt", os.O_PATH)
    link_descriptor(fd, f"{p.ws}/{p.case}")
    read(p, f"{p.ws}/{p.case}")


@attack()
def reads_a_denied_file_with_a_program(p: Place) -> None:
    done = subprocess.run(["cat", f"{p.deny}/secret.txt"], capture_output=True, text=True)
    if f"denied {p.stamp}" in done.stdout:
        p.reached()


def _plant(arena: object, case: str) -> None:
    with open(f"{arena.root}/later-{case}.txt", "w") as file:  # pyright: ignore[reportAttributeAccessIssue]
        file.write(f"denied {arena.stamp}\n")  # pyright: ignore[reportAttributeAccessIssue]
    os.chmod(f"{arena.root}/later-{case}.txt", 0o644)  # pyright: ignore[reportAttributeAccessIssue]


@attack(prepare=_plant)
def reads_a_file_that_a_pattern_denies(p: Place) -> None:
    read(p, f"{p.root}/later-{p.case}.txt")


@attack("{deny}")
def writes_a_file_that_must_not_be_read(p: Place) -> None:
    with open(f"{p.deny}/secret.txt", "a") as file:
        file.write(p.mark)


@attack("{deny}")
def moves_a_folder_away_that_must_not_be_read(p: Place) -> None:
    os.rename(p.deny, f"{p.deny}-moved")
