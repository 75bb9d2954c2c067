"""The folder of a run that never was: as many records as are wanted, spread as those of real runs are."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

START = "2026-11-17T0{hour}:{minute:02d}:{second:02d}.000Z"
FAILURES = {
    "verify_failed": ("verify_failed", "`pytest -q` exited with 1"),
    "setup_failed": ("clone", "https://example.org/gone.git: repository not found"),
    "model_error": ("http_429", "the server asks for fewer requests, and went on asking after 5 retries"),
    "timeout": ("timeout", "the attempt took longer than 3600 s"),
    "agent_failed": ("context_window_exceeded", "the thread is still too long for the model's context window"),
    "quarantined": ("worker_died", "its worker died 3 times while it ran alone"),
}
REPOSITORIES = ("django__django", "sympy__sympy", "astropy__astropy", "scikit-learn__scikit-learn", "psf__requests")


def record(number: int, dice: random.Random, **fields: Any) -> dict[str, Any]:
    """A record as the driver writes it."""
    task_id = f"{REPOSITORIES[number % 5]}-{10_000 + number}"
    status = dice.choices(["ok", *FAILURES], weights=[68, 16, 4, 3, 3, 2, 1])[0]
    seconds = round(min(3600.0, dice.lognormvariate(5.4, 0.7)), 1)
    read = int(dice.lognormvariate(12, 0.8))
    used = {"input_tokens": read, "cached_input_tokens": int(read * 0.8), "output_tokens": read // 25}
    has_patch = status in ("ok", "verify_failed")
    ended = number * 9
    made = {
        "v": 1,
        "id": task_id,
        "status": status,
        "attempts": 1 + (dice.random() < 0.06),
        "thread_id": f"019a8c2e-0000-7000-8000-{number:012d}",
        "model": "gpt-5.2-codex",
        "base_commit": "0" * 40,
        "started_at": START.format(hour=ended // 3600 % 10, minute=ended // 60 % 60, second=ended % 60),
        "ended_at": START.format(hour=ended // 3600 % 10, minute=ended // 60 % 60, second=ended % 60),
        "duration_s": 3600.0 if status == "timeout" else seconds,
        "queue_s": 1.5,
        "usage": {**used, "reasoning_output_tokens": read // 60, "requests": max(1, read // 20_000)},
        "cost_usd": round(read * 0.2e-6 * math.pi, 4),
        "patch": None,
        "final_message": "Fixed the off-by-one in `paginate()` and added a test for the last page, which was left out.",
        "output": None,
        "verify": {"exit_code": int(status != "ok"), "duration_s": 12.0} if has_patch else None,
        "rollout": f"tasks/{task_id}/rollout.jsonl",
        "error": None if status == "ok" else dict(zip(("kind", "message"), FAILURES[status], strict=True)),
        "worker": "local-1",
        "node": "localhost",
        "meta": None,
    }
    if has_patch:
        facts = {"sha256": "0" * 64, "bytes": 900, "files": 2, "added": dice.randrange(80), "removed": number % 9}
        made["patch"] = {"path": f"tasks/{task_id}/patch.diff", **facts, "skipped": []}
    return made | fields


def make_run(folder: Path, records: list[dict[str, Any]], pending: int = 0, *, has_files: bool = True) -> Path:
    """The folder of a run with these records, in this order, and some tasks more that are not done."""
    folder.mkdir(parents=True)
    ids = [made["id"] for made in records] + [f"later-{number}" for number in range(pending)]
    facts = {"v": 1, "spindle": "0.1.0", "engine": "local", "options": {}, "total": len(ids), "tasks_sha256": "0" * 64}
    (folder / "fleet.json").write_text(json.dumps(facts | {"created_at": "2026-11-17T00:00:00.000Z"}))
    _write(folder / "tasks.jsonl", [{"id": task_id, "prompt": "do it"} for task_id in ids])
    _write(folder / "results.jsonl", records)
    spent = {"attempt": 1, "provider": "openai", "model": "gpt-5.2-codex", "status": None, "time": ""}
    lines = [{"id": made["id"], **spent, "usage": made["usage"], "cost_usd": made["cost_usd"]} for made in records]
    _write(folder / "spend.jsonl", lines)
    for made in records if has_files else ():
        place = folder / "tasks" / made["id"]
        place.mkdir(parents=True)
        (place / "rollout.jsonl").write_text("{}\n")
        (place / "final.md").write_text(made["final_message"])
        if made["patch"] is not None:
            (place / "patch.diff").write_text(f"diff --git a/{made['id']} b/{made['id']}\n")
    return folder


def _write(path: Path, lines: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def usual_records(count: int) -> list[dict[str, Any]]:
    dice = random.Random(7)
    return [record(number, dice) for number in range(count)]
