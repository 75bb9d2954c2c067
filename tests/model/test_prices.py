"""Where a model's prices come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from spindle.errors import ConfigError
from spindle.model.catalog import Catalog
from spindle.model.prices import Priced, find_prices, known_prices
from spindle.protocol.request import Prices, TokenUsage

BUNDLED = Catalog.load()


@pytest.mark.parametrize(
    ("slug", "share", "source"),
    [
        ("gpt-5.2-codex", 0.1, "catalogue"),
        ("gpt-4o-mini", 0.5, "catalogue"),
        ("o3", 0.25, "catalogue"),
        ("gpt-6", 0.1, "as gpt-5.5, of the same family"),
        ("llama", 0.1, "default"),
    ],
)
def test_the_catalogue_says_what_tokens_cost(slug: str, share: float, source: str):
    found = find_prices(slug, BUNDLED)
    assert (found.prices.cached_share, found.source) == (pytest.approx(share), source)


def test_a_catalogue_without_prices_names_models_and_the_bundled_one_prices(tmp_path: Path):
    file = tmp_path / "models.json"
    file.write_text('{"models":[{"slug":"o3","priority":1}, {"slug":"mine","prices":{"input":3,"cached_input":1.5}}]}')
    catalog = Catalog.load(str(file))
    assert find_prices("o3", catalog) == Priced(Prices(2.0, 0.5, 8.0), "bundled catalogue")
    assert find_prices("mine-large", catalog) == Priced(Prices(3.0, 1.5, 24.0), "catalogue")


def test_the_users_word_counts_before_any_catalogue_and_a_models_name_before_all():
    mine, his = Prices(1.0, 1.0), Prices(9.0, 0.9)
    assert find_prices("o3", BUNDLED, for_all=mine) == Priced(mine, "configuration")
    found = find_prices("o3-pro", BUNDLED, for_all=mine, by_model={"o": mine, "o3": his, "gpt": mine})
    assert found == Priced(his, "configuration, o3")


def test_a_catalogue_with_prices_that_cannot_be_is_not_used(tmp_path: Path):
    file = tmp_path / "models.json"
    file.write_text('{"models":[{"slug":"x","prices":{"input":1,"cached_input":2}}]}')
    with pytest.raises(ConfigError, match=r"models\.json is not a model catalogue: prices must not"):
        Catalog.load(str(file))


@pytest.mark.parametrize(
    ("slug", "source"),
    [
        ("gpt-4o", "catalogue"),
        ("gpt-4o-2024-08-06", "catalogue"),
        ("gpt-4o-mini", None),  # begins like a model whose price is known, and costs something else
        ("gpt-6", None),
        ("llama", None),
    ],
)
def test_an_amount_is_known_only_for_the_very_model_that_somebody_priced(slug: str, source: str | None):
    found = known_prices(slug, BUNDLED)
    assert (found and found.source) == source
    mine = Prices(3.0)
    assert known_prices(slug, BUNDLED, for_all=mine) == Priced(mine, "configuration")


def test_what_tokens_cost_is_the_sum_of_new_cached_and_written_ones():
    usage = TokenUsage(input_tokens=1_000, cached_input_tokens=600, output_tokens=50)
    assert Prices(2.0, 0.5, 8.0).cost_of(usage) == 400 * 2.0 + 600 * 0.5 + 50 * 8.0
    # A server that claims more from its cache than there was is not believed.
    assert Prices(2.0, 0.5, 8.0).cost_of(TokenUsage(input_tokens=10, cached_input_tokens=90)) == 10 * 0.5
