"""The stored login: `auth.json`, or the same object in the keyring of the system, or in the memory of this process.

Reads both shapes of it, and writes the file so that only its owner can ever read it. Whoever changes what is stored
holds the lock (`auth/lock.py`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from spindle.errors import ConfigError
from spindle.model.provider import LoginSettings
from spindle.policy.ownership import foreign_owner
from spindle.protocol.items import decode_json

CHATGPT_MODES = ("chatgpt", "chatgptAuthTokens")
"""How a sign-in with ChatGPT is called; the second one if a client brought the tokens, and renews them."""
Place = Literal["file", "keyring", "memory"]
"""Where a login is kept."""

_CLAIMS = "https://api.openai.com/auth"
_FILE_MODE = 0o600
_FOLDER_MODE = 0o700
_MAX_BYTES = 1 << 20

_in_memory: dict[str, dict[str, Any]] = {}
"""By home: logins that are never written anywhere. They belong to the process, and count before the stored ones."""


class StoredLogin(msgspec.Struct, frozen=True, kw_only=True):
    """What `auth.json` holds: an API key, or the tokens of a ChatGPT sign-in."""

    api_key: str | None = None
    access_token: str | None = None
    refresh_token: str | None = None
    id_token: str | None = None
    account_id: str | None = None
    mode: str | None = None
    """`apikey`, `chatgpt` or `chatgptAuthTokens`, where the file says so."""
    issuer: str | None = None
    """Where it was made, if the file says so; tokens are renewed there."""
    client_id: str | None = None
    told_plan: str | None = None
    """The plan as a client told it; otherwise the tokens know."""
    place: Place = "file"
    spent: str | None = None
    """The refresh token that is stored, if it was used for this login, which then could not be stored."""

    @property
    def uses_chatgpt(self) -> bool:
        """Whether the tokens are to be used; an old file without a mode means the key, if it has one."""
        if self.access_token is None:
            return False
        return self.mode in CHATGPT_MODES or self.api_key is None

    @property
    def secrets(self) -> list[str]:
        values = (self.api_key, self.access_token, self.refresh_token, self.id_token)
        return [value for value in values if value]

    @property
    def email(self) -> str | None:
        email = (claims_of(self.id_token) or claims_of(self.access_token)).get("email")
        return email if isinstance(email, str) else None

    @property
    def plan(self) -> str | None:
        name = "chatgpt_plan_type"
        return self.told_plan or account_claim(self.id_token, name) or account_claim(self.access_token, name)


class Kept(msgspec.Struct, frozen=True):
    """The object of a login as it is stored, and where that is."""

    data: dict[str, Any]
    place: Place


def auth_path(home: str) -> str:
    return f"{home}/auth.json"


def read_login(settings: LoginSettings, warnings: list[str] | None = None) -> StoredLogin | None:
    """The stored login; None if there is none. A file that others can read is closed to them, with a warning."""
    kept = read_kept(settings, warnings)
    return None if kept is None else login_in(kept)


def login_in(kept: Kept) -> StoredLogin | None:
    data = kept.data
    tokens = _table(data.get("tokens"))
    made_at = _table(tokens.get("oauth_provenance"))
    access_token = _text(tokens.get("access_token"))
    id_token = _text(tokens.get("id_token"))
    login = StoredLogin(
        api_key=_text(data.get("OPENAI_API_KEY")),
        access_token=access_token,
        refresh_token=_text(tokens.get("refresh_token")),
        id_token=id_token,
        account_id=_text(tokens.get("account_id")) or account_id_of(id_token) or account_id_of(access_token),
        mode=_text(data.get("auth_mode")),
        issuer=_text(made_at.get("issuer")),
        client_id=_text(made_at.get("client_id")),
        told_plan=_text(tokens.get("plan_type")),
        place=kept.place,
    )
    return login if login.api_key or login.access_token else None


def read_kept(settings: LoginSettings, warnings: list[str] | None = None) -> Kept | None:
    """What is stored, wherever the settings say; a file from before they said so is still read."""
    if (data := _in_memory.get(settings.home)) is not None:
        return Kept(data, "memory")
    reason = ""
    if settings.store in ("keyring", "auto"):
        from spindle.auth import system_keyring  # only for those who keep their login there

        try:
            if (data := system_keyring.read(settings.home)) is not None:
                return Kept(data, "keyring")
        except system_keyring.KeyringUnavailable as error:
            reason = str(error)
    data = read_raw(settings.home, warnings)
    if data is not None:
        return Kept(data, "file")
    if reason and settings.store == "keyring" and warnings is not None:
        warnings.append(reason)
    return None


def write_kept(settings: LoginSettings, data: dict[str, Any], place: Place | None = None) -> Place:
    """Store a login in place of the one there is: where the settings say, or at the `place` it came from."""
    if place == "memory" or (place is None and settings.store == "ephemeral"):
        _in_memory[settings.home] = data
        return "memory"
    if place == "keyring" or (place is None and settings.store in ("keyring", "auto")):
        from spindle.auth import system_keyring  # the same

        try:
            system_keyring.write(settings.home, data)
        except system_keyring.KeyringUnavailable as error:
            if place == "keyring" or settings.store == "keyring":
                raise ConfigError(str(error)) from error
        else:
            _in_memory.pop(settings.home, None)
            remove_file(settings.home)
            return "keyring"
    write_raw(settings.home, data)
    _in_memory.pop(settings.home, None)
    return "file"


def forget_kept(settings: LoginSettings) -> list[Place]:
    """Forget the login, wherever it is; gives the places where there was one."""
    found: list[Place] = ["memory"] if _in_memory.pop(settings.home, None) is not None else []
    if settings.store in ("keyring", "auto"):
        from spindle.auth import system_keyring  # the same

        try:
            if system_keyring.remove(settings.home):
                found.append("keyring")
        except system_keyring.KeyringUnavailable:
            pass  # then nothing is in there that could be used
    if remove_file(settings.home):
        found.append("file")
    return found


def shown_place(home: str, place: Place) -> str:
    """The place in words."""
    match place:
        case "file":
            return auth_path(home)
        case "keyring":
            return "the keyring of the system"
        case "memory":
            return "the memory of this process"


# ---- the file --------------------------------------------------------------------------------------


def read_raw(home: str, warnings: list[str] | None = None) -> dict[str, Any] | None:
    path = auth_path(home)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    try:
        if (uid := foreign_owner(path, os.fstat(fd))) is not None:
            raise ConfigError(
                f"{path} is not used: it belongs to another user ({uid}); make it yours with chown, or take it away"
            )
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
        raise ConfigError(f"{path} is damaged; sign in again with `spindle login`") from None
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


def remove_file(home: str) -> bool:
    """Remove `auth.json`. False if there was none."""
    try:
        os.unlink(auth_path(home))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise ConfigError(f"{auth_path(home)} cannot be removed: {error.strerror}") from error
    return True


# ---- what tokens say -------------------------------------------------------------------------------


def account_id_of(token: str | None) -> str | None:
    """The ChatGPT account that a token speaks for. Read, not verified: the server does that."""
    return account_claim(token, "chatgpt_account_id")


def account_claim(token: str | None, name: str) -> str | None:
    return _text(_table(claims_of(token).get(_CLAIMS)).get(name))


def expiry_of(token: str | None) -> float | None:
    """When a token runs out, in unix seconds; None if it does not say so."""
    moment = claims_of(token).get("exp")
    return float(moment) if isinstance(moment, int | float) and not isinstance(moment, bool) else None


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


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


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
