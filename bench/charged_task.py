"""A task of 300 calls by the installed command, under each context policy, with a server that charges for it.

    python bench/charged_task.py [CALLS]

The server of the tests answers over HTTP. It charges full price for what a request does not share with the one before,
and a tenth for the rest, and reports both as usage. Prints what was paid, in thousands of fresh input tokens.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).parent.parent
sys.path.insert(0, str(REPOSITORY / "tests"))

from fake_server import FakeServer, Received, Turn, call, message, turn  # noqa: E402

POLICIES = ("append_only", "edit", "hybrid")
TASKS = (("outputs of 1,500 tokens", 1_500, 0), ("outputs of 300, much said between", 300, 700))
OUTPUT_PRICE, CACHED_SHARE = 8.0, 0.1
SETTINGS = (
    *('model="gpt-5.2-codex"', 'model_provider="x"', 'model_providers.x.name="x"', "features.remote_compaction=false"),
    f'spindle.prices."gpt-5.2-codex"={{input=1.0,cached_input={CACHED_SHARE},output={OUTPUT_PRICE}}}',
)
"""The policies calculate with the prices that are charged, whatever a model costs in the catalogue."""


class Till:
    """Answers with call after call, and counts what each request costs."""

    def __init__(self, calls: int, printed: int, said: int) -> None:
        self.left, self.printed, self.said = calls, printed, said
        self.cost = 0.0
        self.breaks = self.compactions = 0
        self._last: list[str] = []

    def __call__(self, received: Received) -> Turn:
        request = received.json
        head = len(json.dumps([request["instructions"], request["tools"]])) // 4
        items = [json.dumps(item) for item in request["input"]]
        is_summary = bool(self._last) and "hand-over note" in items[-1]
        same = 0
        while same < min(len(items), len(self._last)) and items[same] == self._last[same]:
            same += 1
        cached = head + sum(map(len, items[:same])) // 4 if self._last else 0
        tokens = head + sum(map(len, items)) // 4
        self.breaks += same < len(self._last)
        self._last = items
        self.cost += tokens - cached * (1 - CACHED_SHARE)
        usage = {"input": tokens, "cached": cached, "output": 50}
        if is_summary:
            self.compactions += 1
            self.cost += 1_500 * OUTPUT_PRICE
            return turn(message("What was done. " * 400), usage=usage)
        if not self.left:
            return turn(message("done"), usage=usage)
        self.left -= 1
        command = f"yes 'line of the output of call {self.left}' | head -c {self.printed * 4}"
        says = [message("w" * self.said * 4)] if self.said else []
        return turn(*says, call("exec_command", {"cmd": command}, f"c{self.left}"), usage=usage)


def play(policy: str, calls: int, printed: int, said: int, *rule: str) -> Till:
    """`printed` and `said` are the tokens of an output, and of the words before each call."""
    till = Till(calls, printed, said)
    with FakeServer() as server, tempfile.TemporaryDirectory() as folder:
        server.otherwise(till)
        settings = [
            *SETTINGS,
            *rule,
            f'model_providers.x.base_url="{server.base_url}"',
            f'spindle.context.mode="{policy}"',
        ]
        words = [word for text in settings for word in ("-c", text)]
        spindle = str(REPOSITORY / ".venv/bin/spindle")
        env = {"PATH": os.environ["PATH"], "HOME": folder, "CODEX_HOME": folder}
        subprocess.run(
            [spindle, "exec", "--yolo", "--skip-git-repo-check", *words, "go"],
            env=env, cwd=folder, check=True, stdin=subprocess.DEVNULL, capture_output=True, timeout=600,
        )  # fmt: skip
    return till


def main() -> None:
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    for name, printed, said in TASKS:
        print(f"{calls} calls, {name}")
        for policy in POLICIES:
            till = play(policy, calls, printed, said)
            # A compaction breaks the prefix, too.
            edits = till.breaks - till.compactions
            print(f"  {policy}: {till.cost / 1000:,.0f} ({edits} edits, {till.compactions} compactions)", flush=True)


if __name__ == "__main__":
    main()
