"""One step of a browser: a request, no redirects followed, no proxies."""

from __future__ import annotations

import urllib.error
import urllib.request
from typing import Any, NamedTuple


class Seen(NamedTuple):
    status: int
    location: str
    text: str


class _Stays(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def visit(url: str, method: str = "GET", **headers: str) -> Seen:
    opener = urllib.request.build_opener(_Stays, urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(url, headers=headers, method=method), timeout=20) as answer:
            return Seen(answer.status, answer.headers.get("location") or "", answer.read().decode())
    except urllib.error.HTTPError as refused:
        with refused:
            return Seen(refused.code, refused.headers.get("location") or "", refused.read().decode())
