"""The TLS settings of a connection: whom we trust, and how we show who we are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from spindle.errors import ConfigError

if TYPE_CHECKING:
    import ssl


class TlsFiles(msgspec.Struct, frozen=True, kw_only=True):
    """Paths of PEM files; None where the defaults hold."""

    ca_file: str | None = None
    client_cert: str | None = None
    client_key: str | None = None


def tls_context(files: TlsFiles, environ: Mapping[str, str] | None = None) -> ssl.SSLContext:
    """A context that checks host names and certificates.

    `SSL_CERT_FILE` stands in for the system's authorities; the provider's `ca_file`, else `CODEX_CA_CERTIFICATE`,
    is trusted in addition.
    """
    import ssl  # slow to load; only for servers that are reached by TLS

    environ = os.environ if environ is None else environ
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["http/1.1"])
    if system := environ.get("SSL_CERT_FILE"):
        _trust(context, system, "SSL_CERT_FILE")
    else:
        context.load_default_certs()
    if files.ca_file:
        _trust(context, files.ca_file, "ca_file")
    elif extra := environ.get("CODEX_CA_CERTIFICATE"):
        _trust(context, extra, "CODEX_CA_CERTIFICATE")
    if files.client_cert:
        try:
            context.load_cert_chain(files.client_cert, files.client_key)
        except OSError as error:  # those of TLS are among them
            raise ConfigError(f"cannot use the client certificate {files.client_cert}: {_reason(error)}") from error
    return context


def _trust(context: ssl.SSLContext, path: str, named_by: str) -> None:
    try:
        context.load_verify_locations(cafile=path)
    except OSError as error:  # those of TLS are among them
        raise ConfigError(f"cannot read the certificates in {path} (from {named_by}): {_reason(error)}") from error


def _reason(error: OSError) -> str:
    return getattr(error, "reason", None) or error.strerror or str(error)
