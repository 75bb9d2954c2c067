"""Making a thread smaller without a model: old outputs become one line each, by rule.

`compress_by_rule` is pure: the same items and parameters give the same bytes, and a second pass changes nothing. It
never touches ids or the pairing of calls and outputs, so what remains is still a valid thread. The parameters are those
of public context-editing APIs, with three more for what is redundant rather than old.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

import msgspec

from spindle.context.calls import FileRead, Pair, body_of, find_pairs, has_patched, output_text, patched_files, read_of
from spindle.context.tokens import estimate_tokens
from spindle.errors import ConfigError
from spindle.protocol.items import Item, is_external, is_output, is_user_input

TRIGGER: Mapping[str, Any] = {"type": "input_tokens", "value": 100_000}
KEEP: Mapping[str, Any] = {"type": "tool_uses", "value": 3}
PICTURE_CLEARED = "[picture cleared to save context]"
EMPTY_ARGUMENTS = "{}"
_MARK = "[cleared to save context: "
_PLACEHOLDER = r"\[cleared to save context: [^\n]{0,5000}\]"
_READ_AGAIN = "the same is shown again below"
_OUTDATED = "the file was changed or read again since"


class Cleared(msgspec.Struct, frozen=True):
    """One call whose output or arguments were cleared, and the tokens that saved."""

    call_id: str
    tool: str
    tokens: int


class EditOption(msgspec.Struct, frozen=True):
    """A part of what a rule would do: every change from one item to the end. The nearer to the end, the less cache is
    lost."""

    first_index: int
    saved_tokens: int
    resent_tokens: int
    """What stands behind the first change, and stays."""
    carried_tokens: int
    """Tokens that could have been cleared before, times the number of calls since then."""


class RuleReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a pass did. `first_changed_index` is the same place in the old and in the new list."""

    applied: bool
    tokens_before: int
    tokens_after: int
    cleared_tool_uses: int = 0
    cleared_input_tokens: int = 0
    cleared: tuple[Cleared, ...] = ()
    cleared_reasoning: int = 0
    cleared_pictures: int = 0
    first_changed_index: int | None = None
    prefix_tokens: int = 0
    """What stands before the first change, and so is still in the provider's cache."""
    options: tuple[EditOption, ...] = ()
    """Smaller edits, from the newest change alone to all of them, each about half as large again as the one before
    it."""

    def __str__(self) -> str:
        """For people: `cleared 14 outputs, 61k → 22k tokens`."""
        if not self.applied:
            return f"nothing cleared, {_short(self.tokens_before)} tokens"
        counts = (
            (self.cleared_tool_uses, "output"),
            (self.cleared_pictures, "picture"),
            (self.cleared_reasoning, "reasoning item"),
        )
        named = ", ".join(f"{count} {name}{'s' * (count != 1)}" for count, name in counts if count)
        return f"cleared {named}, {_short(self.tokens_before)} → {_short(self.tokens_after)} tokens"


