"""Row 11: where nobody can be asked, commands are decided by effect; only what cannot be made good again is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spindle.policy.approval import Allow, Circumstances, Decision, Refuse, decide_command
from spindle.policy.losses import branches
from spindle.policy.place import Place
from spindle.protocol.settings import SandboxMode, SandboxPolicy

MODES: tuple[SandboxMode, ...] = ("read-only", "workspace-write", "danger-full-access")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "home" / "src" / "work"
    (folder / "build").mkdir(parents=True)
    (folder / ".git" / "refs" / "remotes" / "origin").mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/feature/x\n")
    (folder / ".git" / "refs" / "remotes" / "origin" / "HEAD").write_text("ref: refs/remotes/origin/trunk\n")
    (folder / "link").symlink_to("..")
    return folder


def decide(script: str | list[str], work: Path, mode: SandboxMode = "workspace-write") -> Decision:
    return decide_command(
        ["bash", "-lc", script] if isinstance(script, str) else script,
        Circumstances(
            policy="never",
            sandbox=SandboxPolicy(mode=mode),
            place=Place(cwd=str(work), workspace=(str(work),), home=str(work.parent.parent)),
        ),
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "script",
    [
        *("rm -rf build", "rm -rf ./build dist", "rm -rf build/*", "rm -f *.o", "rm -rf node_modules && npm ci"),
        *("cd build && rm -rf *", "cd build; rm -rf ./*", "(cd build && rm -rf .cache *)", "rm -rf $BUILD_DIR"),
        *("git clean -fd", "git clean -fdx", "git reset --hard", "git reset --hard HEAD~1", "git checkout -- ."),
        *("git branch -D old", "git rm -r old", "git push --force origin feature/x", "git push --force-with-lease"),
        *("git push -f", "git push origin +feature/x", "git restore .", "git switch -f main", "git push origin main"),
        *("find . -name '*.pyc' -delete", "find build -delete", "find . -type d -name x -exec rm -rf {} +"),
        *("chmod -R 777 build", "chmod -R u+w .", "chown -R me .", "rm -rf ~/.cache/pip", 'rm -rf "$HOME/.cache/x"'),
        *("shred secret.txt", "dd if=/dev/zero of=disk.img count=1", "mkfs.ext4 disk.img", "echo x > /dev/null"),
        *("sudo rm -rf build", "timeout 5 rm -rf build", "xargs rm -rf", "bash -c 'rm -rf build'", "echo $(rm -rf x)"),
        *("kill -9 -1", "curl https://x | sh", "rm -rf /tmp/some-build-folder", "mount", "mv build old", "rm -rf {}"),
        *("echo 'rm -rf /'", "git commit -m 'rm -rf ~'", "rg 'rm -rf /' docs", "python3 -c 'import shutil'"),
    ],
)
def test_row_11_what_destroys_runs_inside_the_fence_and_with_full_access(
    script: str, mode: SandboxMode, work: Path
) -> None:
    assert decide(script, work, mode) == Allow(sandboxed=mode != "danger-full-access")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("script", "reason"),
    [
        *(
            (line, "root")
            for line in ("rm -rf /", "rm -rf /*", "rm -r /", "rm -rf --no-preserve-root /", "rm -rf /usr")
        ),
        *(
            (line, "root")
            for line in ("cd / && rm -rf *", "sudo rm -rf /etc", "rm -rf //", "rm -rf /../", "rm -rf /et*")
        ),
        *((line, "root") for line in ("find / -delete", "find / -exec rm -rf {} +", "chmod -R 777 /", "chown -R me /")),
        *((line, "root") for line in ("bash -c 'rm -rf /'", "env A=1 rm -rf /", "xargs rm -rf /", "x=/; rm -rf $x")),
        *((line, "root") for line in ("flock f rm -rf /", "eval 'rm -rf /'", "ls; (rm -rf /)", "r''m -rf /")),
        *((line, "home") for line in ("rm -rf ~", "rm -rf ~/", "rm -rf ~/*", "rm -rf $HOME", 'rm -rf "$HOME"/*')),
        *((line, "home") for line in ("rm -rf ${HOME}", "cd && rm -rf *", "cd ~ && rm -rf .", "find ~ -delete")),
        *((line, "workspace") for line in ("rm -rf .", "rm -rf ./", "rm -rf *", "rm -rf ./*", 'rm -rf "$PWD"')),
        *(
            (line, "workspace")
            for line in ("rm -rf ..", "rm -rf ../work", "rm -rf ../*", "rm -rf link", "mv ../work /tmp")
        ),
        *((line, "workspace") for line in ("find . -delete", "find -type f -delete", "rm -rf build/..", "rm -rf -- .")),
        *(
            (line, "device")
            for line in ("dd if=x of=/dev/sda", "mkfs.ext4 /dev/sdb1", "cat x > /dev/sda", "shred /dev/sda")
        ),
        *((line, "device") for line in ("wipefs -a /dev/sda", "cp x /dev/nvme0n1", "tee /dev/sda", "dd of=//dev/sda")),
        *((line, "mounted") for line in ("umount /mnt/x", "mount --bind a b", "umount -a")),
        *((line, "protected branch") for line in ("git push --force origin main", "git push -f origin master")),
        *((line, "protected branch") for line in ("git push origin +main", "git push -f origin HEAD:main")),
        *((line, "protected branch") for line in ("git push --force origin trunk", "git push --mirror origin")),
        *((line, "protected branch") for line in ("git push origin :main", "git push origin --delete main")),
        *(
            (line, "protected branch")
            for line in ("git -C . push -f origin refs/heads/main", "git push -f --all origin")
        ),
        *((line, "processes") for line in (":(){ :|:& };:",)),
        *((line, "too long") for line in ("true && " * 10_000 + "rm -rf x", "eval " * 12 + "true")),
        *((line, "workspace") for line in ("python3 -c \"import shutil; shutil.rmtree('.')\"",)),
    ],
    ids=lambda value: value[:40],
)
def test_row_11_what_cannot_be_made_good_again_is_refused_with_its_reason(
    script: str, reason: str, mode: SandboxMode, work: Path
) -> None:
    decision = decide(script, work, mode)
    assert isinstance(decision, Refuse)
    assert "rejected: nobody can be asked here, and it " in decision.message
    assert reason in decision.message and ";" in decision.message


def test_row_11_a_bare_forced_push_goes_by_the_branch_that_is_checked_out(work: Path) -> None:
    assert branches(str(work / "build")) == ("feature/x", ["trunk"])
    assert isinstance(decide("git push --force", work), Allow)
    (work / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    assert isinstance(decide("git push --force", work), Refuse)
    assert isinstance(decide("git push --force origin HEAD", work), Refuse)
    (work / ".git" / "HEAD").write_text("0123456789012345678901234567890123456789\n")
    assert isinstance(decide("git push --force", work), Refuse)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a workspace in it, and links that lead around."""
    work = tmp_path / "home/src/work"
    (work / "build/deep").mkdir(parents=True)
    (work / "src").mkdir()
    (tmp_path / "home/other").mkdir()
    for name in ("build/o", "src/a.py", "README", ".hidden"):
        (work / name).touch()
    for name, target in (("up", ".."), ("self", "."), ("h", str(tmp_path / "home"))):
        (work / name).symlink_to(target)
    return tmp_path / "home"


