"""Signing in with ChatGPT where no browser can come back to: a code is typed into a page, on any device.

attempt = DeviceLogin(settings, environ)
device = await attempt.start()
...show device.address and device.user_code...
login = await attempt.finish()
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping

from spindle.auth.issuer import DeviceCode, Grant, Issuer, IssuerError
from spindle.auth.new_login import LoginFailed, store_tokens
from spindle.auth.store import StoredLogin
from spindle.model.provider import LoginSettings

WAIT_S = 15 * 60.0
"""So long a code is good."""
WARNING = "Go on only if you began this sign-in yourself: never type in a code that a stranger or a web page gave you."
_MOST_FAILURES = 5
"""So many questions in a row may fail before the attempt does."""


class DeviceLogin:
    def __init__(
        self, settings: LoginSettings, environ: Mapping[str, str] = os.environ, *, originator: str = "codex_cli_rs"
    ) -> None:
        self._settings = settings
        self._issuer = Issuer(settings.issuer, environ=environ, originator=originator)
        self._device: DeviceCode | None = None

    async def start(self) -> DeviceCode:
        """Raises IssuerError."""
        self._device = await self._issuer.device_code()
        return self._device

    async def finish(self) -> StoredLogin:
        """Ask until the person has agreed. Raises SpindleError."""
        assert self._device is not None, "start() comes first"
        try:
            async with asyncio.timeout(WAIT_S):
                grant = await self._grant(self._device)
        except TimeoutError:
            raise LoginFailed(f"nobody typed in the code within {WAIT_S / 60:g} minutes") from None
        return await store_tokens(self._settings, self._issuer, await self._issuer.exchange(grant))

    async def _grant(self, device: DeviceCode) -> Grant:
        failures = 0
        while True:
            try:
                if (grant := await self._issuer.device_grant(device)) is not None:
                    return grant
                failures = 0
            except IssuerError as error:
                failures += 1
                if not error.may_pass or failures == _MOST_FAILURES:
                    raise
            await asyncio.sleep(device.interval_s)
