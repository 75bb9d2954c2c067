"""What is masked, in which forms, and what is left alone."""

from __future__ import annotations

import base64
import json
import random
import re
import subprocess
from urllib.parse import quote

import pytest

from spindle.policy.secrets import Secrets, address_passwords, secret_variables

VALUE = 'k3y/with+signs"and\\0123é'
SECRETS = Secrets(own=lambda: [("OPENAI_API_KEY", VALUE)], known=[("MY_TOKEN", "plain-token-12345")])
PRIVATE_KEY = (
    "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,AB\n\n"
    "MIIEowIBAAKCAQEA0123456789abcdefghijkl\nshortend==\n-----END RSA PRIVATE KEY-----"
)


@pytest.mark.parametrize(
    "form",
    [
        VALUE,
        json.dumps(VALUE)[1:-1],
        quote(VALUE),
        quote(VALUE, safe=""),
        VALUE.encode().hex(),
        VALUE.encode().hex().upper(),
        base64.b64encode(VALUE.encode()).decode().rstrip("="),
        base64.urlsafe_b64encode(VALUE.encode()).decode().rstrip("="),
        "plain-token-12345",
    ],
)
def test_a_known_value_is_masked_however_it_is_written(form: str) -> None:
    masked = SECRETS.mask(f"before {form} after")
    assert re.fullmatch(r"before \[secret: (OPENAI_API_KEY|MY_TOKEN)\].? after", masked), masked


@pytest.mark.parametrize("before", range(3))
@pytest.mark.parametrize("width", [0, 76, 64, 10])
def test_base64_is_recognised_in_every_alignment_and_over_line_ends(before: int, width: int) -> None:
    text = base64.b64encode(b"x" * (30 + before) + VALUE.encode() + b"tail").decode()
    printed = "\n".join(text[at : at + width] for at in range(0, len(text), width)) if width else text
    masked = SECRETS.mask(printed)
    core = base64.b64encode(bytes(before) + VALUE.encode()).decode()[(0, 2, 3)[before] : -4]
    assert core in text and core[1:] not in masked.replace("\n", "")
    assert masked.count("[secret: OPENAI_API_KEY]") == 1


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("sk-proj-abcDEF0123456789abcdef.", "[secret: API key]."),
        ("sk-ant-api03-abcDEF0123456789_-abcdef", "[secret: API key]"),
        ("ghp_0123456789abcdefghijABCDEFGHIJ012345", "[secret: GitHub token]"),
        ("github_pat_11ABCDEFG0123456789_abcdef", "[secret: GitHub token]"),
        ("glpat-abcdefghij0123456789", "[secret: GitLab token]"),
        ("id AKIAIOSFODNN7QK4T2WD,ASIAIOSFODNN7QK4T2WD", "id [secret: AWS key id],[secret: AWS key id]"),
        ("xoxb-123456789012-abcdefABCDEF", "[secret: Slack token]"),
        ("AIzaSyA0123456789abcdefghijklmnopqrstu", "[secret: Google API key]"),
        ("sk_live_abcdefghij0123456789", "[secret: Stripe key]"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abc-def_123", "[secret: JSON web token]"),
        ("Authorization: Bearer abc.def-0123456789", "Authorization: Bearer [secret: authorization]"),
        ('{"authorization": "Basic dXNlcjpwYXNzMTIz"}', '{"authorization": "Basic [secret: authorization]"}'),
        ("https://bob:t0ken_abc@git.example/x.git", "https://bob:[secret: password in an address]@git.example/x.git"),
        ("https://0123456789abcdef0123@git.example/", "https://[secret: token in an address]@git.example/"),
        ("DB_PASSWORD=Xk29dkkwq81mmz0Q", "DB_PASSWORD=[secret: DB_PASSWORD]"),
        ("api_key: 'abcdef0123456789abcdef',", "api_key: '[secret: api_key]',"),
        (f"a\n{PRIVATE_KEY}\nb", "a\n[secret: private key]\nb"),
        (json.dumps({"key": PRIVATE_KEY}), '{"key": "[secret: private key]"}'),
        ("\n".join(f"{n}:{line}" for n, line in enumerate(PRIVATE_KEY.split("\n"))), "0:[secret: private key]"),
        (PRIVATE_KEY[:100], "[secret: private key]"),
    ],
)
def test_what_looks_like_a_secret_is_masked(text: str, masked: str) -> None:
    assert SECRETS.mask(text) == masked
    assert SECRETS.mask(masked) == masked


