"""Every command that a command may run, for rules that ask or forbid: they must not be got around by a launcher.

More than is run may be found, never less of what can be known. What allows is looked up for plain parts only.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from spindle.policy.coverage import unlisted_options
from spindle.policy.danger import COPIERS, FIND_RUNS, Examination, strip_prefixes
from spindle.policy.destroyers import INTERPRETERS, OWN_LANGUAGE, git_command, run_by_git
from spindle.policy.launchers import is_launcher, launched, subcommand_at
from spindle.policy.reach_programs import PROJECT_RUNNERS
from spindle.policy.scan import MAX_DEPTH, commands_in
from spindle.policy.script_tree import MANY, UNKNOWN, Command, Script, TooMuch, read_script
from spindle.policy.variables import names_code
from spindle.policy.words import evaluates
from spindle.policy.wrappers import SHELLS, WRAPPERS, program_name, script_argument, unwrapped, without_version

MAX_COMMANDS = 5000
MAX_SCRIPT = 256 * 1024

_BRACES = re.compile(r"\{([^{}\s]*,[^{}\s]*)\}")
_RUN_A_FILE = frozenset(("source", "."))
_FED = frozenset(("parallel", "at", "batch", "ts", "tsp", "sem"))
"""Launchers that read what they run where no word says it."""
_START_FILES = frozenset(("BASH_ENV", "ENV", "ZDOTDIR", "PYTHONSTARTUP", "PERL5OPT", "NODE_OPTIONS", "RUBYOPT"))
"""Variables with a file that a program runs first."""
_NOWHERE = frozenset(("/dev/null", "/dev/stderr", "/dev/stdout", "/dev/tty", "1", "2", "&1", "&2", ""))
_LATER = (
    r"(?:=|\[\[\s[^'\n]{0,200}?)'([^']{0,2000}?(?:\$\(|`)[^']{0,2000})'|="
    r"\"((?:[^\"\\]|\\.){0,2000}?\\(?:\$\(|`)(?:[^\"\\]|\\.){0,2000})\""
)


class Within(msgspec.Struct):
    """What a command runs, and what of it cannot be told: words that hold UNKNOWN or a pattern of file names."""

    commands: list[list[str]]
    unclear: list[list[str]]
    files: list[list[str]]
    """Those of the commands that are a file which an interpreter runs, with its arguments."""
    maybe: list[list[str]]
    """What may be run besides: by options that name a program, and texts in other languages than the shell's."""
    unread: str = ""
    """The program that also runs a text which does not stand in the command."""
    functions: frozenset[str] = frozenset()
    """What the script itself defines."""


def commands_within(argv: Sequence[str]) -> list[list[str]] | None:
    """The command itself, the commands of its scripts, and what its launchers run; None when there are too many.

    A program given by its path is there by its name too.
    """
    within = look_within(argv)
    return None if within is None else within.commands


def look_within(argv: Sequence[str]) -> Within | None:
    found: dict[tuple[str, ...], bool] = {}
    files: dict[tuple[str, ...], None] = {}
    unread, functions = "", frozenset[str]()
    waiting: list[tuple[list[str], int, bool]] = [(list(argv), 0, True)]
    while waiting:
        words, depth, is_certain = waiting.pop()
        known = found.get(tuple(words)) if words else True
        if known is not None and (known or not is_certain):
            continue
        if depth > MAX_DEPTH or len(found) > MAX_COMMANDS:
            return None
        found[tuple(words)] = is_certain
        name = os.path.basename(words[0])
        for other in dict.fromkeys((name, without_version(name))):
            if other != words[0]:
                waiting.append(([other, *words[1:]], depth, is_certain))
        run = run_by(name, words)
        unread = unread or (name if run.is_unread else "")
        waiting += [(inner, depth + 1, is_certain) for inner in run.commands]
        waiting += [(inner, depth + 1, False) for inner in run.maybe]
        if name in SHELLS or name in INTERPRETERS:
            files.update((tuple(inner), None) for inner in run.commands)
        for script, is_meant in (*((one, is_certain) for one in run.scripts), *((one, False) for one in run.values)):
            inside = _commands_of(script)
            if inside is None or len(inside.commands) > MAX_COMMANDS:
                return None
            unread, functions = unread or inside.unread, functions | inside.functions
            waiting += [(words, depth + 1, is_meant) for words in inside.commands]
            waiting += [(words, depth + 1, False) for words in inside.maybe]
    certain = [list(words) for words, is_certain in found.items() if is_certain]
    maybe = [list(words) for words, is_certain in found.items() if not is_certain]
    unclear = [words for words in (*certain, *maybe) if _is_unclear(words)]
    return Within(certain, unclear, [list(words) for words in files], maybe, unread, functions)


