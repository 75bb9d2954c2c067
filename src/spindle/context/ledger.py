"""The work ledger: what happened in a thread, kept by the program and not by the model.

A fold over items, and over a few facts that items do not hold (approvals, hashes, pins). The same facts give the same
ledger and the same text. It is written into a thread when the thread is compacted, so that nothing in it depends on
what a summary remembers. How it is written is in `ledger_text`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any, Literal

import msgspec

from spindle.context.calls import (
    READ_TOOL,
    arguments_of,
    command_of,
    exit_code_of,
    has_patched,
    output_text,
    patched_files,
    read_of,
    tool_of,
    whole_file,
)
from spindle.context.wording import is_summary
from spindle.errors import ThreadError
from spindle.protocol.items import (
    Item,
    call_id_of,
    decode_json,
    is_call,
    is_output,
    is_user_input,
    item_text,
    said_text,
)

Author = Literal["user", "model", "config"]


class Asked(msgspec.Struct, frozen=True):
    """A message of the user, word for word. `at` says when, in the ledger's own count."""

    text: str
    at: int


class PlanStep(msgspec.Struct, frozen=True):
    step: str
    status: str


class ReadFile(msgspec.Struct, frozen=True):
    """What is known of a file that was read. Line numbers as far as they are known."""

    path: str
    at: int
    first_line: int | None = None
    last_line: int | None = None
    hash: str | None = None
    is_cut: bool = False
    """The text that was shown had its middle cut out."""


class ChangedFile(msgspec.Struct, frozen=True):
    path: str
    change: str
    """added, changed or deleted."""
    at: int
    hash: str | None = None


class RanCommand(msgspec.Struct, frozen=True):
    """A command and how it ended last; no status while it runs."""

    command: str
    folder: str
    at: int
    exit_code: int | None = None
    times: int = 1
    session: int | None = None
    """The session it still runs in."""


class Approval(msgspec.Struct, frozen=True):
    """What a person allowed or refused."""

    what: str
    is_granted: bool
    at: int
    reason: str = ""


class Pin(msgspec.Struct, frozen=True):
    """A fact to keep, word for word."""

    text: str
    by: Author
    at: int


class Question(msgspec.Struct, frozen=True):
    """What nobody answered yet."""

    text: str
    at: int


class SubAgent(msgspec.Struct, frozen=True):
    """Another agent that works for this thread; `state` is how it stands: running, completed, errored, closed, …"""

    id: str
    task: str
    state: str
    at: int


