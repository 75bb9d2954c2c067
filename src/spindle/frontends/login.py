"""`spindle login` and `spindle logout`: the stored API key."""

from __future__ import annotations

import sys

from spindle.auth import login
from spindle.errors import UsageError
from spindle.frontends.launch import home_from
from spindle.frontends.options import Parsed


def run(parsed: Parsed, words: list[str]) -> int:
    home = home_from()
    if parsed.command == ("logout",):
        return login.logout(home, sys.stderr)
    if parsed.command == ("login", "status"):
        return login.login_status(home, sys.stderr)
    if not parsed.flag("with_api_key"):
        raise UsageError("usage: printenv OPENAI_API_KEY | spindle login --with-api-key, or: spindle login status")
    return login.login_with_api_key(home, sys.stdin, sys.stderr)
