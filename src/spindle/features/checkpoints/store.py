"""The store of contents: one database for all threads of a home, addressed by digest, compressed.

It also knows the last state of each folder that was looked at (`baseline`), so that the next process need not read
every file again. Several processes use it at once. Whatever can go wrong with it is an OSError or a sqlite3.Error.
"""

from __future__ import annotations

import os
import sqlite3
import zlib
from _blake2 import blake2b  # of the standard library; `hashlib` would load OpenSSL with the first command

from spindle.thread.private_files import FILE_MODE, make_private_folders, open_private

FOLDER = "spindle/checkpoints"
"""Below the agent's home."""
_WAIT_S = 10.0
_SMALL, _WINDOW = 128, 1 << 15
_COMMIT_BYTES = 16 << 20
_SCHEMA = """
CREATE TABLE IF NOT EXISTS content (digest TEXT PRIMARY KEY, size INTEGER NOT NULL, stored INTEGER NOT NULL,
                                    is_packed INTEGER NOT NULL, data BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS baseline (root TEXT PRIMARY KEY, manifest TEXT NOT NULL, used_at REAL NOT NULL);
"""


def folder_of(home: str) -> str:
    return f"{home.rstrip('/')}/{FOLDER}"


def intents_folder(home: str) -> str:
    return f"{folder_of(home)}/restoring"


def has_unfinished(home: str) -> bool:
    """Somebody puts files back, or was killed while doing so."""
    try:
        return bool(os.listdir(intents_folder(home)))
    except OSError:
        return False


class Store:
    """An open connection. Used by one thread at a time."""

    def __init__(self, home: str) -> None:
        self.folder = folder_of(home)
        make_private_folders(self.folder, f"{home.rstrip('/')}/spindle")
        self._path = f"{self.folder}/contents.db"
        os.close(open_private(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW))
        self._db = sqlite3.connect(self._path, timeout=_WAIT_S, isolation_level=None, check_same_thread=False)
        try:
            self._prepare()
        except BaseException:
            self._db.close()
            raise
        self._waiting = 0
        self._is_flushed = False
        self.added = 0
        """Bytes that this connection has stored."""

    def _prepare(self) -> None:
        # A person's processes end at any time: what is committed must be there, and the file must shrink again.
        self._db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA journal_size_limit = 1048576")
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.executescript(_SCHEMA)

    def close(self) -> None:
        self._db.close()

    # ---- contents ------------------------------------------------------------------------------

    def put(self, data: bytes) -> str:
        """Keep a content; gives its digest. It is safe after `commit`."""
        digest = digest_of(data)
        if self.has(digest):
            return digest
        packed = _packed(data)
        is_packed = len(packed) < len(data)
        kept = packed if is_packed else data
        self._begin()
        row = (digest, len(data), len(kept), is_packed, kept)
        self._db.execute("INSERT OR IGNORE INTO content VALUES (?, ?, ?, ?, ?)", row)
        self.added += len(kept)
        self._waiting += len(kept)
        if self._waiting > _COMMIT_BYTES:
            self.commit()
        return digest

    def has(self, digest: str) -> bool:
        return self._db.execute("SELECT 1 FROM content WHERE digest = ?", (digest,)).fetchone() is not None

    def get(self, digest: str) -> bytes | None:
        """A content; None when it is not there, or damaged."""
        row = self._db.execute("SELECT is_packed, data FROM content WHERE digest = ?", (digest,)).fetchone()
        if row is None:
            return None
        try:
            data = zlib.decompress(row[1]) if row[0] else bytes(row[1])
        except zlib.error:
            return None
        return data if digest_of(data) == digest else None

    def digests(self) -> dict[str, int]:
        """Everything that is kept, and how much room each takes."""
        return dict(self._db.execute("SELECT digest, stored FROM content").fetchall())

    def remove(self, digests: list[str]) -> None:
        self._begin()
        self._db.executemany("DELETE FROM content WHERE digest = ?", [(digest,) for digest in digests])
        self.commit()

    # ---- folders -------------------------------------------------------------------------------

    def baseline(self, root: str) -> str | None:
        """The manifest of a folder's last known state."""
        row = self._db.execute("SELECT manifest FROM baseline WHERE root = ?", (root,)).fetchone()
        return None if row is None else str(row[0])

    def set_baseline(self, root: str, manifest: str, now: float) -> None:
        self._begin()
        self._db.execute("INSERT OR REPLACE INTO baseline VALUES (?, ?, ?)", (root, manifest, now))

    def baselines(self) -> list[tuple[str, str, float]]:
        """Root, manifest and when it was used; the one not used for longest first."""
        return self._db.execute("SELECT root, manifest, used_at FROM baseline ORDER BY used_at").fetchall()

    def forget_baseline(self, root: str) -> None:
        self._begin()
        self._db.execute("DELETE FROM baseline WHERE root = ?", (root,))

    # ---- safety and size -----------------------------------------------------------------------

    def commit(self, *, durable: bool = False) -> None:
        """Make what was put safe against a killed process; `durable`: against a power cut too."""
        if self._db.in_transaction:
            self._db.execute("COMMIT")
            self._is_flushed = False
        self._waiting = 0
        if durable and not self._is_flushed:
            for path in (self._path, f"{self._path}-wal"):
                _flush(path)
            self._is_flushed = True

    def _begin(self) -> None:
        if not self._db.in_transaction:
            self._db.execute("BEGIN IMMEDIATE")

    @property
    def size(self) -> int:
        """What the files of the store take on disk."""
        total = 0
        with os.scandir(self.folder) as found:
            for entry in found:
                if entry.is_file(follow_symlinks=False):
                    total += entry.stat(follow_symlinks=False).st_size
        return total

    def shrink(self) -> None:
        """Give the room of what was removed back to the disk."""
        self.commit()
        self._db.executescript("PRAGMA incremental_vacuum")  # to its end: `execute` would free one page
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _flush(path: str) -> None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # without a write-ahead log, as on network disks, a commit is flushed by itself
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _packed(data: bytes) -> bytes:
    if len(data) <= _SMALL:
        return data
    # Most files are small: a small window takes a third of the time that setting up a large one does.
    window, memory = (12, 4) if len(data) <= _WINDOW else (15, 8)
    packer = zlib.compressobj(1, zlib.DEFLATED, window, memory)
    return packer.compress(data) + packer.flush()


def digest_of(data: bytes) -> str:
    return blake2b(data, digest_size=20).hexdigest()


def save_beside(folder: str, name: str, data: bytes) -> str:
    """A file of its own beside the store, for a person to look at; gives its path."""
    saved = f"{folder}/saved"
    make_private_folders(saved, folder)
    number = 0
    while True:
        path = f"{saved}/{name}" if not number else f"{saved}/{number}-{name}"
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
        except FileExistsError:
            number += 1
            continue
        with open(fd, "wb") as file:
            file.write(data)
        return path
