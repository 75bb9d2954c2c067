"""`auth.json`: reading both of its shapes, writing it so that only its owner can ever read it."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from spindle.errors import ConfigError
from spindle.protocol.items import decode_json

_FILE_MODE = 0o600
_FOLDER_MODE = 0o700
_MAX_BYTES = 1 << 20


class StoredLogin(msgspec.Struct, frozen=True, kw_only=True):
    """What `auth.json` holds: an API key, or the tokens of a ChatGPT sign-in."""

    api_key: str | None = None
    access_token: str | None = None
    refresh_token: str | None = None
    id_token: str | None = None
    account_id: str | None = None
    mode: str | None = None
    """`apikey` or `chatgpt`, where the file says so."""

    @property
    def uses_chatgpt(self) -> bool:
        """Whether the tokens are to be used; an old file without a mode means the key, if it has one."""
        if self.access_token is None:
            return False
        return self.mode == "chatgpt" or self.api_key is None

    @property
    def secrets(self) -> list[str]:
        values = (self.api_key, self.access_token, self.refresh_token, self.id_token)
        return [value for value in values if value]


def auth_path(home: str) -> str:
    return f"{home}/auth.json"


def read_login(home: str, warnings: list[str] | None = None) -> StoredLogin | None:
    """The stored login; None if there is none. A file that others can read is closed to them, with a warning."""
    data = read_raw(home, warnings)
    if data is None:
        return None
    tokens = data.get("tokens")
    tokens = tokens if isinstance(tokens, dict) else {}
    access_token = _text(tokens.get("access_token"))
    id_token = _text(tokens.get("id_token"))
    login = StoredLogin(
        api_key=_text(data.get("OPENAI_API_KEY")),
        access_token=access_token,
        refresh_token=_text(tokens.get("refresh_token")),
        id_token=id_token,
        account_id=_text(tokens.get("account_id")) or account_id_of(id_token) or account_id_of(access_token),
        mode=_text(data.get("auth_mode")),
    )
    return login if login.api_key or login.access_token else None


def read_raw(home: str, warnings: list[str] | None = None) -> dict[str, Any] | None:
    path = auth_path(home)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    try:
        content = os.read(fd, _MAX_BYTES)
        _close_to_others(fd, path, warnings)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    finally:
        os.close(fd)
    try:
        data = decode_json(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        data = None
    if not isinstance(data, dict):
        # The cause is left out on purpose: its message could quote a key.
        raise ConfigError(f"{path} is damaged; sign in again with `spindle login --with-api-key`") from None
    return data


def close_file(home: str, warnings: list[str]) -> None:
    """Close `auth.json` to others, whoever the model's provider is; says so if that was needed."""
    try:
        read_raw(home, warnings)
    except ConfigError:
        pass  # damaged, which only matters to those who sign in with it


def write_raw(home: str, data: dict[str, Any]) -> None:
    """Replace `auth.json` as a whole: readers see the old file or the new one, and only the owner sees either."""
    _make_private_folder(home)
    path = auth_path(home)
    temporary = f"{path}.{os.getpid()}.{os.urandom(4).hex()}"
    try:
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _FILE_MODE)
        try:
            os.fchmod(fd, _FILE_MODE)
            content = msgspec.json.format(msgspec.json.encode(data), indent=2) + b"\n"
            while content:
                content = content[os.write(fd, content) :]
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(temporary, path)
    except OSError as error:
        _remove(temporary)
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error


def remove_login(home: str) -> bool:
    """Forget the stored login. False if there was none."""
    try:
        os.unlink(auth_path(home))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise ConfigError(f"{auth_path(home)} cannot be removed: {error.strerror}") from error
    return True


def account_id_of(token: str | None) -> str | None:
    """The ChatGPT account that a token speaks for. Read, not verified: the server does that."""
    account = claims_of(token).get("https://api.openai.com/auth")
    return _text(account.get("chatgpt_account_id")) if isinstance(account, dict) else None


def claims_of(token: str | None) -> dict[str, Any]:
    """What a token says of its owner; empty when it cannot be read."""
    parts = (token or "").split(".")
    if len(parts) != 3:
        return {}
    import base64  # only with a ChatGPT sign-in
    import binascii  # the same

    try:
        payload = parts[1]
        claims = decode_json(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (binascii.Error, msgspec.DecodeError, UnicodeError, ValueError):
        return {}
    return claims if isinstance(claims, dict) else {}


def _text(value: Any) -> str | None:
    """A usable value: text that can stand in a header."""
    text = value.strip() if isinstance(value, str) else ""
    return text if text and text.isascii() and text.isprintable() else None


def _close_to_others(fd: int, path: str, warnings: list[str] | None) -> None:
    mode = os.fstat(fd).st_mode & 0o777
    if not mode & 0o077:
        return
    try:
        os.fchmod(fd, _FILE_MODE)
        message = f"{path} could be read by others (mode {mode:04o}); it is now private (0600)"
    except OSError:
        message = f"{path} can be read by others (mode {mode:04o}) and its mode cannot be changed"
    if warnings is not None:
        warnings.append(message)


def _make_private_folder(home: str) -> None:
    try:
        os.makedirs(home, _FOLDER_MODE, exist_ok=True)
        if os.stat(home).st_mode & 0o077:
            os.chmod(home, _FOLDER_MODE)
    except OSError as error:
        raise ConfigError(f"{home} cannot be used: {error.strerror}") from error


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