def compress_by_rule(
    items: Sequence[Item],
    *,
    trigger: Mapping[str, Any] = TRIGGER,
    keep: Mapping[str, Any] = KEEP,
    clear_at_least: Mapping[str, Any] | None = None,
    exclude_tools: Collection[str] = (),
    clear_tool_inputs: bool | Collection[str] = False,
    clear_thinking: Mapping[str, Any] | str | None = None,
    duplicate_reads: bool = False,
    superseded_reads: bool = False,
    old_images: int | None = None,
    cwd: str = "",
    offloaded: Mapping[str, str] | None = None,
    used_tokens: int | None = None,
    first_index: int = 0,
    costs: Sequence[int] | None = None,
) -> tuple[list[Item], RuleReport]:
    """The items with old outputs cleared, and what that saved. Items that stay are the same objects.

    trigger            act only when reached: {"type": "input_tokens" or "tool_uses", "value": N}
    keep               how many of the newest calls age does not touch: {"type": "tool_uses", "value": N}
    clear_at_least     {"type": "input_tokens", "value": N}: do nothing if less could be saved
    exclude_tools      names of tools that are never cleared
    clear_tool_inputs  empty the arguments too; a list names tools
    clear_thinking     {"keep": N} leaves the reasoning of the last N turns, "all" clears it all
    duplicate_reads    clear a file's text if the same text is shown again later, `keep` or not
    superseded_reads   clear a file's text if the same lines were read again later, or any after a patch of the file
    old_images         leave only this many of the newest pictures
    cwd                the folder that relative paths in calls are seen from
    offloaded          call id → file that holds the whole output; named in the placeholder
    used_tokens        what the server says is in context, for the trigger; else it is estimated
    first_index        leave what stands before this place as it is
    costs              the tokens of each item, if they are known already; else they are estimated

    A part is cleared only if that makes it smaller. Raises ConfigError for a parameter that cannot be used.
    """
    given = locals()
    check_rule({name: given[name] for name in _CHECKS})
    costs = [estimate_tokens(item) for item in items] if costs is None else costs
    before = sum(costs)
    nothing = list(items), RuleReport(applied=False, tokens_before=before, tokens_after=before)
    pairs = find_pairs(items)
    reached = len(pairs) if trigger["type"] == "tool_uses" else before if used_tokens is None else used_tokens
    if reached < trigger["value"]:
        return nothing
    work = _Pass(items, costs, frozenset(exclude_tools), first_index)
    redundant: list[tuple[int, str]] = []
    if duplicate_reads or superseded_reads:
        redundant = _redundant_reads(items, pairs, cwd, duplicates=duplicate_reads, superseded=superseded_reads)
    work.clear_calls(pairs, keep["value"], redundant, clear_tool_inputs, offloaded or {})
    if old_images is not None:
        work.clear_pictures(old_images, {pair.output: pair.tool for pair in pairs})
    if clear_thinking is not None:
        work.clear_reasoning(clear_thinking)
    least = clear_at_least["value"] if clear_at_least else 1
    return work.result(least) if work.saved >= max(1, least) else nothing