class Run(msgspec.Struct):
    """What one command runs."""

    commands: list[list[str]] = []
    scripts: list[str] = []
    maybe: list[list[str]] = []
    values: list[str] = []
    """Values of options or settings that may be scripts."""
    is_unread: bool = False


def _is_unclear(words: Sequence[str]) -> bool:
    is_pattern = re.search(r"[*?\[]", words[0]) is not None and words[0] not in ("[", "[[")
    return is_pattern or any(UNKNOWN in word for word in words)


def run_by(name: str, words: list[str]) -> Run:
    rest = words[1:]
    scripts = evaluates(words)
    if name in WRAPPERS:
        pairs = [word.partition("=") for word in rest if "=" in word and not word.startswith("-")]
        values = [value.removeprefix("()").strip(" {}") for key, _, value in pairs if names_code(key.rstrip("%"))]
        return Run(_by_wrapper(name, words), scripts, [], values)
    if name in ("find", "fd", "fdfind"):
        acts = [at for at, word in enumerate(words) if word in FIND_RUNS]
        return Run([[word.replace("{}", UNKNOWN) for word in words[at + 1 :]] for at in acts[:100]])
    if name == "eval":
        return Run([], [" ".join(rest)])
    if name in SHELLS:
        script = script_argument(rest)
        return Run([], [script]) if script is not None else Run(_file_run(rest))
    if name in _RUN_A_FILE:
        return Run([rest])
    if name == "history" and "-s" in rest:
        return Run([rest[rest.index("-s") + 1 :]])
    if is_launcher(name):
        commands, more = _split(launched(words))
        texts, maybe, is_unread = _told(name, rest)
        is_unread = is_unread or (name in _FED and not any(not word.startswith("-") for word in rest))
        return Run(commands, [*scripts, *more, *texts], maybe, [], is_unread or name == "run-parts")
    if (at := subcommand_at(words)) is not None:
        return Run(*_split(launched(words[at:])), [], list(_option_values(words)))
    if name == "git":
        commands, more = _by_git(rest)
        return Run(commands, more, [], [*_option_values(words), *_settings(words)], "--config-env" in " ".join(rest))
    texts, maybe, is_unread = _told(name, rest)
    commands = _file_run(rest) if name in INTERPRETERS else []
    values = [] if name in OWN_LANGUAGE else [*_option_values(words), *_settings(words)]
    return Run(commands, [*scripts, *texts], maybe, values, is_unread)


def _told(name: str, rest: list[str]) -> tuple[list[str], list[list[str]], bool]:
    if name not in OWN_LANGUAGE:
        return [], [], False
    from spindle.policy.languages import told  # few commands hold a text in another language

    said = told(name, rest)
    return said.scripts, said.maybe, said.is_unread


def _by_wrapper(name: str, words: list[str]) -> list[list[str]]:
    rest = words[1:]
    inner = list(unwrapped(name, rest))
    if name == "xargs":
        # What it reads stands behind the words, or in place of a sign.
        sign = next((found[1] for word in rest if (found := re.match(r"(?:-I|-i|--replace=?)(.+)", word))), "")
        sign = sign or next((rest[at + 1] for at, word in enumerate(rest[:-1]) if word in ("-I", "-J")), "")
        if sign:
            return [one if _is_file_run(one) else [word.replace(sign, UNKNOWN) for word in one] for one in inner]
        return [[*one, UNKNOWN] for one in inner]
    # An option that we do not know may take the next word for its value.
    return inner + _split(launched(words))[0] if inner and rest[0].startswith("-") else inner


def _is_file_run(words: list[str]) -> bool:
    """A shell that is given a file; what that does is its own affair."""
    return bool(words) and program_name(words[0]) in SHELLS and script_argument(words[1:]) is None


