"""Shell scripts as a parse tree. The parser is loaded with the first command, and only here.

The tree is a second opinion, never the only one: a shell and this grammar may disagree about odd input. What is taken
for harmless must look so to a strict reader of the raw characters too (`words.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_SCRIPT = 256 * 1024

_OPERATORS = frozenset(("&&", "||", ";", "|"))
_GROUPS = frozenset(("program", "list", "pipeline"))


@cache
def _parser() -> Parser:
    from tree_sitter import Language, Parser  # loading costs a moment, which the first answer does not wait for

    return Parser(Language(_grammar()))


def _grammar() -> object:
    """The grammar, without what its package imports for other purposes: that takes ten times as long."""
    from importlib.machinery import PathFinder  # with the first command, like the parser

    package = PathFinder.find_spec("tree_sitter_bash")
    places = package.submodule_search_locations if package else None
    spec = PathFinder.find_spec("tree_sitter_bash._binding", places) if places else None
    if spec is not None and spec.loader is not None and (binding := spec.loader.create_module(spec)) is not None:
        spec.loader.exec_module(binding)
        return binding.language()
    import tree_sitter_bash  # slow; only where its binding cannot be loaded by itself

    return tree_sitter_bash.language()


class Tree(NamedTuple):
    """A script and its tree. Take texts from here: the parser has seen another script."""

    root: Node
    script: str

    def text(self, node: Node) -> str:
        return self.script[node.start_byte : node.end_byte]


def parse(script: str) -> Tree | None:
    """The script's tree; None for what cannot be parsed at all. Look at `root.has_error` before trusting it.

    The parser is given ASCII only, one byte for each character: the grammar looks characters up in a table of that size
    without asking whether they are in it, and a blank of another alphabet is a letter to a shell.
    """
    if len(script) > MAX_SCRIPT or "\0" in script:
        return None
    source = re.sub(r"[^\x00-\x7f]", "_", script).encode("ascii")
    return Tree(_parser().parse(source).root_node, script)


def plain_commands(script: str) -> list[tuple[str, list[str]]] | None:
    """Each command with the operator before it, if the whole tree is plain words and plain operators; else None."""
    tree = parse(script)
    if tree is None or tree.root.has_error or tree.root.type != "program":
        return None
    found: list[tuple[str, list[str]]] = []
    operator = ""
    for node in _leaves(tree.root):
        if node.type == "command":
            words = _command_words(tree, node)
            if words is None:
                return None
            found.append((operator, words))
        elif node.type in _OPERATORS and not node.is_named:
            operator = node.type
        else:
            return None
    return found


def _leaves(root: Node) -> Iterator[Node]:
    """What stands in lists and pipelines, in order. Not recursive: a list nests as deep as it is long."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.type in _GROUPS:
            waiting += reversed(node.children)
        else:
            yield node


def _command_words(tree: Tree, command: Node) -> list[str] | None:
    words: list[str] = []
    for child in command.children:
        if child.type == "command_name":
            if words or child.child_count != 1:
                return None
            child = child.children[0]
        elif not words:
            return None
        word = _plain_word(tree, child)
        if word is None:
            return None
        words.append(word)
    return words or None


def _plain_word(tree: Tree, node: Node) -> str | None:
    """The text a word stands for when nothing in it can be expanded, except as a file name pattern; else None."""
    text = tree.text(node)
    if node.type in ("word", "number"):
        return None if node.child_count or "\\" in text else text
    if node.type == "raw_string":
        return text[1:-1]
    if node.type == "string":
        inner = {child.type for child in node.children}
        return None if inner - {'"', "string_content"} or "\\" in text else text[1:-1]
    if node.type == "concatenation":
        pieces: list[str] = []
        end = node.start_byte
        for child in node.children:
            piece = _plain_word(tree, child) if child.type != "concatenation" else None
            if piece is None or child.start_byte != end:
                return None
            pieces.append(piece)
            end = child.end_byte
        return "".join(pieces)
    return None
