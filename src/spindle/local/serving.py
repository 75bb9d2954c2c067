"""The child process that runs a model: `python -m spindle.local.serving`.

It reads one line of JSON from stdin (an `Order`), starts llama.cpp's server on a free loopback port, and says on stdout
where that is (a `Report`). It lives until its stdin ends, so it cannot outlive whoever started it.

The file it reads may come from anywhere, and what reads it is a large program in C++. So where the kernel can do that
(Linux with Landlock), it gives up writing to files and connecting to servers before it opens the file.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

import msgspec

from spindle.local.gguf import BATCH_TOKENS

LINE_BYTES = 1 << 16
MOST_TOKENS = 4096
"""Of one answer: a small model that has lost the thread would go on until its window is full."""


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be run, and how."""

    path: str
    name: str
    key: str
    """What a request must bring along."""
    context: int
    threads: int


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    address: str = ""
    """`http://127.0.0.1:PORT`"""
    error: str = ""


def main() -> None:
    order = msgspec.json.decode(_read_line(0), type=Order)
    # Whatever the library prints goes to stderr: stdout is for the report alone.
    out = os.dup(1)
    os.dup2(2, 1)
    _confine()
    try:
        server = _serve(order)
        report = Report(address=server.listening_address)
    except ImportError as error:
        report = Report(error=f"xllamacpp cannot be loaded: {error}")
    except (AttributeError, TypeError) as error:
        report = Report(error=f"this version of xllamacpp is not one that Spindle knows: {error}")
    except (RuntimeError, ValueError, OSError) as error:
        report = Report(error=str(error) or "llama.cpp could not load the file")
    os.write(out, msgspec.json.encode(report) + b"\n")
    os.close(out)
    while not report.error and os.read(0, LINE_BYTES):
        pass
    # Threads of the library may be in the middle of an answer that nobody waits for.
    os._exit(1 if report.error else 0)


def _serve(order: Order) -> Any:
    """Load the model; the server runs in threads of its own."""
    xllamacpp: Any = import_module("xllamacpp")  # the extra `local`; it has no types
    params = xllamacpp.CommonParams()
    params.model.path = order.path
    params.model_alias = {order.name}
    params.n_ctx = order.context
    params.n_ubatch = BATCH_TOKENS
    params.n_parallel = 1
    params.fit_params = False  # the plan fits already; this would load the model twice
    params.cpuparams.n_threads = order.threads
    params.cpuparams_batch.n_threads = order.threads
    params.ctx_shift = False
    params.cache_prompt = True
    params.cache_ram_mib = 0  # one conversation at a time, and its prompt stays where it was worked out
    params.n_predict = MOST_TOKENS
    params.sampling.temp = 0.2
    params.sampling.seed = 1
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [order.key]
    params.ui = False
    params.endpoint_slots = False
    params.offline = True
    params.verbosity = 1
    return xllamacpp.Server(params)


def _confine() -> None:
    if sys.platform != "linux":
        return
    from spindle.process.sandbox import landlock  # Linux only

    version = landlock.abi()
    if version < landlock.LEAST_ABI:
        return
    try:
        landlock.restrict_thread(landlock.reading_only(version))
    except OSError:
        pass  # a container may forbid it; the file was chosen by a person


def _read_line(fd: int) -> bytes:
    line = b""
    while not line.endswith(b"\n") and len(line) < LINE_BYTES and (data := os.read(fd, 4096)):
        line += data
    return line


if __name__ == "__main__":
    main()
