"""The few things we need of a URL. Kept small because `urllib.parse` would cost start-up time."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import msgspec

from spindle.errors import ConfigError

_DEFAULT_PORTS = {"http": 80, "https": 443, "socks4": 1080, "socks4a": 1080, "socks5": 1080, "socks5h": 1080}


class Url(msgspec.Struct, frozen=True):
    """An absolute URL, taken apart."""

    scheme: str
    host: str
    """Without brackets."""
    port: int
    target: str
    """Path and query, as they stand in a request line."""
    userinfo: str = ""
    """`user:password`, still percent-encoded. Never shown."""

    @property
    def authority(self) -> str:
        """Host and, unless it is the default one, port: the `host` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS.get(self.scheme) else f"{host}:{self.port}"

    @property
    def host_and_port(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.authority}"

    def __str__(self) -> str:
        return self.origin + self.target


@lru_cache(maxsize=32)
def parse_url(text: str, what: str = "URL") -> Url:
    """Raises `ConfigError`, naming `what` the address is for."""
    scheme, mark, rest = text.strip().partition("://")
    scheme = scheme.lower()
    if not mark or scheme not in _DEFAULT_PORTS:
        raise ConfigError(f"{what} {_without_userinfo(text)!r} must begin with http:// or https://")
    cut = min((at for at in (rest.find(sign) for sign in "/?#") if at >= 0), default=len(rest))
    netloc, target = rest[:cut], rest[cut:].partition("#")[0]
    userinfo, _, hostport = netloc.rpartition("@")
    if hostport.startswith("["):
        host, _, port = hostport[1:].partition("]")
        port = port.removeprefix(":")
    else:
        host, _, port = hostport.partition(":")
    if not host or (port and not (port.isdecimal() and int(port) < 65536)):
        raise ConfigError(f"{what} {_without_userinfo(text)!r} has no usable host and port")
    if not target.startswith("/"):
        target = "/" + target
    if not (target.isascii() and target.isprintable() and " " not in target and host.isprintable() and " " not in host):
        raise ConfigError(f"{what} {_without_userinfo(text)!r} holds characters that must be percent-encoded")
    return Url(scheme, host.lower(), int(port) if port else _DEFAULT_PORTS[scheme], target, userinfo)


def join_url(base: str, path: str, query: Mapping[str, str] | None = None) -> str:
    """`base` + `path`, with a query that `base` may have already and the extra parameters behind it."""
    stem, _, given = base.partition("?")
    parts = [given] if given else []
    if query:
        from urllib.parse import quote  # only providers with query parameters pay for it

        parts += [f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in query.items()]
    return stem.rstrip("/") + path + ("?" + "&".join(parts) if parts else "")


def _without_userinfo(text: str) -> str:
    scheme, mark, rest = text.partition("://")
    return scheme + mark + rest.rpartition("@")[2]


def basic_auth(userinfo: str) -> str:
    """The value of an authorization header for `user:password`."""
    import base64  # only for addresses that hold a password
    from urllib.parse import unquote  # the same

    user, _, password = userinfo.partition(":")
    return "Basic " + base64.b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode()
