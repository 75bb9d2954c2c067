"""The way of one attempt, from an empty folder to its outcome. Read this first."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
from typing import Any

import msgspec

from spindle.config.schema import Config
from spindle.errors import SpindleError, kind_of, may_pass
from spindle.fleet.attempt import places
from spindle.fleet.attempt.checkout import OurGit, check_out
from spindle.fleet.attempt.commands import run_command, tail
from spindle.fleet.attempt.git import GitFailed
from spindle.fleet.attempt.mirror import Base, NoSource
from spindle.fleet.attempt.patch import Patch, Tracker
from spindle.fleet.attempt.session import TurnRequest, TurnResult, run_turn
from spindle.fleet.attempt.toll import Toll
from spindle.fleet.attempt.verify import put_in_place
from spindle.fleet.attempt.workshop import Workshop
from spindle.fleet.exchange import FILE_BYTES, NODE, Attempt, Failure, Outcome, Status, Terms, Verified
from spindle.fleet.gate import Gate
from spindle.protocol.items import decode_foreign
from spindle.protocol.schema_check import check
from spindle.protocol.settings import BudgetLimits

MESSAGE_BYTES = 4096
_CUT = b"\n[cut here: the file was longer than %d bytes]\n" % FILE_BYTES


async def run_attempt(attempt: Attempt, terms: Terms, gate: Gate, workshop: Workshop) -> Outcome:
    """Try a task. Everything foreseen is an outcome; cancelled, it ends with `stopped` after everything is gone.

    The files lie in `outcome.folder` until `workshop.discard(outcome.folder)`.
    """
    clock = workshop.clock
    started_at, started = clock.now(), clock.monotonic()
    toll = Toll(attempt, gate, lambda *asked: workshop.operator.prices(attempt.task, *asked))
    try:
        place = workshop.new_place(attempt)
    except OSError as error:
        unusable = _unusable(error, terms)
        return Outcome(
            ended="setup_failed", may_retry=True, error=unusable, started_at=started_at, ended_at=clock.now()
        )
    run = _Run(attempt, terms, workshop, toll, place)
    try:
        await run.go()
    except Ended as ended:
        run.ended, run.error, run.may_retry = ended.status, ended.failure, ended.may_retry
    except OSError as error:
        # A disk that is full before anything was asked is no fault of the task; later it may well be.
        run.may_retry = not toll.used.requests
        run.ended, run.error = "setup_failed" if run.may_retry else "agent_failed", _unusable(error, terms)
    except asyncio.CancelledError:
        if (task := asyncio.current_task()) is not None:
            task.uncancel()
        run.ended, run.error = "stopped", Failure(kind="stopped", message="the attempt was stopped")
    if toll.is_run_spent:
        run.ended, run.error = "stopped", Failure(kind="run_budget", message="the budget of the run is used up")
    if terms.keep == "always" or (terms.keep == "failed" and run.ended not in ("ok", "stopped")):
        place.keep()
    else:
        # Not to be cut short: what it leaves, nobody else removes.
        await asyncio.shield(asyncio.to_thread(places.empty, place))
    return Outcome(
        ended=run.ended,
        may_retry=run.may_retry,
        error=run.error,
        thread_id=run.turn.thread_id if run.turn is not None else None,
        model=run.turn.model if run.turn is not None else None,
        base_commit=run.base.commit if run.base is not None else None,
        started_at=started_at,
        ended_at=clock.now(),
        duration_s=clock.monotonic() - started,
        used=toll.used,
        cost_usd=toll.cost_usd,
        patch=run.patch.facts if run.patch is not None else None,
        final_message=_first(run.final_message),
        output=run.output,
        verify=run.verified,
        folder=place.files,
    )


class Ended(SpindleError):
    """The attempt is over, and not well."""

    def __init__(self, status: Status, kind: str, message: str, *, may_retry: bool = False) -> None:
        super().__init__(message)
        self.status: Status = status
        self.failure = Failure(kind=kind, message=message)
        self.may_retry = may_retry


class _Run:
    """What is known of an attempt so far."""

    def __init__(self, attempt: Attempt, terms: Terms, workshop: Workshop, toll: Toll, place: places.Place) -> None:
        self._attempt = attempt
        self._task = attempt.task
        self._terms = terms
        self._workshop = workshop
        self._toll = toll
        self._place = place
        self.ended: Any = "ok"
        self.error: Failure | None = None
        self.may_retry = False
        self.base: Base | None = None
        self.turn: TurnResult | None = None
        self.patch: Patch | None = None
        self.final_message = ""
        self.output: Any = None
        self.verified: Verified | None = None

    async def go(self) -> None:
        """Raises Ended when it does not end well."""
        budget = self._budget_left()
        if self._task.container is not None:
            raise Ended("setup_failed", "container", "this engine has no containers; leave out `container`")
        async with self._workshop.starts:
            ours, config, tracker = await self._prepare()
        problem: Ended | None = None
        try:
            await self._ask(config, budget)
        except Ended as ended:
            problem = ended
        if not self._toll.is_run_spent:
            self.patch = await self._take_patch(tracker)
        if problem is not None:
            raise problem
        self._read_output()
        if self._task.verify is not None:
            await self._verify(ours, config)

    # ---- before the turn -------------------------------------------------------------------------

    def _budget_left(self) -> BudgetLimits:
        """What the attempts before it have left of the task's own budget."""
        task, used = self._task, self._attempt.used
        spent = {
            "max_tokens": (task.max_tokens, used.input_tokens + used.output_tokens),
            "max_requests": (task.max_requests, used.requests),
            "max_cost": (task.max_cost, self._attempt.cost_usd),
        }
        left: dict[str, Any] = {}
        for name, (most, so_far) in spent.items():
            if most is None:
                continue
            if so_far >= most:
                raise Ended("budget", "budget", f"{name} = {most} of the task is used up by the attempts before")
            left[name] = most - so_far
        return BudgetLimits(**left)

    async def _prepare(self) -> tuple[OurGit, Config, Tracker]:
        workshop, task, place = self._workshop, self._task, self._place
        try:
            base = self.base = await workshop.mirrors.find(task.repo, task.base)
            config = workshop.operator.config_for(task, place, base.mirror)
            ours = OurGit(base, place.root)
            await check_out(workshop.git, ours, place.work)
        except NoSource as error:
            raise Ended("setup_failed", "repository", str(error), may_retry=error.may_pass) from error
        except GitFailed as error:
            raise Ended("setup_failed", "checkout", str(error)) from error
        except SpindleError as error:
            raise Ended("setup_failed", "configuration", str(error)) from error
        tracker = Tracker(workshop.git, ours, place.work)
        if task.setup is not None:
            await self._set_up(config, place.work, f"{place.files}/setup.log")
            await self._git_work(tracker.note_setup())
        return ours, config, tracker

    async def _set_up(self, config: Config, cwd: str, log: str) -> None:
        task = self._task
        assert task.setup is not None
        try:
            done = await run_command(
                task.setup,
                config,
                cwd=cwd,
                clock=self._workshop.clock,
                timeout_s=task.setup_timeout,
                network=self._terms.setup_network,
                log=log,
            )
        except SpindleError as error:
            raise Ended("setup_failed", "setup", str(error)) from error
        if done.timed_out:
            raise Ended("setup_failed", "setup", f"setup took longer than {task.setup_timeout:g} s\n{tail(done)}")
        if done.exit_code != 0:
            raise Ended("setup_failed", "setup", f"setup ended with exit code {done.exit_code}\n{tail(done)}".strip())

    # ---- the turn --------------------------------------------------------------------------------

    async def _ask(self, config: Config, budget: BudgetLimits) -> None:
        task, files = self._task, self._place.files
        request = TurnRequest(
            prompt=task.prompt,
            images=task.image,
            schema=self._schema,
            budget=budget,
            timeout_s=task.timeout if task.timeout is not None else self._terms.timeout_s,
            events=f"{files}/events.jsonl",
        )
        try:
            turn = self.turn = await run_turn(request, config, self._toll, self._workshop.clock)
        except ValueError as error:
            raise Ended("setup_failed", "image", str(error)) from error
        except SpindleError as error:
            raise Ended("agent_failed", "session", str(error)) from error
        if turn.rollout is not None:
            take = _link if self._terms.keep == "never" else _copy
            await asyncio.to_thread(take, turn.rollout, f"{files}/rollout.jsonl")
        self.final_message = turn.final_message or ""
        if turn.final_message is not None:
            _write(f"{files}/final.md", turn.final_message.encode("utf-8", "replace") + b"\n")
        _raise_failure(turn, request.timeout_s)

    @property
    def _schema(self) -> dict[str, Any] | None:
        return self._task.output_schema if self._task.output_schema is not None else self._terms.output_schema

    def _read_output(self) -> None:
        if (schema := self._schema) is None:
            return
        try:
            value = decode_foreign(self.final_message)
        except (msgspec.DecodeError, UnicodeError):
            raise Ended("invalid_output", "output", "the final message is not JSON") from None
        if (problem := check(value, schema)) is not None:
            raise Ended("invalid_output", "output", f"the final message does not fit the schema: {problem}")
        self.output = value
        _write(f"{self._place.files}/output.json", msgspec.json.encode(value) + b"\n")

    # ---- after it --------------------------------------------------------------------------------

    async def _take_patch(self, tracker: Tracker) -> Patch:
        return await self._git_work(tracker.write_patch(f"{self._place.files}/patch.diff"))

    async def _git_work(self, work: Any) -> Any:
        try:
            return await work
        except (GitFailed, OSError) as error:
            raise Ended("agent_failed", "patch", f"the work tree cannot be compared: {error}") from error

    async def _verify(self, ours: OurGit, config: Config) -> None:
        workshop, task, place = self._workshop, self._task, self._place
        assert task.verify is not None and self.patch is not None
        os.mkdir(place.check, 0o700)
        config = msgspec.structs.replace(config, cwd=place.check)
        async with workshop.starts:
            try:
                await check_out(workshop.git, ours, place.check, index="check-index")
            except GitFailed as error:
                raise Ended("setup_failed", "checkout", str(error)) from error
            if task.setup is not None:
                await self._set_up(config, place.check, f"{place.root}/setup-again.log")
        await self._git_work(put_in_place(workshop.git, ours, place.check, self.patch, task.restore))
        try:
            done = await run_command(
                task.verify,
                config,
                cwd=place.check,
                clock=workshop.clock,
                timeout_s=task.verify_timeout,
                network=False,
                log=f"{place.files}/verify.log",
            )
        except SpindleError as error:
            raise Ended("verify_failed", "verify", str(error)) from error
        self.verified = Verified(exit_code=done.exit_code, duration_s=done.duration_s)
        if done.timed_out:
            raise Ended("verify_failed", "verify", f"verify took longer than {task.verify_timeout:g} s")
        if done.exit_code != 0:
            raise Ended(
                "verify_failed", "verify", f"verify ended with exit code {done.exit_code}\n{tail(done)}".strip()
            )


