"""What secrets look like: keys of well-known services, tokens, private keys, passwords in addresses. Bytes in.

Each shape is strict enough that ordinary code and prose do not have it: a value must be long, and where only the words
around it tell, it must mix letters and digits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

Span = tuple[int, int, str]
"""From, to, and what stands there."""

_TOKENS: tuple[tuple[str, bytes, bytes], ...] = (
    ("API key", b"sk-", rb"(?<!-)sk-(?=[\w-]{0,200}[0-9A-Z])[\w-]{20,}"),
    *(("GitHub token", b"gh%c_" % kind, rb"gh%c_[A-Za-z0-9]{20,}" % kind) for kind in b"pousr"),
    ("GitHub token", b"github_pat_", rb"github_pat_\w{20,}"),
    *(("GitLab token", b"gl%s-" % kind, rb"gl%s-[\w-]{16,}" % kind) for kind in (b"pat", b"ptt", b"dt", b"rt", b"cbt")),
    ("AWS key id", b"AKIA", rb"AKIA[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ("AWS key id", b"ASIA", rb"ASIA[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ("Slack token", b"xox", rb"xox[a-z]-[A-Za-z0-9-]{10,}"),
    ("Slack token", b"xapp-", rb"xapp-[A-Za-z0-9-]{20,}"),
    ("Google API key", b"AIza", rb"AIza[\w-]{30,}"),
    ("Google token", b"ya29.", rb"ya29\.[\w-]{20,}"),
    ("Google client secret", b"GOCSPX-", rb"GOCSPX-[\w-]{20,}"),
    ("Stripe key", b"k_", rb"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    ("webhook secret", b"whsec_", rb"whsec_[A-Za-z0-9+/=]{16,}"),
    ("npm token", b"npm_", rb"npm_[A-Za-z0-9]{30,}"),
    ("PyPI token", b"pypi-", rb"pypi-[\w-]{32,}"),
    ("Hugging Face token", b"hf_", rb"hf_[A-Za-z0-9]{30,}"),
    ("Groq key", b"gsk_", rb"gsk_[A-Za-z0-9]{30,}"),
    ("xAI key", b"xai-", rb"xai-[A-Za-z0-9]{30,}"),
    ("NVIDIA key", b"nvapi-", rb"nvapi-[\w-]{30,}"),
    ("DigitalOcean token", b"_v1_", rb"do[opr]_v1_[a-f0-9]{40,}"),
    ("Docker token", b"dckr_pat_", rb"dckr_pat_[\w-]{20,}"),
    ("SendGrid key", b"SG.", rb"SG\.[\w-]{16,}\.[\w-]{16,}"),
    ("Vault token", b"hvs.", rb"hvs\.[\w-]{20,}"),
    ("Shopify token", b"shp", rb"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{24,}"),
    ("Atlassian token", b"ATATT3", rb"ATATT3[\w=-]{30,}"),
    ("age key", b"AGE-SECRET-KEY-1", rb"AGE-SECRET-KEY-1[A-Z0-9]{30,}"),
    ("JSON web token", b"eyJ", rb"(?<!-)eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*"),
)
"""Name, a part every such token has, and the token."""

# The first two are looked for in lower case, which is faster than to look for both.
_AUTHORIZATION = (
    rb"authorization[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?P<scheme>(?:bearer|basic|token|apikey|digest)\s{1,4})?"
    rb"(?P<value>[a-z0-9._~+/=:-]{12,})|(?<![a-z])bearer\s{1,4}(?P<bare>[a-z0-9._~+/=-]{20,})"
)
_ASSIGNED = (
    rb"(?:api[_-]?key|access[_-]?key|secret|auth[_-]?key|private[_-]?key|token|passw(?:or)?d|credential)(?P<rest>[\w-]{0,40})"
    rb"[\"']?[ \t]{0,4}(?:=>|:=|=|:)[ \t]{0,4}[\"'`]?"
    rb"(?P<value>(?=(?:[^\s\"'`]{0,200}?[0-9]){3})(?=(?:[^\s\"'`]{0,200}?[a-z]){3})[a-z0-9+/_=.~-]{16,400})"
    rb"(?=[\s\"'`,;)\]}\\&]|\Z)"
)
_OTHER_THINGS = (
    rb"(?:iz|ary).*|.*(?:path|file|url|uri|name|type|dir|class|model|version|format|manager)s?|"
    rb"(?<=publickeytoken)|(?<=public_key_token)"
)
"""How names go on that only begin like that of a secret: tokenizer, secretName, token_path."""
_NO_SECRET = (
    rb"[\w./~+-]+\.(?:pem|key|crt|cer|json|ya?ml|toml|ini|cfg|conf|env|txt|md|py|js|ts|go|rs|rb|java|php|sh|html?|lock)"
    rb"|[a-z_]+[0-9]{0,8}[a-z_]*(?:\.[a-z_]+[0-9]{0,8}[a-z_]*)+"
)
"""The path of a file, or a name in a program: `ed25519.Ed25519PrivateKey`."""
_ASSIGNED_WORDS = (b"key", b"secret", b"token", b"passw", b"credential")
_ADDRESS = (
    rb"://(?:[^\s/:@\"'<>]{0,200}:(?P<password>[^\s/@\"'<>${}*]{6,400})@"
    rb"|(?P<user>(?=[\w.~-]{0,200}[0-9])[\w.~-]{20,400})(?::(?:x-oauth-basic)?)?@)"
)
_PLAIN_PASSWORDS = frozenset(
    b"password passwd secret changeme change-me example postgres mysql mongodb rabbitmq username password123 pass123 "
    b"redacted xxxxxx xxxxxxxx your-password your_password mypassword test1234 testpass testing guest1 rootroot".split()
)
_NEWLINE = rb"(?:(?:\\r)?\\n|\r?\n)"
_INDENT = rb"[ \t>|+\"']{0,8}-?(?:\d{1,6}[:|\t-])?[ \t\"']{0,8}"
_HEAD = rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----[ \t\"']{0,4}"
_BODY_LINE = (
    rb"(?:(?!"
    + _NEWLINE
    + _INDENT
    + rb"-----END)"
    + _NEWLINE
    + rb"(?:"
    + _INDENT
    + rb"(?:[A-Za-z0-9+/=]{1,200}(?=[ \t\r\n\\\"']|\Z)"
    rb"|(?:Proc-Type|DEK-Info|Version|Comment):[^\r\n\\]{0,200})|\d{1,6}[:|\t-](?=[\r\n]))?)"
)
_KEY_MATERIAL = rb"[A-Za-z0-9+/=]{16}"
_TAIL = _NEWLINE + _INDENT + rb"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_PRIVATE_KEY = _HEAD + _BODY_LINE + rb"{1,600}(?:[ \t\"']{0,4}" + _TAIL + rb")?"
_PRIVATE_KEY_OPENS = (
    rb"-----BEGIN [A-Z0-9 ]{0,60}-{0,5}\Z|" + _HEAD + _BODY_LINE + rb"{0,600}[ \t\"']{0,4}[\\r\n]{0,4}"
    rb"[A-Za-z0-9+/=:, \t>|\"'-]{0,120}(?<!KEY-----)(?<!BLOCK-----)\Z|" + _HEAD + rb"\Z"
)
_BEGIN = b"-----BEGIN "
_WORD_OPENS = (
    rb"(?<![A-Za-z0-9])(?:sk-|gh[pousr]_|github_pat_|gl[a-z]{2,5}-|AKIA|ASIA|xox[a-z]-|xapp-|AIza|ya29\."
    rb"|GOCSPX-|[sr]k_(?:live|test)_|whsec_|npm_|pypi-|hf_|gsk_|xai-|nvapi-|do[opr]_v1_|dckr_pat_|SG\.|hvs\.|shp[a-z]{2}_"
    rb"|ATATT3|AGE-SECRET-KEY-|eyJ)[\w.=+/-]*\Z"
    rb"|://[^\s/@\"'<>]{0,200}:(?!\d{0,5}\Z)[^\s/@\"'<>]*\Z"
)
_LINE_OPENS = (
    rb"(?:key|secret|token|passw(?:or)?d|credential|authorization)[\w-]{0,40}[\"']?[ \t]{0,4}(?:=>|:=|=|:)[ \t]{0,4}"
    rb"[\"'`]?(?:(?:bearer|basic|token) {1,4})?[a-z0-9+/_=.~-]{4,}\Z|(?<![a-z])bearer\s{1,4}[a-z0-9._~+/=-]{4,}\Z"
)
MARKS = (
    *(mark.lower() for _, mark, _ in _TOKENS),
    *(b"bearer", b"authorization", b"://", *_ASSIGNED_WORDS, _BEGIN.lower()[:4]),
)
"""One of these, in small letters, stands in everything that has a shape, or begins it."""

_ANY_MARK = b"|".join(dict.fromkeys(re.escape(mark) for _, mark, _ in _TOKENS))
_SIGNS = (b"_", b"-", b".", b"A", b"J", b"x", b"p")
"""Each of these marks has at least one of these characters, and few floods of output have them all."""
_SHORTEST = 11
"""No shape is shorter: the shortest is an address with a password of six characters."""
_SHORT = 4096

HELD_MAX = 1 << 16
"""A secret that is longer than this is not waited for."""


_PUBLISHED = frozenset(
    (
        *(b"sk_test_4eC39HqLyjWDarjtT1zdp7dc", b"sk_test_BQokikJOvBiI2HlWgH4olfQ2"),
        *(b"ghp_16C7e42F292c6912E7710c838347Ae178B4a", b"AIzaSyDaGmWKa4JsXZ-HjGw7ISLn_3namBGewQe"),
        b"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIiwiaWF0IjoxNTE2MjM5MDIyfQ."
        b"SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c",
    )
)
"""Keys that stand in the documentation of those who would have given them out, for everybody to copy."""
_EXAMPLE = rb"(?i:example)|(?s:(.)\1{9})"


def find_shapes(data: bytes) -> Iterator[Span]:
    """Where something stands that looks like a secret and is no well-known example of one. Spans may overlap."""
    for start, end, name in _all_shapes(data):
        shown = data[start:end]
        if shown not in _PUBLISHED and (name == "private key" or _pattern(_EXAMPLE).search(shown) is None):
            yield start, end, name


def _all_shapes(data: bytes) -> Iterator[Span]:
    if len(data) < _SHORTEST:
        return
    # Most of what is looked at is short and holds none of them: one look is enough to know.
    is_plain = len(data) <= _SHORT and _pattern(_ANY_MARK).search(data) is None
    # One character is found, or found missing, many times as fast as several are.
    absent = () if is_plain else tuple(sign for sign in _SIGNS if sign not in data)
    for label, mark, token in () if is_plain else _TOKENS:
        if (not absent or not any(sign in mark for sign in absent)) and mark in data:
            for found in _token(token).finditer(data):
                yield found.start(), found.end(), label
    if b"://" in data and b"@" in data:
        yield from _addresses(data)
    if _BEGIN in data:
        for found in _pattern(_PRIVATE_KEY).finditer(data):
            # Programs that read keys have the line that begins one, too.
            if _pattern(_KEY_MATERIAL).search(data, found.start() + len(_BEGIN), found.end()) is not None:
                yield found.start(), found.end(), "private key"
    if b"=" not in data and b":" not in data and b"earer" not in data and b"EARER" not in data:
        return
    lower = data.lower()
    if b"bearer" in lower or b"authorization" in lower:
        for found in _pattern(_AUTHORIZATION).finditer(lower):
            name = "value" if found["value"] is not None else "bare"
            value = data[found.start(name) : found.end(name)]
            # Without a scheme the letters may be those of a type.
            if _is_random(value) if name == "bare" or found["scheme"] else _has_digit(value):
                yield found.start(name), found.end(name), "authorization"
    if any(word in lower for word in _ASSIGNED_WORDS):
        for found in _pattern(_ASSIGNED).finditer(lower):
            if _pattern(_OTHER_THINGS).fullmatch(lower, found.start("rest"), found.end("rest")) is not None:
                continue
            if _pattern(_NO_SECRET).fullmatch(lower, found.start("value"), found.end("value")) is not None:
                continue
            yield found.start("value"), found.end("value"), _name_before(data, found.end("rest"))


def opens_at(data: bytes) -> int:
    """Where a secret may begin that the end of `data` cuts off; the length of `data` if there is none."""
    at = len(data)
    begin = data.rfind(_BEGIN, -HELD_MAX)
    if begin >= 0 and _pattern(_PRIVATE_KEY_OPENS).match(data, begin) is not None:
        at = begin
    if data[-1:] in b" \t\r\n":
        return at
    start = len(data) - len(data[-4096:].rsplit(None, 1)[-1]) if data else 0
    if (found := _pattern(_WORD_OPENS).search(data, start)) is not None:
        at = min(at, found.start())
    if len(data) - start >= 4:
        line = max(data.rfind(b"\n", -4096), data.rfind(b"\r", -4096)) + 1
        line = max(line, len(data) - 600)
        if (found := _pattern(_LINE_OPENS).search(data[line:].lower())) is not None:
            at = min(at, line + found.start())
    return at


def _addresses(data: bytes) -> Iterator[Span]:
    for found in _pattern(_ADDRESS).finditer(data):
        if found["user"] is not None:
            yield found.start("user"), found.end("user"), "token in an address"
        elif found["password"].lower() not in _PLAIN_PASSWORDS:
            yield found.start("password"), found.end("password"), "password in an address"


def _is_random(value: bytes) -> bool:
    """Not a placeholder in words: those have no digits and are all in small letters, or all in capitals."""
    return _has_digit(value) or not (value.islower() or value.isupper())


def _has_digit(value: bytes) -> bool:
    return any(byte in b"0123456789" for byte in value)


def _name_before(data: bytes, end: int) -> str:
    """The name that ends there, as far as it is one word."""
    word = data[max(0, end - 48) : end]
    start = len(word)
    while start and (word[start - 1 : start].isalnum() or word[start - 1] in b"_-"):
        start -= 1
    return word[start:].decode("ascii", "replace").strip("_-") or "value"


def _token(token: bytes) -> re.Pattern[bytes]:
    return _pattern(rb"(?<![A-Za-z0-9_])" + token)


@cache
def _pattern(pattern: bytes) -> re.Pattern[bytes]:
    return re.compile(pattern)