class WorkLedger(msgspec.Struct, kw_only=True):
    """Everything noted so far. Change it only through `note_…`; its record is itself as plain data."""

    clock: int = 0
    """Counts what was noted; the only time there is."""
    requests: list[Asked] = []
    plan: list[PlanStep] = []
    plan_at: int = 0
    reads: dict[str, ReadFile] = {}
    changes: dict[str, ChangedFile] = {}
    commands: dict[str, RanCommand] = {}
    approvals: list[Approval] = []
    pins: dict[str, Pin] = {}
    questions: dict[str, Question] = {}
    agents: dict[str, SubAgent] = {}
    open_calls: dict[str, Item] = {}
    """Calls whose output has not come."""

    @classmethod
    def of(cls, items: Iterable[Item], cwd: str = "") -> WorkLedger:
        ledger = cls()
        for item in items:
            ledger.note_item(item, cwd)
        return ledger

    @classmethod
    def from_record(cls, record: Any) -> WorkLedger:
        """Raises ThreadError when the record is damaged."""
        try:
            return msgspec.convert(record, cls)
        except msgspec.ValidationError as error:
            raise ThreadError(f"the recorded work ledger cannot be read: {error}") from error

    def to_record(self) -> dict[str, Any]:
        return msgspec.to_builtins(self)

    def render(self, budget_tokens: int = 6_000, *, requests: bool = True, shown: Collection[str] = ()) -> str:
        """The ledger as Markdown within the budget; empty when there is nothing to say.

        `requests=False` leaves the user's messages out; `shown` are those that stand beside the text anyway, and only
        they are left out.
        """
        from spindle.context.ledger_text import render  # only a compaction writes the ledger out

        return render(self, budget_tokens, requests=requests, shown=shown)

    # ---- what items tell ----

    def note_item(self, item: Item, cwd: str = "") -> None:
        """The next item of the thread. `cwd` is the folder its relative paths are seen from."""
        if is_call(item):
            self._note_call(item)
        elif is_output(item):
            call = self.open_calls.pop(call_id_of(item), None)
            if call is not None:
                self._note_output(call, item, cwd)
        elif is_user_input(item) and not is_summary(item):
            self._note_request(said_text(item))
        elif item.get("type") == "message" and item.get("role") == "assistant":
            self._note_said(item_text(item))

    def _note_request(self, text: str) -> None:
        if text.strip():
            self.requests.append(Asked(text, self._tick()))
        # Whatever was asked in words, this is the answer, or shows that none will come.
        self.questions.pop("", None)

    def _note_said(self, text: str) -> None:
        self.questions.pop("", None)
        last = text.rstrip().rpartition("\n")[2].strip()
        if last.endswith("?"):
            self.questions[""] = Question(last, self._tick())

    def _note_call(self, call: Item) -> None:
        # A model that goes on working does not wait for an answer.
        self.questions.pop("", None)
        call_id = call_id_of(call)
        self.open_calls[call_id] = call
        if tool_of(call) == "request_user_input":
            asked = arguments_of(call).get("questions")
            texts = (
                [entry.get("question") for entry in asked if isinstance(entry, dict)] if isinstance(asked, list) else []
            )
            if said := " ".join(text for text in texts if isinstance(text, str)):
                self.questions[call_id] = Question(said, self._tick())

    def _note_output(self, call: Item, output: Item, cwd: str) -> None:
        text = output_text(output)
        match tool_of(call):
            case "update_plan":
                if text == "Plan updated":
                    self._note_plan(arguments_of(call).get("plan"))
            case "request_user_input":
                if _has_answers(text):
                    self.questions.pop(call_id_of(call), None)
            case "remember":
                fact = arguments_of(call).get("fact")
                if isinstance(fact, str):
                    self.note_pin(fact, "model")
            case "write_stdin":
                self._note_progress(arguments_of(call).get("session_id"), text)
            case _:
                self._note_work(call, output, text, cwd)

    def _note_plan(self, plan: Any) -> None:
        try:
            self.plan = msgspec.convert(plan, list[PlanStep])
        except msgspec.ValidationError:
            return
        self.plan_at = self._tick()

    def _note_work(self, call: Item, output: Item, text: str, cwd: str) -> None:
        """Files read and patched, commands run."""
        patched = patched_files(call, cwd)
        if patched:
            if has_patched(output):
                for changed in patched:
                    self.note_change(changed.path, changed.change)
            return
        command = command_of(call)
        code = None if command is None else exit_code_of(text)
        read = read_of(call, cwd)
        if read is not None and (code == 0 or (command is None and tool_of(call) == READ_TOOL)):
            shown = re.findall(r"(?m)^L(\d+): ", text) if command is None else []
            if command is None and not shown:
                return  # it says why the file could not be read
            first, last = (int(shown[0]), int(shown[-1])) if shown else (read.first_line, read.last_line)
            # By the recorded text and not by the file: the same record gives the same ledger, also after a resume and
            # in other programs' threads, and the hash is of what the model was shown, whatever was written since.
            whole = None if command is None else whole_file(call, text)
            if whole is not None:
                first, last = 1, None
            digest = None if whole is None else file_hash(whole.encode("utf-8", "surrogatepass"))
            self.note_read(read.path, first_line=first, last_line=last, hash=digest, is_cut="truncated…" in text)
        elif command is not None:
            self._note_command(*command, code, _session_of(text))

    def _note_command(self, command: str, folder: str, code: int | None, session: int | None) -> None:
        key = f"{folder}\0{command}"
        former = self.commands.pop(key, None)
        times = former.times + 1 if former else 1
        self.commands[key] = RanCommand(command, folder, self._tick(), code, times, session)

    def _note_progress(self, session: Any, text: str) -> None:
        """A command that was still running has said more, or ended."""
        code = exit_code_of(text)
        if code is None:
            return
        for key, ran in self.commands.items():
            if ran.session is not None and ran.session == session:
                self.commands[key] = msgspec.structs.replace(ran, exit_code=code, session=None, at=self._tick())
                return

    # ---- what items do not tell ----

    def note_read(
        self,
        path: str,
        *,
        first_line: int | None = None,
        last_line: int | None = None,
        hash: str | None = None,
        is_cut: bool = False,
    ) -> None:
        """A file, or some lines of it, was shown to the model. A hash of the whole file tells if it changed since."""
        former = self.reads.pop(path, None)
        if former is not None and _is_same_text(former, hash, self.changes.get(path)):
            first_line, last_line = _joined(former, first_line, last_line)
            is_cut = is_cut and former.is_cut
            hash = hash or former.hash
        self.reads[path] = ReadFile(path, self._tick(), first_line, last_line, hash, is_cut)

    def note_change(self, path: str, change: str = "changed", *, hash: str | None = None) -> None:
        """A file was written. One that was added and changed again is still new."""
        former = self.changes.pop(path, None)
        if former is not None and former.change == "added" and change == "changed":
            change = "added"
        self.changes[path] = ChangedFile(path, change, self._tick(), hash)

    def note_approval(self, what: str, *, is_granted: bool, reason: str = "") -> None:
        self.approvals.append(Approval(what, is_granted, self._tick(), reason))

    def note_agent(self, agent_id: str, state: str, task: str = "") -> None:
        known = self.agents.get(agent_id)
        self.agents[agent_id] = SubAgent(agent_id, task or (known.task if known else ""), state, self._tick())

    def note_pin(self, text: str, by: Author = "user") -> None:
        """A fact that must not be lost; the same text again makes it newer."""
        if text := text.strip():
            self.pins.pop(text, None)
            self.pins[text] = Pin(text, by, self._tick())

    def with_pins(self, texts: Iterable[str], by: Author) -> WorkLedger:
        """The same with these facts as well; this ledger stays as it is."""
        more = msgspec.structs.replace(self, pins=dict(self.pins))
        for text in texts:
            more.note_pin(text, by)
        return more

    def unpin(self, text: str) -> bool:
        """False when no such fact was pinned."""
        return self.pins.pop(text.strip(), None) is not None

    def note_rolled_back(self, turns: int) -> None:
        """The user took back this many turns. What was done to files and by commands did happen, and stays."""
        if turns <= 0 or not self.requests:
            return
        cut = self.requests[-min(turns, len(self.requests))].at
        self.requests = [asked for asked in self.requests if asked.at < cut]
        self.questions = {key: asked for key, asked in self.questions.items() if asked.at < cut}
        if self.plan_at >= cut:
            self.plan = []

    def is_read_unchanged(self, path: str, hash: str) -> bool:
        """Whether the model was shown this very content."""
        known = self.reads.get(path)
        return known is not None and known.hash == hash

    def _tick(self) -> int:
        self.clock += 1
        return self.clock


