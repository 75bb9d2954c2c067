"""Why there is no connection, in words, and what to check. Loaded only when there is none."""

from __future__ import annotations

import errno
import os
import socket
import ssl
from collections.abc import Mapping

from spindle.model.connection import ConnectFailed
from spindle.model.proxy import proxy_variable
from spindle.model.url import Url

_NAME = "Check the network connection and the host name in base_url"
_NETWORK = "Check the network connection, VPN and firewall"
_OWN_AUTHORITY = (
    "If the server, or a proxy that reads along, has a certificate of its own authority, name the file of that "
    "authority in CODEX_CA_CERTIFICATE or in the provider's ca_file; SSL_CERT_FILE replaces the system's authorities. "
    "A wrong clock can be the cause too."
)
_NOT_TLS = "The server does not speak TLS on this port: try http:// instead of https:// in base_url."


def unreachable(
    error: OSError | ValueError,
    where: str,
    url: Url,
    proxy: Url | None,
    environ: Mapping[str, str] | None,
    limit_s: float,
) -> ConnectFailed:
    """The failure to connect to `where`, which is the server, its proxy, or the server through its proxy."""
    variable = _variable(url, environ) if proxy is not None else ""
    if isinstance(error, TimeoutError) and not error.errno:
        return ConnectFailed(f"no connection to {where} within {limit_s:g} s", advice=_check(_NETWORK, variable, url))
    return ConnectFailed(f"cannot connect to {where}: {_why(error)}", advice=_what_to_do(error, variable, url))


def proxy_refused(status: int, url: Url, proxy: Url, environ: Mapping[str, str] | None) -> ConnectFailed:
    """The proxy does not open a way to the server. Of the statuses, those that begin with 5 may pass."""
    name = _variable(url, environ)
    advice = f"The proxy is named by {name}: correct it, or list {url.host} in NO_PROXY."
    if status == 407:
        advice = (
            f"The proxy wants a user name and a password: put them into {name} as http://USER:PASSWORD@HOST:PORT, "
            f"or list {url.host} in NO_PROXY."
        )
    text = f"the proxy {proxy.host_and_port} refused the connection with status {status}"
    return ConnectFailed(text, advice=advice, is_final=status < 500)


def _variable(url: Url, environ: Mapping[str, str] | None) -> str:
    """The name of the variable that sends requests for `url` to a proxy."""
    return proxy_variable(url.scheme, os.environ if environ is None else environ)[0]


def _why(error: OSError | ValueError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed ({error.reason or error})"
    if isinstance(error, socket.gaierror):
        return f"the host name cannot be resolved ({error.strerror})"
    if isinstance(error, OSError) and error.errno and error.errno > 0:
        return os.strerror(error.errno)
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _what_to_do(error: OSError | ValueError, variable: str, url: Url) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return _OWN_AUTHORITY
    if isinstance(error, ssl.SSLError):
        return _NOT_TLS if error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE") else ""
    if isinstance(error, socket.gaierror):
        return _check(_NAME, variable, url)
    if isinstance(error, OSError) and error.errno == errno.ECONNREFUSED and not variable:
        return "Nothing listens there: check that the server runs, and that base_url names its port."
    return _check(_NETWORK, variable, url)


def _check(text: str, variable: str, url: Url) -> str:
    """Behind a proxy it is the proxy that does not answer, and its variable that may be wrong."""
    if variable:
        return f"The proxy is named by {variable}: correct or unset it, or list {url.host} in NO_PROXY."
    return f"{text}; behind a proxy, set {url.scheme.upper()}_PROXY."