def _raise_failure(turn: TurnResult, timeout_s: float) -> None:
    """Raise how the turn ended, if it did not end well."""
    if turn.timed_out:
        raise Ended("timeout", "timeout", f"the attempt took longer than {timeout_s:g} s")
    if turn.error is None:
        return
    kind = kind_of(turn.info)
    if kind == "budget_exceeded":
        raise Ended("budget", "budget", turn.error)
    if may_pass(turn.info) or kind == "usage_limit_exceeded":
        raise Ended("model_error", kind, turn.error, may_retry=True)
    raise Ended("agent_failed", kind, turn.error)


def _unusable(error: OSError, terms: Terms) -> Failure:
    return Failure(kind=NODE, message=f"{error.filename or terms.cache} cannot be written: {error.strerror or error}")


def _first(text: str) -> str:
    return text.encode("utf-8", "replace")[:MESSAGE_BYTES].decode("utf-8", "ignore")


def _write(path: str, content: bytes) -> None:
    with open(path, "xb") as file:
        file.write(content if len(content) <= FILE_BYTES else content[: FILE_BYTES - len(_CUT)] + _CUT)


def _link(source: str, target: str) -> None:
    """A second name for a file of ours whose first is about to go."""
    status = os.lstat(source)
    if stat.S_ISREG(status.st_mode) and status.st_size <= FILE_BYTES:
        os.link(source, target, follow_symlinks=False)
    else:
        _copy(source, target)


def _copy(source: str, target: str) -> None:
    """A file of ours, at most as long as may be; a link is not followed."""
    descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file, open(target, "xb") as new:
        if os.fstat(descriptor).st_size <= FILE_BYTES:
            shutil.copyfileobj(file, new)
            return
        left = FILE_BYTES - len(_CUT)
        while left and (piece := file.read(min(left, 1 << 20))):
            new.write(piece)
            left -= len(piece)
        new.write(_CUT)