@pytest.mark.parametrize(
    "text",
    [
        "task-based risk-assessment sk-container-id-1 sk-learn",
        "token = get_token_from_environment()",
        "secret: my-plain-words-secret-here",
        'headers = {"Authorization": f"Bearer {token}"}',
        "Authorization: Bearer YOUR_TOKEN_GOES_HERE",
        "postgres://user:password@localhost:5432/db redis://localhost:6379/0",
        "http://localhost:8000/@scope/package git@github.com:me/x.git",
        "the file begins with -----BEGIN PRIVATE KEY----- as usual",
        "-----BEGIN PUBLIC KEY-----\nMIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8AMIIBCgKCAQEA\n-----END PUBLIC KEY-----",
        "commit 9fceb02d0ae598e95dc970b74767f19372d61af8 sha256:9fceb02d0ae598e95dc970b74767f193",
        "Original token count: 123456789012345678",
        "password_hash_rounds = 12; max_tokens=4096; tokenizer: gpt2-xl-1558M",
        "eyJ is how JSON begins in base64",
        "def f(authorization: HTTPAuthorizationCredentials = Depends(bearer)): ...",
        "def sign(private_key: ed25519.Ed25519PrivateKey, data: bytes): ...",
        '<assemblyIdentity name="x" publicKeyToken="1fc8b3b9a1e18e3b"/>',
        "System.Data, Version=4.0.0.0, Culture=neutral, PublicKeyToken=b77a5c561934e089",
        'tokenizer = "meta-llama/Llama-3.1-8B-2024"',
        "tokenizer_name: Qwen/Qwen2.5-7B-Instruct-1M",
        'START = b"-----BEGIN OPENSSH PRIVATE KEY-----"\nEND = b"-----END OPENSSH PRIVATE KEY-----"\n',
        "private_key = certs/server-2024-01.pem",
        "secretName: my-app-secret-2024-01",
        'token_path = "src/auth/v2/token_2024_x"',
    ],
)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert SECRETS.mask(text) == text


def test_the_modes_mask_less_but_never_show_the_agents_own_key() -> None:
    text = f"{VALUE} plain-token-12345 AKIAIOSFODNN7QK4T2WD"
    made = {
        mode: Secrets(mask=mode, own=lambda: [("OWN", VALUE)], known=[("MY_TOKEN", "plain-token-12345")]).mask(text)
        for mode in ("all", "known", "none")
    }
    assert made == {
        "all": "[secret: OWN] [secret: MY_TOKEN] [secret: AWS key id]",
        "known": "[secret: OWN] [secret: MY_TOKEN] AKIAIOSFODNN7QK4T2WD",
        "none": "[secret: OWN] plain-token-12345 AKIAIOSFODNN7QK4T2WD",
    }


def test_a_persons_own_words_are_masked_for_the_agents_key_only() -> None:
    raw = json.dumps({"text": f"{VALUE} plain-token-12345"}, ensure_ascii=False).encode()
    assert json.loads(SECRETS.mask_json(raw, own_only=True)) == {"text": "[secret: OPENAI_API_KEY] plain-token-12345"}
    assert json.loads(SECRETS.mask_json(raw)) == {"text": "[secret: OPENAI_API_KEY] [secret: MY_TOKEN]"}
    nested = json.dumps({"arguments": json.dumps({"cmd": VALUE})}).encode()
    assert json.loads(json.loads(SECRETS.mask_json(nested))["arguments"]) == {"cmd": "[secret: OPENAI_API_KEY]"}


def test_text_without_secrets_is_not_copied() -> None:
    data, raw = b"nothing here\n" * 100, b'{"text":"nothing"}'
    assert SECRETS.mask_bytes(data) is data and SECRETS.mask_json(raw) is raw


def test_a_renewed_key_is_masked_like_the_old_one() -> None:
    keys = [("auth.json", "first-access-token")]
    secrets = Secrets(own=lambda: keys)
    assert secrets.mask_known("first-access-token") == "[secret: auth.json]"
    keys[0] = ("auth.json", "second-access-token")
    assert secrets.mask("first-access-token second-access-token") == "[secret: auth.json] [secret: auth.json]"