def _option_values(words: list[str]) -> Iterator[str]:
    """Values of options that may name a program: those of unknown programs, and of known ones but the harmless."""
    for at in unlisted_options(words):
        word = words[at]
        option, equals, value = word.partition("=")
        texts = [value] if equals else words[at + 1 : at + 2]
        if option in ("-o", "--output") and "=" not in "".join(texts):
            continue  # a file that is written
        if not option.startswith("--"):
            texts += [word[start:] for start in range(2, min(len(word), 6))]
        for text in texts:
            yield from _behind_signs(text)


def _settings(words: list[str]) -> Iterator[str]:
    """Settings among the operands: `git config core.pager x`, `npm pkg set scripts.a=x`, `ext::x`."""
    command = next((word for word in words[1:] if not word.startswith("-")), "")
    if command in ("config", "pkg", "set", "set-script", "remote", "clone", "fetch", "push", "ls-remote", "pull"):
        for word in words[2:]:
            if "ext::" in word:
                yield word.partition("ext::")[2]
            elif command in ("config", "pkg", "set", "set-script") and not word.startswith("-"):
                yield from _behind_signs(word)


def _behind_signs(text: str) -> Iterator[str]:
    """`exec=x` and `alias.a=!x` are x."""
    for _ in range(4):
        text = text.lstrip("!|")
        if text and not text.startswith("-"):
            yield text
        _, equals, text = text.partition("=")
        if not equals:
            return


def _split(found: Iterable[tuple[list[str], bool]]) -> tuple[list[list[str]], list[str]]:
    commands: list[list[str]] = []
    scripts: list[str] = []
    for words, is_script in found:
        if is_script:
            scripts.append(words[0])
        else:
            commands.append(words)
    return commands, scripts


def _file_run(rest: list[str]) -> list[list[str]]:
    """`sh ./deploy` runs ./deploy."""
    at = next((at for at, word in enumerate(rest) if not word.startswith(("-", "+"))), None)
    return [] if at is None else [rest[at:]]


def _by_git(rest: list[str]) -> tuple[list[list[str]], list[str]]:
    """git's own options do not change which subcommand it is; an alias given with it may."""
    command, behind = git_command(rest)
    commands = [["git", command, *behind]] if command and rest[:1] != [command] else []
    for word in rest:
        if found := re.match(r"alias\.([^=]*)=([^!].*)", word, re.DOTALL):
            commands.append(["git", *found[2].split(), *(behind if found[1] == command else [])])
    return commands, list(run_by_git(rest))


# ---- a script as a whole -------------------------------------------------------------------------------


class _Inside(msgspec.Struct):
    commands: list[list[str]]
    maybe: list[list[str]]
    unread: str = ""
    functions: frozenset[str] = frozenset()


def _commands_of(script: str) -> _Inside | None:
    if len(script) > MAX_SCRIPT:
        return None
    script = script.replace("``", "")  # stands for nothing, and no grammar of ours reads it
    found = [without_braces(strip_prefixes(words)) for _, words in commands_in(script, 0, _runs_a_shell)]
    inside = _Inside(found, [["sh", "-c", text] for text in _evaluated(script)])
    try:
        tree = read_script(script)
    except TooMuch:
        return None
    if tree is None:
        return inside
    inside.functions = frozenset(tree.functions)
    for command in tree.commands:
        for name in command.names:
            if MANY in name:
                return None
            words = strip_prefixes([*(name.split() if " " in name and UNKNOWN not in name else [name]), *command.words])
            found.append(without_braces(words))
            if "IFS=" in script and not re.fullmatch(r"[\w./+-]*", name):
                inside.maybe.append([*re.split(r"[^\w./+-]+", name), *command.words])
    for name, values in tree.values.items():
        if names_code(name):
            known = [value for value in values if UNKNOWN not in value and MANY not in value]
            inside.maybe += [["sh", "-c", text] for value in known for text in _behind_signs(value.strip("'"))]
    examination = Examination()
    texts = list(dict.fromkeys(examination.texts_of(tree)))
    if examination.runs_its_own_text(tree):
        found += [["sh", "-c", text] for text in texts]
    elif tree.written - _NOWHERE and (
        any(_runs_files(command) for command in tree.commands) or not _START_FILES.isdisjoint(tree.values)
    ):
        inside.maybe += [["sh", "-c", text] for text in texts]
    inside.maybe += _copies(tree)
    _fed(tree, texts, examination, inside)
    return inside


