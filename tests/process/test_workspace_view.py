"""`read = "workspace"` in the real sandbox: what it hides, by whatever name and trick, and the work that goes on."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from spindle.errors import SandboxUnavailable
from spindle.policy.sandbox import Boundary, Fence, boundary_of, is_below
from spindle.policy.view import holds_key
from spindle.process.sandbox import landlock, seatbelt
from spindle.process.sandbox.launch import Wanted
from spindle.process.table import Command, ProcessTable
from spindle.protocol.settings import PathRule, PermissionProfile, SandboxPolicy

NARROW = Fence(read="workspace")
WRITE = SandboxPolicy(mode="workspace-write")
NO_TEMP = SandboxPolicy(mode="workspace-write", exclude_slash_tmp=True, exclude_tmpdir_env_var=True)
MODES: dict[str, tuple[SandboxPolicy, bool]] = {
    "read-only": (SandboxPolicy(mode="read-only"), False),
    "workspace-write": (WRITE, False),
    "without /tmp": (NO_TEMP, False),
    "the home in a temporary folder": (WRITE, True),
}
"""A policy, and whether the home lies in a folder that may be written."""

Draw = Callable[..., Boundary]
Say = Callable[..., str]

HIDDEN = (
    *(".ssh/id_ed25519", ".aws/credentials", ".gnupg/private-keys-v1.d/a.key", ".netrc", ".git-credentials"),
    *(".mozilla/firefox/x.default/logins.json", ".config/google-chrome/Default/Cookies", ".config/gh/hosts.yml"),
    *(".cargo/credentials.toml", ".m2/settings.xml", ".gradle/gradle.properties", ".npm/_logs/debug.log"),
    *(".bash_history", "Documents/letter.txt", "src/other/.git/config", "src/other/main.c", "notes.txt"),
    *(".codex/auth.json", ".codex/sessions/rollout.jsonl", ".config/git/credentials", "go/src/mine/main.go"),
)
SHOWN = (
    *(
        ".cargo/registry/crate",
        ".rustup/toolchains/x",
        ".pyenv/versions/3/bin/x",
        ".nvm/versions/node/x",
        "go/pkg/mod/x",
    ),
    *(".local/share/uv/python/x", ".cache/pip/wheels/x", ".m2/repository/a.jar", ".codex/skills/helper/SKILL.md"),
    *(".gitconfig", ".bashrc", ".local/bin/tool"),
)


@pytest.fixture
def person(user_home: Path) -> Path:
    """A home as people have it, with keys, toolchains, and a workspace beside another repository."""
    home = user_home
    for names, word in ((HIDDEN, "CANARY"), (SHOWN, "PLAIN")):
        for name in names:
            path = home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"# {word}\n")
    (home / "src/mine").mkdir()
    (home / "src/mine/file").write_text("MINE\n")
    return home


@pytest.fixture
def draw(person: Path, child_env: dict[str, str]) -> Draw:
    """What a policy lets commands in the workspace reach."""

    def build(policy: SandboxPolicy = WRITE, *, cwd: Path | None = None, fence: Fence = NARROW, **env: str) -> Boundary:
        given = {**child_env, "HOME": str(person), "CODEX_HOME": str(person / ".codex"), **env}
        where = str(cwd or person / "src/mine")
        return boundary_of(policy, cwd=where, env=given, home=str(person / ".codex"), fence=fence)

    return build


async def said(table: ProcessTable, script: str, boundary: Boundary) -> str:
    command = Command(argv=["bash", "-c", script], cwd=boundary.cwd, boundary=boundary)
    finished = await table.run(command, timeout_s=120)
    table.let_go()
    return finished.output.peek().text()


def git(*words: str) -> None:
    """Outside of the sandbox, as the person does it."""
    own = ("user.name=a", "user.email=a@b", "protocol.file.allow=always")
    settings = [word for setting in own for word in ("-c", setting)]
    subprocess.run(["git", *settings, *words], check=True, capture_output=True)


def quoted(home: Path, names: tuple[str, ...]) -> str:
    return " ".join(f"{home}/{name}" for name in names)


# ---- what is hidden --------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
async def test_nothing_of_the_home_is_seen_but_toolchains_and_the_workspace(
    mode: str, table: ProcessTable, draw: Draw, person: Path
) -> None:
    policy, is_inside = MODES[mode]
    env = {"TMPDIR": str(person.parent)} if is_inside else {}
    everything = draw(policy, fence=Fence(), **env)
    assert (await said(table, f"cat {quoted(person, HIDDEN)}", everything)).count("CANARY") == len(HIDDEN)
    boundary = draw(policy, **env)
    assert "CANARY" not in await said(table, f"cat {quoted(person, HIDDEN)}; grep -r CANARY {person}", boundary)
    assert "MINE" in await said(table, "cat file", boundary)
    assert (await said(table, f"cat {quoted(person, SHOWN)}", boundary)).count("PLAIN") == len(SHOWN)
    assert [name for name in HIDDEN if boundary.may_read(f"{person}/{name}")] == []
    assert [name for name in SHOWN if not boundary.may_read(f"{person}/{name}")] == []


@pytest.mark.parametrize("mode", MODES)
async def test_no_link_and_no_other_name_leads_to_what_is_hidden(
    mode: str, table: ProcessTable, draw: Draw, person: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spindle.policy.deny.MAX_FOLDERS", 1 << 30)  # however much others have in /tmp
    work, key = person / "src/mine", person / ".ssh/id_ed25519"
    (work / "to-key").symlink_to(key)
    (work / "to-home").symlink_to(person)
    (work / "to-other").symlink_to("../other")
    os.link(key, work / "twin")
    os.link(person / ".codex/auth.json", work / "login")
    policy, is_inside = MODES[mode]
    boundary = draw(policy, **({"TMPDIR": str(person.parent)} if is_inside else {}))
    names = (
        f"to-key to-home/notes.txt to-other/main.c twin login ../other/main.c /proc/self/root{key} /proc/$$/root{key}"
    )
    tricks = (
        f"ln {key} more; cp {key} more; cat more; cat /proc/$$/cwd/../other/main.c; tar c {person} | grep -a CANARY"
    )
    shown = await said(table, f"cat {names}; {tricks}", boundary)
    assert "CANARY" not in shown and shown.count("cat: ") >= 8
    for name in ("to-key", "to-home/notes.txt", "to-other/main.c", "twin", "login"):
        assert not boundary.may_read(str(work / name))


_PLACES = ("/mnt", "/media", "/srv", "/var/log", "/run/user", "/boot")


async def test_no_running_process_and_no_mount_is_a_way_in(table: ProcessTable, draw: Draw, person: Path) -> None:
    outside = subprocess.Popen(["sleep", "60"], cwd=person, env={**os.environ, "MARK": "CANARY"})
    # The interpreter of the tests and the programs on the path are shown, wherever they lie.
    shown_anyway = [sys.prefix, *os.get_exec_path()]
    places = [place for place in _PLACES if not any(is_below(path, place) for path in shown_anyway)]
    assert places
    try:
        attempt = (
            f"for pid in {outside.pid} {os.getpid()} {os.getppid()} 1; do cat /proc/$pid/environ "
            f"/proc/$pid/cwd/notes.txt /proc/$pid/root{person}/notes.txt; ls /proc/$pid/fd; done; "
            f"mkdir -p m; mount --bind {person} m; cat m/notes.txt; "
            "unshare -rm true && echo ESCAPED; cat /proc/self/mountinfo; "
            f"for place in {' '.join(places)}; do ls $place 2>/dev/null && echo SEEN; done"
        )
        shown = await said(table, attempt, draw(NO_TEMP))
    finally:
        outside.kill()
        outside.wait()
    assert not any(word in shown for word in ("CANARY", "ESCAPED", "SEEN"))


async def test_what_a_command_puts_on_the_way_opens_nothing(table: ProcessTable, draw: Draw, person: Path) -> None:
    """What the workspace says about itself is not believed: pointers of git, links under the names of toolchains."""
    work = person / "src/mine"
    forged = work / "forged/worktrees/x"
    forged.mkdir(parents=True)
    (forged / "HEAD").write_text("ref: refs/heads/main\n")
    for target, common in ((person / "src/other/.git", None), (forged, person / "Documents")):
        (work / ".git").write_text(f"gitdir: {target}\n")
        (forged / "gitdir").write_text(f"{work}/.git\n")
        (forged / "commondir").write_text(f"{common}\n")
        shown = await said(table, f"cat {quoted(person, HIDDEN)}", draw(NO_TEMP))
        assert "CANARY" not in shown
    (work / ".git").unlink()
    (work / "tools").symlink_to(person / "Documents")
    boundary = draw(NO_TEMP, CARGO_HOME=str(work / "tools"), PATH=f"{work}/tools:{os.environ['PATH']}:{person}:/")
    assert "CANARY" not in await said(table, f"cat {quoted(person, HIDDEN)}", boundary)


@pytest.mark.parametrize(
    "line", ["export GH=ghp_" + "a1B2" * 9, "[http]\nextraheader = AUTHORIZATION: basic eDp5", "\n"]
)
async def test_settings_that_hold_a_key_are_not_shown(line: str, draw: Draw, person: Path) -> None:
    for name in (".bashrc", ".gitconfig", ".cargo/config.toml"):
        (person / name).write_text(line)
    is_open = line == "\n"
    boundary = draw(NO_TEMP)
    assert [boundary.may_read(f"{person}/{name}") for name in (".bashrc", ".gitconfig", ".cargo/config.toml")] == [
        is_open
    ] * 3


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("[user]\nname = A\nemail = a@b.c\nsigningkey = ABCDEF0123456789\n[credential]\nhelper = store\n", False),
        ('[url "ssh://git@github.com/"]\ninsteadOf = https://github.com/\n', False),
        ("registry=https://registry.example/\n", False),
        ("//registry.example/:_authToken=abc\n", True),
        ("//registry.example/:_auth=abc\n", True),
        ("[global]\nindex-url = https://me:pass@pypi.example/simple\n", True),
        ('[url "https://0123456789abcdef0123@github.com/"]\ninsteadOf = x\n', True),
        ("export DB_PASSWORD=x\n", True),
    ],
)
def test_a_key_in_settings_is_recognised(text: str, holds: bool, tmp_path: Path) -> None:
    (tmp_path / "file").write_text(text)
    assert holds_key(str(tmp_path / "file")) is holds


async def test_keys_stay_closed_where_the_home_is_the_workspace(table: ProcessTable, draw: Draw, person: Path) -> None:
    closed = tuple(
        name for name in HIDDEN if name.startswith((".ssh", ".aws", ".mozilla", ".codex", ".cargo", ".bash"))
    )
    boundary = draw(NO_TEMP, cwd=person)
    shown = await said(table, f"cat {quoted(person, closed)}; cat notes.txt; touch .cargo/new && echo well", boundary)
    assert shown.count("CANARY") == 1 and "well" in shown


async def test_what_is_protected_in_the_workspace_stays_so(table: ProcessTable, draw: Draw, person: Path) -> None:
    work = person / "src/mine"
    git("init", "-q", str(work))
    named = SandboxPolicy(mode="workspace-write", writable_roots=(str(work / ".git"),))
    for policy in (WRITE, NO_TEMP, named):
        shown = await said(table, "touch here .git/x .codex; mkdir .agents; ls -A", draw(policy))
        assert "here" in shown and not (work / ".git/x").exists() and not (work / ".agents").exists()


async def test_a_profile_keeps_what_it_names_and_loses_the_rest(table: ProcessTable, draw: Draw, person: Path) -> None:
    rules = (PathRule(":root", "read"), PathRule(":workspace_roots", "write"), PathRule(f"{person}/Documents", "read"))
    policy = SandboxPolicy(mode="workspace-write", permissions=PermissionProfile(name="mine", rules=rules))
    shown = await said(table, f"cat {quoted(person, HIDDEN)}; touch made && echo well", draw(policy))
    assert shown.count("CANARY") == 1 and "well" in shown


def test_back_ends_that_cannot_do_it_refuse(draw: Draw) -> None:
    with pytest.raises(SandboxUnavailable, match='read = "workspace" is set'):
        landlock.ruleset(draw(), 6)
    with pytest.raises(SandboxUnavailable, match='read = "workspace" is set'):
        seatbelt.launch(Wanted(argv=["true"], boundary=draw(), cwd="/", env={}, home="", tty=False))


# ---- what goes on working --------------------------------------------------------------------------


@pytest.fixture
def real_home() -> Path:
    """The home of whoever runs the tests, whose toolchains these are."""
    return Path(os.path.expanduser("~"))


WORK = {
    "git": (
        "git",
        "git init -q r && cd r && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m one "
        "&& git log --oneline && git status --short && git diff",
    ),
    "python": (
        sys.executable,
        f"{shlex.quote(sys.executable)} -m venv --without-pip v && printf 'VALUE = 5\\n' > m.py "
        "&& mv m.py $(v/bin/python -c 'import site; print(site.getsitepackages()[0])') "
        "&& v/bin/python -c 'import m, ssl, sqlite3, multiprocessing; print(m.VALUE)'",
    ),
    "node": ("node", "printf 'console.log(require(\"os\").cpus().length > 0)' > a.js && node a.js"),
    "npm": ("npm", "npm --cache ./cache --offline init -y > /dev/null && npm --cache ./cache pkg get name"),
    "cargo": (
        "cargo",
        "cargo init -q --vcs none --name demo c && cd c && cargo build -q --offline && ./target/debug/demo",
    ),
    "make": (
        "make",
        "printf 'int main(void){return 0;}' > a.c && printf 'a: a.c\\n\\tcc -o a a.c\\n' > Makefile && make -s && ./a",
    ),
    "java": ("java", "java -version"),
    "shell": ("bash", "bash -lc 'id && nproc && date && mktemp -p . && getent hosts localhost && ls /etc/ssl'"),
}


@pytest.mark.parametrize("name", WORK)
async def test_ordinary_builds_work(name: str, table: ProcessTable, real_home: Path, tmp_path: Path) -> None:
    program, script = WORK[name]
    if shutil.which(program) is None:
        pytest.skip(f"no {program} here")
    work = tmp_path / "build"
    work.mkdir()
    env = {**os.environ, "HOME": str(real_home)}
    boundary = boundary_of(NO_TEMP, cwd=str(work), env=env, home=str(tmp_path / "home"), fence=NARROW)
    command = Command(
        argv=["bash", "-c", f"export HOME={real_home} TMPDIR=$PWD; {script} && echo WELL"],
        cwd=str(work),
        boundary=boundary,
    )
    finished = await table.run(command, timeout_s=120)
    table.let_go()
    assert "WELL" in finished.output.peek().text(), finished.output.peek().text()


async def test_a_local_package_is_installed_without_a_network(
    table: ProcessTable, real_home: Path, tmp_path: Path
) -> None:
    if importlib.util.find_spec("ensurepip") is None:
        pytest.skip("this Python brings no pip")
    work = tmp_path / "build"
    (work / "pack/pack").mkdir(parents=True)
    (work / "pack/pack/__init__.py").write_text("VALUE = 7\n")
    (work / "pack/pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "own"\nbackend-path = ["."]\n'
        '[project]\nname = "pack"\nversion = "1"\n'
    )
    (work / "pack/own.py").write_text(
        "import zipfile\n"
        "def build_wheel(folder, *rest, **more):\n"
        "    name = 'pack-1-py3-none-any.whl'\n"
        "    with zipfile.ZipFile(folder + '/' + name, 'w') as z:\n"
        "        z.write('pack/__init__.py')\n"
        "        z.writestr('pack-1.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: pack\\nVersion: 1\\n')\n"
        "        z.writestr('pack-1.dist-info/WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\n'\n"
        "                   'Tag: py3-none-any\\n')\n"
        "        z.writestr('pack-1.dist-info/RECORD', '')\n"
        "    return name\n"
    )
    env = {**os.environ, "HOME": str(real_home)}
    boundary = boundary_of(NO_TEMP, cwd=str(work), env=env, home=str(tmp_path / "home"), fence=NARROW)
    script = (
        f"export HOME={real_home} TMPDIR=$PWD; {shlex.quote(sys.executable)} -m venv v "
        "&& v/bin/python -m pip install --no-index -q ./pack "
        "&& v/bin/python -c 'import pack; print(pack.VALUE, \"WELL\")'"
    )
    finished = await table.run(Command(argv=["bash", "-c", script], cwd=str(work), boundary=boundary), timeout_s=200)
    table.let_go()
    assert "7 WELL" in finished.output.peek().text(), finished.output.peek().text()


async def test_git_works_in_a_part_of_a_repository_a_worktree_and_a_submodule(
    table: ProcessTable, draw: Draw, person: Path
) -> None:
    main = person / "src/main"
    git("init", "-q", str(main))
    (main / "part").mkdir()
    (main / "part/file").write_text("x\n")
    here = ("-C", str(main))
    git(*here, "add", ".")
    git(*here, "commit", "-qm", "one")
    git(*here, "worktree", "add", "-q", str(person / "src/tree"))
    git(*here, "submodule", "add", "-q", str(main), "sub")
    for folder in (main / "part", person / "src/tree", main / "sub"):
        shown = await said(table, "git log --oneline && git status --short && echo WELL", draw(NO_TEMP, cwd=folder))
        assert "one" in shown and "WELL" in shown, (folder, shown)
        assert "CANARY" not in await said(table, f"cat {quoted(person, HIDDEN)}", draw(NO_TEMP, cwd=folder))


@pytest.mark.parametrize("entry", ["an empty folder", "a pointer to nowhere", "a pointer to no repository", "a file"])
async def test_a_folder_is_not_opened_because_of_a_git_that_is_no_repository(
    table: ProcessTable, draw: Draw, person: Path, entry: str
) -> None:
    around = person / "src"
    if entry == "an empty folder":  # a killed program leaves such ones
        (around / ".git").mkdir()
    else:
        words = {"a pointer to nowhere": "gitdir: /nowhere\n", "a pointer to no repository": f"gitdir: {around}/mine\n"}
        (around / ".git").write_text(words.get(entry, "words\n"))
    shown = await said(table, f"cat {around}/mine/file {around}/other/main.c", draw(NO_TEMP))
    assert "MINE" in shown and "CANARY" not in shown


async def test_an_empty_git_in_the_workspace_does_not_hide_the_repository_around_it_as_git_says(
    table: ProcessTable, draw: Draw, person: Path
) -> None:
    whole = person / "src/whole"
    git("init", "-q", str(whole))
    (whole / "part/.git").mkdir(parents=True)
    (whole / "file").write_text("AROUND\n")
    assert "AROUND" in await said(table, "cat ../file", draw(NO_TEMP, cwd=whole / "part"))
