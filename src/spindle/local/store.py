"""The models that the user has added: `$CODEX_HOME/spindle/models/NAME.gguf`, and beside each what is known of it.

A model is copied, not linked: what was checked when it was added is what runs later.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable
from contextlib import suppress

import msgspec

from spindle.errors import ConfigError, UsageError
from spindle.local.gguf import GgufFacts, read_gguf
from spindle.protocol.items import decode_foreign
from spindle.thread.private_files import (
    make_private_folders,
    open_private,
    replace_private,
    try_lock,
    unlink_if_possible,
    write_all,
)

STEP_BYTES = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")

Advance = Callable[[int, int], None]
"""Told how many bytes are there, and how many there will be (0 = not known)."""


class LocalModel(msgspec.Struct, frozen=True, kw_only=True):
    """One model that was added."""

    name: str
    path: str
    size_bytes: int
    sha256: str
    source: str
    """The file or address it came from."""
    facts: GgufFacts
    reads_per_s: float | None = None
    """Tokens of a prompt that it read in a second, when that was last measured here."""
    writes_per_s: float | None = None


class _Record(msgspec.Struct, kw_only=True):
    """The file beside a model."""

    version: int = 1
    sha256: str
    size_bytes: int
    source: str
    facts: GgufFacts
    reads_per_s: float | None = None
    writes_per_s: float | None = None


class ModelStore:
    """The folder of models of one home."""

    def __init__(self, home: str) -> None:
        self._home = home
        self.folder = f"{home}/spindle/models"

    def all(self) -> list[LocalModel]:
        """Every model that is whole, by name."""
        try:
            names = sorted(entry.removesuffix(".gguf") for entry in os.listdir(self.folder) if entry.endswith(".gguf"))
        except OSError:
            return []
        return [model for name in names if (model := self._read(name)) is not None]

    def find(self, name: str | None) -> LocalModel:
        """The model of that name; without a name, the only one there is. Raises ConfigError."""
        models = self.all()
        if name is not None and (found := next((model for model in models if model.name == name), None)):
            return found
        if name is None and len(models) == 1:
            return models[0]
        if not models:
            raise ConfigError(
                "no model has been added for the provider `local`; get a GGUF file and add it with "
                "`spindle local add FILE` or `spindle local add URL --sha256 SUM`"
            )
        there = ", ".join(model.name for model in models)
        if name is None:
            raise ConfigError(f"which of your local models is meant? Name one with -m: {there}")
        raise ConfigError(f"the provider `local` has no model {name!r}; there is: {there}. Choose one with -m")

    def remove(self, name: str) -> LocalModel:
        model = self.find(name)
        try:
            os.unlink(model.path)
        except OSError as error:
            raise ConfigError(f"{model.path} cannot be removed: {error.strerror or error}") from error
        unlink_if_possible(self._record_path(name))
        return model

    def note_speed(self, name: str, reads_per_s: float | None, writes_per_s: float | None) -> None:
        """Remember how fast the model was on this computer. It is only for people, so trouble is passed over."""
        with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
            record = self._read_record(name)
            record.reads_per_s = reads_per_s or record.reads_per_s
            record.writes_per_s = writes_per_s or record.writes_per_s
            replace_private(self._record_path(name), msgspec.json.encode(record))

    # ---- adding ----------------------------------------------------------------------------------

    def draft(self, name: str) -> Draft:
        """The place where a new model is put together. Raises ConfigError while somebody else does the same."""
        if not _NAME.match(name):
            raise UsageError(f"{name!r} is not a name for a model: use letters, digits, `.`, `-` and `_` (--name NAME)")
        if (there := self._read(name)) is not None:
            raise ConfigError(
                f"there is a model {name} already, from {there.source} (sha256 {there.sha256}); remove it with "
                f"`spindle local remove {name}`, or give the new one another name with --name"
            )
        make_private_folders(self.folder, self._home)
        return Draft(self, name)

    def keep(self, draft: Draft, sha256: str, source: str, wanted: str | None) -> LocalModel:
        """Take the finished draft in, if it is what was wanted; else it is thrown away. Raises ConfigError."""
        if wanted is not None and sha256 != wanted:
            draft.discard()
            raise ConfigError(
                f"{source} is not the requested file, so it was not added: its sha256 is {sha256}, and "
                f"--sha256 says {wanted}"
            )
        try:
            facts = read_gguf(draft.path)
            if not facts.has_template:
                raise ConfigError(
                    f"{draft.path} has no chat template, so nobody can talk to it; take an instruct model"
                )
        except ConfigError as error:
            draft.discard()
            raise ConfigError(str(error).replace(draft.path, source)) from None
        record = _Record(sha256=sha256, size_bytes=draft.size, source=source, facts=facts)
        replace_private(self._record_path(draft.name), msgspec.json.encode(record))
        draft.finish(self._model_path(draft.name))
        return self._made(draft.name, record)

    # ---- files -----------------------------------------------------------------------------------

    def _read(self, name: str) -> LocalModel | None:
        """None for what is not there, or not as it was when it was added."""
        try:
            record = self._read_record(name)
            is_whole = os.stat(self._model_path(name)).st_size == record.size_bytes
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return None
        return self._made(name, record) if is_whole else None

    def _read_record(self, name: str) -> _Record:
        with open(self._record_path(name), "rb") as file:
            return msgspec.convert(decode_foreign(file.read()), _Record)

    def _made(self, name: str, record: _Record) -> LocalModel:
        return LocalModel(
            name=name,
            path=self._model_path(name),
            size_bytes=record.size_bytes,
            sha256=record.sha256,
            source=record.source,
            facts=record.facts,
            reads_per_s=record.reads_per_s,
            writes_per_s=record.writes_per_s,
        )

    def _model_path(self, name: str) -> str:
        return f"{self.folder}/{name}.gguf"

    def _record_path(self, name: str) -> str:
        return f"{self.folder}/{name}.json"


class Draft:
    """A file on its way into the store. Locked; what is there stays when the way is cut short, unless discarded."""

    def __init__(self, store: ModelStore, name: str) -> None:
        self.name = name
        self.path = f"{store.folder}/{name}.part"
        self._folder = store.folder
        self._fd = open_private(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
        if not try_lock(self._fd):
            os.close(self._fd)
            raise ConfigError(f"the model {name} is being added by another process; wait for it")

    @property
    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def make_room(self, total: int) -> None:
        """Raises ConfigError if the disk has no room for so many bytes."""
        free, missing = shutil.disk_usage(self._folder).free, total - self.size
        if missing > free:
            raise ConfigError(
                f"{self._folder} has no room for it: {missing / 1e9:.1f} GB are to come, {free / 1e9:.1f} GB are free"
            )

    def restart(self) -> None:
        os.ftruncate(self._fd, 0)

    def append(self, data: bytes) -> None:
        os.lseek(self._fd, 0, os.SEEK_END)
        write_all(self._fd, data)

    def sha256(self) -> str:
        """Of all that is there."""
        digest = hashlib.sha256()
        place = 0
        while data := os.pread(self._fd, STEP_BYTES, place):
            digest.update(data)
            place += len(data)
        return digest.hexdigest()

    def finish(self, path: str) -> None:
        os.fsync(self._fd)
        os.replace(self.path, path)
        self.close()

    def discard(self) -> None:
        unlink_if_possible(self.path)
        self.close()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def copy_in(store: ModelStore, path: str, name: str, wanted: str | None, advance: Advance) -> LocalModel:
    """Add a file of this computer. Raises ConfigError."""
    path = os.path.abspath(path)
    read_gguf(path)  # before a long copy: most mistakes show at once
    draft = store.draft(name)
    try:
        draft.restart()
        with open(path, "rb") as file:
            total = os.fstat(file.fileno()).st_size
            draft.make_room(total)
            digest, done = hashlib.sha256(), 0
            while data := file.read(STEP_BYTES):
                draft.append(data)
                digest.update(data)
                done += len(data)
                advance(done, total)
        return store.keep(draft, digest.hexdigest(), path, wanted)
    except OSError as error:
        draft.discard()
        raise ConfigError(f"{path} could not be copied to {store.folder}: {error.strerror or error}") from error
    except BaseException:
        draft.discard()
        raise


def name_for(source: str) -> str:
    """The name of a model by its file or address: `Qwen2.5-Coder-1.5B-Q4_K_M.gguf?download=true` without the ends."""
    last = source.split("?")[0].split("#")[0].rstrip("/").rpartition("/")[2]
    stem = last[:-5] if last.lower().endswith(".gguf") else last
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("._-")[:100]
    return name or "model"


def read_sha256(text: str) -> str:
    """A checksum as a person writes it. Raises UsageError."""
    found = text.strip().lower().removeprefix("sha256:")
    if not _SHA256.match(found):
        raise UsageError(f"--sha256 takes 64 hexadecimal digits, not {text!r}")
    return found
