"""Whether a server takes a key: one request, before the key is kept."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from spindle import __version__
from spindle.errors import SpindleError
from spindle.model.credential import checked_key
from spindle.model.headers import Identity, provider_headers
from spindle.model.http import HttpClient
from spindle.model.provider import Provider
from spindle.model.server_words import read_words
from spindle.model.tls import TlsFiles
from spindle.model.url import join_url, parse_url

_WAIT_S = 15.0
_MAX_ANSWER_BYTES = 1 << 20


class Refused(msgspec.Struct, frozen=True):
    """Why a key is not good, or could not be checked. The sentence never quotes it."""

    sentence: str
    is_certain: bool
    """The server said no to this key; otherwise nobody knows."""


async def check_key(provider: Provider, key: str, environ: Mapping[str, str]) -> Refused | None:
    """Ask the provider for its list of models with this key. None when it answers."""
    tls = TlsFiles(ca_file=provider.ca_file, client_cert=provider.client_cert, client_key=provider.client_key)
    http = HttpClient(tls=tls, environ=environ)
    try:
        url = parse_url(join_url(provider.base_url, "/models", provider.query_params), "base_url")
        identity = Identity(thread_id="", version=__version__, originator="codex_cli_rs")
        headers = provider_headers(provider, identity, environ)
        headers |= {"accept": "application/json", "authorization": f"Bearer {checked_key(key, 'the key')}"}
        response = await http.request("GET", url, headers, timeout_s=_WAIT_S)
        body = await response.read(_MAX_ANSWER_BYTES, _WAIT_S)
    except SpindleError as error:
        return Refused(f"{provider.name} could not be asked about the key: {error}", is_certain=False)
    finally:
        await http.aclose()
    if 200 <= response.status < 300:
        return None
    said = read_words(body, response.headers).text.replace(key, "***")
    because = f": {said}" if said else ""
    if response.status in (401, 403):
        return Refused(f"{provider.name} does not take this key ({response.status}){because}", is_certain=True)
    return Refused(f"{provider.name} answered {response.status} instead of checking the key{because}", is_certain=False)
