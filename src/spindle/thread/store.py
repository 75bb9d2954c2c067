"""Where threads are kept under `$CODEX_HOME`: finding, listing, naming, archiving and forking them.

The rollout files are the truth. Finding a thread, and the newest one of a folder, reads file names and the first lines
only; lists and searches use the derived index.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from spindle.errors import ThreadError, ThreadNotFound
from spindle.protocol.clock import Clock, iso_utc
from spindle.protocol.items import encode_payload
from spindle.thread import layout, private_files
from spindle.thread.entry import Record
from spindle.thread.history import History
from spindle.thread.names import ThreadNames
from spindle.thread.rollout import RolloutWriter, format_line
from spindle.thread.seal import Sealer

if TYPE_CHECKING:
    from spindle.thread.git_notes import GitNotes
    from spindle.thread.listing import ThreadFilter, ThreadOrder, ThreadPage
    from spindle.thread.reading import RolloutData

HEAD_CHUNK = 1 << 16
HEAD_LIMIT = 1 << 24
"""How far into a file the first message of a person is looked for."""
_TAIL_BYTES = 1 << 20
"""How far back the settings of the newest turn are looked for."""


class ThreadRef(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded thread and its file."""

    id: str
    path: str
    archived: bool = False


class _Head(msgspec.Struct):
    meta: dict[str, Any]
    has_user_message: bool


