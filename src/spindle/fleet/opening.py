"""Before anything starts: the folder, the list, the configuration and the prices are looked at, whole.

Whatever cannot be used ends here, with a sentence and exit code 2. After it the run is in its folder, and `Opened` says
what is to be done.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from spindle import __version__
from spindle.errors import ConfigError, UsageError
from spindle.fleet.book import RunLock, recover, task_line, write_facts, write_list
from spindle.fleet.engines import check_engine
from spindle.fleet.exchange import Status, Task, Terms
from spindle.fleet.folder import ATTEMPTS, FACTS, RESULTS, SPEND, Facts, RunFolder, Spending
from spindle.fleet.options import Part, RunOptions, cores, shape_of
from spindle.fleet.tasks import TaskSource
from spindle.protocol.clock import Clock, iso_utc
from spindle.protocol.quote import visible


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line of `fleet run` says."""

    tasks: str | None
    out: str
    cwd: str
    given: dict[str, Any] = {}
    """Fields of `RunOptions`, those that are on the line."""
    part: Part = Part()
    resume: bool = False


class Earlier(msgspec.Struct):
    """What was done before for a task that is to be done now."""

    attempts: int = 0
    spending: Spending = msgspec.field(default_factory=Spending)
    is_recorded: bool = False
    """Its new record takes the place of an old one."""


class Todo(msgspec.Struct, frozen=True):
    """A task that is to be done: where it stands in the queue."""

    id: str
    group: str
    priority: int


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """A run that can be driven."""

    folder: RunFolder
    lock: RunLock
    options: RunOptions
    terms: Terms
    part: list[str]
    """All tasks that the run is about."""
    todo: list[Todo]
    """Those of them that are to be done, in the order of the list."""
    statuses: dict[str, Status]
    """Of those in the part that are recorded, and stay so."""
    earlier: dict[str, Earlier]
    spending: Spending
    """Of the whole run so far."""
    run: str = ""
    """The name of the run: no other has it, and it keeps it when it is resumed."""
    heard: dict[str, int] = {}
    """The last word about money that was heard of each worker that can outlive its driver."""


def open_run(order: Order, env: Mapping[str, str], clock: Clock) -> Opened:
    """Raises UsageError when the run cannot be: then nothing was started, and nothing that was there is changed."""
    out = os.path.abspath(order.out)
    was_there = os.path.isdir(out)
    lock = RunLock(out)
    try:
        return _open(order, out, lock, env, clock)
    except BaseException as error:
        lock.release()
        if not was_there:
            _remove_what_was_made(out)
        if isinstance(error, ConfigError):
            raise UsageError(str(error)) from error
        raise


def _open(order: Order, out: str, lock: RunLock, env: Mapping[str, str], clock: Clock) -> Opened:
    is_new = not order.resume or not os.path.isfile(f"{out}/{FACTS}")
    _check_folder(order, out, is_new=is_new)
    options = _options(order, None if is_new else RunFolder(out).facts)
    terms = make_terms(options, out, order.cwd, env)
    prices = _Prices(options, terms)
    if is_new:
        created_at = iso_utc(clock.now())
    else:
        recover(out)
        before = RunFolder(out)
        created_at = before.facts.created_at
        for task in before.tasks():
            prices.check(task)
    total, digest = _put_list(order, out, options, prices, is_new=is_new)
    facts = Facts(
        spindle=__version__,
        engine=options.engine,
        options=msgspec.to_builtins(options),
        total=total,
        tasks_sha256=digest,
        created_at=created_at,
    )
    write_facts(out, facts)
    opened = _what_to_do(RunFolder(out), lock, options, terms, order.part)
    return msgspec.structs.replace(opened, run=run_name(out, created_at))


def run_name(out: str, created_at: str) -> str:
    return hashlib.sha256(f"{os.uname().nodename}\0{out}\0{created_at}".encode("utf-8", "replace")).hexdigest()[:16]


