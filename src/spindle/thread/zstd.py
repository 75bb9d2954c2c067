"""Reading rollout files that another program compressed. Imported only when such a file turns up."""

from __future__ import annotations

from importlib import import_module

from spindle.errors import ThreadError


def decompress(data: bytes, path: str) -> bytes:
    """The text of a `.zst` file, with whatever decoder this Python has."""
    for name in ("compression.zstd", "backports.zstd", "zstandard"):
        try:
            module = import_module(name)
        except ImportError:
            continue
        try:
            if name == "zstandard":
                return module.ZstdDecompressor().decompressobj().decompress(data)
            return module.decompress(data)
        except Exception as error:
            # Each decoder has an error type of its own; all of them mean the same to a person.
            raise ThreadError(f"{path} cannot be decompressed: {error}") from error
    raise ThreadError(f"{path} is compressed; install the package backports.zstd, or run `unzstd` on it")
