"""Which task runs where, and what is tried again: the rules alone, with a clock that is told."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from spindle.fleet.exchange import Outcome
from spindle.fleet.queue import FairQueue
from spindle.fleet.schedule import Rules, Schedule, Start

OK = Outcome(ended="ok")
NOT_NOW = Outcome(ended="model_error", may_retry=True)


def schedule(*workers: str, jobs: int = 8, per_worker: int = 4, retries: int = 2) -> Schedule:
    made = Schedule(Rules(jobs=jobs, per_worker=per_worker, retries=retries))
    for worker in workers:
        made.join(worker)
    return made


def drained(queue: FairQueue) -> list[str]:
    return [found[0] for found in iter(queue.pop, None)]


def test_groups_take_turns_and_each_keeps_the_order_of_the_list() -> None:
    queue = FairQueue()
    for task, group in (("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b"), ("c1", "c"), ("c2", "c")):
        queue.add(task, group, 0)
    assert drained(queue) == ["a1", "b1", "c1", "a2", "c2", "a3"]


def test_a_higher_priority_goes_first_whatever_its_group() -> None:
    queue = FairQueue()
    for task, priority in (("low", -1), ("usual", 0), ("high", 5), ("higher", 7)):
        queue.add(task, "one", priority)
    assert drained(queue) == ["higher", "high", "usual", "low"]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2)), max_size=40), st.data())
def test_every_task_comes_out_once_in_an_order_that_is_fair(
    entries: list[tuple[str, int]], data: st.DataObject
) -> None:
    queue = FairQueue()
    for number, (group, priority) in enumerate(entries):
        queue.add(str(number), group, priority)
    removed = data.draw(st.sets(st.sampled_from(range(len(entries)))) if entries else st.just(set[int]()))
    for number in removed:
        queue.remove(str(number))
    assert len(queue) == len(entries) - len(removed)
    order = [int(task) for task in drained(queue)]
    assert sorted(order) == [number for number in range(len(entries)) if number not in removed]
    priorities = [entries[number][1] for number in order]
    assert priorities == sorted(priorities, reverse=True)
    for group in "abc":
        for priority in range(3):
            mine = [number for number in order if entries[number] == (group, priority)]
            assert mine == sorted(mine)
            # While it has tasks left, no other group gets two turns between two of its own.
            for one, other in pairwise(mine):
                between = Counter(entries[n][0] for n in order[order.index(one) + 1 : order.index(other)])
                assert all(count <= 1 for count in between.values()), (order, entries)


def test_a_worker_never_has_more_than_its_share_and_the_run_never_more_than_its_jobs() -> None:
    plan = schedule("w1", "w2", jobs=5, per_worker=3)
    for number in range(20):
        plan.add(str(number), "", 0)
    starts = plan.starts(0.0)
    assert Counter(start.worker for start in starts) == {"w1": 3, "w2": 2}
    assert plan.starts(0.0) == []
    plan.ended(starts[0].task, 1, OK, 1.0)
    assert len(plan.starts(1.0)) == 1


def test_a_failure_that_may_pass_is_tried_again_later_and_not_for_ever() -> None:
    plan = schedule("w1", retries=2)
    plan.add("t", "", 0)
    times: list[float] = []
    now = 0.0
    while True:
        (start,) = plan.starts(now)
        times.append(now)
        if plan.ended(start.task, start.attempt, NOT_NOW, now):
            break
        assert plan.starts(now) == []
        now = plan.wake_at() or now
    assert times == [0.0, 0.5, 1.5] and plan.tried["t"].attempts == 3


def test_an_attempt_that_was_stopped_is_no_outcome() -> None:
    plan = schedule("w1")
    plan.add("t", "", 0)
    plan.starts(0.0)
    assert not plan.ended("t", 1, Outcome(ended="stopped"), 1.0)
    assert plan.waiting == 0 and not plan.running


def test_what_ran_in_a_worker_that_died_is_tried_alone_and_its_death_counts_against_none() -> None:
    plan = schedule("w1", retries=0)
    for task in "abc":
        plan.add(task, "", 0)
    plan.starts(0.0)
    held, used_up = plan.lost("w1")
    assert held == [("a", 1), ("b", 1), ("c", 1)] and used_up == []
    plan.join("w2")
    assert plan.starts(0.0) == [] and plan.missing(1) == (0, 3)
    plan.join("w3", alone=True)
    (start,) = plan.starts(0.0)
    assert start == Start(task="a", attempt=2, worker="w3")
    assert plan.lost("w3") == ([("a", 2)], ["a"])


def test_a_worker_that_is_too_large_gets_nothing_new_and_is_ended_when_it_is_empty() -> None:
    plan = schedule("w1", jobs=4, per_worker=1)
    plan.add("a", "", 0)
    plan.add("b", "", 0)
    plan.starts(0.0)
    plan.retire("w1")
    assert plan.idle() == [] and plan.missing(1) == (1, 0)
    plan.ended("a", 1, OK, 1.0)
    assert plan.starts(1.0) == [] and plan.idle() == ["w1"]


def test_a_task_that_is_far_slower_than_others_gets_a_twin_where_a_worker_is_idle() -> None:
    plan = schedule("w1", "w2", jobs=8, per_worker=4)
    for number in range(6):
        plan.add(str(number), "", 0)
    starts = plan.starts(0.0)
    for start in starts[1:]:
        plan.ended(start.task, 1, OK, 2.0)
        plan.done(start.task)
    assert plan.twin(5.9) is None
    twin = plan.twin(6.1)
    assert twin is not None and (twin.task, twin.attempt) == ("0", 2) and twin.worker != starts[0].worker
    assert plan.twin(60.0) is None, "one twin is enough"
    assert plan.ended("0", 2, OK, 61.0)
    plan.done("0")
    assert not plan.ended("0", 1, OK, 62.0), "the answer of the slower one is dropped"
    assert plan.tried == {}


class _Run:
    """A driver in small: random deaths and failures, and a record for each task that is done."""

    def __init__(self, seed: int, tasks: int, poison: set[str]) -> None:
        self.random = random.Random(seed)
        self.poison = poison
        self.plan = Schedule(Rules(jobs=6, per_worker=3, retries=2, alone_at_once=2))
        self.records: Counter[str] = Counter()
        self.quarantined: set[str] = set()
        self.now, self.workers = 0.0, 0
        for number in range(tasks):
            self.plan.add(f"t{number}", f"g{number % 3}", number % 2)

    def grow(self) -> None:
        for alone, count in enumerate(self.plan.missing(2)):
            for _ in range(count):
                self.workers += 1
                self.plan.join(f"w{self.workers}", alone=bool(alone))
        for name in self.plan.idle():
            self.plan.leave(name)

    def step(self) -> bool:
        self.now += 1.0
        self.grow()
        self.plan.starts(self.now)
        running = [*self.plan.running]
        if not running:
            return self.plan.waiting > 0
        task, attempt = self.random.choice(running)
        worker = self.plan.attempts_of(task)[attempt]
        if task in self.poison or self.random.random() < 0.1:
            held, used_up = self.plan.lost(worker)
            assert (task, attempt) in held
            for name in used_up:
                self.record(name)
                self.quarantined.add(name)
        elif self.plan.ended(task, attempt, NOT_NOW if self.random.random() < 0.2 else OK, self.now):
            self.record(task)
        return True

    def record(self, task: str) -> None:
        self.records[task] += 1
        self.plan.done(task)


@given(st.integers(0, 10**6), st.integers(1, 25), st.sets(st.integers(0, 24), max_size=2))
def test_each_task_is_recorded_exactly_once_whatever_dies(seed: int, tasks: int, poison: set[int]) -> None:
    run = _Run(seed, tasks, {f"t{number}" for number in poison})
    for _ in range(5000):
        if not run.step():
            break
    assert run.records == {f"t{number}": 1 for number in range(tasks)}
    assert run.plan.tried == {} and not run.plan.running
    assert {f"t{number}" for number in poison if number < tasks} <= run.quarantined
