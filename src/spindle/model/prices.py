"""What a model's tokens cost: the user's word, else the catalogue's, else what is usual for models of its kind.

Loaded only for threads whose policy calculates.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from spindle.model.catalog import Catalog, family_of
from spindle.protocol.request import Prices


class Priced(msgspec.Struct, frozen=True):
    """Prices, and where they come from, in words."""

    prices: Prices
    source: str


def find_prices(
    slug: str, catalog: Catalog, *, for_all: Prices | None = None, by_model: Mapping[str, Prices] | None = None
) -> Priced:
    """The prices of a model. `by_model` counts by the longest name that `slug` begins with, and before `for_all`."""
    fitting = [name for name in by_model or () if slug.startswith(name)]
    if by_model and fitting:
        name = max(fitting, key=len)
        return Priced(by_model[name], f"configuration, {name}")
    if for_all is not None:
        return Priced(for_all, "configuration")
    if (prices := catalog.find(slug).prices) is not None:
        return Priced(prices, "catalogue")
    # A catalogue of the user, or of the reference program, names models and no prices.
    bundled = Catalog.load()
    if (prices := bundled.find(slug).prices) is not None:
        return Priced(prices, "bundled catalogue")
    family = family_of(slug)
    for model in bundled.models:
        if model.prices is not None and model.family == family:
            return Priced(model.prices, f"as {model.slug}, of the same family")
    return Priced(Prices(), "default")
