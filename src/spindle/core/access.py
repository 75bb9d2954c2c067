"""How a thread reaches its model: what it gets for that when it is opened, and what follows when another model goes on,
or a server that cannot read what the first one wrote."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

import msgspec

from spindle.model.catalog import Catalog, unknown_model
from spindle.model.client import ModelClient
from spindle.model.provider import Provider
from spindle.protocol.events import Warning
from spindle.protocol.quote import visible

if TYPE_CHECKING:
    from spindle.core.live_thread import LiveThread
    from spindle.core.running_turn import RunningTurn
    from spindle.model.remote import RemoteModel
    from spindle.protocol.provenance import ModelOrigin


class ModelOverrides(msgspec.Struct, frozen=True, kw_only=True):
    """What the user's configuration says of models, where it says anything; else the catalogue counts."""

    context_window: int | None = None
    max_output_tokens: int | None = None
    compact_limit: int | None = None
    output_token_limit: int | None = None
    reasoning_summaries: bool | None = None
    shows_raw_reasoning: bool = False


class ModelAccess(msgspec.Struct, frozen=True, kw_only=True):
    """How a thread reaches its model, and what is known of it and of others it may change to."""

    client: ModelClient
    provider: Provider
    catalog: Catalog
    overrides: ModelOverrides = ModelOverrides()
    remote: RemoteModel | None = None
    """What `client` asks in the end, if that is a server; else it is a model that a program brought along."""
    provider_ids: Collection[str] = ()
    """The providers that `switch` knows."""
    switch: Callable[[str], tuple[Provider, list[str]]] | None = None
    """Makes `remote` ask another provider, by its id; tells what people should know of that one. Raises SpindleError
    when it cannot be used."""


class BaseText(msgspec.Struct, frozen=True, kw_only=True):
    """What every request begins with."""

    text: str
    is_for_all: bool
    """The user gave it, whatever the model; else each model has its own."""
    personality: str


def about_new_model(thread: LiveThread, former: str, slug: str) -> Iterator[str]:
    """A turn goes on with the model `slug`: what people should know if it is not the model from before."""
    if former == slug:
        return
    thread.cache.declare("model_changed")
    if (forecast := thread.cache.forecast_of(slug)) is not None:
        yield str(forecast)
    if not thread.catalog.find(slug).known:
        yield unknown_model(slug)


def tell_other_model(turn: RunningTurn, asked: str, answering: str | None) -> None:
    """Another model answers than the one that was asked: people are told, once in a turn."""
    if answering is None or turn.has_other_model or answering.lower() == asked.lower():
        return
    from spindle.protocol.model_side import ModelReroute  # seldom

    turn.has_other_model = True
    turn.emit(ModelReroute(from_model=asked, to_model=answering))
    turn.emit(
        Warning(
            message=f"the model server lets {visible(answering)} answer instead of {asked}; "
            "it may do that with accounts or requests that it holds for risky"
        )
    )


def forget_opaque(turn: RunningTurn, origin: ModelOrigin) -> None:
    """A server cannot read items recorded as its own: the thread goes on without them, and says so once."""
    turn.thread.note_refused(origin)
    turn.emit(
        Warning(
            message="the model server could not read its own earlier reasoning; the thread goes on without it "
            "(what was said, called and answered stays)"
        )
    )