def _copies(tree: Script) -> list[list[str]]:
    """`cp a b; ./b` runs a."""
    run = {os.path.basename(word) for one in tree.commands for word in (*one.names, *one.words[:1])}
    writers = [one for one in tree.commands if not COPIERS.isdisjoint(one.names)]
    copied = [one.words for one in writers if one.words and os.path.basename(one.words[-1]) in run]
    return [[word] for words in copied for word in words[:-1] if not word.startswith("-")]


def _runs_files(command: Command) -> bool:
    return any(os.path.basename(name) in PROJECT_RUNNERS for name in command.names)


def _fed(tree: Script, texts: list[str], examination: Examination, inside: _Inside) -> None:
    """What reaches a shell or an interpreter through its input, or in a file that the script writes."""
    from spindle.policy.languages import LANGUAGES, reads_programs  # only for scripts, where rules or losses matter

    for command in tree.commands:
        name = examination.program([*command.names[:1], *command.words])
        words = command.words
        is_shell = examination.reads_commands([*command.names[:1], *words])
        if not is_shell and name not in OWN_LANGUAGE and name not in _FED:
            continue
        files = {os.path.basename(path) for path in tree.written}
        written = any(os.path.basename(word) in files for word in words) or _reads_unknown_file(words)
        is_fed = is_shell or name in _FED or reads_programs(name, words)
        for text in texts if name in LANGUAGES and (is_fed or written) else ():
            said = LANGUAGES[name].read(text)
            inside.commands += [["sh", "-c", one] for one in said.scripts]
            inside.maybe += said.maybe
            inside.unread = inside.unread or (name if said.is_unread else "")
        if is_fed and command.pipeline is not None:
            before = [one for one in tree.commands if one.pipeline == command.pipeline and one.start < command.start]
            if before and not all(_says_what_it_says(one) for one in before):
                inside.unread = inside.unread or name


def _reads_unknown_file(words: list[str]) -> bool:
    """`-f <(…)`, or an interpreter's file of that kind."""
    at = next((at for at, word in enumerate(words) if word == UNKNOWN), None)
    return at is not None and (at == 0 or re.fullmatch(r"-\w*[fSx]|--\w*file", words[at - 1]) is not None)


def _says_what_it_says(command: Command) -> bool:
    """Does a command before a pipe only hand on texts that stand in the script, or a file?"""
    name, words = "".join(command.names[:1]), command.words
    if name == "echo":
        return not any(re.search(r"\\[0-7xuUc]", word) for word in words)
    if name == "printf":
        return not re.search(r"%[^%]|\\[0-7xuUc]", "".join(words)) or (len(words) == 2 and "%s" in words[0])
    return name in ("cat", "true", "cd", "sleep", "yes") and not any(UNKNOWN in word for word in words)


def _evaluated(script: str) -> Iterator[str]:
    """Commands in texts that are quoted, and that a shell evaluates later: an index in arithmetic, a prompt."""
    for quoted in re.finditer(_LATER, script[:MAX_SCRIPT]):
        text = next(filter(None, quoted.groups()), "").replace("\\$", "$").replace("\\`", "`")
        for part in re.split(r"\$\(|`", text)[1:]:
            yield part.partition(")")[0]


def without_braces(words: list[str]) -> list[str]:
    """`{git,push}` is two words, and so is `{git,}push` in its way."""
    if words and re.fullmatch(r"[^{}]*,[^{}]*\}", words[0]):
        words = ["{" + words[0], *words[1:]]  # a brace at the beginning is taken for that of a group
    if not any("{" in word and "," in word for word in words):
        return words
    whole: list[str] = []
    for word in words[:200]:
        braces = _BRACES.search(word) if len(word) < 2000 else None
        if braces is None:
            whole.append(word)
        else:
            start, end = word[: braces.start()], word[braces.end() :]
            whole += [start + choice + end for choice in braces[1].split(",")[:200] if start + choice + end]
    return whole


def _runs_a_shell(words: list[str]) -> bool:
    return any(program_name(word) in SHELLS for word in words)
