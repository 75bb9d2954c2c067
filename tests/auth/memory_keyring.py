"""A keyring that lives as long as the tests, for the package `keyring`."""

from __future__ import annotations

from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked


class MemoryKeyring(KeyringBackend):
    priority = 1.0  # pyright: ignore[reportAssignmentType]

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[tuple[str, str], str] = {}
        self.is_locked = False

    def get_password(self, service: str, username: str) -> str | None:
        self._check()
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self._check()
        self.entries[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        self._check()
        del self.entries[service, username]

    def _check(self) -> None:
        if self.is_locked:
            raise KeyringLocked("Failed to unlock the collection!\nand more")