class ThreadStore:
    """All threads under one home."""

    def __init__(self, home: str, clock: Clock) -> None:
        self.home = home
        self.names = ThreadNames(home, clock)
        self.sealer = Sealer(home, clock)
        self._clock = clock
        self._sessions = f"{home}/sessions"
        self._archive = f"{home}/archived_sessions"

    @property
    def git_notes(self) -> GitNotes:
        """What clients have said about the repositories of threads."""
        from spindle.thread.git_notes import GitNotes  # few clients say anything

        return GitNotes(self.home, self._clock)

    # ---- one thread ----

    def new_path(self, thread_id: str) -> str:
        """Where a thread that starts now is recorded. Nothing is made yet."""
        name = layout.file_name(thread_id, self._clock.now())
        return f"{self._sessions}/{layout.day_folder(name)}/{name}"

    def find(self, id_or_name: str) -> ThreadRef | None:
        """A UUID is always an id; anything else is a name, and the thread named so last is meant."""
        if layout.is_thread_id(id_or_name):
            return self._find_id(id_or_name.lower())
        for thread_id in self.names.ids_for(id_or_name):
            ref = self._find_id(thread_id)
            if ref is not None:
                return ref
        return None

    def get(self, id_or_name: str) -> ThreadRef:
        """Like `find`, but not finding it is an error."""
        ref = self.find(id_or_name)
        if ref is None:
            raise ThreadNotFound(f"no rollout found for thread id {id_or_name}")
        return ref

    def choose(self, text: str) -> ThreadRef:
        """The thread a person means: by its id, its name, or the beginning of an id that no other thread's id has."""
        ref = self.find(text)
        if ref is not None:
            return ref
        begun = {} if layout.is_thread_id(text) or not layout.may_begin_id(text) else self._begun_by(text.lower())
        if len(begun) > 1:
            some = ", ".join([*begun][:3]) + (", …" if len(begun) > 3 else "")
            raise ThreadError(
                f"{text!r} begins the ids of {len(begun)} threads ({some}); type more of the one you mean"
            )
        if not begun:
            raise ThreadNotFound(f"no rollout found for thread id {text}")
        return next(iter(begun.values()))

    def _begun_by(self, start: str) -> dict[str, ThreadRef]:
        found: dict[str, ThreadRef] = {}
        for path, archived in self._all_files():
            thread_id = layout.thread_id_of(path) or ""
            if thread_id.startswith(start):
                found.setdefault(thread_id, ThreadRef(id=thread_id, path=path, archived=archived))
        return found

    def title_of(self, ref: ThreadRef) -> str:
        """Its name, else how its first prompt begins."""
        from spindle.thread import view  # only where somebody looks at what was said

        name = self.names.all().get(ref.id)
        return name or view.preview(self.read(ref).records) or ""

    def latest(
        self, cwd: str | None = None, provider: str | None = None, *, include_other_cwds: bool = False
    ) -> ThreadRef | None:
        """The thread written to last, of this folder and provider, in which a person said anything."""
        wanted = None if cwd is None or include_other_cwds else os.path.realpath(cwd)
        for path in layout.last_written_first(self._sessions):
            head = self._read_head(path)
            if head is None or not head.has_user_message or isinstance(head.meta.get("source"), dict):
                continue  # nobody spoke in it, or only another agent did
            cwd = str(head.meta.get("cwd") or "")
            if wanted is not None and (not cwd or "\0" in cwd or os.path.realpath(cwd) != wanted):
                continue
            begun_with = head.meta.get("model_provider")
            if provider is None or begun_with in (provider, None) or _last_provider(path) == provider:
                return ThreadRef(id=layout.thread_id_of(path) or head.meta["id"], path=path)
        return None

    def read(self, ref: ThreadRef) -> RolloutData:
        """Everything recorded of a thread, with what a fork inherits from its parents."""
        return self._read(ref.path)

    def resume(self, ref: ThreadRef) -> tuple[History, RolloutData]:
        """Go on with a thread in its own file. Raises ThreadLocked while another process writes it."""
        # The lock comes first: what is read after it is complete and stays so.
        writer = RolloutWriter.reopen(ref.path, self._clock)
        try:
            data = self._read(writer.path)
            history = History.replay(data, writer)
            writer.close_to_others()
            if data.is_damaged:
                from spindle.thread.damaged import keep_original  # rarely needed

                data.kept_as = keep_original(writer.path)
        except BaseException:
            writer.close()
            raise
        history.name = self.names.all().get(data.thread_id)
        return history, data

    def fork(
        self,
        source: ThreadRef,
        *,
        up_to: str | int | None = None,
        new_id: str | None = None,
        meta: dict[str, Any] | None = None,
    ) -> ThreadRef:
        """A new thread in a new file that begins with a copy of `source`.

        `up_to` is the response id to stop after, or the number of turns to keep. `meta` replaces fields of the
        parent's meta (cwd, originator, cli_version, source, …).
        """
        forked = self.fork_in_memory(source, up_to=up_to, new_id=new_id, meta=meta)
        now = forked.meta["timestamp"]
        lines = [format_line("session_meta", encode_payload(forked.meta), now)]
        for record in forked.records:
            lines.append(format_line(record.kind, record.raw, record.timestamp or now, beside=record.beside))
        path = self.new_path(forked.thread_id)
        private_files.make_private_folders(os.path.dirname(path), self._sessions)
        try:
            private_files.replace_private(path, b"".join(lines))
        except OSError as error:
            raise ThreadError(f"the fork cannot be recorded at {path}: {error.strerror}") from error
        return ThreadRef(id=forked.thread_id, path=path)

    def fork_in_memory(
        self,
        source: ThreadRef,
        *,
        up_to: str | int | None = None,
        new_id: str | None = None,
        meta: dict[str, Any] | None = None,
    ) -> RolloutData:
        """What the file of such a fork would hold; nothing is written."""
        from spindle.thread.forking import records_up_to  # only forks need it
        from spindle.thread.reading import RolloutData  # likewise

        data = self.read(source)
        new_id = new_id or self._clock.uuid7()
        now = iso_utc(self._clock.now())
        changes = {"id": new_id, "session_id": new_id, "timestamp": now, "forked_from_id": data.thread_id}
        own = {key: value for key, value in data.meta.items() if key not in _LATE_START_FIELDS}
        begins = {**own, **(meta or {}), **changes}
        records = records_up_to(data.records, up_to)
        for number, record in enumerate(records):
            if record.kind == "turn_context":
                raw = encode_payload(self.sealer.moved(data, begins, record.payload))
                records[number] = Record(record.kind, raw, record.timestamp, record.ordinal, record.beside)
        return RolloutData(path="", thread_id=new_id, meta=begins, records=records)

    def set_name(self, thread_id: str, name: str) -> None:
        self.names.set(thread_id, name)

    def archive(self, thread_id: str) -> ThreadRef:
        """Move a thread out of the list. Nothing is lost; `unarchive` brings it back."""
        ref = self.get(thread_id)
        if ref.archived:
            return ref
        private_files.make_private_folders(self._archive, self._archive)
        return self._move(ref, f"{self._archive}/{os.path.basename(ref.path)}", archived=True)

    def unarchive(self, thread_id: str) -> ThreadRef:
        ref = self.get(thread_id)
        if not ref.archived:
            return ref
        name = os.path.basename(ref.path)
        folder = f"{self._sessions}/{layout.day_folder(name)}"
        private_files.make_private_folders(folder, self._sessions)
        return self._move(ref, f"{folder}/{name}", archived=False)

    def delete(self, thread_id: str) -> None:
        """Remove a thread's file, its names, and what it put aside."""
        from spindle.thread.offload import forget_outputs  # only here
        from spindle.thread.reopening import check_unused  # a new file is nobody else's

        ref = self.get(thread_id)
        check_unused(ref.path)
        try:
            os.unlink(ref.path)
        except OSError as error:
            raise ThreadError(f"thread {ref.id} cannot be deleted: {error.strerror}") from error
        for copy in layout.kept_originals(ref.path):
            private_files.unlink_if_possible(copy)
        self.names.forget(ref.id)
        self.git_notes.forget(ref.id)
        forget_outputs(self.home, ref.id)

    def find_response_id(self, response_id: str) -> ThreadRef | None:
        """The thread, newest first, that recorded a bookmark for this response."""
        needle = b'"' + response_id.encode() + b'"'
        for path, archived in self._all_files():
            try:
                with private_files.open_regular(path) as file:
                    if not path.endswith(".zst") and needle not in file.read():
                        continue
                history = History.replay(self._read(path))
            except (OSError, ThreadError):
                continue
            if history.has_bookmark(response_id) and history.thread_id:
                return ThreadRef(id=history.thread_id, path=path, archived=archived)
        return None

    # ---- many threads ----

    def files(self) -> Iterator[ThreadRef]:
        """Every rollout file, newest first, whether it can be read or not; then the archived ones."""
        for path, archived in self._all_files():
            yield ThreadRef(id=layout.thread_id_of(path) or "", path=path, archived=archived)

    def list(
        self,
        which: ThreadFilter | None = None,
        *,
        order: ThreadOrder | None = None,
        cursor: str | None = None,
        limit: int = 25,
    ) -> ThreadPage:
        """One page of the threads in which somebody said something, from `cursor` onwards."""
        from spindle.thread import listing  # never on the way to a turn
        from spindle.thread.index import ThreadIndex  # loads SQLite, which is slow

        which, order = which or listing.ThreadFilter(), order or listing.ThreadOrder()
        names = self.names.all()
        search = (which.search or "").lower()
        named = [thread_id for thread_id, name in names.items() if search and search in name.lower()]
        index = ThreadIndex(f"{self.home}/spindle/index.sqlite", self._read)
        # One more than the page holds tells whether there is a next page.
        rows = index.query(
            self._all_files(), which, order=order, after=listing.read_cursor(cursor), limit=limit + 1, named=named
        )
        threads = [listing.summary_of(row, names.get(row.id)) for row in rows[:limit]]
        return listing.ThreadPage(
            threads=threads,
            next_cursor=listing.cursor_at(threads[-1], order) if len(rows) > limit and threads else None,
            backwards_cursor=listing.cursor_at(threads[0], order) if threads else None,
            left_out=index.unreadable,
        )

    # ---- files ----

    def _find_id(self, thread_id: str) -> ThreadRef | None:
        likely = [path for day in layout.days_near(thread_id) for path in layout.rollouts_in(f"{self._sessions}/{day}")]
        for path in likely:
            if layout.thread_id_of(path) == thread_id:
                return ThreadRef(id=thread_id, path=path)
        for path, archived in self._all_files():
            if layout.thread_id_of(path) == thread_id:
                return ThreadRef(id=thread_id, path=path, archived=archived)
        return None

    def _read(self, path: str) -> RolloutData:
        from spindle.thread.reading import read_rollout  # a thread that begins reads nothing

        return read_rollout(path, self._path_of)

    def _path_of(self, thread_id: str) -> str | None:
        ref = self._find_id(thread_id)
        return ref.path if ref else None

    def _all_files(self) -> Iterator[tuple[str, bool]]:
        for path in layout.newest_first(self._sessions):
            yield path, False
        for path in layout.rollouts_in(self._archive):
            yield path, True

    def _read_head(self, path: str) -> _Head | None:
        """The meta line, and whether a person said anything, from as little of the file as will do."""
        from spindle.thread import view  # only where somebody looks at what was said
        from spindle.thread.reading import parse_line  # a thread that begins reads nothing

        if path.endswith(".zst"):
            try:
                data = self._read(path)
            except ThreadError:
                return None
            return _Head(data.meta, view.preview(data.records) is not None)
        meta: dict[str, Any] | None = None
        for line in _first_lines(path):
            record = parse_line(line)
            if record is None:
                continue
            if record.kind == "session_meta":
                meta = meta or record.payload
            elif view.asked_text(record) is not None:
                return _Head(meta or {"id": layout.thread_id_of(path)}, True)
        if meta is not None and isinstance(meta.get("forked_from_ordinal_exclusive"), int):
            # Its messages so far are its parent's.
            return _Head(meta, True)
        return None if meta is None else _Head(meta, False)

    def _move(self, ref: ThreadRef, path: str, *, archived: bool) -> ThreadRef:
        from spindle.thread.reopening import check_unused  # a new file is nobody else's

        check_unused(ref.path)
        try:
            for copy in layout.kept_originals(ref.path):
                os.rename(copy, path + copy.removeprefix(ref.path))
            os.rename(ref.path, path)
        except OSError as error:
            raise ThreadError(f"thread {ref.id} cannot be moved to {path}: {error.strerror}") from error
        return ThreadRef(id=ref.id, path=path, archived=archived)


_LATE_START_FIELDS = ("forked_from_ordinal_exclusive", "history_mode", "history_base")
"""Marks of files that are numbered or hold only their own lines; a fork made here holds everything, unnumbered."""


def _last_provider(path: str) -> str | None:
    """The provider of the newest turn in a plain file, if that is not the one the thread began with."""
    from spindle.thread.reading import parse_line  # only for threads that were begun with another provider

    try:
        with private_files.open_regular(path) as file:
            file.seek(max(0, os.path.getsize(path) - _TAIL_BYTES))
            lines = file.read().split(b"\n")
    except OSError:
        return None
    for line in reversed(lines):
        if b'"turn_context"' in line[:120] and (record := parse_line(line)) is not None:
            marks = record.payload.get("spindle")
            return marks.get("model_provider") if isinstance(marks, dict) else None
    return None


def _first_lines(path: str) -> Iterator[bytes]:
    rest = b""
    read = 0
    try:
        with private_files.open_regular(path) as file:
            while read < HEAD_LIMIT and (chunk := file.read(HEAD_CHUNK)):
                read += len(chunk)
                *lines, rest = (rest + chunk).split(b"\n")
                yield from lines
    except OSError:
        return
    if rest:
        yield rest
