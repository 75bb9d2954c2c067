"""The cache ledger against a provider that keeps prefixes: it names what broke, and never blames the wrong side."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spindle.context.cache import CacheEntry, CacheLedger, CacheTotals, RequestParts
from spindle.context.tokens import estimate_tokens, tokens_of_bytes
from spindle.protocol.items import encode_json, user_message
from spindle.protocol.request import Request, VisibleItem

INSTRUCTIONS, TOOLS = b'"be brief"' * 200, b'["tool"]' * 100
HEAD = tokens_of_bytes(len(INSTRUCTIONS) + len(TOOLS))


def item(number: int, size: int = 4_000) -> bytes:
    return encode_json(user_message(f"{number}:" + "x" * size))


def parts(items: list[bytes], model: str = "m", tools: bytes = TOOLS, **more) -> RequestParts:
    return RequestParts(model, more.get("instructions", INSTRUCTIONS), tools, items, more.get("settings", b""))


class Provider:
    """Keeps the last prompt of each model and counts one and a quarter times the tokens that we estimate."""

    def __init__(self) -> None:
        self.kept: dict[str, RequestParts] = {}

    def usage(self, asked: RequestParts) -> tuple[int, int]:
        def counted(request: RequestParts, items: int) -> int:
            head = tokens_of_bytes(len(request.instructions) + len(request.tools))
            return (head + sum(map(estimate_tokens, request.input[:items]))) * 5 // 4

        cached = 0
        kept = self.kept.get(asked.model)
        if kept is not None and (kept.tools, kept.instructions) == (asked.tools, asked.instructions):
            same = [old == new for old, new in zip(kept.input, asked.input, strict=False)]
            cached = counted(asked, same.index(False) if False in same else len(same)) // 128 * 128
        self.kept[asked.model] = asked
        return counted(asked, len(asked.input)), cached if cached >= 1_024 else 0


def send(ledger: CacheLedger, provider: Provider, asked: RequestParts, **how) -> CacheEntry:
    ledger.note_request(asked, **how)
    done = ledger.note_usage(*provider.usage(asked))
    assert done is not None
    return done


@pytest.fixture
def provider() -> Provider:
    return Provider()


@pytest.fixture
def ledger() -> CacheLedger:
    return CacheLedger()


ITEMS = [item(number) for number in range(6)]


def test_a_request_that_continues_the_last_one_hits_and_says_nothing(ledger: CacheLedger, provider: Provider):
    first = send(ledger, provider, parts(ITEMS[:2]))
    cost = estimate_tokens(ITEMS[0])
    total = HEAD + 2 * cost
    assert first == CacheEntry(
        number=1,
        model="m",
        items=2,
        tokens=total,
        prefix_items=0,
        prefix_tokens=0,
        expected_cached=0,
        causes=("first_request",),
        reported_input=total * 5 // 4,
        reported_cached=0,
    )
    second = send(ledger, provider, parts(ITEMS[:3]), idle_s=2.0)
    hit = total * 5 // 4 // 128 * 128
    assert second == CacheEntry(
        number=2,
        model="m",
        items=3,
        tokens=HEAD + 3 * cost,
        prefix_items=2,
        prefix_tokens=total,
        expected_cached=hit,
        idle_s=2.0,
        reported_input=(HEAD + 3 * cost) * 5 // 4,
        reported_cached=hit,
    )
    assert (second.cause, ledger.alarms) == (None, [])
    sums = ledger.totals()
    assert sums == CacheTotals(2, first.reported_input + second.reported_input, hit, {})
    assert sums.hit_percent == 100 * hit // sums.input_tokens


@pytest.mark.parametrize(
    ("changed", "cause"),
    [
        ({"model": "other"}, "model_changed"),
        ({"tools": TOOLS[:-8]}, "tools_changed"),
        ({"instructions": INSTRUCTIONS[:-10]}, "instructions_changed"),
    ],
)
def test_a_change_before_the_items_loses_everything_and_is_named(
    ledger: CacheLedger, provider: Provider, changed: dict, cause: str
):
    send(ledger, provider, parts(ITEMS[:3]))
    warned = ledger.forecast(**changed)
    entry = send(ledger, provider, parts(ITEMS[:4], **changed), declared=[cause])
    assert (entry.cause, entry.missed, entry.prefix_items, entry.expected_cached) == (cause, cause, 0, 0)
    assert warned is not None and (warned.cause, warned.tokens) == (cause, entry.lost_tokens) != (cause, 0)
    assert f"{entry.lost_tokens:,} tokens" in str(warned)
    assert not entry.is_alarm
    assert ledger.totals().lost_tokens == {cause: entry.lost_tokens}


@pytest.mark.parametrize("cause", ["compaction", "context_edit", "rollback", "picture_removed"])
def test_a_declared_break_has_the_declared_cause(ledger: CacheLedger, provider: Provider, cause: str):
    before = send(ledger, provider, parts(ITEMS[:4])).reported_input
    ledger.declare(cause)
    entry = send(ledger, provider, parts([ITEMS[0], item(99), *ITEMS[4:]]))
    assert (entry.cause, entry.prefix_items, entry.is_alarm) == (cause, 1, False)
    assert entry.reported_cached == entry.expected_cached > 0
    assert entry.lost_tokens == before // 128 * 128 - entry.reported_cached
    # What was declared counts once.
    assert send(ledger, provider, parts([ITEMS[0], item(98)])).is_alarm


def test_a_break_that_nobody_declared_is_an_alarm(ledger: CacheLedger, provider: Provider):
    send(ledger, provider, parts(ITEMS[:4]))
    entry = send(ledger, provider, parts([*ITEMS[:2], item(99), ITEMS[3]]))
    assert (entry.causes, entry.prefix_items) == (("undeclared",), 2)
    unsaid = send(ledger, provider, parts([*ITEMS[:2], item(99), ITEMS[3]], tools=b"[]"))
    assert (unsaid.causes, ledger.alarms) == (("tools_changed",), [entry, unsaid])


def test_two_breaks_at_once_are_both_named(ledger: CacheLedger, provider: Provider):
    send(ledger, provider, parts(ITEMS[:4]))
    entry = send(ledger, provider, parts([item(9)], model="n"), declared=["compaction", "model_changed"])
    assert (entry.causes, entry.is_alarm) == (("model_changed", "compaction"), False)
    # Another model may be shown other items (no pictures, say) without anybody having edited the thread.
    other = send(ledger, provider, parts([item(8)], model="m"), declared=["model_changed"])
    assert (other.causes, other.is_alarm) == (("model_changed",), False)


def test_a_provider_that_forgets_is_told_from_a_cache_that_timed_out():
    for idle, cause in ((2.0, "provider_miss"), (None, "provider_miss"), (301.0, "cache_timeout")):
        ledger, provider = CacheLedger(), Provider()
        send(ledger, provider, parts(ITEMS[:3]))
        provider.kept.clear()
        entry = send(ledger, provider, parts(ITEMS[:4]), idle_s=idle)
        assert (entry.causes, entry.cause, entry.is_alarm) == ((), cause, False)
        assert entry.lost_tokens == entry.expected_cached > 0
    ledger, provider = CacheLedger(life_s=1_000), Provider()
    send(ledger, provider, parts(ITEMS[:3]))
    assert send(ledger, provider, parts(ITEMS[:4]), idle_s=999).cause is None


def test_a_hit_that_is_a_little_short_is_a_hit(ledger: CacheLedger, provider: Provider):
    send(ledger, provider, parts(ITEMS[:5]))
    expected = ledger.note_request(parts(ITEMS)).expected_cached
    near = ledger.note_usage(6_000, expected * 95 // 100)
    assert near is not None and (near.cause, near.lost_tokens) == (None, 0)
    ledger.note_request(parts(ITEMS))
    short = ledger.note_usage(6_000, ledger.entries[-1].expected_cached * 80 // 100)
    assert short is not None and short.cause == "provider_miss"
    assert short.lost_tokens == short.expected_cached - short.reported_cached


def test_other_settings_explain_a_miss_but_are_no_break_by_themselves(ledger: CacheLedger, provider: Provider):
    send(ledger, provider, parts(ITEMS[:3], settings=b"low"))
    assert send(ledger, provider, parts(ITEMS[:4], settings=b"high")).cause is None
    provider.kept.clear()
    assert send(ledger, provider, parts(ITEMS[:5], settings=b"low")).cause == "settings_changed"


def test_short_prompts_are_not_expected_in_any_cache(ledger: CacheLedger, provider: Provider):
    short = [item(number, 10) for number in range(3)]
    tiny = {"instructions": b'"x"', "tools": b"[]"}
    send(ledger, provider, parts(short[:2], **tiny))
    entry = send(ledger, provider, parts(short, **tiny))
    assert (entry.expected_cached, entry.reported_cached, entry.cause) == (0, 0, None)


def test_a_request_that_was_never_answered_warms_nothing(ledger: CacheLedger, provider: Provider):
    answered = send(ledger, provider, parts(ITEMS[:2]))
    ledger.note_request(parts(ITEMS[:4]))
    entry = send(ledger, provider, parts(ITEMS[:4]))
    assert (entry.prefix_items, entry.cause) == (4, None)
    assert entry.expected_cached == answered.reported_input // 128 * 128 == entry.reported_cached


def test_what_no_request_has_shown_to_the_provider_cannot_be_lost(ledger: CacheLedger, provider: Provider):
    ledger.note_request(parts(ITEMS[:4]))
    assert ledger.forecast(model="other") is None
    entry = send(ledger, provider, parts(ITEMS[:5]))
    assert (entry.expected_cached, entry.lost_tokens, entry.cause) == (0, 0, None)


def test_a_thread_that_got_shorter_has_lost_only_what_it_still_sends(ledger: CacheLedger, provider: Provider):
    send(ledger, provider, parts(ITEMS))
    entry = send(ledger, provider, parts([item(77, 400)]), declared=["compaction"])
    assert (entry.missed, entry.lost_tokens) == ("compaction", entry.reported_input - entry.reported_cached)


def test_a_request_beside_the_thread_leaves_the_thread_where_it_was(ledger: CacheLedger, provider: Provider):
    send(ledger, provider, parts(ITEMS[:3]))
    ledger.declare("compaction")
    beside = send(ledger, provider, parts([*ITEMS[:3], item(77)]), is_side=True)
    assert (beside.prefix_items, beside.cause, beside.is_alarm) == (3, None, False)
    assert send(ledger, provider, parts([item(55)])).cause == "compaction"


def test_the_first_request_of_a_resumed_thread_says_so(provider: Provider):
    for how in ("resume", "fork"):
        entry = send(CacheLedger(), provider, parts(ITEMS), declared=[how])
        assert (entry.causes, entry.is_alarm) == ((how,), False)


def test_without_a_request_there_is_nothing_to_report(ledger: CacheLedger):
    assert ledger.note_usage(1, 1) is None
    assert ledger.forecast(model="x") is None
    assert ledger.totals().hit_percent == 0


def test_the_parts_are_those_of_the_request_that_is_sent():
    request = Request(
        model="m",
        instructions=INSTRUCTIONS,
        items=[VisibleItem(item={}, raw=raw) for raw in ITEMS],
        tools=TOOLS,
        prompt_cache_key="t",
        reasoning={"effort": "low"},
        tool_choice="none",
    )
    assert RequestParts.of(request) == parts(ITEMS, settings=b'[{"effort":"low"},null]')


# ---- any thread --------------------------------------------------------------------------------------

actions = st.sampled_from(
    [
        *("append", "append", "append", "retry", "compaction", "context_edit", "rollback"),
        *("model_changed", "tools_changed", "instructions_changed", "provider_miss", "cache_timeout", "undeclared"),
    ]
)


@settings(max_examples=200, deadline=None)
@given(st.lists(actions, max_size=25))
def test_whatever_happens_the_ledger_names_the_true_cause(done: list[str]):
    ledger, provider = CacheLedger(), Provider()
    number = 3
    now = {"items": [item(n) for n in range(3)], "model": "m0", "tools": TOOLS, "instructions": INSTRUCTIONS}

    def ask(**how) -> CacheEntry:
        asked = parts(list(now["items"]), now["model"], now["tools"], instructions=now["instructions"])
        return send(ledger, provider, asked, **how)

    assert ask().cause == "first_request"
    for action in done:
        number += 1
        items, how, expected = now["items"], {}, action
        match action:
            case "append":
                now["items"], expected = [*items, item(number)], None
            case "retry":
                expected = None
            case "compaction":
                now["items"] = [item(number), item(number + 1_000)]
            case "context_edit" | "undeclared":
                now["items"] = [*items[:1], item(number), *items[2:]]
                if len(items) < 2:
                    now["items"], expected = [item(number)], action
            case "rollback":
                now["items"] = [*items[: len(items) // 2], item(number)]
            case "model_changed":
                now["model"] = f"m{number}"
            case "tools_changed":
                now["tools"] = TOOLS + b"%d" % number
            case "instructions_changed":
                now["instructions"] = INSTRUCTIONS + b"%d" % number
            case "provider_miss":
                provider.kept.clear()
            case "cache_timeout":
                provider.kept.clear()
                how["idle_s"] = 3_600.0
        if action not in ("append", "retry", "provider_miss", "cache_timeout", "undeclared"):
            how["declared"] = [action]
        entry = ask(**how)
        assert (entry.cause, entry.is_alarm) == (expected, action == "undeclared")
        if expected is None or entry.causes:
            assert entry.reported_cached == entry.expected_cached


def test_a_long_thread_costs_each_request_little():
    ledger = CacheLedger()
    items = [item(number, 500) for number in range(2_000)]
    ledger.note_request(parts(items))
    times = []
    for number in range(20):
        items = [*items, item(number, 500)]
        started = time.perf_counter()
        ledger.note_request(parts(items))
        times.append(time.perf_counter() - started)
    print(f"{min(times) * 1e6:.0f} µs")
    assert min(times) < 0.002  # measured: a fiftieth of that
