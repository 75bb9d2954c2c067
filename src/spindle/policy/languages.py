"""What programs with a language of their own are told to run, by a text among their words or through their input.

An editor, a stream editor, a database shell or an interpreter can start programs, and most texts for it do not. So a
text counts only where its language could start something by it. `Told` has what can be read out of it: scripts for a
shell that are certain, commands that may be meant, and whether something is run that only running it would tell.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import msgspec

_MOST_WORDS = 40
_MOST_TEXT = 100_000
_MOST_TOKENS = 100
# Patterns are texts here: they are compiled with the first command that needs one, and not when the policy is loaded.
_SIGNS = r"[^\s\"'`(){}\[\];,!|&<>$@:]+"
_QUOTED = r"\"((?:[^\"\\\n]|\\.){0,500})\"|'((?:[^'\\\n]|\\.){0,500})'|`([^`\n]{1,500})`"
_LITERAL = r"(?:[rbu]?\"(?:[^\"\\\n]|\\.){0,500}\"|[rbu]?'(?:[^'\\\n]|\\.){0,500}')"
_LIST = rf"{_LITERAL}(?:\s*,\s*{_LITERAL})+"
_WORD_LIST = r"(?:\bqw?|%w|\bqq|\bqx|%x)\s*[\[({</|!]([^\])}>/|!\n]{1,500})"
_CALLS = (
    r"system|popen|subprocess|\bexec|spawn|\brun\(|`|\bqx\b|%x|do shell script|rmtree|shell|\bopen\b[^;\n]*\||"
    r"__import__|getattr|\beval\b|fork|\bpty\b"
)
_STARTS = (
    r"\b(?:system|popen2?|Popen|check_output|check_call|getoutput|getstatusoutput|exec(?:[lv]p?e?|Sync|File(?:Sync)?)?|"
    r"spawn(?:[lv]p?e?|Sync)?|posix_spawnp?|shell_exec|passthru|proc_open|subprocess\.(?:run|call)|eval|getattr|"
    r"instance_eval)\b(?=\s*[\w(\"'\[$q%])"
)
_IS_PLAIN = rf"\s*\(?\s*[\[(]?\s*(?:{_LITERAL}|q[wqx]?\W|%w)(?!\s*[+.%*]|\s+[\"'$])"


class Told(msgspec.Struct):
    """What a program is told to run."""

    scripts: list[str]
    """Lines for a shell, as far as they can be read."""
    maybe: list[list[str]]
    """Commands that a text may mean."""
    is_unread: bool = False
    """It also runs what cannot be read here."""

    def add(self, other: Told) -> None:
        self.scripts += other.scripts
        self.maybe += other.maybe
        self.is_unread = self.is_unread or other.is_unread


def nothing() -> Told:
    return Told([], [])


def told(name: str, words: Sequence[str]) -> Told:
    """What the words behind the name of a program tell it to run."""
    found = nothing()
    language = LANGUAGES.get(name)
    if language is None:
        return found
    for text in language.texts(list(words)):
        found.add(language.read(text[:_MOST_TEXT]))
    return found


def read_input(name: str, words: Sequence[str], text: str) -> Told:
    """What a program with these words does with a text that it reads from its input or from a file just written."""
    language = LANGUAGES.get(name)
    return language.read(text[:_MOST_TEXT]) if language is not None and _takes_input(name, words) else nothing()


def reads_programs(name: str, words: Sequence[str]) -> bool:
    """Does it take the program it is to run from its input?"""
    return name in LANGUAGES and _takes_input(name, words)


class Language(msgspec.Struct, frozen=True):
    """How one kind of program is told what to run."""

    texts: Callable[[list[str]], Iterator[str]]
    read: Callable[[str], Told]
    is_fed: Callable[[list[str]], bool]


# ---- which words are a program's text ------------------------------------------------------------------


def _every(words: list[str]) -> Iterator[str]:
    yield from words[:_MOST_WORDS]


def _values(
    options: str, *, first: bool = False, prefix: str = "", others: str = ""
) -> Callable[[list[str]], Iterator[str]]:
    """Texts are the values of these options (`-e`, `--expression`), words with the prefix, and where no option gives
    one, the first operand. `others` are options with a value that is none."""
    wanted, passed = options.split(), others.split()

    def texts(words: list[str]) -> Iterator[str]:
        is_given, operands, skip = False, list[str](), False
        for at, word in enumerate(words[: _MOST_WORDS * 5]):
            if skip:
                skip = False
                continue
            if word in passed:
                skip = True
                continue
            option, equals, value = word.partition("=")
            glued = next((one for one in wanted if len(one) == 2 and _is_glued(word, one[1])), "")
            if word in wanted or (word.startswith("-") and not equals and glued and word.endswith(glued[1])):
                is_given = skip = True
                yield "".join(words[at + 1 : at + 2])
            elif equals and option in wanted:
                is_given = True
                yield value
            elif glued:
                is_given = True
                yield word[word.index(glued[1]) + 1 :]
            elif prefix and word.startswith(prefix) and len(word) > 1:
                yield word[1:]
            elif not word.startswith("-"):
                operands.append(word)
        if first and not is_given:
            yield from operands[:1]

    return texts


def _is_glued(word: str, letter: str) -> bool:
    return re.match(rf"-[A-Za-df-z]{{0,4}}?{letter}", word) is not None and not word.startswith("--")


# ---- what the texts run --------------------------------------------------------------------------------


def _tokens(text: str) -> list[list[str]]:
    """Every word of a text, with those behind it, may be a command."""
    words = re.findall(_SIGNS, text)[:_MOST_TOKENS]
    return [words[at:] for at in range(len(words))]


def _small(runs: str, unread: str = r"(?!)") -> Callable[[str], Told]:
    """A small language: where this can be found in a text, its words may be a command."""

    def read(text: str) -> Told:
        if re.search(runs, text) is None:
            return nothing()
        return Told([], _tokens(text), re.search(unread, text) is not None)

    return read


def _code(text: str) -> Told:
    """Of languages that have functions for it: quoted texts, and lists of them, in code that calls such a function."""
    if re.search(_CALLS, text) is None:
        return nothing()
    found = [next(filter(None, one.groups()), "") for one in re.finditer(_QUOTED, text)]
    found += [" ".join(re.findall(_LITERAL, one[0])) for one in re.finditer(_LIST, text)]
    found += [one[1] for one in re.finditer(_WORD_LIST, text)]
    scripts = [_unescaped(one.strip().strip("|").strip()) for one in found]
    return Told([one for one in dict.fromkeys(scripts) if one], [], _computes(text))


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda one: {"n": "\n", "t": "\t"}.get(one[1], one[1]), text)


def _computes(text: str) -> bool:
    """Is what it starts put together by the code itself?"""
    return any(re.compile(_IS_PLAIN).match(text, call.end()) is None for call in re.finditer(_STARTS, text)) or bool(
        re.search(r"\bopen\b[^;\n]*[\"']\s*(?:-\||\|-)\s*[\"']\s*,\s*[^\"'\s]", text)
    )


_AWK_TOKEN = r"(?s)\"((?:[^\"\\]|\\.)*)\"|(?<=[({,~!&|;\n])\s*/(?:[^/\\\n]|\\.)+/|#[^\n]*|\|\||."
_AWK_RUNS = r"system\s*\(\s*(\0\d+\0)?\s*(\))?|(\0\d+\0)?\s*\|&?\s*(?:getline|(\0\d+\0)?\s*([;}\n]|$)?)"


def _awk(text: str) -> Told:
    """`system(…)`, `"…" | getline` and `print | "…"`."""
    strings: list[str] = []

    def plain(token: re.Match[str]) -> str:
        if token[1] is not None:
            strings.append(token[1])
            return f"\0{len(strings) - 1}\0"
        return " " if len(token[0]) > 1 else token[0]

    found = nothing()
    for run in re.finditer(_AWK_RUNS, re.sub(_AWK_TOKEN, plain, f"{{{text}")):
        if run[0].startswith("system"):
            place, is_plain = run[1], bool(run[1] and run[2])
        elif run[0].rstrip().endswith("getline"):
            place = run[3]
            is_plain = bool(place) and not re.search(r"\0\s*$|\w\s*$", run.string[: run.start()])
        else:
            place, is_plain = run[4], bool(run[4] and run[5] is not None)
        if place:
            found.scripts.append(_unescaped(strings[int(place.strip("\0"))]))
        found.is_unread = found.is_unread or not is_plain
    return found


_SED_ADDRESS = r"(?:\d+(?:~\d+)?|\$|/(?:[^/\\\n]|\\.)*/[IM]*|\\(.)(?:(?!\1)[^\\\n]|\\.)*\1[IM]*)"
_SED_COMMAND = rf"[\s;{{}}]*(?:{_SED_ADDRESS}\s*(?:,\s*(?:{_SED_ADDRESS}|[+~]\d+)\s*)?)?!*\s*(?P<name>[a-zA-Z=:#}}{{])"


def _sed(text: str) -> Told:
    """The command `e`, with or without a line of its own, and the flag `e` of `s`."""
    found, at = nothing(), 0
    while (command := re.compile(_SED_COMMAND).match(text, at)) is not None:
        name, at = command["name"], command.end()
        line_end = text.find("\n", at)
        line_end = len(text) if line_end < 0 else line_end
        if name == "e":
            script = text[at:line_end].strip()
            if not script or script[0] in ";}":
                found.is_unread = True  # what the line of the input says
            found.scripts += [script] if script else []
            at = line_end
        elif name in "sy":
            end = _behind_parts(text, at)
            flags = re.compile(r"[0-9gpiImMe]*").match(text, end)
            if name == "s" and flags is not None and "e" in flags[0]:
                found.is_unread = True
            at = len(text) if flags is None else flags.end()
            if text[at : at + 1] == "w":
                at = line_end
        elif name in "aicrRwW:btTvq#lLQ":
            stop = re.compile(r"\n" if name in "aicrRwW#" else r"[\n;}]").search(text, at)
            at = len(text) if stop is None else stop.start()
    return found


def _behind_parts(text: str, at: int) -> int:
    """Where `s/…/…/` ends, whatever separates its parts."""
    separator, left = text[at : at + 1], 2
    at += 1
    while at < len(text) and left:
        if text[at] == "\\":
            at += 1
        elif text[at] == separator:
            left -= 1
        at += 1
    return at


# ---- the programs --------------------------------------------------------------------------------------


def _always(_: list[str]) -> bool:
    return True


def _never(_: list[str]) -> bool:
    return False


def _has_no_operand(words: list[str]) -> bool:
    """An interpreter without a file, or with `-` for one, reads its program."""
    return all(word.startswith("-") for word in words) and not any(
        re.fullmatch(r"-[A-Za-z]*[cemMr].*|--eval.*|--print.*|--version|--help|-V|-h", word) for word in words
    )


def _reads_file_of_input(words: list[str]) -> bool:
    return any(
        word in ("-f-", "--file=-") or (word in ("-f", "--file") and words[at + 1 : at + 2] in (["-"], ["/dev/stdin"]))
        for at, word in enumerate(words)
    )


def _takes_input(name: str, words: Sequence[str]) -> bool:
    return LANGUAGES[name].is_fed(list(words))


_EDITOR = Language(
    _values("-c --cmd -S", prefix="+"),
    _small(r"!|system|term|job_start|jobstart|exe|py|lua|perl|ruby|tcl|mzs|source|norm", r"\bexe|nr2char"),
    lambda words: any(re.match(r"-\w*[esE]", word) for word in words),
)
_CODE = Language(_every, _code, _has_no_operand)
_DATABASE = Language(_every, _small(r"\.(?:sh|sy|once|output|import|excel)|\\!|\bsystem\b|\\[go]\s*\|"), _always)
_TEXT = Language(_values("-e --expression --eval", first=False), _small(r"!|syscmd|esyscmd|shell|exec"), _always)
_AWK = Language(_values("-e --source", first=True, others="-v -F -f -i -l --assign"), _awk, _reads_file_of_input)
_SED = Language(_values("-e --expression", first=True), _sed, _reads_file_of_input)
_DEBUGGER = Language(_values("-ex --eval-command -iex -x -o"), _small(r"!|sh|py|pipe"), _always)
_MAKE = Language(
    lambda words: (
        part
        for word in words[: _MOST_WORDS * 5]
        for part in (word.partition("=")[2] if "=" in word else word,)
        if "=" in word or re.search(r"[$:;]", part)
    ),
    lambda text: Told([], _tokens(text)),
    _reads_file_of_input,
)
LANGUAGES: dict[str, Language] = {
    **dict.fromkeys(("vi", "vim", "view", "rvim", "vimdiff", "gvim", "nvim", "vim.basic", "vim.tiny"), _EDITOR),
    "ex": msgspec.structs.replace(_EDITOR, is_fed=_always),
    **dict.fromkeys(("emacs", "emacsclient"), Language(_every, _small(r"shell|process|compile|term"), _never)),
    **dict.fromkeys(("sed", "gsed", "ssed"), _SED),
    **dict.fromkeys(("awk", "gawk", "mawk", "nawk", "original-awk"), _AWK),
    **dict.fromkeys(("sqlite3", "sqlite", "psql", "mysql", "mariadb", "redis-cli"), _DATABASE),
    **dict.fromkeys(("m4", "dc", "ed", "red", "bc", "ftp", "lftp", "telnet", "gnuplot", "octave"), _TEXT),
    **dict.fromkeys(
        ("gdb", "lldb"), Language(_values("-ex --eval-command -iex -x -o"), _small(r"!|sh|py|pipe"), _always)
    ),
    **dict.fromkeys(("tclsh", "wish", "expect"), Language(_every, _small(r"exec|spawn|open|system"), _has_no_operand)),
    **dict.fromkeys(("make", "gmake"), _MAKE),
    **dict.fromkeys(("less", "more", "most"), Language(_values("", prefix="+"), _small(r"!|\|"), _never)),
    **dict.fromkeys(
        (
            *("python", "python2", "python3", "pypy3", "perl", "ruby", "node", "nodejs", "deno", "bun", "php", "lua"),
            *("osascript", "Rscript", "julia", "guile", "groovy"),
            *(f"python3.{minor}" for minor in range(6, 20)),
        ),
        _CODE,
    ),
}
