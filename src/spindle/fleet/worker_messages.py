"""What a driver and a worker say to each other, as JSON lines; how these travel is the engine's business."""

from __future__ import annotations

import msgspec

from spindle.fleet.engine import Interrupt, Release, Revoke
from spindle.fleet.exchange import Asking, Attempt, Lease, Refusal, Spent, Terms
from spindle.fleet.worker import Began, Over

LINE_BYTES = 1 << 28
BEAT_S = 5.0
"""How often a worker says that it is there."""
STOP_S = 4.0
"""How long a worker whose driver is gone may take to clean up."""


class Begin(msgspec.Struct, frozen=True, kw_only=True, tag="begin"):
    """The first thing a worker hears."""

    terms: Terms
    per_worker: int
    name: str = ""
    """Of a worker that can outlive its driver: RUN-WORKER-CHANCE."""
    node_id: str = ""


class Present(msgspec.Struct, frozen=True, kw_only=True, tag="present"):
    """The driver is there."""


class Halt(msgspec.Struct, frozen=True, kw_only=True, tag="halt"):
    """End every attempt, and then yourself."""


class Hello(msgspec.Struct, frozen=True, kw_only=True, tag="hello"):
    """The first thing a worker says."""

    pid: int
    spindle: str
    python: str


class Orphan(msgspec.Struct, frozen=True, kw_only=True, tag="orphan"):
    """What a worker that has outlived its driver says to the next one."""

    hello: Hello
    begin: Begin
    node: str
    held: list[tuple[str, int]]


class Unable(msgspec.Struct, frozen=True, kw_only=True, tag="unable"):
    """The worker cannot work, and why."""

    reason: str


class Ask(msgspec.Struct, frozen=True, kw_only=True, tag="ask"):
    """A request wants to be made."""

    number: int
    asking: Asking


class Settle(msgspec.Struct, frozen=True, kw_only=True, tag="settle"):
    """A request is over."""

    number: int
    asked_tokens: int
    spent: Spent


class GiveBack(msgspec.Struct, frozen=True, kw_only=True, tag="give_back"):
    """So many requests of a lease will not be made."""

    number: int
    count: int


class Beat(msgspec.Struct, frozen=True, kw_only=True, tag="beat"):
    """The worker is there."""


ToWorker = Begin | Present | Attempt | Interrupt | Revoke | Release | Lease | Refusal | Halt
ToDriver = Hello | Orphan | Unable | Began | Over | Ask | Settle | GiveBack | Beat

to_worker: msgspec.json.Decoder[ToWorker] = msgspec.json.Decoder(ToWorker)
to_driver: msgspec.json.Decoder[ToDriver] = msgspec.json.Decoder(ToDriver)


def line(message: ToWorker | ToDriver) -> bytes:
    return msgspec.json.encode(message) + b"\n"
