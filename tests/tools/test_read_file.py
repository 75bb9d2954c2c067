"""Lines of files as the model is shown them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spindle.context.truncate import Truncation
from spindle.errors import ToolError
from spindle.policy.sandbox import Fence
from spindle.policy.secrets import Secrets
from spindle.protocol.settings import SandboxPolicy
from spindle.thread.offload import store_output
from spindle.tools import specs
from spindle.tools.read_file import read_lines
from tools.bench import Bench


async def read(bench: Bench, content: bytes | str, **given: object) -> str:
    file = bench.folder / "file"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return await bench.run(specs.read_file(), {"file_path": str(file), **given})


async def refusal(bench: Bench, path: Path | str, **given: object) -> str:
    with pytest.raises(ToolError) as caught:
        await bench.run(specs.read_file(), {"file_path": str(path), **given})
    return str(caught.value)


async def test_lines_are_numbered(bench: Bench):
    assert await read(bench, "alpha\n\n  beta\n") == "L1: alpha\nL2: \nL3:   beta"
    assert await read(bench, "alpha\nbeta") == "L1: alpha\nL2: beta"


async def test_a_range_of_lines_is_read(bench: Bench):
    text = "".join(f"line {number}\n" for number in range(1, 3001))
    assert await read(bench, text, offset=2, limit=2) == "L2: line 2\nL3: line 3"
    assert await read(bench, text, offset=2999) == "L2999: line 2999\nL3000: line 3000"
    assert (await read(bench, text)).endswith("\nL2000: line 2000")


async def test_line_ends_and_bytes_that_are_no_text_are_dealt_with(bench: Bench):
    assert await read(bench, b"one\r\ntwo\rstill\r\n\xff\xfe\nplain\n") == (
        "L1: one\nL2: two\rstill\nL3: \ufffd\ufffd\nL4: plain"
    )
    assert await read(bench, "a\u2028b\x0cc\n") == "L1: a\u2028b\x0cc"


async def test_a_long_line_is_cut_at_a_whole_character(bench: Bench):
    assert await read(bench, "x" * 600 + "\nnext\n") == f"L1: {'x' * 500}\nL2: next"
    assert await read(bench, "é" * 400) == f"L1: {'é' * 250}"
    assert await read(bench, "x" + "é" * 400) == f"L1: x{'é' * 249}"


async def test_the_end_of_an_endless_line_is_found(bench: Bench):
    assert await read(bench, b"x" * (3 << 20) + b"\nnext\n") == f"L1: {'x' * 500}\nL2: next"


async def test_a_page_ends_with_the_models_budget_and_says_where_to_go_on(bench: Bench):
    bench.truncation = Truncation(mode="bytes", limit=1_000)
    text = "".join(f"{number:03} {'y' * 40}\n" for number in range(1, 101))
    page = (await read(bench, text)).split("\n")
    assert page[-1] == f"[The output limit ends this page; go on with offset {len(page)}.]"
    assert len("\n".join(page)) < 1_100
    following = await read(bench, text, offset=len(page))
    assert following.startswith(f"L{len(page)}: {len(page):03} ")


async def test_the_last_lines_of_a_large_file_are_read_without_keeping_it(bench: Bench):
    file = bench.folder / "large"
    with file.open("wb") as out:
        for _ in range(64):
            out.write(b"0123456789abcde\n" * (1 << 16))
    count = 64 << 16
    assert await bench.run(specs.read_file(), {"file_path": str(file), "offset": count}) == f"L{count}: 0123456789abcde"
    assert await refusal(bench, file, offset=count + 1) == f"offset exceeds file length: the file has {count} lines"


@pytest.mark.parametrize("offset", [8_193, 10_000])
def test_a_file_without_an_end_is_not_searched_forever(tmp_path: Path, offset: int):
    file = tmp_path / "endless"
    file.write_bytes(b"x\n" * 8_192)
    os.truncate(file, 1 << 42)
    assert read_lines(str(file), limit=1) == "L1: x"
    with pytest.raises(
        ToolError, match="lines are looked for in the first 1048576 bytes of a file only; use a command"
    ):
        read_lines(str(file), offset=offset, limit=1, scan=1 << 20)


async def test_utf_16_with_its_mark_is_read_and_other_binary_files_are_refused(bench: Bench):
    assert await read(bench, "eins\nzwei\n".encode("utf-16")) == "L1: eins\nL2: zwei"
    (bench.folder / "b").write_bytes(b"\x7fELF\0\0\0")
    assert await refusal(bench, bench.folder / "b") == (
        f"{bench.folder}/b is a binary file of 7 bytes; it has no lines to read"
    )


async def test_what_cannot_be_read_is_said_in_one_sentence(bench: Bench):
    (bench.folder / "empty").write_text("")
    (bench.folder / "two").write_text("1\n2")
    os.mkfifo(bench.folder / "pipe")
    folder = str(bench.folder)
    assert await refusal(bench, f"{folder}/empty") == "offset exceeds file length: the file has 0 lines"
    assert await refusal(bench, f"{folder}/two", offset=3) == "offset exceeds file length: the file has 2 lines"
    assert await refusal(bench, f"{folder}/two", offset=0) == "offset must be a 1-indexed line number"
    assert await refusal(bench, f"{folder}/two", limit=0) == "limit must be greater than zero"
    assert await refusal(bench, f"{folder}/none") == (
        f"failed to read file {folder}/none: No such file or directory (os error 2)"
    )
    assert await refusal(bench, folder) == f"{folder} is a folder; list_dir shows what is in it"
    assert (
        await refusal(bench, f"{folder}/pipe") == f"failed to read file {folder}/pipe: Not a regular file (os error 22)"
    )
    assert await refusal(bench, "/dev/zero") == "failed to read file /dev/zero: Not a regular file (os error 22)"
    assert await refusal(bench, "two") == (
        f"file_path must be an absolute path; from the working directory that would be {folder}/two"
    )
    assert (await refusal(bench, f"{folder}/two", mode="whole")).startswith("failed to parse function arguments: ")


async def test_the_agents_own_process_is_not_shown(bench: Bench):
    (bench.folder / "link").symlink_to("/proc/self/environ")
    for path in ("/proc/self/environ", "/proc/self/root/proc/self/environ", f"{bench.folder}/link"):
        assert await refusal(bench, path) == (
            f"{path} belongs to the system's processes, which only commands may look at"
        )


async def test_a_link_is_followed_to_what_may_be_read_and_no_further(bench: Bench):
    bench.sandbox, bench.fence = SandboxPolicy(mode="read-only"), Fence(deny_read=("secret*",))
    (bench.folder / "secret.txt").write_text("password\n")
    (bench.folder / "open.txt").write_text("hello\n")
    (bench.folder / "to_open").symlink_to("open.txt")
    (bench.folder / "to_secret").symlink_to("secret.txt")
    os.link(bench.folder / "secret.txt", bench.folder / "hard")
    assert await bench.run(specs.read_file(), {"file_path": f"{bench.folder}/to_open"}) == "L1: hello"
    for name in ("secret.txt", "to_secret", "hard", "../work/secret.txt"):
        path = f"{bench.folder}/{name}"
        assert await refusal(bench, path) == f"reading {path} is denied by the user's settings"


async def test_what_this_thread_put_aside_can_be_read_although_the_agents_folder_is_denied(bench: Bench):
    home = bench.folder.parent / "home"
    bench.sandbox, bench.fence = SandboxPolicy(mode="read-only"), Fence(deny_read=(f"{home}/**",))
    (home / "auth.json").write_text("{}")
    mine = store_output(str(home), "thread_1", "call_7", "one\ntwo\n")
    other = store_output(str(home), "thread_2", "call_7", "one\ntwo\n")
    assert mine is not None and other is not None
    assert await bench.run(specs.read_file(), {"file_path": mine.path, "offset": 2}) == "L2: two"
    for path in (other.path, home / "auth.json", f"{mine.path}/../../../../auth.json"):
        assert "denied by the user's settings" in await refusal(bench, path)


async def test_secrets_are_masked_before_lines_are_cut(bench: Bench):
    key = "k3y-" + "s" * 60
    pem = "-----BEGIN PRIVATE KEY-----\n" + "QUJD" * 16 + "\n-----END PRIVATE KEY-----"
    bench.table.secrets = Secrets(mask="known", own=lambda: [("MY_KEY", key), ("PEM", pem)])
    shown = await read(bench, "x" * 470 + key + f"\nplain\n{pem}\nend\n")
    assert "k3y" not in shown and "QUJD" not in shown and "plain" in shown and "end" in shown


CODE = """\
import os

