"""An index of all rollout files, for lists and searches. Derived: delete it and the answers stay the same.

SQLite with FTS5 in `$CODEX_HOME/spindle/index.sqlite`. A file is read again when its time or size changed. Never
on the way to a turn.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from spindle.errors import ThreadError
from spindle.protocol.items import decode_json, encode_json
from spindle.thread import layout, private_files, view
from spindle.thread.listing import ThreadFilter, ThreadOrder
from spindle.thread.rollout import RolloutData

VERSION = 1
_COLUMNS = (
    "path, mtime_ns, size, id, archived, created_at, updated_at, cwd, provider, source, source_kind, preview, facts"
)
_SCHEMA = f"""
CREATE TABLE threads ({_COLUMNS.replace("path", "path PRIMARY KEY", 1)});
CREATE INDEX by_id ON threads (id);
PRAGMA user_version = {VERSION};
"""
_FTS = "CREATE VIRTUAL TABLE texts USING fts5 (path UNINDEXED, text, tokenize = 'trigram')"
_PLAIN = "CREATE TABLE texts (path, text)"

Reader = Callable[[str], RolloutData]


class Row:
    """What the index knows about one thread."""

    __slots__ = ("archived", "created_at", "cwd", "facts", "id", "path", "preview", "provider", "source", "updated_at")

    def __init__(self, values: sqlite3.Row) -> None:
        self.path: str = values["path"]
        self.id: str = values["id"]
        self.archived = bool(values["archived"])
        self.created_at: float = values["created_at"]
        self.updated_at: float = values["updated_at"]
        self.cwd: str = values["cwd"]
        self.provider: str | None = values["provider"]
        self.source: Any = decode_json(values["source"])
        self.preview: str = values["preview"]
        self.facts: dict[str, Any] = decode_json(values["facts"])


class ThreadIndex:
    """Opens, refreshes and asks the index. `read` reads one rollout file."""

    def __init__(self, path: str, read: Reader) -> None:
        self._path = path
        self._read = read
        self.unreadable: dict[str, str] = {}
        """Files that the last look could make nothing of, and why."""

    def query(
        self,
        files: Iterable[tuple[str, bool]],
        which: ThreadFilter,
        *,
        order: ThreadOrder,
        after: tuple[float, str] | None = None,
        limit: int | None = None,
        named: Sequence[str] = (),
    ) -> list[Row]:
        """The threads among `files` (path, is archived) that fit, in order, beginning after `after`.

        `named` are ids whose thread name fits the search; they count as found.
        """
        files = list(files)

        def run(db: sqlite3.Connection) -> list[Row]:
            self._refresh(db, files)
            conditions, arguments = _conditions(which)
            if which.search:
                condition, more = _search_condition(db, which.search, named)
                conditions.append(condition)
                arguments += more
            if after is not None:
                conditions.append(f"({order.key}, id) {'<' if order.descending else '>'} (?, ?)")
                arguments += after
            way = "DESC" if order.descending else "ASC"
            statement = f"SELECT * FROM threads WHERE {' AND '.join(conditions)} ORDER BY {order.key} {way}, id {way}"
            if limit is not None:
                statement += f" LIMIT {int(limit)}"
            return [Row(values) for values in db.execute(statement, arguments)]

        return self._with_database(run)

    def _with_database(self, run: Callable[[sqlite3.Connection], list[Row]]) -> list[Row]:
        """Run on the file; a damaged one is made anew, and without a usable file the index lives in memory."""
        for attempt in range(2):
            try:
                return _run_and_close(self._open_file(), run)
            except (sqlite3.DatabaseError, OSError, ValueError) as error:
                busy = isinstance(error, sqlite3.OperationalError) and "lock" in str(error)
                if busy or attempt or not self._discard():
                    break
        return _run_and_close(_prepared(sqlite3.connect(":memory:")), run)

    def _open_file(self) -> sqlite3.Connection:
        folder = os.path.dirname(self._path)
        private_files.make_private_folders(folder, folder)
        # Made by us first, so that it is private from the start.
        os.close(private_files.open_private(self._path, os.O_RDWR | os.O_CREAT))
        return _prepared(sqlite3.connect(self._path, timeout=5))

    def _discard(self) -> bool:
        try:
            for suffix in ("", "-journal", "-wal", "-shm"):
                if os.path.exists(self._path + suffix):
                    os.unlink(self._path + suffix)
        except OSError:
            return False
        return True

    def _refresh(self, db: sqlite3.Connection, files: Iterable[tuple[str, bool]]) -> None:
        known = {
            row["path"]: (row["mtime_ns"], row["size"])
            for row in db.execute("SELECT path, mtime_ns, size FROM threads")
        }
        with db:
            for path, archived in files:
                try:
                    status = os.stat(path)
                except OSError:
                    continue
                if not _is_text(path):
                    self.unreadable[path] = "its name is not UTF-8"
                    continue
                before = known.pop(path, None)
                if before == (status.st_mtime_ns, status.st_size):
                    continue
                _forget(db, path)
                self._add(db, path, archived, status)
            for path in known:
                _forget(db, path)

    def _add(self, db: sqlite3.Connection, path: str, archived: bool, status: os.stat_result) -> None:
        """A file may hold anything, and none may hide the others: what cannot be listed is left out, and told."""
        try:
            _insert(db, self._read(path), archived, status)
        except Exception as error:
            if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, _OF_A_VALUE):
                raise  # the index itself, or its disk; no matter of this file
            _forget(db, path)
            if status.st_size:  # else its writer has only begun
                self.unreadable[path] = str(error) if isinstance(error, ThreadError) else type(error).__name__


_OF_A_VALUE = (sqlite3.ProgrammingError, sqlite3.DataError)


def _insert(db: sqlite3.Connection, data: RolloutData, archived: bool, status: os.stat_result) -> None:
    path, meta = data.path, data.meta
    source = meta.get("source")
    values = (
        path,
        status.st_mtime_ns,
        status.st_size,
        data.thread_id,
        int(archived),
        _created_at(data),
        status.st_mtime,
        str(meta.get("cwd") or ""),
        provider if isinstance(provider := meta.get("model_provider"), str) else None,
        encode_json(source),
        _source_kind(source),
        view.preview(data.records),
        encode_json(_facts(data)),
    )
    db.execute(f"INSERT INTO threads ({_COLUMNS}) VALUES ({','.join('?' * len(values))})", values)
    db.execute("INSERT INTO texts (path, text) VALUES (?, ?)", (path, "\n".join(view.spoken_texts(data.records))))


def _run_and_close(db: sqlite3.Connection, run: Callable[[sqlite3.Connection], list[Row]]) -> list[Row]:
    try:
        return run(db)
    finally:
        db.close()


def _prepared(db: sqlite3.Connection) -> sqlite3.Connection:
    try:
        db.row_factory = sqlite3.Row
        version = db.execute("PRAGMA user_version").fetchone()[0]
        if version == VERSION:
            return db
        if version:
            raise ValueError(f"index of version {version}")
        try:
            db.execute(_FTS)
        except sqlite3.OperationalError:
            # An SQLite without FTS5 or without trigrams: searching is slower, not different.
            db.execute(_PLAIN)
        db.executescript(_SCHEMA)
    except BaseException:
        db.close()
        raise
    return db


def _is_text(path: str) -> bool:
    """Can the database hold the name? That of a file may be any bytes."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _forget(db: sqlite3.Connection, path: str) -> None:
    db.execute("DELETE FROM threads WHERE path = ?", (path,))
    db.execute("DELETE FROM texts WHERE path = ?", (path,))


