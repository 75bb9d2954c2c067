"""Money and rate: the governor alone, with a clock that moves when it is told to."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spindle.fleet.exchange import Asking, Lease, Refusal, Spent, Used
from spindle.fleet.folder import Spending
from spindle.fleet.governor import Governor, Limits
from spindle.protocol.clock import FixedClock


def asking(tokens: int = 900, provider: str = "p", model: str = "m") -> Asking:
    return Asking(provider=provider, model=model, input_tokens=tokens)


def spent(cost: float | None = 1.0, tokens: int = 1000, **more: object) -> Spent:
    used = Used(input_tokens=tokens * 9 // 10, output_tokens=tokens // 10, requests=1)
    return Spent(task="t", attempt=1, provider="p", model="m", used=used, cost_usd=cost, **more)  # pyright: ignore[reportArgumentType]


def refused(status: int = 429, retry_after_s: float | None = None) -> Spent:
    used = Used(requests=1)
    return Spent(
        task="t",
        attempt=1,
        provider="p",
        model="m",
        used=used,
        cost_usd=0.0,
        status=status,
        retry_after_s=retry_after_s,
    )


class Office:
    """A governor, and who asked it."""

    def __init__(self, **limits: float) -> None:
        self.clock = FixedClock()
        self.governor = Governor(Limits(**limits), self.clock)  # pyright: ignore[reportArgumentType]
        self.count = 0

    def ask(self, worker: str = "w1", **how: object) -> int:
        self.count += 1
        self.governor.ask(worker, self.count, asking(**how))  # pyright: ignore[reportArgumentType]
        return self.count

    def granted(self) -> list[int]:
        return [answer.number for _, answer in self.governor.answers() if isinstance(answer, Lease)]

    def asks(self, worker: str = "w1", **how: object) -> bool:
        """Whether a request is let through at once."""
        return self.ask(worker, **how) in self.granted()


def test_until_the_first_answer_is_priced_each_worker_has_one_request_in_flight() -> None:
    office = Office(max_cost=100.0)
    first, second = office.ask("w1"), office.ask("w1")
    other = office.ask("w2")
    assert office.granted() == [first, other]
    office.governor.settle("w1", first, 900, spent())
    assert office.granted() == [second]


def test_a_request_waits_while_it_may_not_fit_and_the_run_ends_when_it_never_will() -> None:
    office = Office(max_cost=2.5)
    first = office.ask()
    assert office.granted() == [first]
    office.governor.settle("w1", first, 900, spent())
    second, third = office.ask("w1"), office.ask("w2")
    assert office.granted() == [second], "1 spent, 1 reserved: another dollar is too much"
    office.governor.settle("w1", second, 900, spent())
    answers = office.governor.answers()
    assert [type(answer) for _, answer in answers] == [Refusal] and answers[0][1].number == third
    assert office.governor.ended_because == "the budget of the run is used up ($2.00 of $2.50)"


def test_what_earlier_parts_of_the_run_spent_counts() -> None:
    governor = Governor(Limits(max_tokens=1000), FixedClock(), Spending(used=Used(input_tokens=900, output_tokens=100)))
    governor.ask("w1", 1, asking())
    ((_, answer),) = governor.answers()
    assert isinstance(answer, Refusal)


def test_estimates_follow_what_answers_came_to() -> None:
    """Servers count otherwise than we guess: ten times less here, and cached tokens are cheap."""
    office = Office(max_cost=10.0)
    first = office.ask(tokens=10_000)
    office.granted()
    office.governor.settle("w1", first, 10_000, spent(cost=0.5, tokens=1000))
    assert [office.asks(tokens=10_000) for _ in range(9)] == [True] * 9, "half a dollar each, not ten"


@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 6))
def test_overspend_is_at_most_one_request_of_each_worker(seed: int, workers: int, per_worker: int) -> None:
    dice, office, most, limit = random.Random(seed), Office(max_cost=20.0), 2.0, 20.0
    in_flight: list[tuple[str, int]] = []
    for _ in range(2000):
        if office.governor.ended_because is not None:
            break
        if dice.random() < 0.6 and len(in_flight) < workers * per_worker:
            office.ask(f"w{dice.randrange(workers)}")
        for worker, answer in office.governor.answers():
            if isinstance(answer, Lease):
                in_flight.append((worker, answer.number))
        if in_flight and dice.random() < 0.5:
            worker, number = in_flight.pop(dice.randrange(len(in_flight)))
            # No more than twice what others cost so far: an estimate cannot know better.
            office.governor.settle(worker, number, 900, spent(cost=dice.uniform(1.0, most)))
    for worker, number in in_flight:
        office.governor.settle(worker, number, 900, spent(cost=most))
    assert office.governor.spending.cost_usd <= limit + most * workers


@given(st.integers(0, 10**6), st.sampled_from([6, 60, 120, 600]))
def test_in_no_second_are_there_more_requests_than_the_bucket_holds_and_gets(seed: int, rpm: int) -> None:
    dice, office = random.Random(seed), Office(rpm=float(rpm))
    times: list[float] = []
    for _ in range(30):
        office.ask(f"w{dice.randrange(3)}")
    for _ in range(400):
        times += [office.clock.monotonic()] * len(office.granted())
        office.clock.advance(dice.choice([0.05, 0.2, (office.governor.wake_at() or 0) - office.clock.monotonic()]))
        if len(times) == 30:
            break
    capacity = max(1.0, rpm / 60)
    for start in times:
        assert sum(start <= time < start + 1.0 for time in times) <= capacity + rpm / 60 + 1e-6


def test_the_time_to_wake_is_when_the_next_request_may_go() -> None:
    office = Office(rpm=120.0)
    assert [office.asks(), office.asks(), office.asks()] == [True, True, False]
    wake = office.governor.wake_at()
    assert wake == pytest.approx(office.clock.monotonic() + 0.5)
    office.clock.advance(0.5)
    assert office.granted() == [3]


def test_time_without_requests_is_not_saved_up() -> None:
    office = Office(rpm=120.0)
    assert office.asks()
    office.clock.advance(600.0)
    assert [office.asks() for _ in range(4)] == [True, True, False, False]


def test_a_request_may_be_larger_than_a_second_of_tokens_and_the_next_waits_for_it() -> None:
    office = Office(tpm=6000.0)
    assert office.asks(tokens=1000)
    second = office.ask(tokens=10)
    assert office.granted() == []
    office.clock.advance(8.9)
    assert office.granted() == []
    office.clock.advance(0.2)
    assert office.granted() == [second]


def test_too_many_requests_pauses_the_provider_for_everybody_and_halves_what_runs_at_a_time() -> None:
    office = Office()
    first = [office.ask(f"w{number}") for number in range(8)]
    for worker, answer in office.governor.answers():
        assert isinstance(answer, Lease)
        office.governor.give_back(worker, answer.number, answer.granted - 1)  # one request runs in each
    office.governor.settle("w0", first[0], 900, refused(retry_after_s=2.0))
    assert office.governor.revoked == ["p"]
    office.governor.settle("w1", first[1], 900, refused(retry_after_s=2.0))
    for number in range(2, 8):
        office.governor.settle(f"w{number}", first[number], 900, spent())
    waiting = [office.ask(f"w{number}") for number in range(8)]
    assert office.granted() == [] and office.asks(provider="other")
    office.clock.advance(2.0)
    held = [(worker, answer) for worker, answer in office.governor.answers() if isinstance(answer, Lease)]
    assert [answer.number for _, answer in held] == waiting[:1], "all four are one worker's, for a second"
    assert sum(answer.granted for _, answer in held) == 4, "half of eight, and only once for one burst"


def test_a_server_that_was_too_busy_is_asked_by_one_more_every_ten_seconds() -> None:
    office = Office(rpm=60_000.0)
    first = [office.ask() for _ in range(4)]
    office.granted()
    for number in first:
        office.governor.settle("w1", number, 900, refused(retry_after_s=1.0))
    waiting = [office.ask() for _ in range(4)]
    office.clock.advance(1.0)
    assert office.granted() == waiting[:2]
    office.clock.advance(9.9)
    assert office.granted() == []
    office.clock.advance(0.2)
    assert office.granted() == waiting[2:3]


@pytest.mark.parametrize("said", [float("inf"), float("nan"), 1e12, -5.0])
def test_a_server_cannot_stop_a_run_for_good(said: float) -> None:
    office = Office()
    first = office.ask()
    office.granted()
    office.governor.settle("w1", first, 900, refused(503, said))
    office.governor.give_back("w1", first, 15)
    again = office.ask()
    office.clock.advance(3601.0)
    assert office.granted() == [again]


def test_what_a_lost_worker_had_reserved_is_free_again() -> None:
    office = Office(max_cost=2.0)
    first = office.ask("w1")
    office.granted()
    office.governor.settle("w1", first, 900, spent())
    assert office.asks("w1") and not office.asks("w2")
    office.governor.forget("w1")
    assert office.granted() == [3]


def test_where_nothing_is_limited_a_lease_covers_several_requests() -> None:
    office = Office()
    office.ask()
    ((_, lease),) = office.governor.answers()
    assert lease == Lease(number=1, granted=16, valid_s=1.0)