def test_a_text_that_was_clean_is_looked_at_again_for_a_secret_that_came_later() -> None:
    keys: list[tuple[str, str]] = []
    secrets = Secrets(own=lambda: keys)
    text = "in the folder renewed-access-token"
    assert secrets.mask(text) == text == secrets.mask(text)
    keys.append(("auth.json", "renewed-access-token"))
    assert secrets.mask(text) == "in the folder [secret: auth.json]"
    other = "say found-by-a-tool"
    assert secrets.mask(other) == other
    secrets.add("found-by-a-tool", "TOOL")
    assert secrets.mask(other) == "say [secret: TOOL]"


def test_what_is_found_later_counts_from_the_first_output_on() -> None:
    asked: list[int] = []

    def later() -> list[tuple[str, str]]:
        asked.append(1)
        return [("auth.json", "refresh-token-0123")]

    secrets = Secrets(later=later)
    assert secrets.mask_known("x") == "x" and not asked
    assert secrets.mask("refresh-token-0123") == "[secret: auth.json]"
    assert secrets.mask_known("refresh-token-0123") == "[secret: auth.json]" and asked == [1]


def test_only_variables_that_look_like_secrets_count() -> None:
    environ = {
        "GITHUB_TOKEN": "abcdefghij0123",
        "db_password": "correct horse battery staple",
        "AWS_SECRET_ACCESS_KEY": "/wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY",
        "SHORT_KEY": "abc123",
        "SSH_KEY_PATH": "/home/me/.ssh/id_ed25519",
        "TOKEN_URL": "https://auth.example/token",
        "KEYTIMEOUT": "1000000000",
        "TOKENIZERS_PARALLELISM": "disabled",
        "HOME": "/home/me-0123456789",
        "IGNORED_TOKEN": "abcdefghij0123456",
    }
    names = [name for name, _ in secret_variables(environ, ["IGNORED_TOKEN"])]
    assert names == ["GITHUB_TOKEN", "db_password", "AWS_SECRET_ACCESS_KEY"]
    proxies = {"https_proxy": "http://me:pass-w0rd@proxy:3128", "NO_PROXY": "a@b", "HTTP_PROXY": "http://proxy:1"}
    assert address_passwords(proxies) == [("https_proxy", "pass-w0rd")]


SAMPLE = "\n".join(
    (
        f"start {VALUE} mid plain-token-12345 end",
        "sk-proj-abcDEF0123456789abcdef and Authorization: Bearer abc.def-0123456789",
        base64.b64encode(b"q" + VALUE.encode()).decode(),
        PRIVATE_KEY,
        "https://bob:t0ken_abc@git.example/x.git DB_PASSWORD=Xk29dkkwq81mmz0Q",
        "the end",
    )
).encode()


def test_output_in_pieces_is_masked_like_the_whole() -> None:
    whole = SECRETS.mask_bytes(SAMPLE)
    rng = random.Random(7)
    for _ in range(400):
        masker, out, at = SECRETS.output_stream(), b"", 0
        while at < len(SAMPLE):
            size = rng.choice((1, 2, 3, 5, 17, 64, 300))
            out += masker.feed(SAMPLE[at : at + size])
            at += size
        out += masker.finish()
        # At most the first few characters of a secret get out before it can be recognised.
        short = re.sub(rb"[^\s:=/]{0,10}(\[secret: [^\]]+\])", rb"\1", out)
        assert short == re.sub(rb"[^\s:=/]{0,10}(\[secret: [^\]]+\])", rb"\1", whole), out


@pytest.mark.parametrize(
    "text", [b"Password: ", b"$ ", b"Continue? [y/N] ", b"Enter token: ", b"http://localhost:8000", b"..."]
)
def test_a_prompt_is_shown_at_once(text: bytes) -> None:
    assert SECRETS.output_stream().feed(text) == text


def test_output_that_ends_within_a_secret_shows_no_good_part_of_it() -> None:
    masker = SECRETS.output_stream()
    assert masker.feed(VALUE[:12].encode()) + masker.finish() == b"[secret: OPENAI_API_KEY]"


def test_what_never_ends_is_not_waited_for_for_ever() -> None:
    masker = SECRETS.output_stream()
    flood = b"sk-" + b"a1" * 100_000
    shown = [masker.feed(flood[at : at + 1000]) for at in range(0, len(flood), 1000)]
    assert next(piece for piece in shown if piece).startswith(b"[secret: API key]")
    assert shown[-1] and len(b"".join(shown)) > 100_000


