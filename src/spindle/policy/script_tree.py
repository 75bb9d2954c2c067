"""A shell script read by its parse tree: its commands, with variables replaced by what the script puts into them.

Nothing is run. A variable has all the values the script assigns anywhere; what cannot be known is `UNKNOWN` in a word.
The order of statements does not matter here: this looks for what may happen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from spindle.policy.shell_tree import Tree, parse

if TYPE_CHECKING:
    from tree_sitter import Node

UNKNOWN = "\0"
"""Stands in a word where the script does not tell what a shell would put there."""
MAX_HEREDOCS = 300
MANY = "\1"
"""Stands for a word that may be more things than are looked at."""
MAX_ALTERNATIVES = 256
MAX_WORK = 2_000_000

_ANSI = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}
_INTERESTING = frozenset(
    (
        *("command", "variable_assignment", "for_statement", "function_definition", "declaration_command"),
        *("heredoc_body", "herestring_redirect", "file_redirect"),
    )
)
_EXPANSIONS = frozenset(("simple_expansion", "expansion"))
_SUBSTITUTIONS = frozenset(("command_substitution", "process_substitution"))


class TooMuch(Exception):
    """There is more in the script than is looked at."""


class Command(msgspec.Struct):
    """One command: what its first word may be, the words behind it, and where it stands."""

    names: list[str]
    words: list[str]
    start: int
    end: int
    pipeline: int | None = None
    """Where the pipeline begins that it is part of."""


class Script(msgspec.Struct):
    commands: list[Command]
    bodies: list[str]
    """Here-documents and here-strings."""
    written: set[str]
    """Files that redirections write."""
    values: dict[str, list[str]]
    """What the script puts into variables."""
    functions: set[str]


def read_script(
    script: str,
    known: Mapping[str, list[str]] | None = None,
    output_of: Callable[[str], list[str] | None] = lambda _: None,
) -> Script | None:
    """None when there is no tree. Raises TooMuch when it is too big to be looked at in full.

    `known` are values of variables that the script itself does not set; `output_of` tells what a command in it would
    print, where that is known.
    """
    if script.count("<<") > MAX_HEREDOCS:
        raise TooMuch
    tree = parse(script)
    return None if tree is None else _Reader(tree, known or {}, output_of).read()


class _Reader:
    def __init__(
        self, tree: Tree, known: Mapping[str, list[str]], output_of: Callable[[str], list[str] | None]
    ) -> None:
        self._output_of = output_of
        self._root = tree.root
        self._text = tree.text
        self._values: dict[str, list[str]] = {name: list(values) for name, values in known.items()}
        self._functions: set[str] = set()
        self._references = set(re.findall(r"\b(?:declare|local|typeset)\s+-\w*n\w*\s+(\w+)=", tree.script))
        """Variables that stand for the one they name."""
        self._work = 0

    def read(self) -> Script:
        found = Script([], [], set(), self._values, set())
        nodes = list(self._interesting())
        self._functions = {
            self._text(name) for node, _ in nodes if node.type == "function_definition" for name in node.children[:2]
        } - {"function"}
        found.functions = self._functions
        # A value may be made of other variables; three rounds see through three of them.
        for _ in range(3):
            before = sum(map(len, self._values.values()))
            for node, _ in nodes:
                self._note_values(node)
            if sum(map(len, self._values.values())) == before:
                break
        for node, pipeline in nodes:
            if node.type == "command":
                names, words = self._command(node)
                if names:
                    found.commands.append(Command(names, words, node.start_byte, node.end_byte, pipeline))
            elif node.type == "declaration_command":
                words = [word for child in node.children for word in self._alternatives(child)]
                found.commands.append(Command(words[:1], words[1:], node.start_byte, node.end_byte, pipeline))
            elif node.type == "heredoc_body":
                found.bodies.append(self._text(node))
            elif node.type == "herestring_redirect":
                found.bodies += [word for child in node.children[1:] for word in self._alternatives(child)]
            elif node.type == "file_redirect" and node.children:
                found.written.update(self._alternatives(node.children[-1]))
        return found

    def _interesting(self) -> Iterator[tuple[Node, int | None]]:
        """The nodes that matter, in order, each with the beginning of the pipeline around it."""
        waiting: list[tuple[Node, int | None]] = [(self._root, None)]
        while waiting:
            node, pipeline = waiting.pop()
            if node.type in _INTERESTING:
                yield node, pipeline
            if node.type == "pipeline" and pipeline is None:
                pipeline = node.start_byte
            elif node.type in _SUBSTITUTIONS:
                pipeline = None
            waiting += [(child, pipeline) for child in reversed(node.children)]

    # -- values

    def _note_values(self, node: Node) -> None:
        if node.type == "variable_assignment" and node.child_count >= 2:
            name = re.match(r"\w*", self._text(node.children[0]))
            value = node.children[-1]
            if value.type == "array":
                words = [word for child in value.children[1:-1] for word in self._alternatives(child)]
                self._add(name[0] if name else "", [" ".join(words), *words])
            else:
                values = self._alternatives(value)
                if node.children[1].type == "+=":
                    # Once is enough to find a word that is put together, and more would never end.
                    grown = [old + new for old in self._values.get(name[0] if name else "", ()) for new in values]
                    values = [*values, *grown[:MAX_ALTERNATIVES]]
                self._add(name[0] if name else "", values)
        elif node.type == "for_statement":
            listed = [
                child for child in node.children if child.type not in ("for", "in", "select", ";", "do_group", "\n")
            ]
            if listed:
                self._add(self._text(listed[0]), [word for child in listed[1:] for word in self._alternatives(child)])
        elif node.type == "command":
            self._note_arguments(node)

    def _note_arguments(self, node: Node) -> None:
        """What reaches `$@` or a variable by a command: `set -- …`, the call of a function, `read`, `printf -v`."""
        names, words = self._command(node)
        for name in names:
            if name in self._functions or name == "set":
                given = words[1:] if words[:1] == ["--"] else words
                if name != "set" or given is not words or not "".join(words[:1]).startswith(("-", "+")):
                    self._add("@", [" ".join(given), *given])
            elif name == "read":
                given = [
                    word
                    for child in node.children
                    if child.type == "herestring_redirect"
                    for word in self._texts(child)
                ]
                for variable in words:
                    self._add(variable, given)
            elif name == "printf" and "-v" in words[:-1]:
                at = words.index("-v") + 1
                self._add(words[at], [*words[at + 1 :], _formatted(words[at + 1 :])])
            elif name == "alias":
                for word in words:
                    alias, is_one, value = word.partition("=")
                    if is_one:
                        self._add(f"alias {alias}", [value])

    def _texts(self, redirect: Node) -> list[str]:
        return [
            piece for child in redirect.children[1:] for word in self._alternatives(child) for piece in word.split()
        ]

    def _add(self, name: str, values: list[str]) -> None:
        known = self._values.setdefault(name, [])
        for value in values:
            if value not in known:
                known.append(value)
                self._spend(len(value) + len(known))

    def _spend(self, amount: int) -> None:
        self._work += amount
        if self._work > MAX_WORK:
            raise TooMuch

    # -- words

    def _command(self, node: Node) -> tuple[list[str], list[str]]:
        """What the first word may be, and all words behind it; a variable with several values gives several words."""
        names: list[str] | None = None
        words: list[str] = []
        for child in node.children:
            if child.type in ("variable_assignment", "herestring_redirect", "file_redirect", "heredoc_redirect"):
                continue
            found = self._alternatives(child.children[0] if child.type == "command_name" and child.children else child)
            if names is None:
                names = [value for name in found for value in (name, *self._values.get(f"alias {name}", ()))]
            else:
                words += [piece for word in found for piece in (word, *_split(word, child))]
        return names or [], words

    def _alternatives(self, node: Node) -> list[str]:
        """What a word may be."""
        self._spend(1)
        kind = node.type
        if kind in _EXPANSIONS:
            return self._variable(node)
        if kind in ("string", "concatenation", "translated_string", "command_name"):
            return self._joined(node)
        if kind == "raw_string":
            return [self._text(node)[1:-1]]
        if kind == "ansi_c_string":
            return [_ansi(self._text(node)[2:-1])]
        if kind in ("word", "number", "string_content", "variable_name", "special_variable_name"):
            return [re.sub(r"\\(.?)", lambda found: found[1].strip("\n"), self._text(node), flags=re.DOTALL)]
        if kind == "command_substitution":
            text = self._text(node)
            return self._output_of(text[2:-1] if text.startswith("$(") else text[1:-1]) or [UNKNOWN]
        if kind in _SUBSTITUTIONS or kind == "arithmetic_expansion":
            return [UNKNOWN]
        if not node.is_named and kind in ('"', "$", '$"'):
            return [""]
        return [self._text(node)]

    def _joined(self, node: Node) -> list[str]:
        found = [""]
        end = node.start_byte
        for child in node.children:
            # The grammar leaves blanks between pieces of a string out.
            gap = " " if node.type == "string" and child.start_byte > end else ""
            end = child.end_byte
            pieces = self._alternatives(child)
            if len(found) * len(pieces) > MAX_ALTERNATIVES:
                return [MANY]
            found = [start + gap + piece for start in found for piece in pieces]
            self._spend(sum(map(len, found)))
        return found

    def _variable(self, node: Node) -> list[str]:
        text = self._text(node).strip()
        name = re.match(r"\$\{?[#!]?([@*#?!$-]|\w+)", text)
        if name is None:
            return [UNKNOWN]
        is_argument = name[1] in "@*" or name[1].isdigit()
        found = list(self._values.get("@" if is_argument else name[1], ()))
        if name[1] in self._references:
            found += [value for other in list(found) for value in self._values.get(other, ())]
        # `${x:-rm}` and its kin carry a value of their own.
        if default := re.match(r"\$\{\w+:?[-=+]([^}]*)\}", text):
            found.append(default[1].strip("'\""))
        is_plain = re.fullmatch(r"\$(\w+|[@*]|\{(\w+|[@*])(\[[@*\d]+\])?\})", text) is not None
        if not found or not is_plain:
            found.append(UNKNOWN)
        return found if len(found) <= MAX_ALTERNATIVES else [MANY]


def _formatted(words: list[str]) -> str:
    """What printf makes of a format and its words, as far as that is plain."""
    values = iter(words[1:])
    text = re.sub(r"%[sbqd]", lambda _: next(values, ""), "".join(words[:1]))
    return UNKNOWN if "%" in text else text


def _split(word: str, node: Node) -> list[str]:
    """The pieces a shell makes of a word with a variable in it; the whole word is looked at too."""
    if " " in word and (node.type in _EXPANSIONS or any(child.type in _EXPANSIONS for child in node.children)):
        return word.split()
    return []


def _ansi(text: str) -> str:
    """What stands between `$'` and `'`, decoded."""

    def one(found: re.Match[str]) -> str:
        code = found[1]
        if code[0] in "xuU":
            value = int(code[1:], 16)
            return chr(value) if 0 < value < 0x110000 and not 0xD800 <= value < 0xE000 else UNKNOWN
        if code[0] in "01234567":
            return chr(int(code, 8) % 256 or 0)
        return _ANSI.get(code, code)

    return re.sub(r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|.)", one, text, flags=re.DOTALL)
