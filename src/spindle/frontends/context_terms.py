"""What today's settings say about the models of a recorded thread: what they cost, and when a thread is compacted."""

from __future__ import annotations

from collections.abc import Callable

from spindle.config.schema import Config
from spindle.context.account import compaction_limit
from spindle.errors import ConfigError
from spindle.model.catalog import Catalog
from spindle.model.prices import NOTHING, known_prices
from spindle.protocol.request import Prices


class Terms:
    """Prices and limits. A configuration that cannot be read is no reason not to look at a thread."""

    def __init__(self, read: Callable[[], Config], provider: str | None) -> None:
        self._provider = provider
        self.problem = ""
        self._config: Config | None = None
        try:
            self._config = read()
            self._catalog = Catalog.load(self._config.model_catalog_json, self._config.spindle.models)
        except ConfigError as error:
            self._catalog = Catalog.load()
            self.problem = f"prices and limits are the built-in ones: {error}"

    def prices_of(self, model: str) -> Prices | None:
        """US dollars for a million tokens; None when nobody named them."""
        given = NOTHING if self._config is None else self._config.spindle.price_list
        found = known_prices(model, self._catalog, given, provider=self._provider)
        return None if found is None else found.prices

    def compaction_limit(self, model: str | None) -> int | None:
        """At how many tokens a thread would be compacted today."""
        info = self._catalog.find(model or "")
        window = (
            info.context_window if self._config is None else self._config.model_context_window or info.context_window
        )
        configured = None if self._config is None else self._config.model_auto_compact_token_limit
        return compaction_limit(window, configured, info.auto_compact_token_limit)