def _conditions(which: ThreadFilter) -> tuple[list[str], list[Any]]:
    """The filter but for its search, as conditions and the values of their question marks."""
    conditions = ["archived = ?", "preview IS NOT NULL"]
    arguments: list[Any] = [int(which.archived)]
    if not which.subagents:
        conditions.append("source_kind IS NOT 'subagent'")
    for column, allowed in (("cwd", which.cwds), ("provider", which.providers), ("source_kind", which.sources)):
        if allowed:
            conditions.append(f"{column} IN ({','.join('?' * len(allowed))})")
            arguments += allowed
    return conditions, arguments


def _search_condition(db: sqlite3.Connection, search: str, named: Sequence[str]) -> tuple[str, list[Any]]:
    """Text found anywhere in what was said, upper and lower case alike; or one of the named threads."""
    by_name = f"id IN ({','.join('?' * len(named))})" if named else "0"
    declaration = db.execute("SELECT sql FROM sqlite_master WHERE name = 'texts'").fetchone()[0]
    # Three letters are the shortest piece a trigram index can find.
    if "fts5" in declaration and len(search) >= 3:
        quoted = '"' + search.replace('"', '""') + '"'
        return f"({by_name} OR path IN (SELECT path FROM texts WHERE texts MATCH ?))", [*named, f"text : {quoted}"]
    return f"({by_name} OR path IN (SELECT path FROM texts WHERE instr(lower(text), lower(?))))", [*named, search]


def _facts(data: RolloutData) -> dict[str, Any]:
    """What a list shows but nobody filters by."""
    meta = data.meta
    context = next((record.payload for record in reversed(data.records) if record.kind == "turn_context"), {})
    return {
        "originator": meta.get("originator"),
        "cli_version": meta.get("cli_version"),
        "git": meta.get("git") or None,
        "forked_from_id": meta.get("forked_from_id"),
        "model": context.get("model"),
        "effort": context.get("effort"),
    }


def _source_kind(source: Any) -> str | None:
    if isinstance(source, dict):
        return next(iter(source), None)
    return source if isinstance(source, str) else None


def _created_at(data: RolloutData) -> float:
    try:
        return datetime.fromisoformat(str(data.meta.get("timestamp"))).timestamp()
    except ValueError:
        pass
    try:
        return time.mktime(time.strptime(layout.name_time_of(data.path), "%Y-%m-%dT%H-%M-%S"))
    except (ValueError, OverflowError):
        return os.path.getmtime(data.path)
