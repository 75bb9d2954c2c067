"""A session on its way: what is known of it before its parts are made."""

from __future__ import annotations

import msgspec

from spindle.assembly.record import open_history
from spindle.assembly.request import SessionRequest
from spindle.model.catalog import Catalog, ModelInfo
from spindle.policy.rulebook import RuleBook
from spindle.thread.history import History
from spindle.thread.store import ThreadStore


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """The thread that is opened, and the model that goes on with it."""

    request: SessionRequest
    store: ThreadStore
    history: History
    thread_id: str
    catalog: Catalog
    model: str
    info: ModelInfo
    rules: RuleBook
    warnings: list[str]
    """Grows while the parts are made; people are told when the session is open."""

    @classmethod
    def of(cls, request: SessionRequest) -> Draft:
        """Raises a SpindleError when the thread cannot be opened."""
        config, order = request.config, request.order
        catalog = Catalog.load(config.model_catalog_json)
        store = ThreadStore(config.home, request.clock)
        history, thread_id, warnings = open_history(request, store)
        model = config.model or history.model or catalog.default_slug
        info = catalog.find(model)
        if not info.known:
            warnings.append(f"model {model} is not in the catalogue; general defaults are used for it")
        if history.model not in (None, model):
            warnings.append(f"this thread was recorded with model {history.model} and goes on with {model}")
        return cls(
            request=request,
            store=store,
            history=history,
            thread_id=thread_id,
            catalog=catalog,
            model=model,
            info=info,
            # What was written since the person's session began is no rule for its sub-agents either.
            rules=RuleBook(config.home, config.rule_folders) if order is None else order.rules,
            warnings=warnings,
        )
