"""Make the evaluation tasks of this folder ready for a fleet.

    python bench/tasks/prepare.py OUT [NAME...]
    spindle fleet run OUT/tasks.jsonl --out RUN -m MODEL

Each folder beside this file is a task: `repo/` (what the agent finds), `prompt.md` (what it is asked), `verify.sh`
(how it is judged, in a fresh checkout with the agent's patch; the agent never sees it) and `solution.diff` (one
right answer, which proves that the task can be done; nobody but `tests/fleet/test_evaluation_tasks.py` reads it).
The repositories are made anew with the same commits every time, so that runs of different models, prompts or
settings can be compared.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
_NOBODY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "bench"), ("EMAIL", "bench@example.invalid"), ("DATE", "2026-01-01T00:00:00Z"))
}


def names() -> list[str]:
    """Every task there is."""
    return sorted(path.parent.name for path in HERE.glob("*/prompt.md"))


def make_repository(name: str, place: Path) -> None:
    """The repository of a task, at `place`."""
    shutil.copytree(HERE / name / "repo", place, ignore=shutil.ignore_patterns("__pycache__"))
    environment = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", **_NOBODY}
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "The code as it is"]):
        subprocess.run(["git", *words], cwd=place, env=environment, check=True)


def task(name: str, repository: Path) -> dict[str, str]:
    """The line of a task in the list of a fleet."""
    return {
        "id": name,
        "repo": str(repository),
        "prompt": (HERE / name / "prompt.md").read_text(),
        "verify": (HERE / name / "verify.sh").read_text(),
    }


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0].startswith("-"):
        print(__doc__)
        return 2
    out, chosen = Path(arguments[0]).absolute(), arguments[1:] or names()
    if unknown := sorted(set(chosen) - set(names())):
        print(f"There is no task {', '.join(unknown)}. There are: {', '.join(names())}.", file=sys.stderr)
        return 2
    if out.exists() and any(out.iterdir()):
        print(f"{out} is not empty; name a new folder.", file=sys.stderr)
        return 2
    for name in chosen:
        make_repository(name, out / "repositories" / name)
    with (out / "tasks.jsonl").open("w") as file:
        for name in chosen:
            file.write(json.dumps(task(name, out / "repositories" / name)) + "\n")
    print(f"{len(chosen)} tasks in {out / 'tasks.jsonl'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
