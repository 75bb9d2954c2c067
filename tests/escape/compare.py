"""The same battery for Spindle and for another build's `codex sandbox`, side by side.

    python tests/escape/compare.py [--codex PATH] [--mode workspace-write] [--user root|user]

Prints how many attacks each blocked and how much of the ordinary work succeeded, and where they differ. Not a test: it
needs a program that is not part of this project. What only Spindle promises (further protected names, `deny_read`) is
counted apart.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent.parent), str(Path(__file__).parent.parent.parent / "src")]
from escape import conftest  # noqa: E402
from escape.arena import KINDS, Arena, User, inherited, remove_finished  # noqa: E402
from escape.case import ATTACKS, WORKS  # noqa: E402
from escape.drive import Watched, is_due, mode_words, run_bare, runner_words, spindle  # noqa: E402

OURS_ONLY = ("reading",)
"""Areas of which the other program promises nothing."""
OURS_NAMES = ("editor", "shell_loads", "hooks_of_a_package", "all_that_is_protected", "where_protected", "stands_for")


def launcher(program: str, arena: Arena, mode: str) -> list[str]:
    if program == "spindle":
        return [*spindle(arena), "sandbox", *mode_words(mode), "-C", str(arena.ws), "--"]
    profile = {"read-only": ":read-only"}.get(mode, ":workspace")
    network = ["-c", "sandbox_workspace_write.network_access=true"] if mode.endswith("+network") else []
    return [program, "sandbox", "-P", profile, *network, "-C", str(arena.ws), "--"]


def attacks(stage: Path, user: User, program: str, mode: str) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for kind in KINDS:
        due = [one for one in ATTACKS.values() if one.arena == kind and is_due(one, user.name, mode)]
        with Watched(stage, user, kind) as arena:
            arena.watch(due)
            with inherited(arena) as fds:
                words = [*runner_words(arena, "attack"), str(arena.facts(bare=False)), *(one.name for one in due)]
                printed = run_bare(arena, [*launcher(program, arena, mode), *words], fds)
            if f"runner: {len(due)} ran" not in printed:
                print(f"{program}: the runner did not come to its end:\n{printed[-2000:]}")
            found |= arena.judge(due, printed).evidence
    return found


def works(stage: Path, user: User, program: str, mode: str) -> dict[str, str | None]:
    names = [one.name for one in WORKS.values() if user.name in one.users and mode in one.modes]
    names = [name for name in names if all(shutil.which(need) for need in WORKS[name].needs)]
    with Arena(stage, user) as arena:
        words = [*runner_words(arena, "work"), str(arena.facts(bare=False)), *names]
        printed = run_bare(arena, [*launcher(program, arena, mode), *words])
    failed = {line.split()[1].rstrip(":"): line for line in printed.splitlines() if line.startswith("FAILED ")}
    if f"runner: {len(names)} ran" not in printed:
        print(f"{program}: the runner did not come to its end:\n{printed[-2000:]}")
    return {name: failed.get(name) for name in names}


def is_ours_only(name: str) -> bool:
    return ATTACKS[name].area in OURS_ONLY or any(part in name for part in OURS_NAMES)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--codex", default="codex")
    parser.add_argument("--mode", default="workspace-write")
    parser.add_argument("--user", default="root")
    options = parser.parse_args()
    stage = Path(tempfile.mkdtemp(prefix="escape-stage-", dir="/var/tmp"))
    try:
        stage.chmod(0o755)
        shutil.copytree(Path(__file__).parent, stage / "escape", ignore=shutil.ignore_patterns("__pycache__"))
        subprocess.run(["chmod", "-R", "a+rX", str(stage)], check=True)
        user = conftest.find_users()[options.user]
        print(f"{'':10} {'attacks blocked':>22} {'of those both promise':>24} {'work succeeded':>18}")
        for program in ("spindle", options.codex):
            seen = attacks(stage, user, program, options.mode)
            done = works(stage, user, program, options.mode)
            common = {name: what for name, what in seen.items() if not is_ours_only(name)}
            columns = [f"{sum(not what for what in one.values())} of {len(one)}" for one in (seen, common, done)]
            print(f"{Path(program).name:10} {columns[0]:>22} {columns[1]:>24} {columns[2]:>18}")
            for name, what in {**seen, **done}.items():
                if what:
                    print(f"    {name}: {what[:160]}")
    finally:
        shutil.rmtree(stage)
        remove_finished()


if __name__ == "__main__":
    main()
