"""`spindle acp`: an agent for editors, over stdin and stdout."""

from __future__ import annotations

import asyncio

from spindle.frontends.acp.agent import Agent
from spindle.frontends.launch import config_from, warn_of_bypass
from spindle.frontends.options import Parsed
from spindle.frontends.rpc_peer import serve_stdio


def run(parsed: Parsed, words: list[str]) -> int:
    config = config_from(parsed)
    warn_of_bypass(parsed)
    return asyncio.run(serve_stdio("acp", lambda peer: Agent(peer, config, parsed)))
