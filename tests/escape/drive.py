"""Runs many cases at once through one way of running a command, and hands every case to the judge.

`Way`s: `bare` (the control), `sandbox` (`spindle sandbox`), and the tools of a running agent whose model is a script:
`exec_command`, `terminal` (exec_command with a PTY), `shell`, `shell_command`, `typed` (write_stdin into a live shell);
and `hook`, a command of the user's that the agent runs by itself.
"""

from __future__ import annotations

import fcntl
import json
import os
import pickle
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from escape.arena import KINDS, SYSTEM_PATH, Arena, User, inherited, remove_finished
from escape.case import ATTACKS, MODES, WORKS, Attack
from escape.judge import difference, heard, mounted, snapshot, survives
from fake_server import FakeServer, Received, Turn, call, message, turn

AGENT_WAYS = ("exec_command", "terminal", "shell", "shell_command", "typed", "hook")
WAYS = ("sandbox", *AGENT_WAYS)
EVERYTHING = bool(os.environ.get("ESCAPE_EVERYTHING"))
"""Every case through every way, as every user, in every mode: more than each change can wait for."""
LIMIT_S = 600 if EVERYTHING else 120
PATIENCE_S = 2 * LIMIT_S
"""How long a test waits for its run, which may have to wait for others."""


class Outcome:
    """What became of each case of one run."""

    def __init__(self) -> None:
        self.evidence: dict[str, str | None] = {}
        """Case -> what was seen of it outside; None when it was blocked."""
        self.ran: set[str] = set()
        self.broken: dict[str, str] = {}
        self.printed = ""


class Watched(Arena):
    """An arena that knows how it looked before the attacks."""

    def watch(self, attacks: Sequence[Attack]) -> None:
        words = {name: str(value) for name, value in vars(self).items() if isinstance(value, (str, Path))}
        words |= {name: str(self.root / name) for name in ("extra", "home", "tmpdir", "deny")}
        words["sibling"] = str(self.root / "ws-evil")
        for one in attacks:
            words_of_case = {**words, "case": one.name, "canary": str(self.canary(one.name))}
            if one.prepare is not None:
                one.prepare(self, one.name)
            self._paths[one.name] = [template.format(**words_of_case) for template in one.watches]
        self._before = {path: snapshot(path) for paths in self._paths.values() for path in paths}
        self.victim_before = self.host.victim.state() if self.host.victim else None

    def __enter__(self) -> Self:
        super().__enter__()
        self._paths: dict[str, list[str]] = {}
        self._state: list[Any] = []
        return self

    def victim_after(self) -> dict[str, Any] | None:
        if not self._state:
            assert self.host.victim is not None
            self._state.append(self.host.victim.state())
        return self._state[0]

    def judge(self, attacks: Sequence[Attack], printed: str) -> Outcome:
        outcome = Outcome()
        outcome.printed = printed
        reached: dict[str, list[str]] = {}
        for line in printed.splitlines():
            word, _, rest = line.strip().partition(" ")
            name, _, what = rest.partition(" ")
            if word == "REACHED":
                reached.setdefault(name, []).append(what)
            elif word == "BROKEN":
                outcome.broken[name.rstrip(":")] = what
        self._state.clear()
        for one in attacks:
            found = [text for path in self._paths[one.name] if (text := difference(self._before[path], snapshot(path)))]
            if one.seen is not None and (text := one.seen(self, f"{self.stamp}.{one.name}.")):
                found.append(text)
            found += [f"reached {what}".strip() for what in reached.get(one.name, ())]
            outcome.evidence[one.name] = "; ".join(dict.fromkeys(found)) or None
        return outcome


