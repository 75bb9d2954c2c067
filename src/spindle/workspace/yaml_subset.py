"""The part of YAML that skill files use, read strictly: mappings, lists, quoted and plain text, block text.

Every scalar is text (or None when empty). Anchors, aliases, tags and several documents are refused.
"""

from __future__ import annotations

from typing import Any

MAX_DEPTH = 20
_ESCAPES = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    '"': '"',
    "\\": "\\",
    "/": "/",
    "0": "\0",
    " ": " ",
    "e": "\x1b",
    "a": "\a",
    "b": "\b",
}
_HEX_ESCAPES = {"x": 2, "u": 4, "U": 8}


class YamlError(ValueError):
    """The text is not in the subset; the message says where and why."""


def parse_yaml(text: str, first_line: int = 1) -> Any:
    """The whole text as a dict, a list, a string or None. `first_line` is the number messages give its first line."""
    return _Reader(text, first_line).document()


class _Reader:
    def __init__(self, text: str, first_line: int) -> None:
        self.lines = text.replace("\r\n", "\n").split("\n")
        self.first_line = first_line
        self.at = 0
        """The next line to be read."""
        self.looked_at = 0
        """The line that a message is about."""

    def document(self) -> Any:
        if self.peek() is None:
            return None
        value = self.node(0, 0)
        if self.peek() is not None:
            raise self.error("unexpected text")
        return value

    def error(self, reason: str) -> YamlError:
        return YamlError(f"line {self.first_line + self.looked_at}: {reason}")

    def peek(self) -> tuple[int, str] | None:
        """Indentation and content of the next line that says something; blank and comment lines are passed over."""
        while self.at < len(self.lines):
            line = self.lines[self.at]
            content = line.lstrip(" ")
            self.looked_at = self.at
            if content.strip() and not content.startswith("#"):
                if content.startswith("\t"):
                    raise self.error("tabs cannot indent")
                return len(line) - len(content), content.rstrip()
            self.at += 1
        return None

    def node(self, indent: int, depth: int) -> Any:
        """The block value whose lines are indented by at least `indent`."""
        if depth > MAX_DEPTH:
            raise self.error("nested too deeply")
        found = self.peek()
        if found is None or found[0] < indent:
            return None
        own, content = found
        if content == "-" or content.startswith("- "):
            return self.sequence(own, depth)
        if _split_key(content) is not None:
            return self.mapping(own, depth)
        self.at += 1
        return self.scalar(content, own - 1, depth)

    def mapping(self, indent: int, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        while (found := self.peek()) is not None and found[0] == indent:
            pair = _split_key(found[1])
            if pair is None:
                raise self.error("expected `key: value`")
            raw_key, rest = pair
            key = self.quoted(raw_key)[0] if raw_key[0] in "'\"" else raw_key
            if key in result:
                raise self.error(f"duplicate key {key!r}")
            self.at += 1
            result[key] = self.value(rest, indent, depth)
        self.must_not_be_deeper(indent)
        return result

    def sequence(self, indent: int, depth: int) -> list[Any]:
        result: list[Any] = []
        while (found := self.peek()) is not None and found[0] == indent:
            content = found[1]
            if content != "-" and not content.startswith("- "):
                break
            rest = content[1:].lstrip(" ")
            if _split_key(rest) is not None and rest[0] not in "{[":
                # `- key: value` opens a mapping indented to where the key stands.
                inner = indent + len(content) - len(rest)
                self.lines[self.at] = " " * inner + rest
                result.append(self.node(inner, depth + 1))
                continue
            self.at += 1
            result.append(self.value(rest, indent, depth))
        self.must_not_be_deeper(indent)
        return result

    def must_not_be_deeper(self, indent: int) -> None:
        found = self.peek()
        if found is not None and found[0] > indent:
            raise self.error("unexpected indentation")

    def value(self, rest: str, indent: int, depth: int) -> Any:
        """What stands after `key:` or `-`, on the same line or below it."""
        if _without_comment(rest):
            return self.scalar(rest, indent, depth)
        found = self.peek()
        if found is None:
            return None
        # A list may stand at the same indentation as its key.
        if found[0] == indent and (found[1] == "-" or found[1].startswith("- ")):
            return self.sequence(indent, depth + 1)
        return self.node(indent + 1, depth + 1) if found[0] > indent else None

    def scalar(self, rest: str, indent: int, depth: int) -> Any:
        first = rest[0]
        if first in "|>":
            return self.block_text(rest, indent)
        if first in "'\"":
            return self.quoted_lines(rest, indent)
        if first in "[{":
            value, end = _Flow(self, _without_comment(rest)).value(0, depth)
            if _without_comment(rest)[end:].strip():
                raise self.error("unexpected text after a closing bracket")
            return value
        if first in "&*!%@`":
            raise self.error(f"{first!r} cannot start a value; quote it")
        return self.plain(rest, indent)

    def plain(self, rest: str, indent: int) -> str | None:
        """Unquoted text; more deeply indented lines continue it, joined by blanks."""
        words: list[str] = []
        following: str | None = rest
        while following is not None:
            words.append(_without_comment(following))
            if ": " in words[-1] or words[-1].endswith(":"):
                raise self.error("a value that contains `: ` must be quoted")
            found = self.peek()
            following = found[1] if found is not None and found[0] > indent else None
            self.at += following is not None
        text = " ".join(words)
        return None if text in ("~", "null", "Null", "NULL") else text

    def quoted_lines(self, rest: str, indent: int) -> str:
        """Quoted text, which may go on over more deeply indented lines."""
        text = rest
        while True:
            try:
                value, end = self.quoted(text)
            except YamlError:
                line = self.lines[self.at] if self.at < len(self.lines) else None
                if line is None or (line.strip() and len(line) - len(line.lstrip(" ")) <= indent):
                    raise
                text = f"{text.rstrip()} {line.strip()}"
                self.looked_at = self.at
                self.at += 1
                continue
            if _without_comment(text[end:]):
                raise self.error("unexpected text after a closing quote")
            return value

    def quoted(self, text: str) -> tuple[str, int]:
        """The value of the quoted string that `text` starts with, and where it ends."""
        quote = text[0]
        out: list[str] = []
        at = 1
        while at < len(text):
            char = text[at]
            if char == quote:
                if quote == "'" and text[at + 1 : at + 2] == "'":
                    out.append("'")
                    at += 2
                    continue
                return "".join(out), at + 1
            if char == "\\" and quote == '"':
                decoded, used = self.escape(text, at + 1)
                out.append(decoded)
                at += 1 + used
                continue
            out.append(char)
            at += 1
        raise self.error("a quoted text is not closed")

    def escape(self, text: str, at: int) -> tuple[str, int]:
        char = text[at : at + 1]
        if char in _HEX_ESCAPES:
            width = _HEX_ESCAPES[char]
            digits = text[at + 1 : at + 1 + width]
            try:
                code = int(digits, 16)
                if len(digits) == width and code < 0x110000 and not 0xD800 <= code < 0xE000:
                    return chr(code), 1 + width
            except ValueError:
                pass
        elif char in _ESCAPES and char:
            return _ESCAPES[char], 1
        raise self.error("unknown escape in a quoted text")

    def block_text(self, rest: str, indent: int) -> str:
        """`|` keeps line ends, `>` folds them; `-` and `+` say what happens to the last one."""
        header = _without_comment(rest)
        style, flags = header[0], header[1:]
        if flags.strip("+-123456789") or len(flags) > 2:
            raise self.error("unknown block text header")
        lines: list[str] = []
        width: int | None = next((indent + int(flag) for flag in flags if flag.isdigit()), None)
        while self.at < len(self.lines):
            line = self.lines[self.at]
            own = len(line) - len(line.lstrip(" "))
            if line.strip():
                if own <= indent or (width is not None and own < width):
                    break
                width = own if width is None else width
            lines.append(line[width:] if width is not None else "")
            self.at += 1
        trailing = 0
        while lines and not lines[-1].strip():
            lines.pop()
            trailing += 1
        text = "\n".join(lines) if style == "|" else _fold(lines)
        if "-" in flags or not lines:
            return text
        return text + "\n" * (1 + trailing if "+" in flags else 1)


class _Flow:
    """`[a, b]` and `{a: b}` on one line."""

    def __init__(self, reader: _Reader, text: str) -> None:
        self.reader = reader
        self.text = text

    def value(self, at: int, depth: int) -> tuple[Any, int]:
        if depth > MAX_DEPTH:
            raise self.reader.error("nested too deeply")
        at = self.skip(at)
        char = self.text[at : at + 1]
        if char == "[":
            return self.items(at + 1, depth)
        if char == "{":
            return self.pairs(at + 1, depth)
        if char and char in "'\"":
            value, used = self.reader.quoted(self.text[at:])
            return value, at + used
        end = at
        while end < len(self.text) and self.text[end] not in ",[]{}" and self.text[end : end + 2] != ": ":
            end += 1
        return self.text[at:end].strip() or None, end

    def items(self, at: int, depth: int) -> tuple[list[Any], int]:
        result: list[Any] = []
        while True:
            at = self.skip(at)
            if self.text[at : at + 1] == "]":
                return result, at + 1
            value, at = self.value(at, depth + 1)
            result.append(value)
            at = self.separator(at, "]")

    def pairs(self, at: int, depth: int) -> tuple[dict[str, Any], int]:
        result: dict[str, Any] = {}
        while True:
            at = self.skip(at)
            if self.text[at : at + 1] == "}":
                return result, at + 1
            key, at = self.value(at, depth + 1)
            at = self.skip(at)
            if not isinstance(key, str) or self.text[at : at + 1] != ":":
                raise self.reader.error("expected `key: value` between braces")
            result[key], at = self.value(at + 1, depth + 1)
            at = self.separator(at, "}")

    def separator(self, at: int, closing: str) -> int:
        at = self.skip(at)
        if self.text[at : at + 1] == ",":
            return at + 1
        if self.text[at : at + 1] != closing:
            raise self.reader.error("a bracket is not closed on its line")
        return at

    def skip(self, at: int) -> int:
        while self.text[at : at + 1] == " ":
            at += 1
        return at


def _split_key(content: str) -> tuple[str, str] | None:
    """`key: rest` → the raw key and the rest; None if the line is not such a pair."""
    if not content or content[0] in "[{|>&*!%@`#?" or content == "-" or content.startswith("- "):
        return None
    if content[0] in "'\"":
        end = content.find(content[0], 1)
        if end < 0 or content[end + 1 : end + 2] != ":":
            return None
        return content[: end + 1], content[end + 2 :].strip()
    if content.endswith(":") and ": " not in content:
        return (content[:-1].rstrip(), "") if content != ":" else None
    key, separator, rest = content.partition(": ")
    return (key.rstrip(), rest.strip()) if separator and key else None


def _without_comment(text: str) -> str:
    """Text up to a ` #` that is not inside quotes."""
    if "#" not in text:
        return text.strip()
    quote = ""
    for index, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"" and (index == 0 or text[index - 1] in " ,[{:"):
            quote = char
        elif char == "#" and (index == 0 or text[index - 1] == " "):
            return text[:index].strip()
    return text.strip()


def _fold(lines: list[str]) -> str:
    """Single line ends become blanks; blank lines stay as line ends; deeper indented lines are kept."""
    out = ""
    for index, line in enumerate(lines):
        if index == 0:
            out = line
        elif not line.strip():
            out += "\n"
        elif out.endswith("\n") or line.startswith(" "):
            out += line if out.endswith("\n") else "\n" + line
        else:
            out += " " + line
    return out
