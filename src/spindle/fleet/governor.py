"""The one place that says whether a model request of the run may be made: money, tokens, requests a minute.

Workers ask for a lease before they send, and tell what each request came to. Nothing here waits or reads a clock of its
own: `answers` decides what can be decided now, and `wake_at` says when something may have changed by itself.

Money. A request fits when what is spent, what is reserved for requests that run, and its estimate are within the
limit. Until the first answer of a model is known, and once what is left is less than twice what is in flight, each
worker has one request in flight: so what is spent too much is at most one request of each worker.

Rate. Each provider has a bucket of one second's worth of requests, and one of tokens, which may go into debt by one
request. A server that says "not now" is left alone by all workers, then asked by half as many at a time.
"""

from __future__ import annotations

import math
from collections import deque

import msgspec

from spindle.fleet.exchange import Asking, Lease, Refusal, Spent
from spindle.fleet.folder import Spending
from spindle.protocol.clock import Clock

LEASE_S = 1.0
LEASE_REQUESTS = 16
"""What a worker may do without asking again where nothing is limited."""
GROWS_EVERY_S = 10.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
"""Where a server does not say for how long it wants to be left alone."""
LONGEST_RETRY_AFTER_S = 3600.0
TOO_MANY_REQUESTS = 429


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What all workers may do together."""

    max_cost: float | None = None
    max_tokens: int | None = None
    rpm: float | None = None
    tpm: float | None = None

    @property
    def count_each(self) -> bool:
        """Every request must be asked for."""
        return any(limit is not None for limit in (self.max_cost, self.max_tokens, self.rpm, self.tpm))


class _Ask(msgspec.Struct):
    worker: str
    number: int
    asking: Asking


class _Held(msgspec.Struct):
    """A lease that was given."""

    worker: str
    asking: Asking
    left: int
    """Requests of it that are not settled."""
    tokens: float
    cost: float
    """As estimated, for each; nothing until the first answer of the model is known."""
    drawn: float
    """Tokens that each has taken out of the bucket."""
    since: float


class _Answered(msgspec.Struct):
    """What the answers of a model came to so far."""

    count: int = 0
    asked_tokens: int = 0
    """What their input had been estimated at."""
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float = 0.0

    def tokens_of(self, asking: Asking) -> float:
        ratio = self.input_tokens / self.asked_tokens if self.asked_tokens else 1.0
        return asking.input_tokens * ratio + self.output_tokens / self.count

    def cost_of(self, asking: Asking) -> float:
        tokens = self.input_tokens + self.output_tokens
        return self.tokens_of(asking) * self.cost / tokens if tokens else 0.0


class _Bucket(msgspec.Struct):
    rate: float
    """A second."""
    level: float
    at: float

    def refill(self, now: float) -> None:
        self.level = min(max(1.0, self.rate), self.level + (now - self.at) * self.rate)
        self.at = now


class _Provider:
    """What one server takes."""

    def __init__(self, limits: Limits, now: float) -> None:
        self.requests = _bucket(limits.rpm, now)
        self.tokens = _bucket(limits.tpm, now)
        self.in_flight = 0
        self.paused_until = -math.inf
        self.paused_since = -math.inf
        self.refusals = 0
        """In a row."""
        self.at_a_time: int | None = None
        """None: as many as there are."""
        self.grows_at = math.inf

    def opens_at(self, now: float) -> float:
        """When the next request may be made, as far as it depends on time; infinity: when another one has ended."""
        while self.at_a_time is not None and now >= self.grows_at:
            self.at_a_time += 1
            self.grows_at += GROWS_EVERY_S
        at = max(now, self.paused_until)
        if self.at_a_time is not None and self.in_flight >= self.at_a_time:
            at = max(at, self.grows_at)
        for bucket, needed in ((self.requests, 1.0), (self.tokens, 0.0)):
            if bucket is not None:
                bucket.refill(now)
                missing = needed - bucket.level
                # A billionth: what rounding may have lost, or the same instant would be tried for ever.
                if missing > 1e-9 or (needed == 0.0 and missing >= 0):
                    at = max(at, now + max(missing, 1e-9) / bucket.rate)
        return at

    def refused(self, spent: Spent, since: float, now: float) -> bool:
        """Note a server's "not now". True when it is the first after which nothing was sent."""
        named = spent.retry_after_s
        pause = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**self.refusals) if named is None else named
        pause = min(max(pause, 0.0), LONGEST_RETRY_AFTER_S) if math.isfinite(pause) else LONGEST_RETRY_AFTER_S
        self.paused_until = max(self.paused_until, now + pause)
        if since <= self.paused_since:
            return False  # sent before the pause: the server said it of this one too
        self.paused_since = now
        self.refusals = min(self.refusals + 1, 16)
        self.at_a_time = max(1, (self.in_flight + 1 if self.at_a_time is None else self.at_a_time) // 2)
        self.grows_at = max(now, self.paused_until) + GROWS_EVERY_S
        return True


def _bucket(a_minute: float | None, now: float) -> _Bucket | None:
    return None if a_minute is None else _Bucket(a_minute / 60, max(1.0, a_minute / 60), now)


class Governor:
    """The account of a run."""

    def __init__(self, limits: Limits, clock: Clock, spending: Spending | None = None) -> None:
        """`spending` is what earlier parts of the run came to."""
        self.limits = limits
        self.spending = spending or Spending()
        self.ended_because: str | None = None
        """Why no request is admitted any more."""
        self.revoked: list[str] = []
        """Providers whose leases hold no longer; whoever tells the workers takes them out."""
        self._clock = clock
        self._waiting: deque[_Ask] = deque()
        self._held: dict[tuple[str, int], _Held] = {}
        self._models: dict[str, _Answered] = {}
        self._providers: dict[str, _Provider] = {}

    @property
    def in_flight(self) -> int:
        """Requests that were let through and have not been settled."""
        return sum(held.left for held in self._held.values())

    # ---- what workers say --------------------------------------------------------------------------------------------

    def ask(self, worker: str, number: int, asking: Asking) -> None:
        """A request wants to be made. `number` is the worker's own, and names the lease it gets."""
        self._waiting.append(_Ask(worker, number, asking))

    def settle(self, worker: str, number: int, asked_tokens: int, spent: Spent) -> None:
        """A request is over, and this is what it came to."""
        held = self._release(worker, number, 1)
        now, provider = self._clock.monotonic(), self._provider(spent.provider)
        used = spent.used
        self.spending.add(used, spent.cost_usd)
        tokens = used.input_tokens + used.output_tokens
        if tokens:
            model = self._models.setdefault(spent.model, _Answered())
            model.count += 1
            model.asked_tokens += asked_tokens
            model.input_tokens += used.input_tokens
            model.output_tokens += used.output_tokens
            model.cost += spent.cost_usd or 0.0
            provider.refusals = 0
        if provider.tokens is not None and held is not None:
            provider.tokens.level += held.drawn - tokens
        if spent.status == TOO_MANY_REQUESTS or spent.retry_after_s is not None:
            provider.refused(spent, held.since if held is not None else now, now)
            self.revoked.append(spent.provider)

    def give_back(self, worker: str, number: int, count: int) -> None:
        """So many requests of a lease were not made."""
        held = self._release(worker, number, count)
        if held is None:
            return
        provider = self._provider(held.asking.provider)
        if provider.requests is not None:
            provider.requests.level += count
        if provider.tokens is not None:
            provider.tokens.level += held.drawn * count

    def forget(self, worker: str) -> None:
        """The worker is gone, with what it had asked for. What its requests came to, nobody knows."""
        self._waiting = deque(ask for ask in self._waiting if ask.worker != worker)
        for owner, number in [key for key in self._held if key[0] == worker]:
            self._release(owner, number, self._held[owner, number].left)

    # ---- what is decided ---------------------------------------------------------------------------------------------

    def answers(self) -> list[tuple[str, Lease | Refusal]]:
        """What can be said now, and to which worker. Who asked first is answered first, for each provider."""
        found: list[tuple[str, Lease | Refusal]] = []
        waiting, self._waiting, closed = self._waiting, deque(), set[str]()
        for ask in waiting:
            answer = self._answer(ask, closed)
            if answer is None:
                self._waiting.append(ask)
            else:
                found.append((ask.worker, answer))
        if self.ended_because is not None and self._waiting:
            return found + self.answers()
        return found

    def wake_at(self) -> float | None:
        """When a request that waits may be admitted because time went by; None: not by itself."""
        now = self._clock.monotonic()
        times = [self._provider(name).opens_at(now) for name in {ask.asking.provider for ask in self._waiting}]
        return min((at for at in times if at > now and math.isfinite(at)), default=None)

    def limited_by(self) -> str | None:
        """What holds requests back now, in words."""
        now = self._clock.monotonic()
        for name in {ask.asking.provider for ask in self._waiting}:
            provider = self._provider(name)
            if provider.opens_at(now) > now:
                if provider.paused_until > now:
                    return f"{name} wants to be left alone"
                at_a_time = provider.at_a_time
                return "the provider" if at_a_time is not None and provider.in_flight >= at_a_time else "rpm or tpm"
        return None

    def _answer(self, ask: _Ask, closed: set[str]) -> Lease | Refusal | None:
        """None: not yet. `closed` are providers that an earlier one waits for."""
        if self.ended_because is not None:
            return Refusal(number=ask.number, reason=self.ended_because)
        asking, now = ask.asking, self._clock.monotonic()
        provider = self._provider(asking.provider)
        if asking.provider in closed or provider.opens_at(now) > now:
            closed.add(asking.provider)
            return None
        model = self._models.get(asking.model)
        tokens = model.tokens_of(asking) if model is not None else float(asking.input_tokens)
        cost = model.cost_of(asking) if model is not None else 0.0
        if not self._fits(ask.worker, tokens if model is not None else 0.0, cost, is_known=model is not None):
            return Refusal(number=ask.number, reason=self.ended_because) if self.ended_because else None
        free = LEASE_REQUESTS if provider.at_a_time is None else provider.at_a_time - provider.in_flight
        granted = 1 if self.limits.count_each else max(1, min(LEASE_REQUESTS, free))
        if provider.requests is not None:
            provider.requests.level -= granted
        if provider.tokens is not None:
            provider.tokens.level -= tokens * granted
        provider.in_flight += granted
        reserved = (tokens, cost) if model is not None else (0.0, 0.0)
        self._held[ask.worker, ask.number] = _Held(ask.worker, asking, granted, *reserved, tokens, now)
        return Lease(number=ask.number, granted=granted, valid_s=LEASE_S)

    def _fits(self, worker: str, tokens: float, cost: float, *, is_known: bool) -> bool:
        """Whether money and tokens allow it now. Where they never will, the run is at its end."""
        limits, alone = self.limits, not is_known
        sums = (
            (limits.max_cost, self.spending.cost_usd, cost, sum(held.cost * held.left for held in self._held.values())),
            (limits.max_tokens, self.spending.tokens, tokens, sum(h.tokens * h.left for h in self._held.values())),
        )
        if limits.max_cost is None and limits.max_tokens is None:
            return True
        for limit, spent, estimate, reserved in sums:
            if limit is None:
                continue
            rest = limit - spent
            if rest <= 0 or (spent + reserved + estimate > limit and not self._held):
                self.ended_because = self._sentence()
                return False
            if spent + reserved + estimate > limit:
                return False
            alone = alone or rest < 2 * (reserved + estimate)
        return not alone or not any(held.worker == worker for held in self._held.values())

    def _sentence(self) -> str:
        limits, spending = self.limits, self.spending
        told: list[str] = []
        if limits.max_cost is not None:
            told.append(f"${spending.cost_usd:.2f} of ${limits.max_cost:.2f}")
        if limits.max_tokens is not None:
            told.append(f"{spending.tokens} of {limits.max_tokens} tokens")
        return f"the budget of the run is used up ({', '.join(told)})"

    # ---- accounts ----------------------------------------------------------------------------------------------------

    def _provider(self, name: str) -> _Provider:
        if name not in self._providers:
            self._providers[name] = _Provider(self.limits, self._clock.monotonic())
        return self._providers[name]

    def _release(self, worker: str, number: int, count: int) -> _Held | None:
        held = self._held.get((worker, number))
        if held is None:
            return None
        count = min(count, held.left)
        held.left -= count
        provider = self._provider(held.asking.provider)
        provider.in_flight -= count
        if not held.left:
            del self._held[worker, number]
        return held
