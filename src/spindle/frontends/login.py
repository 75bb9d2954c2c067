"""`spindle login` and `spindle logout`: the stored API key."""

from __future__ import annotations

import sys

from spindle.auth import login
from spindle.errors import UsageError
from spindle.frontends.launch import home_from
from spindle.frontends.options import FLAG, Option, Parsed

OPTIONS = (Option(("--with-api-key",), FLAG, "read an API key from stdin and store it"),)


def run(name: str, parsed: Parsed, words: list[str]) -> int:
    home = home_from()
    if name == "logout":
        return login.logout(home, sys.stderr)
    if words == ["status"]:
        return login.login_status(home, sys.stderr)
    if words or not parsed.flag("with_api_key"):
        raise UsageError("usage: printenv OPENAI_API_KEY | spindle login --with-api-key, or: spindle login status")
    return login.login_with_api_key(home, sys.stdin, sys.stderr)
