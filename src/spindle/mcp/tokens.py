"""What a sign-in to a server leaves behind. Loaded with servers that have an address."""

from __future__ import annotations

import msgspec


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """What a sign-in gave, and what is needed to renew it. Good for one address only."""

    server: str
    url: str
    token_endpoint: str
    client_id: str
    client_secret: str | None = None
    access_token: str
    refresh_token: str | None = None
    expires_at: float | None = None
    """Unix seconds; None = not said."""

    @property
    def secrets(self) -> list[str]:
        return [value for value in (self.access_token, self.refresh_token, self.client_secret) if value]