# What it is
# about
class Zoo:
    name = "zoo"

    def feed(self, animal):
        if animal:
            # hungry
            animal.eat()
        return animal

    def close(self):
        pass


def other():
    pass
"""


async def block(bench: Bench, anchor: int, **given: object) -> list[int]:
    limit = given.pop("limit", 2000)
    text = await read(bench, CODE, mode="indentation", offset=anchor, limit=limit, indentation=given)
    return [int(line[1:].split(":")[0]) for line in text.split("\n")]


async def test_the_block_around_a_line_is_found_by_its_indentation(bench: Bench):
    assert await block(bench, 11, max_levels=1) == [9, 10, 11]
    assert await block(bench, 11, max_levels=2) == [8, 9, 10, 11, 12]
    assert await block(bench, 15, max_levels=1) == [14, 15]
    assert await block(bench, 11, max_levels=2, include_siblings=True) == list(range(6, 16))
    assert await block(bench, 11) == list(range(3, 16))
    assert await block(bench, 11, include_header=False) == list(range(5, 16))
    assert await block(bench, 11, max_lines=3) == [10, 11, 12]
    assert await block(bench, 11, limit=1) == [11]
    assert await block(bench, 1, anchor_line=19) == [18, 19]
    assert await block(bench, 18) == [18, 19]
    assert await block(bench, 1) == [1]


async def test_a_block_goes_on_to_what_closes_it(bench: Bench):
    code = "a();\nif (x) {\n\n\tb();\n} else {\n\tc();\n}\nd();\n"
    text = await read(bench, code, mode="indentation", offset=4)
    assert text.split("\n") == ["L2: if (x) {", "L3: ", "L4: \tb();", "L5: } else {", "L6: \tc();", "L7: }"]


async def test_an_anchor_outside_of_the_file_is_refused(bench: Bench):
    (bench.folder / "f").write_text("a\n")
    path = bench.folder / "f"
    assert await refusal(bench, path, mode="indentation", offset=2) == (
        "anchor_line exceeds file length: the file has 1 lines"
    )
    for given, message in (
        ({"anchor_line": 0}, "anchor_line must be a 1-indexed line number"),
        ({"max_lines": 0}, "max_lines must be greater than zero"),
    ):
        assert await refusal(bench, path, mode="indentation", indentation=given) == message
