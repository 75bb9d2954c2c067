"""What a session asks of a model server on this computer before its first request."""

from __future__ import annotations

import os

import msgspec

from spindle.assembly.record import Draft
from spindle.config.oss import load_model, served_window
from spindle.model.endpoint import Endpoint


async def with_served_window(draft: Draft) -> Draft:
    """The draft with the window that the server gives its model: no catalogue knows how it was started."""
    config = draft.request.config
    if config.model_context_window is not None:
        return draft
    window = await served_window(config.provider, draft.model, os.environ)
    if window is None:
        return draft
    info = msgspec.structs.replace(draft.info, context_window=window)
    return msgspec.structs.replace(draft, info=info, catalog=draft.catalog.with_row(info))


def lm_studio(model: str) -> type[Endpoint]:
    """LM Studio for a thread that begins with this model.

    It loads a model when it is first asked for; a person who is still typing need not wait for that.
    """

    class LmStudio(Endpoint):
        async def warm(self) -> None:
            await super().warm()
            await load_model(self.provider, model, os.environ)

    return LmStudio
