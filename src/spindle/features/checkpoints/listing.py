"""What a folder holds, entry by entry, with the stamps that tell whether an entry was touched since.

Listings are kept packed, in memory and in the store: a tree of a hundred thousand files stays small.
"""

from __future__ import annotations

import os
import stat

import msgspec

from spindle.features.checkpoints.images import ABSENT, Image

LARGE, FULL, UNREADABLE = "!large", "!full", "!unreadable"
"""In the place of a digest: why a content is not kept."""
WHY = {
    LARGE: "it is larger than spindle.checkpoints.max_file_bytes",
    FULL: "there was no room for it (spindle.checkpoints.max_bytes)",
    UNREADABLE: "it could not be read",
}


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One name in a folder."""

    kind: str
    """As in the JSON form of an image: f, l, d or o."""
    mode: int
    content: str = ""
    """A file's digest, or one of the marks above; a link's target."""
    size: int = 0
    mtime: int = 0
    ctime: int = 0
    inode: int = 0

    def is_untouched(self, now: os.stat_result) -> bool:
        """By its stamps nothing has happened to it."""
        return (self.mtime, self.size, self.inode, self.ctime, self.mode) == (
            now.st_mtime_ns,
            now.st_size,
            now.st_ino,
            now.st_ctime_ns,
            now.st_mode & 0o777,
        )

    @property
    def image(self) -> Image:
        match self.kind:
            case "f" if self.content in WHY:
                return Image("file", mode=self.mode, size=self.size, why=WHY[self.content])
            case "f":
                return Image("file", self.content, self.mode, size=self.size)
            case "l":
                return Image("link", target=self.content)
            case "d":
                return Image("folder", mode=self.mode)
            case _:
                return Image("other", why="it is neither a file nor a link")


Listing = dict[str, Entry]
_decoder = msgspec.msgpack.Decoder(dict[bytes, Entry])
_manifest_decoder = msgspec.msgpack.Decoder(dict[bytes, str])
_encoder = msgspec.msgpack.Encoder()


def pack(listing: Listing) -> bytes:
    return _encoder.encode({os.fsencode(name): _printable(entry) for name, entry in listing.items()})


def unpack(data: bytes) -> Listing:
    return {os.fsdecode(name): _original(entry) for name, entry in _decoder.decode(data).items()}


def pack_manifest(manifest: dict[str, str]) -> bytes:
    return _encoder.encode({os.fsencode(name): digest for name, digest in manifest.items()})


def unpack_manifest(data: bytes) -> dict[str, str]:
    return {os.fsdecode(name): digest for name, digest in _manifest_decoder.decode(data).items()}


def _printable(entry: Entry) -> Entry:
    """A target may hold bytes that are no text."""
    if entry.kind != "l" or entry.content.isascii():
        return entry
    return msgspec.structs.replace(entry, kind="L", content=os.fsencode(entry.content).hex())


def _original(entry: Entry) -> Entry:
    if entry.kind != "L":
        return entry
    return msgspec.structs.replace(entry, kind="l", content=os.fsdecode(bytes.fromhex(entry.content)))


def entry_kind(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "f"
    if stat.S_ISDIR(mode):
        return "d"
    return "l" if stat.S_ISLNK(mode) else "o"


def stamped(kind: str, content: str, status: os.stat_result) -> Entry:
    return Entry(
        kind,
        status.st_mode & 0o777,
        content,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_ino,
    )


def image_of(entry: Entry | None) -> Image:
    return ABSENT if entry is None else entry.image
