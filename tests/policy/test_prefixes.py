"""Which prefixes may be offered as "do not ask again"."""

from __future__ import annotations

import pytest

from spindle.policy import prefixes
from spindle.policy.prefixes import means_anything, offerable_prefix


@pytest.mark.parametrize(
    "line",
    [
        *("python", "python3", "/usr/bin/python3.11", "python3 -c", "python -m", "python -I -c", "python -X", "pypy3"),
        *("bash", "bash -lc", "bash -c", "sh", "/bin/zsh -c", "bash -x", "env", "env A=1", "env A=1 bash", "env -i ls"),
        *("sudo", "sudo ls", "doas ls", "xargs", "xargs ls", "git", "git -C x", "git -c a=b log", "git --no-pager"),
        *(
            "rm",
            "rm -r x",
            "npm",
            "npm run",
            "npm exec",
            "npm run -s",
            "pnpm dlx",
            "npx",
            "make",
            "make -f",
            "make -C x",
        ),
        *("node", "node -e", "node -r x", "perl -e", "ruby", "docker", "docker run", "docker run -it", "ssh host ls"),
        *("timeout 5 bash", "timeout 5", "nice -n 5 python3", "nohup", "time bash -c", "command", "find .", "awk 1"),
        *(
            "uv run",
            "cargo",
            "go run",
            "go",
            "kubectl exec",
            "curl http://x",
            "dd",
            "tee x",
            "busybox ls",
            "mkfs.ext4 x",
        ),
        *("PYTHON", "python.exe", "bun x", "deno eval", "./python3", "env env env env env env env env env ls"),
    ],
)
def test_a_prefix_that_means_anything_is_never_offered(line: str) -> None:
    words = line.split()
    assert means_anything(words)
    assert not offerable_prefix(words, [[*words, "more"]])


@pytest.mark.parametrize(
    "line",
    [
        *("npm test", "npm run build", "make test", "pytest", "pytest -q", "cargo test", "git push", "git commit -m x"),
        *("python3 setup.py", "python3 -m pytest", "python -c print(1)", "timeout 60 npm test", "env A=1 npm test"),
        *(
            "./gradlew build",
            "go test",
            "uv run pytest",
            "docker run alpine",
            "nice -n 5 make all",
            "touch f",
            "gcc -c",
        ),
        *("bash build.sh", "node index.js", "base64 -d", "7z x"),
    ],
)
def test_an_ordinary_prefix_is_offered(line: str) -> None:
    words = line.split()
    assert offerable_prefix(words, [[*words, "more"], words])


def test_a_prefix_must_cover_all_that_was_asked_about() -> None:
    assert offerable_prefix(["npm", "test"], [["npm", "test"], ["npm", "test", "-w", "a"]])
    assert not offerable_prefix(["npm", "test"], [["npm", "test"], ["touch", "f"]])
    assert not offerable_prefix(["npm", "test"], [["npm"]])
    assert not offerable_prefix(["npm", "test"], [])
    assert not offerable_prefix([], [["npm", "test"]])


@pytest.mark.parametrize("word", ["a\u202eb", "a\nb", "a\x00", "x" * 5000, "\u200b"])
def test_a_prefix_a_person_cannot_read_is_not_offered(word: str) -> None:
    assert not offerable_prefix(["touch", word], [["touch", word]])


@pytest.mark.parametrize("line", ["git reset --hard", "git push --force", "git branch -D x"])
def test_a_dangerous_command_is_asked_about_each_time(line: str) -> None:
    assert not offerable_prefix(line.split(), [line.split()])
    assert not offerable_prefix(line.split()[:2], [line.split()])


def test_the_list_of_what_means_anything_is_long() -> None:
    alone = prefixes._NAMES
    assert len(alone) > 250
    assert all(means_anything([name]) for name in alone)
    assert all(means_anything(list(pair)) for pair in prefixes._NEED_TWO_WORDS)
