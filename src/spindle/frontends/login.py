"""`spindle login` and `spindle logout`: sign in with ChatGPT or with an API key, say who is signed in, sign out."""

from __future__ import annotations

import asyncio
import sys

import msgspec

from spindle.auth import login
from spindle.auth.store import StoredLogin
from spindle.errors import ConfigError, SpindleError, UsageError
from spindle.frontends.launch import config_from, home_from
from spindle.frontends.options import Parsed
from spindle.model.provider import LoginSettings
from spindle.protocol.quote import visible


def run(parsed: Parsed, words: list[str]) -> int:
    if parsed.command == ("logout",):
        return login.logout(_settings_in_any_case(parsed), sys.stderr)
    if parsed.command == ("login", "status"):
        return login.login_status(_settings_in_any_case(parsed), sys.stderr)
    settings = config_from(parsed).login
    if settings.store == "ephemeral":
        raise ConfigError(
            'cli_auth_credentials_store is "ephemeral", so a sign-in would end with this command; '
            'set it to "file", "keyring" or "auto"'
        )
    if parsed.flag("with_api_key"):
        if parsed.flag("device_auth"):
            raise UsageError("--with-api-key and --device-auth are two ways to sign in: choose one")
        return login.login_with_api_key(settings, sys.stdin, sys.stderr)
    if (issuer := parsed.value("experimental_issuer")) is not None:
        settings = msgspec.structs.replace(settings, issuer=issuer)
    try:
        signed_in = asyncio.run(_with_device(settings) if parsed.flag("device_auth") else _with_browser(settings))
    except SpindleError as error:
        print(f"Nobody was signed in: {error}.", file=sys.stderr)
        return 1
    print(f"Successfully logged in{_as_whom(signed_in)}", file=sys.stderr)
    return 0


def _settings_in_any_case(parsed: Parsed) -> LoginSettings:
    """As configured. One must be able to sign out also when the configuration cannot be read."""
    try:
        return config_from(parsed).login
    except ConfigError as error:
        print(f"warning: {error}", file=sys.stderr)
        return LoginSettings(home=home_from())


async def _with_browser(settings: LoginSettings) -> StoredLogin:
    from spindle.auth.browser_login import BrowserLogin  # only to sign in
    from spindle.auth.new_login import check_allowed  # the same
    from spindle.frontends.browser import open_in_browser  # the same

    check_allowed(settings)
    async with BrowserLogin(settings) as attempt:
        print(
            f"To sign in with ChatGPT, open this address in a browser on this computer:\n\n{attempt.address}\n\n"
            "On another computer, or without a browser: spindle login --device-auth",
            file=sys.stderr,
            flush=True,
        )
        open_in_browser(attempt.address)
        return await attempt.finish()


async def _with_device(settings: LoginSettings) -> StoredLogin:
    from spindle.auth.device_login import WARNING, DeviceLogin  # only to sign in
    from spindle.auth.new_login import check_allowed  # the same

    check_allowed(settings)
    attempt = DeviceLogin(settings)
    device = await attempt.start()
    print(
        f"To sign in with ChatGPT, open this address in any browser:\n\n  {device.address}\n\n"
        f"and type in this code, which is good for 15 minutes:\n\n  {device.user_code}\n\n{WARNING}",
        file=sys.stderr,
        flush=True,
    )
    return await attempt.finish()


def _as_whom(signed_in: StoredLogin) -> str:
    plan = f", plan: {visible(signed_in.plan)}" if signed_in.plan else ""
    return f" as {visible(signed_in.email[:200])}{plan}" if signed_in.email else ""
