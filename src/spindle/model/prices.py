"""What a model's tokens cost: the user's word, else the catalogue's, else what is usual for models of its kind.

Loaded only for threads whose policy calculates, and to look back at a thread.
"""

from __future__ import annotations

import re
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


def known_prices(
    slug: str, catalog: Catalog, *, for_all: Prices | None = None, by_model: Mapping[str, Prices] | None = None
) -> Priced | None:
    """The same where amounts count and not only ratios: None unless somebody named the price of this very model.

    A model's name with a date behind it is the same model; with anything else behind it, it is another one.
    """
    found = find_prices(slug, catalog, for_all=for_all, by_model=by_model)
    if found.source.startswith("configuration"):
        return found
    if found.source not in ("catalogue", "bundled catalogue"):
        return None
    undated = re.sub(r"-\d{4}-\d\d-\d\d$", "", slug)
    models = [*catalog.models, *(Catalog.load().models if found.source == "bundled catalogue" else ())]
    return found if any(model.slug in (slug, undated) and model.prices == found.prices for model in models) else None