def test_the_words_of_a_model_are_masked_as_they_stream() -> None:
    rng = random.Random(3)
    text = f"The key is {VALUE}; plain words, pla, plain-tok and plain-token-12345é! sk-proj-abcDEF0123456789abcdef"
    for _ in range(300):
        masker, out, at = SECRETS.text_stream(), "", 0
        while at < len(text):
            size = rng.choice((1, 2, 4, 9, 30))
            out += masker.feed(text[at : at + size])
            at += size
        out += masker.finish()
        assert out == (
            "The key is [secret: OPENAI_API_KEY]; plain words, pla, plain-tok and [secret: MY_TOKEN]é! "
            "sk-proj-abcDEF0123456789abcdef"
        )


def test_nothing_makes_the_search_take_long() -> None:
    hostile = (b"token=", b"-sk-", b"eyJa.", b"bearer ", b"://a:", b"-----BEGIN PRIVATE KEY-----\n", b"\n", b"secret_")
    for piece in hostile:
        data = piece * (200_000 // len(piece))
        assert len(SECRETS.mask_bytes(data)) > 0


# ---- row 10: what programs put between the letters, dumps, examples ---------------------------------

TOKEN = "tok9Zk2mQw7Lr4Xp1Vb8Ns6T"
KNOWN = Secrets(known=[("DEPLOY_TOKEN", TOKEN)])


def _piped(command: str, text: str = f"before\nkey = {TOKEN} and more\nafter\n") -> bytes:
    return subprocess.run(["sh", "-c", command], input=text.encode(), capture_output=True, check=True).stdout


@pytest.mark.parametrize(
    "command",
    [
        "cat",
        "grep --color=always Zk2mQw",
        "grep --color=always tok9Zk2mQw7Lr4Xp1Vb8Ns6T",
        "grep --color=always '[0-9]'",
        "fold -w 5",
        "fold -w 1",
        "sed 's/./&\\r/g'",
        "tr '\\n' '\\r'",
        "iconv -t UTF-16LE",
        "iconv -t UTF-16BE",
        "iconv -t UTF-16",
        "sed 's/./&\\x00/g'",
        "sed 's/Zk/Z\\x1b[0mk/'",
        "sed 's/./&\\x1b(B/g'",
        "sed 's/./\\x1b[1m&\\x1b(B\\x1b[m/g'",
        "sed 's/./&\\x1bPq\\x1b\\\\/g'",
        "sed 's/./&\\x08&/g'",
        "sed 's/./_\\x08&/g'",
        "sed 's/./&\\x08&\\x08&/g'",
        *("xxd", "xxd -g1", "xxd -p", "xxd -u", "xxd -g4", "xxd -c 8", "hexdump", "hexdump -C", "hexdump -c"),
        *("od", "od -c", "od -x", "od -b", "od -t x1", "od -A x -t x1z", "od -A d -t c", "od -t x4", "od -An -t x1"),
        "base64",
        "od -An -v -t x1 | tr -d ' \\n'",
        """od -An -v -t x1 | sed 's/ /%/g' | tr -d '\\n'""",
        """od -An -v -t x1 | tr a-f A-F | sed 's/ /%/g' | tr -d '\\n'""",
    ],
)
def test_10_a_known_value_does_not_get_through_in_disguise(command: str) -> None:
    shown = KNOWN.mask_bytes(_piped(command))
    assert b"[secret: DEPLOY_TOKEN]" in shown, shown
    bare = re.sub(rb"\x1b\[[0-9;]*[A-Za-z]|\x1b\(B|\x1bPq\x1b.|[\r\n\0 ]|.\x08", b"", shown)
    assert TOKEN.encode() not in bare and TOKEN[8:16].encode() not in bare


WRITTEN: dict[str, str] = {
    "hex with colons": TOKEN.encode().hex(":"),
    "hex with blanks": TOKEN.encode().hex(" ").upper(),
    "hex as C writes it": ", ".join(f"0x{byte:02x}" for byte in TOKEN.encode()),
    "escapes": "".join(f"\\x{byte:02x}" for byte in TOKEN.encode()),
    "JSON escapes": "".join(f"\\u{ord(char):04x}" for char in TOKEN),
    "some JSON escapes": "".join(f"\\u{ord(char):04X}" if at % 3 else char for at, char in enumerate(TOKEN)),
    "octal escapes": "".join(f"\\{byte:03o}" for byte in TOKEN.encode()),
    "some of an address": "".join(f"%{ord(char):02x}" if at % 2 else char for at, char in enumerate(TOKEN)),
    "an address twice": "".join(f"%25{ord(char):02X}" for char in TOKEN),
    "entities": "".join(f"&#{ord(char)};" if at % 2 else f"&#x{ord(char):X};" for at, char in enumerate(TOKEN)),
    "decimals": str(list(TOKEN.encode())),
    "letters apart": " ".join(TOKEN),
    "a list of letters": json.dumps(list(TOKEN)),
    "put together": " + ".join(f'"{TOKEN[at : at + 8]}"' for at in range(0, len(TOKEN), 8)),
    "zero-width characters": "\u200b".join(TOKEN),
    "capitals": TOKEN.upper(),
    "backwards": TOKEN[::-1],
}


_WITH_EDGES = ("a list of letters", "put together", "decimals", "hex as C writes it")
"""What stands before the first letter and behind the last one stays there."""


@pytest.mark.parametrize("way", sorted(WRITTEN))
def test_10_a_known_value_does_not_get_through_letter_by_letter(way: str) -> None:
    said = f"it is {WRITTEN[way]} <\n"
    assert KNOWN.mask(said) == "it is [secret: DEPLOY_TOKEN] <\n" or way in _WITH_EDGES
    assert WRITTEN[way][8:-8] not in KNOWN.mask(said)
    stream = KNOWN.output_stream()
    assert WRITTEN[way][8:-8].encode() not in stream.feed(said.encode()) + stream.finish()


def test_10_ordinary_numbers_and_letters_stay_as_they_are() -> None:
    for said in (
        "00:1b:44:11:3a:b7 and 12:34:56, 0x7f, 0xff00",
        "%3A%2F%2Fexample.com%2Fa%20b",
        json.dumps({"a": "\u00fc", "b": [1, 2, 3, 250, 90, 107]}),
        "a b c d e f g h i j k l m n o p",
        "&#60;p&#62; \\x1b[0m \\033[1m",
        "\n".join(f"{number:08x}  {number * 7919:032x}" for number in range(40)),
    ):
        assert KNOWN.mask(said) == said


def test_10_other_dumps_and_colours_stay_as_they_are() -> None:
    ordinary = "".join(f"line {number} of something else\n" for number in range(50))
    for command in (
        "xxd",
        "hexdump -C",
        "od -c",
        "od",
        "grep --color=always something",
        "fold -w 7",
        "iconv -t UTF-16LE",
    ):
        printed = _piped(command, ordinary)
        assert KNOWN.mask_bytes(printed) is printed


def test_10_what_is_disguised_is_masked_in_a_stream_too() -> None:
    stream = KNOWN.output_stream()
    shown = b"".join(stream.feed(_piped(command)) for command in ("fold -w 5", "xxd", "grep --color=always Zk2m"))
    assert (shown + stream.finish()).count(b"[secret: DEPLOY_TOKEN]") >= 3


@pytest.mark.parametrize(
    "text",
    [
        "aws_access_key_id = AKIAIOSFODNN7EXAMPLE",
        "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "stripe.api_key = 'sk_test_4eC39HqLyjWDarjtT1zdp7dc'",
        "token: ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "Authorization: Bearer eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9."
        "eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIiwiaWF0IjoxNTE2MjM5MDIyfQ.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c",
    ],
)
def test_10_published_examples_are_no_secrets(text: str) -> None:
    assert SECRETS.mask(text) == text


def test_10_a_known_value_that_says_example_is_still_one() -> None:
    secrets = Secrets(known=[("MY_KEY", "AKIAIOSFODNN7EXAMPLE")])
    assert secrets.mask("id AKIAIOSFODNN7EXAMPLE") == "id [secret: MY_KEY]"


def test_10_a_mask_of_ours_is_recognised_in_a_command() -> None:
    secrets = Secrets(known=[("DEPLOY_TOKEN", TOKEN)])
    assert secrets.mask_in("echo '[secret: DEPLOY_TOKEN]' > .env") == "[secret: DEPLOY_TOKEN]"
    assert secrets.mask_in("grep -r '[secret: ' src") is None and secrets.mask_in("echo [secret: OTHER]") is None
    secrets.mask("sk_live_4eC39HqLyjWDarjtT1zdp7dc")
    assert secrets.mask_in("echo [secret: Stripe key]") == "[secret: Stripe key]"
