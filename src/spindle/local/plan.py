"""How a model is run here: with which window, on how many threads, and what that takes. Said before it starts."""

from __future__ import annotations

import os

import msgspec

from spindle.local.store import LocalModel

USUAL_CONTEXT = 16_384
"""Tokens of the window. Longer ones take memory from the start, and on a processor minutes to be read."""
LEAST_CONTEXT = 4_096
"""Below this there is no room for work beside the instructions."""
_GB = 1_000_000_000


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The decision, and the figures behind it."""

    model: LocalModel
    context: int
    threads: int
    memory_bytes: int
    free_bytes: int | None
    """What the computer has left; None where it does not say."""


def plan_for(model: LocalModel, *, context: int | None, threads: int | None, free_bytes: int | None) -> Plan:
    """The user's figures where there are any; else a window that fits into the memory there is."""
    trained = model.facts.context_length or USUAL_CONTEXT
    chosen = min(context, trained) if context else min(USUAL_CONTEXT, trained)
    if not context and free_bytes is not None:
        while chosen // 2 >= LEAST_CONTEXT and model.facts.memory_bytes(model.size_bytes, chosen) > free_bytes:
            chosen //= 2
    return Plan(
        model=model,
        context=chosen,
        threads=threads or usual_threads(),
        memory_bytes=model.facts.memory_bytes(model.size_bytes, chosen),
        free_bytes=free_bytes,
    )


def describe(plan: Plan) -> list[str]:
    """What a person should know before the model starts: a sentence each."""
    model = plan.model
    threads = f"{plan.threads} thread{'s' if plan.threads > 1 else ''}"
    figures = (
        f"{model.name} runs on this computer: a file of {_gb(model.size_bytes)}, about {_gb(plan.memory_bytes)} of "
        f"memory, {threads}, a window of {plan.context} tokens"
    )
    said = [f"{figures}; {speed_words(model) or 'how fast it is, its first answer will show'}."]
    if plan.free_bytes is not None and plan.memory_bytes > plan.free_bytes:
        said.append(
            f"Only {_gb(plan.free_bytes)} of memory are free: {model.name} may be very slow, or the system may end it."
        )
    said.append(
        "A model of this kind lists, reads and quotes files and writes small new ones; it does not fix bugs reliably. "
        "Look at what it did."
    )
    return said


def speed_words(model: LocalModel) -> str:
    """How fast it was when it was last measured; "" if it never was."""
    if model.reads_per_s is None or model.writes_per_s is None:
        return ""
    return f"it last read {_rate(model.reads_per_s)} and wrote {_rate(model.writes_per_s)} tokens a second here"


def measured_words(name: str, reads_per_s: float | None, writes_per_s: float) -> str:
    """What the first answer showed."""
    reading = f"reads {_rate(reads_per_s)} and " if reads_per_s is not None else ""
    return f"{name} {reading}writes {_rate(writes_per_s)} tokens a second on this computer."


def usual_threads() -> int:
    """One fewer than there are cores, so that the computer can still be worked at."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores - 1)


def free_memory() -> int | None:
    """What programs can still take without others having to give way, as Linux counts it."""
    try:
        with open("/proc/meminfo", "rb") as file:
            for line in file:
                name, _, rest = line.partition(b":")
                if name == b"MemAvailable":
                    return int(rest.split()[0]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None


def _gb(count: int) -> str:
    if count < _GB // 10:
        return f"{count / 1_000_000:.0f} MB"
    return f"{count / _GB:.2f} GB" if count < 10 * _GB else f"{count / _GB:.0f} GB"


def _rate(per_s: float) -> str:
    return f"{per_s:.1f}" if per_s < 10 else f"{per_s:.0f}"
