"""What a model's tokens cost: the user's word, else the catalogue's, else what is usual for models of its kind.

Loaded only for threads whose policy calculates, and to look back at a thread.
"""

from __future__ import annotations

import re

import msgspec

from spindle.model.catalog import Catalog, family_of
from spindle.protocol.request import Prices

OWN_MACHINE = frozenset(("ollama", "lmstudio", "local"))
"""Providers that send no bill."""
_DATE = re.compile(r"-\d{4}-?\d\d-?\d\d$")


class PriceList(msgspec.Struct, frozen=True, kw_only=True):
    """What the user says that models cost, in dollars a million tokens. What a later field says counts less."""

    by_model: dict[str, Prices] = {}
    """By the name of a model, or how it begins; the longest that fits counts."""
    older: dict[str, Prices] = {}
    """The same under an older name of the table."""
    for_all: Prices | None = None

    def find(self, slug: str) -> tuple[Prices, str] | None:
        """The prices of a model, and where they stand in words."""
        for table in (self.by_model, self.older):
            if fitting := [name for name in table if slug.startswith(name)]:
                name = max(fitting, key=len)
                return table[name], f"configuration, {name}"
        return None if self.for_all is None else (self.for_all, "configuration")


NOTHING = PriceList()


class Priced(msgspec.Struct, frozen=True):
    """Prices, and where they come from, in words."""

    prices: Prices
    source: str


def find_prices(slug: str, catalog: Catalog, given: PriceList = NOTHING) -> Priced:
    """The prices of a model, if need be by guess; `given` is what the user says."""
    if (found := given.find(slug)) is not None:
        return Priced(*found)
    if (prices := catalog.find(slug).prices) is not None:
        return Priced(prices, "catalogue")
    # A catalogue of the user, or of the reference program, names models and no prices.
    bundled = Catalog.load()
    if (prices := bundled.find(slug).prices) is not None:
        return Priced(prices, "bundled catalogue")
    family = family_of(slug)
    for model in bundled.models if family != "default" else ():
        if model.prices is not None and model.family == family:
            return Priced(model.prices, f"as {model.slug}, of the same family")
    return Priced(Prices(), "default")


def known_prices(
    slug: str, catalog: Catalog, given: PriceList = NOTHING, *, provider: str | None = None
) -> Priced | None:
    """The same where amounts count and not only ratios: None unless somebody named the price of this very model.

    A model's name with a date behind it is the same model; with anything else behind it, it is another one. A server
    on the user's own computer sends no bill: what the catalogue says of a model of that name is somebody else's price.
    """
    found = find_prices(slug, catalog, given)
    if found.source.startswith("configuration"):
        return found
    if provider in OWN_MACHINE or found.source not in ("catalogue", "bundled catalogue"):
        return None
    undated = _DATE.sub("", slug)
    models = [*catalog.models, *(Catalog.load().models if found.source == "bundled catalogue" else ())]
    return found if any(model.slug in (slug, undated) and model.prices == found.prices for model in models) else None