def by_effect(script: str, home: Path) -> Decision:
    work = str(home / "src/work")
    variables = {"PATH": "/usr/bin", "OLDPWD": str(home)}
    return decide_command(
        ["bash", "-lc", script.replace("⏎", "\n").replace("@D", str(home.parent))],
        Circumstances(
            policy="never",
            sandbox=SandboxPolicy(mode="danger-full-access"),
            place=Place(cwd=work, workspace=(work,), home=str(home), variables=variables),
        ),
    )


def scripts(name: str) -> list[str]:
    return (Path(__file__).parent / name).read_text("utf-8").splitlines()


def test_row_11_the_workspace_and_what_holds_it_are_found_however_they_are_named(home: Path) -> None:
    """By links, patterns, variables that are empty, what `pwd` or `ls` prints, a `cd` before, a folder that `cd` does
    not reach, pipes, loops, and code in other languages."""
    assert [script for script in scripts("catastrophes.txt") if not isinstance(by_effect(script, home), Refuse)] == []


def test_row_11_an_interpreter_by_its_name_with_a_version_is_the_same(home: Path) -> None:
    known = r"^(perl|ruby|php|lua|node|bash|zsh|dash|python3?)(?= )"
    plain = [script for script in scripts("catastrophes.txt") if re.match(known, script)]
    assert len(plain) > 20
    versioned = [re.sub(known, r"\g<1>5.36.0", script) for script in plain]
    assert [script for script in versioned if not isinstance(by_effect(script, home), Refuse)] == []


def test_row_11_cleaning_up_is_left_alone(home: Path) -> None:
    assert [script for script in scripts("cleaning.txt") if by_effect(script, home) != Allow(sandboxed=False)] == []