def _check_folder(order: Order, out: str, *, is_new: bool) -> None:
    if order.resume:
        if is_new and order.tasks is None:
            raise UsageError(f"there is no run in {visible(order.out)}; name the list of tasks to begin one")
        return
    if order.tasks is None:
        raise UsageError("name the list of tasks, or use --resume to go on with a run")
    if order.part.retry:
        raise UsageError("--retry goes with --resume: it does recorded tasks again")
    if any(os.path.exists(path := f"{out}/{name}") and os.path.getsize(path) for name in (RESULTS, ATTEMPTS, SPEND)):
        raise UsageError(
            f"there is a run in {visible(order.out)} already; use --resume to go on with it, or another folder"
        )


def _options(order: Order, before: Facts | None) -> RunOptions:
    kept = {} if before is None else before.options
    try:
        return msgspec.convert({**kept, **order.given}, RunOptions)
    except msgspec.ValidationError as error:
        raise UsageError(f"the options of the run cannot be used: {error}") from error


def make_terms(options: RunOptions, out: str, cwd: str, env: Mapping[str, str]) -> Terms:
    """What workers are told. Raises ConfigError where the operator's configuration cannot be used."""
    from spindle.config.load import LoadOptions, load_config  # only to run something
    from spindle.fleet.attempt.operator import read_settings  # likewise

    settings = read_settings(env=env, cwd=cwd, overrides=options.config, model=options.model, profile=options.profile)
    # Nothing of a project around the driver counts.
    config = load_config(
        cwd="/",
        env=env,
        overrides=[*options.config, f'sandbox_mode="{options.sandbox}"'],
        profile=options.profile,
        options=LoadOptions(headless=True),
    )
    spindle, shape = config.spindle, shape_of(options)
    is_open = options.sandbox == "danger-full-access"
    reaches_network = is_open or config.sandbox.network_access or spindle.fleet_setup_network
    check_engine(options, allows_network=reaches_network and not spindle.fleet_network_beside_ray)
    cache = spindle.fleet_cache_dir or f"{env.get('XDG_CACHE_HOME') or env.get('HOME', '') + '/.cache'}/spindle"
    return Terms(
        out=out,
        home=config.home,
        cache=os.path.abspath(cache),
        profile=options.profile,
        settings=settings,
        sandbox=options.sandbox,
        timeout_s=options.timeout,
        output_schema=options.output_schema,
        keep=options.keep,
        setup_network=spindle.fleet_setup_network,
        starts_at_once=max(1, 4 * cores() // shape.workers),
        worker_memory=spindle.fleet_worker_memory,
        orphan_ttl_s=spindle.fleet_orphan_ttl_s,
    )


# ---- the list --------------------------------------------------------------------------------------------------------


def _put_list(order: Order, out: str, options: RunOptions, prices: _Prices, *, is_new: bool) -> tuple[int, str]:
    """Write the list, with what was added to it. Gives how many tasks there are, and the hash of the list."""
    if order.tasks is None:
        before = RunFolder(out).facts
        return before.total, before.tasks_sha256
    source = TaskSource(given=order.tasks, prompt=options.prompt, cwd=order.cwd)
    tasks = source.tasks() if is_new else _added(RunFolder(out), source)
    digest, total = write_list(out, _lines(None if is_new else RunFolder(out), tasks, prices))
    return total, digest


def _lines(before: RunFolder | None, tasks: Iterator[Task], prices: _Prices) -> Iterator[bytes]:
    if before is not None:
        yield from map(before.task_line, before.ids)
    for task in tasks:
        prices.check(task)
        yield task_line(task)


def _added(before: RunFolder, source: TaskSource) -> Iterator[Task]:
    """Tasks of a list given again that were not in it; those that were must be the same."""
    known = {task_id.lower(): task_id for task_id in before.ids}
    for task in source.tasks():
        if task.id in before:
            if task_line(task) != before.task_line(task.id) and task != before.task(task.id):
                raise UsageError(
                    f"the task {task.id!r} is another one than it was when the run began; give it a new id. "
                    "Nothing was started"
                )
        elif (other := known.get(task.id.lower())) is not None:
            raise UsageError(f"the id {task.id!r} is in the run already, as {other!r}. Nothing was started")
        else:
            yield task


class _Prices:
    """A limit in dollars needs the price of every model that is asked."""

    def __init__(self, options: RunOptions, terms: Terms) -> None:
        from spindle.fleet.attempt.operator import Operator  # only to run something

        nowhere = f"{terms.cache}/nowhere"
        try:
            os.makedirs(nowhere, 0o700, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{terms.cache} cannot be used: {error.strerror} (spindle.fleet.cache_dir)") from error
        self._operator = Operator(terms, nowhere)
        self._limit = options.max_cost
        self._looked_at: set[bytes] = set()
        self.check(Task(id="any", prompt="-"))  # a configuration that cannot be used is found here

    def check(self, task: Task) -> None:
        is_limited = self._limit is not None or task.max_cost is not None
        kind = msgspec.json.encode((task.model, task.config, is_limited))
        if kind in self._looked_at:
            return
        self._looked_at.add(kind)
        try:
            is_known = self._operator.has_price(task)
        except ConfigError as error:
            raise UsageError(f"the task {task.id!r} cannot be run: {error}. Nothing was started") from error
        if is_limited and not is_known:
            raise UsageError(
                f"what the model of {task.id!r} costs is not known, so a limit in dollars cannot be kept; set "
                '[spindle.prices."MODEL"], or leave out the limit. Nothing was started'
            )


# ---- what is to be done ----------------------------------------------------------------------------------------------


def _what_to_do(folder: RunFolder, lock: RunLock, options: RunOptions, terms: Terms, chosen: Part) -> Opened:
    part = chosen.of(folder.ids)
    if not part:
        raise UsageError("no task of the list is in the part that --select, --limit and --shard name")
    wanted, again = {*part}, {*chosen.retry}
    statuses: dict[str, Status] = {
        name: status for name, status in folder.statuses.items() if name in wanted and status not in again
    }
    todo = [
        Todo(task.id, task.group if task.group is not None else task.repo or "", task.priority)
        for task in folder.tasks()
        if task.id in wanted and task.id not in statuses
    ]
    earlier, spending, heard = _history(folder, {one.id for one in todo})
    return Opened(
        folder=folder,
        lock=lock,
        options=options,
        terms=terms,
        part=part,
        todo=todo,
        statuses=statuses,
        earlier=earlier,
        spending=spending,
        heard=heard,
    )


def _history(folder: RunFolder, todo: set[str]) -> tuple[dict[str, Earlier], Spending, dict[str, int]]:
    """What was tried and spent before: for the tasks that are to be done now, and all together; and `heard`."""
    earlier: dict[str, Earlier] = {}
    for line in folder.attempts():
        if line.event == "started" and line.id in todo:
            known = earlier.setdefault(line.id, Earlier())
            known.attempts = max(known.attempts, line.attempt)
    total, heard = Spending(), dict[str, int]()
    for line in folder.spend():
        total.add(line.usage, line.cost_usd)
        if isinstance(line.word, str):
            teller, _, number = line.word.rpartition(":")
            heard[teller] = max(heard.get(teller, 0), int(number))
        if line.id in todo:
            earlier.setdefault(line.id, Earlier()).spending.add(line.usage, line.cost_usd)
    for task_id in folder.statuses.keys() & todo:
        earlier.setdefault(task_id, Earlier()).is_recorded = True
    return earlier, total, heard


def _remove_what_was_made(out: str) -> None:
    """A folder that was made for a run that cannot be."""
    for name in ("lock", "tasks.jsonl"):
        try:
            os.unlink(f"{out}/{name}")
        except OSError:
            pass
    try:
        os.rmdir(out)
    except OSError:
        pass