# ---- small things ------------------------------------------------------------------------------------


def file_hash(content: bytes) -> str:
    """How the ledger names a version of a file."""
    import hashlib  # only with a file that was read

    return "sha256:" + hashlib.sha256(content).hexdigest()[:16]


def _has_answers(text: str) -> bool:
    try:
        decoded = decode_json(text)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return False
    return isinstance(decoded, dict) and bool(decoded.get("answers"))


def _session_of(text: str) -> int | None:
    found = re.search(r"(?m)^Process running with session ID (\d+)$", text[:400])
    return int(found[1]) if found else None


def _is_same_text(former: ReadFile, hash: str | None, changed: ChangedFile | None) -> bool:
    """Whether two reads show the same version of a file, as far as is known."""
    if hash is not None and former.hash is not None:
        return hash == former.hash
    return changed is None or changed.at < former.at


def _joined(former: ReadFile, first: int | None, last: int | None) -> tuple[int | None, int | None]:
    """Both ranges as one if they touch; else the new one."""
    if former.first_line is None or first is None:
        return first, last
    end = float("inf") if last is None else last
    former_end = float("inf") if former.last_line is None else former.last_line
    if first > former_end + 1 or former.first_line > end + 1:
        return first, last
    joined = max(end, former_end)
    return min(first, former.first_line), None if joined == float("inf") else int(joined)
