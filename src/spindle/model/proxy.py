"""Which proxy, if any, a request goes through, by the usual environment variables.

`http_proxy`, `https_proxy` and `all_proxy` count in lower case first, then in upper case; `HTTP_PROXY` is not read in a
CGI program, where any client could set it. The loopback never goes through a proxy.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from spindle.errors import ModelError
from spindle.model.url import Url, parse_url


def proxy_for(url: Url, environ: Mapping[str, str] | None = None) -> Url | None:
    """The proxy for `url`, or None to go straight. Raises `ModelError` for a kind we do not speak."""
    if _is_loopback(url.host):
        return None
    environ = os.environ if environ is None else environ
    name, value = proxy_variable(url.scheme, environ)
    if not value or is_excepted(url, environ.get("no_proxy") or environ.get("NO_PROXY") or ""):
        return None
    proxy = parse_url(value if "://" in value else f"http://{value}", f"the proxy in {name}")
    if proxy.scheme.startswith("socks"):
        raise ModelError(
            f"{name} names a SOCKS proxy ({proxy.scheme}://{proxy.host_and_port}), which is not supported; "
            f"use an http:// proxy, or list {url.host} in NO_PROXY"
        )
    return proxy


def is_excepted(url: Url, no_proxy: str) -> bool:
    """True when the loopback, or an entry of `no_proxy`, matches.

    Entries: `*`, a host name (which covers its sub-domains, with or without a leading dot), an address, a network in
    CIDR form; each may end in `:port`.
    """
    return _is_loopback(url.host) or any(_matches(entry, url) for entry in no_proxy.replace(",", " ").split())


def is_sent_openly(address: str) -> bool:
    """Could others on the way read what is sent to this address? Not on this machine, and not with TLS."""
    url = parse_url(address)
    return url.scheme == "http" and not _is_loopback(url.host)


def _is_loopback(host: str) -> bool:
    return host == "localhost" or host.endswith(".localhost") or host == "::1" or _is_127(host)


def _matches(entry: str, url: Url) -> bool:
    entry = entry.lower()
    if entry == "*":
        return True
    if "/" in entry:
        return _in_network(url.host, entry)
    name, port = _split_port(entry)
    if port and port != str(url.port):
        return False
    name = name.removeprefix("*").removeprefix(".").removesuffix(".")
    if not name:
        return False
    host = url.host.removesuffix(".")
    return host == name or host.endswith("." + name) or _same_address(host, name)


def _split_port(entry: str) -> tuple[str, str]:
    if entry.startswith("["):
        host, _, port = entry[1:].partition("]")
        return host, port.removeprefix(":")
    host, _, port = entry.partition(":")
    # More than one colon and no bracket: an IPv6 address without a port.
    return (entry, "") if ":" in port else (host, port)


def _is_127(host: str) -> bool:
    parts = host.split(".")
    return len(parts) == 4 and parts[0] == "127" and all(part.isdecimal() for part in parts)


def _in_network(host: str, network: str) -> bool:
    import ipaddress  # only for networks listed in NO_PROXY

    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


def _same_address(host: str, name: str) -> bool:
    """Two spellings of one IPv6 address."""
    if ":" not in host or ":" not in name:
        return False
    import ipaddress  # only for IPv6 addresses listed in NO_PROXY

    try:
        return ipaddress.ip_address(host) == ipaddress.ip_address(name)
    except ValueError:
        return False


def proxy_variable(scheme: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """The variable that names the proxy for addresses of this scheme, and what it says; two empty texts without one."""
    names = [f"{scheme}_proxy", f"{scheme}_proxy".upper(), "all_proxy", "ALL_PROXY"]
    for name in names:
        if name == "HTTP_PROXY" and "REQUEST_METHOD" in environ:
            continue
        if value := environ.get(name, "").strip():
            return name, value
    return "", ""
