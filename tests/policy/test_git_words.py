"""What the words of a git command name."""

from __future__ import annotations

import shlex

import pytest

from spindle.policy.git_words import folders_of, named_program, parse


@pytest.mark.parametrize(
    "line",
    [
        "git -c core.editor=./x commit",
        "git -ccore.editor=./x commit",
        "git -c CORE.sshCommand=x fetch",
        "git -c alias.st=!x st",
        "git -c include.path=x status",
        "git -c filter.a.b.clean=x add f",
        "git --config-env=core.pager=HOME log",
        "git --config-env core.pager=HOME log",
        "git --exec-path=. status",
        "git -C sub --exec-path=. status",
        "git rebase -x ./x main",
        "git rebase --exec=./x main",
        "git rebase --exe ./x main",
        "git rebase -ix ./x main",
        "git clone -u ./x a b",
        "git clone -c core.fsmonitor=x a b",
        "git clone --template=./t a b",
        "git fetch --upload-pack=./x o",
        "git fetch --upload-p ./x o",
        "git push --receive-pack ./x o",
        "git push --exec=./x o",
        "git grep -O./x a",
        "git grep --open-files-in-pager=./x a",
        "git difftool -x ./x",
        "git difftool --extcmd=./x",
        "git bisect run ./x",
        "git submodule foreach ./x",
        "git submodule --quiet foreach ./x",
        "git filter-branch --tree-filter ./x",
        "git send-email --to-cmd=./x p",
        "git config core.hooksPath ./x",
        "git config --global alias.x !y",
        "git config set core.fsmonitor ./x",
        "git ls-remote ext::./x",
        "git clone ext::./x",
        "git merge -s mine side",
        "git merge --strategy=mine side",
        "git pull -smine",
        "git-rebase -x ./x",
    ],
)
def test_a_program_that_the_words_name_is_seen(line: str) -> None:
    words = shlex.split(line)
    assert named_program(parse(words)) is not None
    assert named_program(parse(words), len(words)) is None  # a person wrote all of them


@pytest.mark.parametrize(
    "line",
    [
        "git status",
        "git commit -a -m x --template=t",
        "git commit -m 'run --exec'",
        "git log --exclude=x --extended-regexp",
        "git -c user.name=x -c color.ui=false log",
        "git -C sub status",
        "git --no-pager diff",
        "git add -- --exec",
        "git fetch --prune origin",
        "git push -u origin main",
        "git merge -s ours side",
        "git rebase -i main",
        "git clone https://example.org/x",
        "git config user.name x",
        "git config core.editor",
        "git bisect good",
        "git submodule update --init",
        "git",
    ],
)
def test_ordinary_words_name_none(line: str) -> None:
    assert named_program(parse(shlex.split(line))) is None


def test_which_repository_the_words_mean() -> None:
    line = parse(["git", "-C", "a", "-C", "b", "--git-dir", "g", "--work-tree=w", "-p", "log", "-C", "x"])
    assert (line.folder("/r"), line.command, line.rest) == ("/r/a/b", "log", ("-C", "x"))
    assert line.environment({"A": "1"}) == {"A": "1", "GIT_DIR": "g", "GIT_WORK_TREE": "w"}
    assert parse(["/usr/bin/git", "--bare", "log"]).git_dir == "."


def test_where_a_line_may_be() -> None:
    assert folders_of([["cd", "a"], ["git", "log"]], ["/nowhere"], {}) == ["/nowhere", "/nowhere/a"]
    for words in (["popd"], ["eval", "cd x"], ["cd"], ["cd", "-"], ["cd", "a*"], ["pushd", "~x"]):
        assert folders_of([words], ["/nowhere"], {}) is None
