"""Attempts in this process: a real git, a model server that follows a script, a run's folders below `tmp_path`."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fake_server import FakeServer, call, message, turn
from spindle.fleet.attempt import Workshop, read_settings, run_attempt
from spindle.fleet.exchange import Attempt, Outcome, Task, Terms, Used
from spindle.fleet.gate import OpenGate

PRICE = '[spindle.prices."gpt-5"]\ninput = 1000.0\ncached_input = 1000.0\noutput = 1000.0\n'


def git(*words: str | bytes, cwd: Path, given: bytes | None = None) -> str:
    who = {f"GIT_{part}_{what}": "t@example.invalid" for part in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = {"PATH": os.environ["PATH"], "HOME": str(cwd), "GIT_CONFIG_NOSYSTEM": "1", **who}
    done = subprocess.run(["git", *words], cwd=cwd, env=env, input=given, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()[-500:]
    return done.stdout.decode("utf-8", "surrogateescape").strip()


def make_repo(folder: Path, files: Mapping[str, str | bytes] | None = None) -> Path:
    folder.mkdir(parents=True)
    git("init", "-q", "-b", "main", cwd=folder)
    for name, text in (files or {"README.md": "hello\n", "src/a.py": "A = 1\n"}).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    commit(folder)
    return folder


def commit(folder: Path) -> str:
    git("add", "-A", cwd=folder)
    git("commit", "-q", "--allow-empty", "-m", "work", cwd=folder)
    return git("rev-parse", "HEAD", cwd=folder)


def runs(script: str) -> tuple[Any, ...]:
    """The model runs a script, and is done."""
    return turn(call("exec_command", {"cmd": script}, "c1")), turn(message("done"))


class Fleet:
    """A run with one worker: this process."""

    def __init__(self, folder: Path, server: FakeServer) -> None:
        self.folder = folder
        self.server = server
        self.home, self.out, self.cache = folder / "operator", folder / "out", folder / "cache"
        for made in (self.home, self.out):
            made.mkdir()
        self.configure()
        self.repo = make_repo(folder / "repo")
        self.gate: Any = OpenGate()
        self.terms: dict[str, Any] = {}
        self.settings: dict[str, Any] = {}
        self.workshop: Workshop | None = None

    def configure(self, more: str = "", *, retries: int = 0) -> None:
        (self.home / "config.toml").write_text(
            'model = "gpt-5"\nmodel_provider = "fake"\n'
            f'{more}\n[model_providers.fake]\nname = "fake"\nbase_url = "{self.server.base_url}"\n'
            f'wire_api = "responses"\nenv_key = "FAKE_KEY"\nrequest_max_retries = {retries}\n'
            f"stream_max_retries = 0\n{PRICE}"
        )

    def ready(self) -> Workshop:
        if self.workshop is None:
            env = {**os.environ, "CODEX_HOME": str(self.home)}
            settings = read_settings(env=env, cwd=str(self.folder), **self.settings)
            terms = Terms(
                out=str(self.out), home=str(self.home), cache=str(self.cache), settings=settings, **self.terms
            )
            self.workshop = Workshop(terms)
        return self.workshop

    def start(
        self, *, number: int = 1, used: Used | None = None, cost: float = 0.0, **task: Any
    ) -> asyncio.Task[Outcome]:
        workshop = self.ready()
        given = Task(**{"id": "t1", "prompt": "do it", "repo": str(self.repo), **task})
        attempt = Attempt(task=given, number=number, used=used or Used(), cost_usd=cost)
        return asyncio.ensure_future(run_attempt(attempt, workshop.terms, self.gate, workshop))

    async def run(self, **task: Any) -> Outcome:
        return await self.start(**task)

    def file(self, outcome: Outcome, name: str) -> bytes:
        assert outcome.folder is not None
        return Path(outcome.folder, name).read_bytes()

    def applied(self, outcome: Outcome, repo: Path | None = None, name: str = "clean") -> Path:
        """A clean checkout of the base with the patch."""
        folder = self.folder / name
        git("clone", "-q", str(repo or self.repo), str(folder), cwd=self.folder)
        git("checkout", "-q", str(outcome.base_commit), cwd=folder)
        git("apply", "--index", "-", cwd=folder, given=self.file(outcome, "patch.diff"))
        return folder

    def left(self) -> list[str]:
        """What there is below the folders of attempts, apart from what the driver takes."""
        found = (self.cache / "attempts").glob("*/*")
        return sorted(path.name for path in found if path.name not in ("lock", "files"))