def check_rule(table: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters as a configuration file gives them, unchanged. Raises ConfigError naming what is wrong."""
    for name, value in table.items():
        check = _CHECKS.get(name)
        if check is None:
            raise ConfigError(f"unknown parameter {name!r} of the context rule; known are {', '.join(_CHECKS)}")
        if not check(value):
            raise ConfigError(f"the context rule's {name} cannot be {value!r}")
    return table


def is_cleared(item: Item) -> bool:
    """An output that an earlier pass replaced by its placeholder."""
    text = item.get("output")
    return isinstance(text, str) and text.startswith(_MARK) and re.fullmatch(_PLACEHOLDER, text) is not None


# ---- one pass ----------------------------------------------------------------------------------------


class _Pass:
    """What is replaced, place by place, and what that saves. None in `changes` drops the item."""

    def __init__(
        self, items: Sequence[Item], costs: Sequence[int], excluded: frozenset[str], first_index: int = 0
    ) -> None:
        self.items = items
        self.costs = costs
        self.excluded = excluded
        self.first_index = first_index
        self.ages: dict[int, int] = {}
        """How many calls ago an output could first have been cleared."""
        self.changes: dict[int, Item | None] = {}
        self.saved = 0
        self.savings: dict[int, int] = {}
        self.cleared: dict[int, Cleared] = {}
        self.pictures = 0
        self.reasoning = 0
        self._names: dict[str, str] = {}

    def clear_calls(
        self,
        pairs: Sequence[Pair],
        keep: int,
        redundant: Iterable[tuple[int, str]],
        inputs: bool | Collection[str],
        offloaded: Mapping[str, str],
    ) -> None:
        """The outputs of all calls but the newest `keep`, and those that are redundant; `inputs`: the arguments too."""
        aged = pairs[: max(0, len(pairs) - keep)]
        self.ages = {
            place: len(aged) - number for number, pair in enumerate(aged) for place in (pair.call, pair.output)
        }
        reasons = {**dict.fromkeys((pair.output for pair in aged), ""), **dict(redundant)}
        for pair in pairs:
            if pair.output not in reasons or pair.tool in self.excluded:
                continue
            self.clear_output(pair, reasons[pair.output], offloaded.get(pair.call_id))
            if pair.output in self.ages and _is_among(pair.tool, inputs):
                self.clear_arguments(pair)

    def clear_output(self, pair: Pair, reason: str, file: str | None) -> None:
        item = self.items[pair.output]
        if pair.output < self.first_index or is_cleared(item):
            return
        tokens = self.costs[pair.output]
        name = self._names.get(pair.tool) or self._names.setdefault(pair.tool, _one_word(pair.tool))
        said = f"{_MARK}output of {name}, about {tokens} tokens"
        where = f"; the whole text is in {' '.join(file.split())}" if file else ""
        # Where the reason would make the line longer than the output, it goes without: what is cleared must not
        # depend on what a former pass left of the evidence.
        for why in (f"; {reason}", "") if reason else ("",):
            if self._book(pair, pair.output, {**item, "output": f"{said}{why}{where}]"}):
                return

    def clear_arguments(self, pair: Pair) -> None:
        call = self.items[pair.call]
        match call["type"]:
            case "custom_tool_call":
                empty = {**call, "input": ""}
            case "local_shell_call":
                action = call.get("action")
                empty = {**call, "action": {**(action if isinstance(action, dict) else {}), "command": []}}
            case _:
                empty = {**call, "arguments": EMPTY_ARGUMENTS}
        self._book(pair, pair.call, empty)

    def clear_pictures(self, keep: int, tools: Mapping[int, str]) -> None:
        """Pictures beyond the newest `keep`, in messages and outputs, become a line each."""
        for index in reversed(range(len(self.items))):
            field = "output" if "output" in self.items[index] else "content"
            if not isinstance(self.items[index].get(field), list):
                continue
            item = self.changes.get(index, self.items[index])
            parts = None if item is None else item.get(field)
            if item is None or not isinstance(parts, list) or not any(map(_is_picture, parts)):
                continue
            kept: list[Any] = []
            count = 0
            for part in reversed(parts):
                if _is_picture(part) and keep <= 0 and tools.get(index) not in self.excluded:
                    kept.append({"type": "input_text", "text": PICTURE_CLEARED})
                    count += 1
                else:
                    keep -= _is_picture(part)
                    kept.append(part)
            if count and self._replace(index, {**item, field: kept[::-1]}):
                self.pictures += count

    def clear_reasoning(self, given: Mapping[str, Any] | str) -> None:
        keep = 0 if given == "all" else given["keep"] if isinstance(given, Mapping) else 0
        if keep == "all":
            return
        starts = [index for index, item in enumerate(self.items) if is_user_input(item)]
        end = len(self.items) if keep == 0 else starts[-keep] if keep <= len(starts) else 0
        is_orphan = False
        for index, item in enumerate(self.items):
            if self.first_index <= index < end and item.get("type") == "reasoning":
                self.changes[index] = None
                self._save(index, self.costs[index])
                self.reasoning += 1
                is_orphan = True
            elif not is_orphan:
                continue
            elif is_output(item) or is_external(item) or item.get("role") in ("user", "developer"):
                is_orphan = False
            elif "id" in item:
                # Servers take a response's items with all their ids or without: its reasoning's is gone.
                current = self.changes.get(index) or item
                self._replace(index, {key: value for key, value in current.items() if key != "id"})

    def result(self, least: int) -> tuple[list[Item], RuleReport]:
        changed: list[Item | None] = list(self.items)
        for index, item in self.changes.items():
            changed[index] = item
        new = [item for item in changed if item is not None]
        before = sum(self.costs)
        first = min(self.changes)
        return new, RuleReport(
            applied=True,
            tokens_before=before,
            tokens_after=before - self.saved,
            cleared_tool_uses=len(self.cleared),
            cleared_input_tokens=self.saved,
            cleared=tuple(self.cleared[call] for call in sorted(self.cleared)),
            cleared_reasoning=self.reasoning,
            cleared_pictures=self.pictures,
            first_changed_index=first,
            prefix_tokens=sum(self.costs[:first]),
            options=tuple(self._options(least)),
        )

    def _book(self, pair: Pair, index: int, item: Item) -> int:
        saved = self._replace(index, item)
        if saved:
            former = self.cleared.get(pair.call)
            self.cleared[pair.call] = Cleared(pair.call_id, pair.tool, saved + (former.tokens if former else 0))
        return saved

    def _replace(self, index: int, item: Item) -> int:
        """Put `item` there if it is smaller; gives the tokens that saves."""
        if index < self.first_index:
            return 0
        current = self.changes.get(index)
        cost = self.costs[index] if current is None else estimate_tokens(current)
        saved = cost - estimate_tokens(item)
        if saved <= 0:
            return 0
        self.changes[index] = item
        self._save(index, saved)
        return saved

    def _save(self, index: int, tokens: int) -> None:
        self.saved += tokens
        self.savings[index] = self.savings.get(index, 0) + tokens

    def _options(self, least: int) -> Iterator[EditOption]:
        behind = list(accumulate(reversed(self.costs)))
        saved = carried = 0
        wanted, last = 1, len(self.savings)
        for count, place in enumerate(sorted(self.savings, reverse=True), 1):
            gone = self.savings[place]
            saved += gone
            carried += gone * self.ages.get(place, 1)
            if (count >= wanted or count == last) and saved >= least:
                yield EditOption(place, saved, behind[-1 - place] - saved, carried)
                wanted = max(count + 1, count * 3 // 2)


# ---- reads that nobody needs any more ----------------------------------------------------------------


def _redundant_reads(
    items: Sequence[Item], pairs: Sequence[Pair], cwd: str, *, duplicates: bool, superseded: bool
) -> list[tuple[int, str]]:
    """The outputs of reads that a later output repeats, or that no longer hold; with the reason."""
    later = _Later()
    found = []
    for pair in reversed(pairs):
        call, output = items[pair.call], items[pair.output]
        if is_cleared(output):
            continue
        read = read_of(call, cwd)
        if read is None:
            if has_patched(output):
                later.note_patch(changed.path for changed in patched_files(call, cwd))
            continue
        text = body_of(output_text(output))
        if duplicates and (read.path, text) in later.texts:
            found.append((pair.output, _READ_AGAIN))
        elif superseded and later.supersedes(read):
            found.append((pair.output, _OUTDATED))
        later.note_read(read, text)
    return found


class _Later:
    """What a thread shows of files after the place one looks at, going backwards."""

    def __init__(self) -> None:
        self.texts: set[tuple[str, str]] = set()
        self._lines: set[FileRead] = set()
        self._paths: set[str] = set()
        self._read_after_patch: set[str] = set()

    def note_read(self, read: FileRead, text: str) -> None:
        self.texts.add((read.path, text))
        self._paths.add(read.path)
        # A text that was cut does not show what it was asked for.
        if read.first_line is not None and "truncated…" not in text:
            self._lines.add(read)

    def note_patch(self, paths: Iterable[str]) -> None:
        # A patch alone supersedes nothing: the model goes on from what it read. Reading again shows that it did not.
        self._read_after_patch.update(self._paths.intersection(paths))

    def supersedes(self, read: FileRead) -> bool:
        return read.path in self._read_after_patch or read in self._lines or FileRead(read.path, 1, None) in self._lines


# ---- small things ------------------------------------------------------------------------------------


def _is_among(tool: str, names: bool | Collection[str]) -> bool:
    return names if isinstance(names, bool) else tool in names


def _is_picture(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "input_image"


def _one_word(name: str) -> str:
    return "".join(name.split())[:64] or "a tool"


def _short(tokens: int) -> str:
    return f"{round(tokens / 1000)}k" if tokens >= 10_000 else f"{tokens:,}"


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_threshold(value: Any, *kinds: str) -> bool:
    return isinstance(value, Mapping) and value.get("type") in kinds and _is_count(value.get("value"))


def _is_names(value: Any) -> bool:
    return isinstance(value, Collection) and not isinstance(value, str) and all(isinstance(name, str) for name in value)


_CHECKS = {
    "trigger": lambda value: _is_threshold(value, "input_tokens", "tool_uses"),
    "keep": lambda value: _is_threshold(value, "tool_uses"),
    "clear_at_least": lambda value: value is None or _is_threshold(value, "input_tokens"),
    "exclude_tools": _is_names,
    "clear_tool_inputs": lambda value: isinstance(value, bool) or _is_names(value),
    "clear_thinking": lambda value: (
        value in (None, "all")
        or (isinstance(value, Mapping) and (value.get("keep") == "all" or _is_count(value.get("keep"))))
    ),
    "duplicate_reads": lambda value: isinstance(value, bool),
    "superseded_reads": lambda value: isinstance(value, bool),
    "old_images": lambda value: value is None or _is_count(value),
}
