"""Programs that run another one and whose options are known: what they run, as lists of words."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

SHELLS = frozenset(("bash", "zsh", "sh", "dash", "ksh", "ash", "fish", "rbash", "mksh", "csh", "tcsh"))
_VERSIONED = (
    r"(bash|dash|zsh|ksh|fish|perl|python|pypy|ruby|php|luajit|lua|tclsh|wish|nodejs|node|guile|julia)-?\d[\w.+-]*"
)


def program_name(word: str) -> str:
    """`/usr/bin/perl5.36.0` is perl."""
    return without_version(os.path.basename(word))


def without_version(name: str) -> str:
    """`perl5.36.0` is perl and `bash-5.2` bash: systems give many interpreters a second name with their version."""
    found = None if name.isalpha() else re.fullmatch(_VERSIONED, name)
    return name if found is None else found[1]


_WITH_VALUE: dict[str, str] = {
    # Single-letter options that take the next word as their value.
    "env": "uCSP",
    "nice": "n",
    "timeout": "ks",
    "xargs": "aEILnPsdJRS",
    "sudo": "ugpCrtTUhDR",
    "doas": "uC",
    "ionice": "cnpPu",
    "stdbuf": "ioe",
    "exec": "a",
    "time": "fo",
    "caffeinate": "tw",
}
_OPERANDS_FIRST = {"timeout": 1, "chroot": 1}
_LONG_WITHOUT_VALUE = frozenset(
    (
        *(
            "--ignore-environment",
            "--null",
            "--debug",
            "--foreground",
            "--preserve-status",
            "--verbose",
            "--no-run-if-empty",
        ),
        *(
            "--interactive",
            "--open-tty",
            "--exit",
            "--background",
            "--preserve-env",
            "--set-home",
            "--login",
            "--shell",
        ),
        *("--non-interactive", "--stdin", "--preserve-groups", "--edit", "--list", "--validate", "--askpass", "--bell"),
    )
)
WRAPPERS = frozenset(("command", "builtin", "nohup", "busybox", "toybox", "setsid", "chroot", *_WITH_VALUE))


def unwrapped(name: str, words: list[str]) -> Iterator[list[str]]:
    """The commands that a wrapper with these arguments may run."""
    if name == "command" and any(re.fullmatch(r"-\w*[vV]\w*", word) for word in words[:1]):
        return  # it only tells what it would run
    at, valued, operands = 0, _WITH_VALUE.get(name, ""), _OPERANDS_FIRST.get(name, 0)
    maybe_value = False
    while at < len(words):
        word = words[at]
        if word == "--":
            yield words[at + 1 + operands :]
            return
        if word.startswith("-") and len(word) > 1:
            if name == "env" and (split := _split_string(words, at)) is not None:
                yield split
                return
            at += 1
            if word.startswith("--"):
                maybe_value = "=" not in word and word not in _LONG_WITHOUT_VALUE
            else:
                at += _takes_next_word(word, valued)
            continue
        if operands and not maybe_value:
            operands -= 1
            at += 1
            continue
        yield words[at:]
        if not maybe_value and not (name in ("env", "sudo", "doas") and re.match(r"[A-Za-z_]\w*=", word)):
            return
        maybe_value = False
        at += 1


def _takes_next_word(cluster: str, valued: str) -> bool:
    """Whether the value of a cluster's option is the next word. If not, it stands in the same word, behind the
    letter."""
    return next((at == len(cluster) - 1 for at, letter in enumerate(cluster) if at and letter in valued), False)


def _split_string(words: list[str], at: int) -> list[str] | None:
    """`env -S 'a b'`, also in a cluster, or with the text behind it: the words it makes."""
    word = words[at]
    if found := re.match(r"--s[a-z-]*(=?)(.*)", word, re.DOTALL):
        if not "--split-string".startswith(word.split("=", 1)[0]):
            return None
        text, rest = (found[2], words[at + 1 :]) if found[1] else (" ".join(words[at + 1 : at + 2]), words[at + 2 :])
    elif found := re.match(r"-[A-RT-Za-z0-9]*S(.*)", word, re.DOTALL):
        text, rest = (found[1], words[at + 1 :]) if found[1] else (" ".join(words[at + 1 : at + 2]), words[at + 2 :])
    else:
        return None
    # env knows quotes, backslashes and \_ for a blank; here they only separate.
    return ["env", *re.sub(r"\\_|\\[cfnrtv]", " ", text).replace("'", "").replace('"', "").split(), *rest]


def script_argument(words: list[str]) -> str | None:
    """The script of a nested shell: the word behind a cluster of flags that holds `c`."""
    for at, word in enumerate(words):
        if word.startswith("--command="):
            return word.partition("=")[2]
        is_script = word == "--command" or (word[:1] in "-+" and not word.startswith("--") and "c" in word)
        if is_script and len(word) > 1:
            # Options may still follow: `bash -c -x script`.
            return next((later for later in words[at + 1 :] if not later.startswith(("-", "+"))), None)
        if not word.startswith(("-", "+")) and (at == 0 or words[at - 1] not in ("-o", "-O", "+o", "+O", "--rcfile")):
            return None
    return None


def reads_its_input(words: list[str]) -> bool:
    """A shell with these arguments takes its commands from what is piped into it."""
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word in ("-o", "-O", "+o", "+O", "--rcfile", "--init-file"):
            skip = True
        elif word in ("-", "/dev/stdin", "/proc/self/fd/0") or re.match(r"-[a-bd-z]*s", word):
            return True
        elif not word.startswith(("-", "+")) or re.match(r"-[a-z]*c", word):
            return False
    return "--version" not in words and "--help" not in words
