"""Where a model's prices come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from spindle.errors import ConfigError
from spindle.model.catalog import Catalog
from spindle.model.prices import Priced, PriceList, find_prices, known_prices
from spindle.protocol.request import LongPrompt, Prices, TokenUsage

BUNDLED = Catalog.load()


@pytest.mark.parametrize(
    ("slug", "share", "source"),
    [
        ("gpt-5.2-codex", 0.1, "catalogue"),
        ("gpt-4o-mini", 0.5, "catalogue"),
        ("o3", 0.25, "catalogue"),
        ("gpt-6", 0.04, "as gpt-6.1-sol, of the same family"),
        ("claude-opus-5-5", 0.04, "catalogue"),
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
    assert find_prices("o3", BUNDLED, PriceList(for_all=mine)) == Priced(mine, "configuration")
    given = PriceList(for_all=mine, older={"o": mine, "o3": his, "gpt": mine})
    assert find_prices("o3-pro", BUNDLED, given) == Priced(his, "configuration, o3")


def test_the_table_of_prices_counts_before_its_older_names():
    new, old = Prices(1.0), Prices(2.0)
    given = PriceList(by_model={"gpt": new}, older={"gpt-5.2": old}, for_all=old)
    assert find_prices("gpt-5.2", BUNDLED, given) == Priced(new, "configuration, gpt")
    assert find_prices("o3", BUNDLED, given) == Priced(old, "configuration")


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
        ("claude-opus-4-5-20251101", "catalogue"),
        ("claude-opus-5-6", None),
        ("gpt-4o-mini", None),  # begins like a model whose price is known, and costs something else
        ("gpt-6", None),
        ("llama", None),
    ],
)
def test_an_amount_is_known_only_for_the_very_model_that_somebody_priced(slug: str, source: str | None):
    found = known_prices(slug, BUNDLED)
    assert (found and found.source) == source
    mine = Prices(3.0)
    assert known_prices(slug, BUNDLED, PriceList(for_all=mine)) == Priced(mine, "configuration")


def test_a_server_of_ones_own_sends_no_bill_unless_one_says_so():
    assert known_prices("gpt-4o", BUNDLED, provider="ollama") is None
    mine = Priced(Prices(0.1), "configuration, gpt")
    assert known_prices("gpt-4o", BUNDLED, PriceList(by_model={"gpt": Prices(0.1)}), provider="ollama") == mine


def test_what_tokens_cost_is_the_sum_of_new_cached_and_written_ones():
    usage = TokenUsage(input_tokens=1_000, cached_input_tokens=600, output_tokens=50)
    assert Prices(2.0, 0.5, 8.0).cost_of(usage) == 400 * 2.0 + 600 * 0.5 + 50 * 8.0
    # A server that claims more from its cache than there was is not believed.
    assert Prices(2.0, 0.5, 8.0).cost_of(TokenUsage(input_tokens=10, cached_input_tokens=90)) == 10 * 0.5


def test_what_is_put_into_the_cache_costs_a_quarter_more_unless_it_has_a_price():
    usage = TokenUsage(input_tokens=1_000, cached_input_tokens=600, cache_write_input_tokens=300, output_tokens=50)
    assert Prices(2.0, 0.5, 8.0).cost_of(usage) == 100 * 2.0 + 600 * 0.5 + 300 * 2.5 + 50 * 8.0
    assert Prices(2.0, 0.5, 8.0, 4.0).cost_of(usage) == 100 * 2.0 + 600 * 0.5 + 300 * 4.0 + 50 * 8.0


def test_a_long_request_is_dearer_as_a_whole_and_a_sum_of_short_ones_is_not():
    prices = Prices(2.0, 0.2, 10.0, long_prompt=LongPrompt(above=1_000, input=2.0, output=1.5))
    long = TokenUsage(input_tokens=1_001, cached_input_tokens=1, output_tokens=10)
    assert prices.cost_of_request(long) == 2 * (1_000 * 2.0 + 0.2) + 1.5 * 100
    assert prices.cost_of(long) == 1_000 * 2.0 + 0.2 + 100
    short = TokenUsage(input_tokens=1_000, output_tokens=10)
    assert prices.cost_of_request(short) == prices.cost_of(short) == 2_100


@pytest.mark.parametrize(
    ("slug", "prices"),
    [
        ("gpt-6.1-sol", (2.0, 0.1, 10.0, 2.5)),
        ("gpt-6-astra", (10.0, 1.0, 50.0, 12.5)),
        ("gpt-6-sol", (2.0, 0.2, 10.0, 2.5)),
        ("gpt-6-luna", (0.1, 0.01, 0.5, 0.125)),
        ("gpt-6.1-terra", (1.0, 0.05, 5.0, 1.25)),
        ("claude-fable-5-1", (10.0, 0.25, 50.0, 12.5)),
        ("claude-opus-5-5", (4.0, 0.2, 20.0, 5.0)),
        ("claude-sonnet-5-5", (2.0, 0.1, 10.0, 2.5)),
        ("claude-haiku-5-5", (0.1, 0.01, 0.5, 0.125)),
        ("claude-haiku-4-5", (1.0, 0.1, 5.0, 1.25)),
    ],
)
def test_what_the_models_of_today_cost_is_what_their_makers_say(slug: str, prices: tuple[float, ...]):
    found = known_prices(slug, BUNDLED)
    assert found is not None
    told = found.prices
    assert (told.input, told.cached_input, told.output, told.cache_write) == prices
