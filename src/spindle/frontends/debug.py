"""`spindle debug prompt-input [PROMPT]`: print exactly the request body that would be sent, and send nothing.

`spindle debug context [THREAD]` is `spindle context`, by default of the newest thread of this folder.
"""

from __future__ import annotations

import asyncio
import sys

from spindle.api.door import SessionRequest, open_thread
from spindle.api.hearing import Hearing
from spindle.frontends.launch import config_from, image_items
from spindle.frontends.options import Parsed
from spindle.model.scripted import ScriptedModel, says
from spindle.protocol.ops import UserTurn


def run(parsed: Parsed, words: list[str]) -> int:
    if parsed.command[1] == "context":
        from spindle.frontends.context import command as context_command  # it loads all that looks back at threads

        if not words:
            parsed.values["last"] = True
        return context_command.run(parsed, words)
    items = [*image_items(parsed.many("image")), {"type": "text", "text": words[0] if words else ""}]
    model = ScriptedModel([says("")])
    config = config_from(parsed, headless=True)
    request = SessionRequest(config=config, source="exec", originator="codex_exec", ephemeral=True, client=model)
    asyncio.run(_one_turn(request, UserTurn(items=items)))
    sys.stdout.buffer.write(model.requests[0].encode() + b"\n")
    return 0


async def _one_turn(request: SessionRequest, turn: UserTurn) -> None:
    thread = await open_thread(request)
    hearing = Hearing(thread)
    thread.begin()
    hearing.start_turn(turn)
    await hearing.turn_end()
    await thread.close()