class Battery:
    """Runs each combination once and keeps what came out; several at a time when it knows what will be asked.

    `shelf` is a folder that all processes of one test run have in common: what one has found the others read.
    """

    def __init__(self, stage: Path, users: dict[str, User], shelf: Path) -> None:
        self.stage, self.users = stage, users
        self._shelf = shelf
        self._runs: dict[tuple[Any, ...], Future[Any]] = {}
        self._pool = ThreadPoolExecutor(3)

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)
        remove_finished()

    def attack(self, user: str, mode: str, way: str) -> Future[Outcome]:
        """The attacks that `mode` promises to block, run as `user` through `way`."""
        return self._once(self._attack, user, mode, way)

    def control(self, user: str) -> Future[dict[str, str | None]]:
        """What is seen of each attack when nothing holds it back."""
        return self._once(self._control, user)

    def work(self, user: str, mode: str, way: str) -> Future[dict[str, str | None]]:
        """Each case of ordinary work whose programs are there, and why it failed, if it did."""
        return self._once(self._work, user, mode, way)

    def _once(self, run: Callable[..., Any], *what: str) -> Future[Any]:
        key = (run.__name__, *what)
        if key not in self._runs:
            self._runs[key] = self._pool.submit(self._shared, run, *what)
        return self._runs[key]

    def _shared(self, run: Callable[..., Any], *what: str) -> Any:
        """What `run` finds, here or in the process that came first."""
        place = self._shelf / ".".join((run.__name__, *what))
        with open(f"{place}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if place.exists():
                return pickle.loads(place.read_bytes())
            started = time.monotonic()
            found = run(*what)
            if os.environ.get("ESCAPE_TIMES"):
                print(f"{place.name}: {time.monotonic() - started:.1f} s", file=sys.__stderr__)
            aside = Path(f"{place}.new")
            aside.write_bytes(pickle.dumps(found))
            aside.rename(place)
            return found

    def _attack(self, user: str, mode: str, way: str) -> Outcome:
        outcome = Outcome()
        for kind in KINDS:
            attacks = [ATTACKS[name] for name in attacks_of(user, mode, way) if ATTACKS[name].arena == kind]
            if not attacks:
                continue
            with Watched(self.stage, self.users[user], kind) as arena:
                arena.watch(attacks)
                with inherited(arena) as fds:
                    facts = str(arena.facts(bare=False))
                    words = [*runner_words(arena, "attack"), facts, *(one.name for one in attacks)]
                    printed = run_fenced(arena, words, mode, way, fds)
                judged = arena.judge(attacks, printed)
            outcome.evidence |= judged.evidence
            outcome.broken |= judged.broken
            outcome.printed += judged.printed
            if f"runner: {len(attacks)} ran" in printed:
                outcome.ran |= judged.evidence.keys()
        return outcome

    def _control(self, user: str) -> dict[str, str | None]:
        """Attacks that do not get into each other's way share an arena; the others have one of their own each."""
        due = [one for one in ATTACKS.values() if user in one.users and user not in one.no_control]
        found: dict[str, str | None] = {}
        alone: list[Attack] = []
        for kind in KINDS:
            group = [one for one in due if one.arena == kind and is_independent(one)]
            alone += [one for one in due if one.arena == kind and not is_independent(one)]
            if group:
                found |= self._run_bare(user, kind, group)
        for one in alone:
            found |= self._run_bare(user, one.arena, [one])
        return found

    def _run_bare(self, user: str, kind: str, attacks: list[Attack]) -> dict[str, str | None]:
        has_victim = any(one.area not in ("files", "protected") for one in attacks)
        with Watched(self.stage, self.users[user], kind, has_victim=has_victim) as arena:
            arena.watch(attacks)
            with inherited(arena) as fds:
                words = [*runner_words(arena, "attack"), str(arena.facts(bare=True)), *(one.name for one in attacks)]
                printed = run_bare(arena, words, fds)
            return arena.judge(attacks, printed).evidence

    def _work(self, user: str, mode: str, way: str) -> dict[str, str | None]:
        names = [
            name
            for name in works_of(user, mode, way)
            if all(shutil.which(program, path=SYSTEM_PATH) for program in WORKS[name].needs)
        ]
        with Arena(self.stage, self.users[user], has_victim=False) as arena:
            words = [*runner_words(arena, "work"), str(arena.facts(bare=way == "bare")), *names]
            printed = run_bare(arena, words) if way == "bare" else run_fenced(arena, words, mode, way)
        if f"runner: {len(names)} ran" not in printed:
            return dict.fromkeys(names, f"the runner did not come to its end: {printed[-1500:]}")
        failed = dict(_failure(line) for line in printed.splitlines() if line.startswith("FAILED "))
        return {name: failed.get(name) for name in names}


def _failure(line: str) -> tuple[str, str]:
    name, _, why = line.removeprefix("FAILED ").partition(": ")
    return name, why


def is_independent(one: Attack) -> bool:
    """It changes nothing that another attack needs: only its own files, or nothing that lasts."""
    is_own = all("{canary}" in path or "{case}" in path for path in one.watches)
    return is_own and one.seen in (None, heard, mounted, survives)


def attacks_of(user: str, mode: str, way: str) -> list[str]:
    """Which attacks are made in this combination; the table in `test_attacks` says it in words."""
    names = sorted(one.name for one in ATTACKS.values() if one.arena in KINDS and is_due(one, user, mode))
    is_whole = EVERYTHING or way == "sandbox" or user == "root" or os.getuid() != 0
    return names if is_whole else names[AGENT_WAYS.index(way) % 3 :: 3]


def works_of(user: str, mode: str, way: str) -> list[str]:
    """Which work is done in this combination; the table in `test_must_work` says it in words."""
    if way == "bare":
        return [one.name for one in WORKS.values() if user in one.users]
    due = sorted(one.name for one in WORKS.values() if user in one.users and mode in one.modes)
    if EVERYTHING or (way == "sandbox" and mode == "workspace-write"):
        return due
    quick = [name for name in due if not WORKS[name].is_slow]
    if way == "sandbox":
        return quick if mode == "read-only" else [name for name in due if "network" in name] + quick[::4]
    return quick[AGENT_WAYS.index(way) % 3 :: 3]


def combinations(usual: Sequence[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """The user, mode and way of each run: the usual ones, or all there are."""
    users = ("root", "user") if os.getuid() == 0 else ("user",)
    return [(user, mode, way) for user in users for mode in MODES for way in WAYS] if EVERYTHING else list(usual)


def is_due(one: Attack, user: str, mode: str) -> bool:
    return mode in one.modes and user in one.users


def runner_words(arena: Arena, kind: str) -> list[str]:
    return [arena.user.python, "-I", "-S", str(arena.stage / "escape/runner.py"), kind]


def spindle(arena: Arena) -> list[str]:
    return [arena.user.python, "-P", "-m", "spindle"]


def mode_words(mode: str) -> list[str]:
    """The mode as options of every front end."""
    if mode.endswith("+network"):
        return ["-c", "sandbox_workspace_write.network_access=true", "-c", "sandbox_mode=workspace-write"]
    return ["-c", f"sandbox_mode={mode}"]


def run_bare(arena: Arena, words: Sequence[str], fds: Sequence[int] = ()) -> str:
    done = subprocess.run(
        words,
        cwd=arena.ws,
        env=arena.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        pass_fds=tuple(fds),
        timeout=LIMIT_S,
        **arena.user.how,
    )
    return done.stdout.decode("utf-8", "replace")


def run_fenced(arena: Arena, words: Sequence[str], mode: str, way: str, fds: Sequence[int] = ()) -> str:
    """Run `words` as a command in the sandbox; what it printed."""
    if way == "sandbox":
        return _run_sandbox(arena, words, mode, fds)
    with FakeServer() as server:
        return Agent(arena, server, mode, fds).run_one(words, way)


def _run_sandbox(arena: Arena, words: Sequence[str], mode: str, fds: Sequence[int]) -> str:
    done = subprocess.run(
        [*spindle(arena), "sandbox", *mode_words(mode), "-C", str(arena.ws), "--", *words],
        cwd=arena.ws,
        env=arena.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=fds,
        timeout=LIMIT_S,
        **arena.user.how,
    )
    return done.stdout.decode("utf-8", "replace")


class Agent:
    """`spindle exec` with a model that follows a script: calls one after the other, then its last word."""

    def __init__(self, arena: Arena, server: FakeServer, mode: str, fds: Sequence[int] = ()) -> None:
        self.arena, self._server, self._mode, self._fds = arena, server, mode, fds
        self._options: list[str] = []

    @property
    def words(self) -> list[str]:
        provider = (
            f'model_providers.fake={{name="fake", base_url="{self._server.base_url}", wire_api="responses", '
            'env_key="FAKE_API_KEY"}'
        )
        return [
            *(*spindle(self.arena), "exec", "--skip-git-repo-check", *mode_words(self._mode)),
            *("-C", str(self.arena.ws), "-c", "model_provider=fake", "-c", provider, "-m", "gpt-5.2-codex"),
            *(*self._options, "go"),
        ]

    def start(self, *calls: dict[str, Any], **how: Any) -> subprocess.Popen[Any]:
        """Begin, and leave the end to the caller."""
        self._server.script(*(turn(one) for one in calls))
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        given = {"cwd": self.arena.ws, "env": self.arena.environment, **streams, **self.arena.user.how, **how}
        return subprocess.Popen(self.words, **given)

    def run(self, *calls: dict[str, Any], **environment: str) -> list[str]:
        """What each call gave."""
        env = {**self.arena.environment, **environment}
        with self.start(*calls, env=env, pass_fds=tuple(self._fds)) as process:
            printed, _ = process.communicate(timeout=LIMIT_S)
        return self.outputs or [printed.decode("utf-8", "replace")]

    @property
    def outputs(self) -> list[str]:
        items = self._server.requests[-1].json["input"] if self._server.requests else []
        return [_text_of(item) for item in items if item["type"].endswith("_output")]

    # ---- one command, however long it takes --------------------------------------------------------

    def run_one(self, words: Sequence[str], way: str) -> str:
        """The output of one command given in this way."""
        if way == "hook":
            return self._run_hook(words)
        self._server.otherwise(self._wait_or_end)
        return "\n".join(self.run(*self._calls(words, way)))

    def _run_hook(self, words: Sequence[str]) -> str:
        """What it prints is told to the model with the prompt."""
        hook = f"{{type='command', command={json.dumps(shlex.join(words))}, additionalContextLimit=0}}"
        self._options = ["-c", f"hooks.UserPromptSubmit=[{{hooks=[{hook}]}}]"]
        printed = self.run()
        items = self._server.requests[0].json["input"] if self._server.requests else []
        told = [item["content"][0]["text"] for item in items if item.get("role") == "developer"]
        return "\n".join([*told[-1:], *printed])

    def script(self, words: Sequence[str], way: str) -> None:
        """Have the model run this command; somebody else starts the agent."""
        self._server.script(*(turn(one) for one in self._calls(words, way))).otherwise(self._wait_or_end)

    def _calls(self, words: Sequence[str], way: str) -> list[dict[str, Any]]:
        line = shlex.join(words)
        if way == "shell":
            return [call("shell", {"command": list(words), "timeout_ms": LIMIT_S * 1000}, "c1")]
        if way == "shell_command":
            return [call("shell_command", {"command": line, "timeout_ms": LIMIT_S * 1000}, "c1")]
        if way == "typed":
            script = self.arena.root / "typed.sh"  # a terminal takes lines of 4 kB at most
            script.write_text(f"{line}\nexit\n")
            how = {"tty": True, "yield_time_ms": 300, "login": False}
            self._server.script(
                turn(call("exec_command", {"cmd": "exec sh", **how}, "c1")),
                lambda received: turn(_type_into(received, f". {script}\n")),
            )
            return []
        how = {"tty": True} if way == "terminal" else {}
        return [call("exec_command", {"cmd": line, "yield_time_ms": 30_000, "max_output_tokens": 100_000, **how}, "c1")]

    def _wait_or_end(self, received: Received) -> Turn:
        is_running = "session ID" in _text_of(received.json["input"][-1])
        return turn(_type_into(received, "") if is_running else message("done"))


def _type_into(received: Received, chars: str) -> dict[str, Any]:
    """A call that types into the session the last output tells of."""
    last = _text_of(received.json["input"][-1])
    session = int(last.split("session ID", 1)[1].split()[0]) if "session ID" in last else 0
    arguments = {"session_id": session, "chars": chars, "yield_time_ms": 30_000, "max_output_tokens": 100_000}
    return call("write_stdin", arguments, f"c{time.monotonic_ns()}")


def _text_of(item: dict[str, Any]) -> str:
    output = item.get("output", "")
    return output if isinstance(output, str) else "".join(part.get("text", "") for part in output)
