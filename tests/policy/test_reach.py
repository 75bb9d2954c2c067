"""The one model of reach: could the agent have written what this would run or read?"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from spindle.policy.own_programs import prepare
from spindle.policy.pins import MAX_FILES, pin_of
from spindle.policy.reach import Reach
from spindle.policy.sandbox import boundary_of
from spindle.protocol.settings import SandboxMode, SandboxPolicy

Draw = Callable[..., Reach]


@pytest.fixture
def places(tmp_path: Path) -> Path:
    """`work` is the agent's, `own` the person's, `home` the agent's own folder."""
    for name in ("project/tools", "project/.git", "own/bin", "home"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


@pytest.fixture
def draw(places: Path) -> Draw:
    def drawn(mode: SandboxMode = "workspace-write") -> Reach:
        policy = SandboxPolicy(mode=mode, exclude_slash_tmp=True, exclude_tmpdir_env_var=True)
        boundary = boundary_of(policy, cwd=str(places / "project"), env={}, home=str(places / "home"))
        return Reach(boundary, env={})

    return drawn


def program(path: Path, text: str = "#!/bin/sh\n") -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


# ---- paths -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["workspace-write", "read-only"])
def test_what_lies_in_the_workspace_is_in_reach_whatever_mode_is_in_force(
    places: Path, draw: Draw, mode: SandboxMode
) -> None:
    reach = draw(mode)
    for path in ("project/x", "project/not/there/yet", "project/tools/../x", "own/../project/x"):
        assert reach.holds(f"{places}/{path}"), path
    assert reach.holds("tools/x")
    for path in ("own/x", "home/auth.json", "project/.git/hooks/x", "project/.codex/config.toml", "workshop/x"):
        assert not reach.holds(f"{places}/{path}"), path


def test_without_a_fence_the_question_has_no_meaning(places: Path, draw: Draw) -> None:
    reach = draw("danger-full-access")
    assert not reach.holds(f"{places}/project/x")
    assert reach.command(["sh", f"{places}/project/x"], cwd=str(places / "project"), env={}) is None


def test_every_link_on_the_way_counts_in_both_directions(places: Path, draw: Draw) -> None:
    (places / "own/real").write_text("")
    (places / "project/out").symlink_to(places / "own/real")
    (places / "project/folder").symlink_to(places / "own")
    (places / "own/in").symlink_to(places / "project/tools")
    (places / "own/round").symlink_to("../project/folder/real")
    (places / "own/self").symlink_to("self")
    reach = draw()
    for path in ("project/out", "project/folder/real", "own/in/x", "own/round", "own/self"):
        assert reach.holds(f"{places}/{path}"), path
    assert not reach.holds(f"{places}/own/real")


def test_an_open_file_is_judged_by_where_it_lies_not_by_its_name(places: Path, draw: Draw) -> None:
    reach = draw()
    for name, is_held in (("project/file", True), ("own/file", False)):
        (places / name).write_text("")
        with (places / name).open() as file:
            assert reach.holds_open(file.fileno()) == is_held
            (places / name).unlink()
            assert reach.holds_open(file.fileno())  # it lies nowhere any more


def test_another_name_of_the_same_file_counts(places: Path, draw: Draw) -> None:
    (places / "own/file").write_text("")
    assert not draw().holds(f"{places}/own/file")
    os.link(places / "own/file", places / "project/tools/twin")
    assert draw().holds(f"{places}/own/file")


def test_a_folder_that_is_mounted_in_two_places_is_in_reach_in_both(
    places: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the kernel lists it: `work/tools` is shown at `own/bin` too, and `own` at `work/mounted`."""
    (places / "project/mounted").mkdir()
    inner = str(tmp_path)
    listed = tmp_path / "mounts"
    listed.write_text(
        f"1 0 8:1 / / rw - ext4 x rw\n2 1 8:1 {inner}/project/tools {inner}/own/bin rw - ext4 x rw\n"
        f"3 1 8:1 {inner}/own/lib {inner}/project/mounted rw - ext4 x rw\n"
    )
    monkeypatch.setattr("spindle.policy.reach._MOUNTS", str(listed))
    policy = SandboxPolicy(mode="workspace-write", exclude_slash_tmp=True, exclude_tmpdir_env_var=True)
    reach = Reach(boundary_of(policy, cwd=f"{inner}/project", env={}, home=""), env={})
    assert reach.holds(f"{inner}/own/bin/tool") and reach.holds(f"{inner}/own/lib/module.py")
    assert not reach.holds(f"{inner}/own/other")


# ---- commands ----------------------------------------------------------------------------------------

OUT_OF_REACH = [
    "python3 {own}/server.py",
    "python3 {own}/server.py {work} --db {work}/data.db",
    "python3 -X utf8 -W ignore {own}/server.py",
    "node {own}/index.js --root {work}",
    "{own}/bin/tool {work}",
    "{own}/bin/tool --config={work}/settings.json",
    "docker run -i --rm -v {work}:/data image",
    "env -i A=1 nice -n 5 {own}/bin/tool {work}",
    "mcp-server-git --repository {work}",
    "java -jar {own}/server.jar",
    "jq -r .x {work}/data.json",
    "sed -n 1p {work}/x",
    "sh -c 'cat {work}/x'",
    "uv --directory {own} run server.py",
    "sqlite3 {work}/data.db",
    "tsx {own}/server.ts --root {work}",
    "uvicorn server:app",
    "php -d memory_limit=1G {own}/server.php",
    "perl -I{own}/lib {own}/server.pl {work}",
    "node --env-file={own}/.env {own}/index.js",
]
IN_REACH = [
    "uvicorn server:app",
    "flask run",
    "fastmcp run server.py:mcp",
    "docker build .",
    "node --env-file=.env {own}/index.js",
    "perl -Ilib {own}/server.pl",
    "ruby -I. {own}/server.rb",
    "php -c . {own}/server.php",
    "sed -nf {work}/x.sed {own}/data",
    "sqlite3 -init {work}/x {own}/data.db",
    "java @{work}/arguments",
    "uv run --with {work} server",
    "uvicorn --app-dir {work} server:app",
    "python3 {work}/server.py",
    "python3 tools/server.py",
    "python3 server",
    "python3 -X utf8 {work}/server.py",
    "python3 -",
    "python3.12 -u {work}/server.py",
    "python3 {own}/run.py {work}/plugin.py",
    "node --require {work}/hook.js {own}/index.js",
    "node --import=./hook.mjs {own}/index.js",
    "node -r./hook.js {own}/index.js",
    "perl -I{work}/lib {own}/x.pl",
    "ruby -I lib {own}/x.rb",
    "java -cp {work}/classes Main",
    "java -jar server.jar",
    "deno run server.ts",
    "bun run index.ts",
    "./run",
    "{work}/tools/run",
    "sh tools/run.sh",
    "bash --rcfile tools/rc -i",
    "bash -c 'tools/run'",
    "bash -c 'exec $X'",
    "env python3 tools/x.py",
    "env PYTHONPATH={work} python3 {own}/x.py",
    "nice timeout 5 sh tools/x.sh",
    "xargs sh tools/x.sh",
    "strace -f sh tools/x.sh",
    "mcp-proxy -- python3 {work}/server.py",
    "supergateway --stdio 'node {work}/server.js'",
    "unknown-launcher {work}/server.py",
    "uv run server.py",
    "uv --directory {work} run server",
    "npm start",
    "npm --prefix {work} run serve",
    "make serve",
    "cargo run",
    "go run ./cmd/server",
    "docker compose run server",
    "npx {work}/server",
    "npx ./server",
    "uvx --from {work} server",
    "uvx --with-editable=./tools server",
    "pipx run --spec {work} server",
    "awk -f tools/x.awk",
    "python3 -c 'import runpy; runpy.run_path(\"{work}/x\")'",
]


def split(line: str, places: Path) -> list[str]:
    import shlex

    return shlex.split(line.format(own=places / "own", work=places / "project"))


@pytest.mark.parametrize("line", OUT_OF_REACH)
def test_a_command_of_the_persons_is_out_of_reach_also_with_data_of_the_agents(
    places: Path, draw: Draw, line: str
) -> None:
    program(places / "own/bin/tool")
    assert draw().command(split(line, places), cwd=str(places / "own"), env={"PATH": "/usr/bin:/bin"}) is None


@pytest.mark.parametrize("line", IN_REACH)
def test_a_command_that_runs_what_the_agent_can_write_is_in_reach(places: Path, draw: Draw, line: str) -> None:
    found = draw().command(split(line, places), cwd=str(places / "project"), env={"PATH": "/usr/bin:/bin"})
    assert found is not None and not found.is_by_folder


@pytest.mark.parametrize(
    "line",
    ["python3 -m server", "python3 -c 'print(1)'", "npx -y server", "uvx server", "bunx s", "npm exec s"]
    + [f"{name} {{own}}/server" for name in ("bun", "bun run", "deno run", "tsx", "ts-node", "babel-node", "vite-node")]
    + ["Rscript {own}/server.R", "lua {own}/server.lua", "ipython {own}/server.py", "{own}/service"],
)
def test_what_looks_for_code_in_its_folder_is_started_in_a_neutral_one(places: Path, draw: Draw, line: str) -> None:
    reach, work, env = draw(), str(places / "project"), {"PATH": "/usr/bin:/bin"}
    program(places / "own/service", "#!/usr/bin/env tsx\n")
    words = split(line, places)
    found = reach.command(words, cwd=work, env=env)
    assert found is not None and found.is_by_folder
    given = prepare(reach, [*words, "./data"], env, cwd=work, own_cwd=None, is_trusted=True)
    assert (given.cwd, given.found, given.argv[-1]) == ("/", None, f"{work}/data")
    given = prepare(reach, words, env, cwd=work, own_cwd=work, is_trusted=True)
    assert given.cwd == work and given.found is not None


@pytest.mark.parametrize(
    ("line", "planted"),
    [
        ("python3 -m server", "server.py"),
        ("python3 -m server.main", "server/main.py"),
        ("npx -y @scope/server@1.2", "node_modules/.bin/server"),
        ("npx server", "node_modules/server/package.json"),
    ],
)
def test_what_the_folder_has_by_that_name_is_in_reach(places: Path, draw: Draw, line: str, planted: str) -> None:
    program(places / "project" / planted)
    work = str(places / "project")
    given = prepare(draw(), split(line, places), {"PATH": "/usr/bin"}, cwd=work, own_cwd=None, is_trusted=True)
    assert given.cwd == work and given.found is not None
    # In a folder that nobody trusts, it is not even looked for.
    given = prepare(draw(), split(line, places), {"PATH": "/usr/bin"}, cwd=work, own_cwd=None, is_trusted=False)
    assert given.cwd == "/" and given.found is None


def test_interpreters_of_scripts_and_editable_installs_are_looked_through(places: Path, draw: Draw) -> None:
    python = program(places / "project/venv/bin/python")
    first = program(places / "own/first", f"#!{python}\n")
    second = program(places / "own/second", "#!/usr/bin/env -S tool\n")
    program(places / "project/bin/tool")
    environment = places / "own/venv"
    third = program(environment / "bin/server", "#!/bin/sh\n")
    (environment / "pyvenv.cfg").write_text("")
    site = environment / "lib/python3.12/site-packages"
    site.mkdir(parents=True)
    reach, env = draw(), {"PATH": f"{places}/project/bin:/usr/bin"}
    assert reach.command([first], cwd="/", env=env) is not None
    assert reach.command([second], cwd="/", env=env) is not None
    assert reach.command([third], cwd="/", env=env) is None
    (site / "__editable__.server-1.pth").write_text(f"{places}/project/src\n")
    assert reach.command([third], cwd="/", env=env) is not None


def test_an_environment_leads_to_nothing_in_reach_nor_to_the_folder_one_is_in(places: Path, draw: Draw) -> None:
    given = {
        "PATH": f".::{places}/project/.venv/bin:/usr/bin:bin",
        "PYTHONPATH": f"{places}/project:{places}/own",
        "NODE_OPTIONS": f"--require {places}/project/x.js",
        "BASH_ENV": f"{places}/own/env.sh",
        "NODE_PATH": str(places / "project"),
        "npm_config_userconfig": f"{places}/project/.npmrc",
        "GIT_SSH_COMMAND": f"{places}/project/tool -x",
        "EDITOR": f"{places}/project/tool",
        "KUBECONFIG": f"{places}/project/kube",
        "UV_PYTHON": f"{places}/project/python",
        "PYTHONUNBUFFERED": "1",
        "LANG": "C.UTF-8",
        "WORK": str(places / "project"),
    }
    assert draw().without_reach(given, cwd=str(places / "own")) == {
        "PATH": "/usr/bin",
        "PYTHONPATH": f"{places}/own",
        "BASH_ENV": f"{places}/own/env.sh",
        "WORK": str(places / "project"),
        "PYTHONUNBUFFERED": "1",
        "LANG": "C.UTF-8",
    }
    assert draw().without_reach({"PERL5OPT": "-I. -Mx"}, cwd=str(places / "project")) == {}
    assert draw("danger-full-access").without_reach({"PATH": f".:{places}/project"}, cwd="/") == {
        "PATH": f"{places}/project"
    }


# ---- pins --------------------------------------------------------------------------------------------


def test_a_pin_changes_with_whatever_the_program_could_load(places: Path, draw: Draw) -> None:
    reach, env = draw(), {"PATH": "/usr/bin"}
    script = program(places / "project/tools/server.py", "import helper")

    def pin() -> str | None:
        return pin_of(reach, ["python3", script], cwd="/", env=env)

    seen = [pin()]
    for name, text in (
        ("tools/helper.py", "x"),
        ("tools/helper.py", "y"),
        ("tools/sub/x.py", ""),
        ("tools/json.so", ""),
    ):
        program(places / "project" / name, text)
        seen.append(pin())
    assert None not in seen and len(set(seen)) == len(seen)
    program(places / "project/tools/__pycache__/server.pyc", "")
    program(places / "project/other.py", "")
    assert pin() == seen[-1]
    (places / "project/node_modules").mkdir()
    assert pin() != seen[-1]
    (places / "project/tools/link.py").symlink_to("../other.py")
    assert pin() is None
    (places / "project/tools/link.py").unlink()
    for number in range(MAX_FILES):
        (places / f"project/tools/{number}").write_text("")
    assert pin() is None


def test_what_looks_around_itself_cannot_be_pinned(places: Path, draw: Draw) -> None:
    for line in ("python3 -m server", "npx server"):
        assert pin_of(draw(), split(line, places), cwd=str(places / "project"), env={"PATH": "/usr/bin"}) is None


def test_row_16_a_line_that_runs_what_the_agent_can_write_is_in_reach_however_it_is_written(tmp_path: Path) -> None:
    """Lines of `hook_lines.txt`: @W is the workspace, @H the home; what begins with OK runs nothing of the agent."""
    home, work = tmp_path / "home", tmp_path / "home/src/work"
    for folder in (work / "tools", work / "node_modules/.bin", home / "hooks"):
        folder.mkdir(parents=True)
    scripts = [work / name for name in ("ok.sh", "guard", "tools/ok.sh", "node_modules/.bin/guard")]
    for path in (*scripts, home / "hooks/good.sh"):
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    for name in ("mod.py", "Makefile", "package.json", "x.awk", "x.sed", "x.js", "x.pl", "cmds", ".env", "data.json"):
        (work / name).touch()
    (home / "hooks/good.py").touch()
    (home / "hooks/link.sh").symlink_to(work / "tools/ok.sh")
    (home / "t").symlink_to(work / "tools")
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home)}
    policy = SandboxPolicy(mode="workspace-write", exclude_slash_tmp=True, exclude_tmpdir_env_var=True)
    reach = Reach(boundary_of(policy, cwd=str(work), env=env, home=""), env=env)
    lines = (Path(__file__).parent / "hook_lines.txt").read_text("utf-8").splitlines()
    wrong = []
    for line in lines:
        text = line.removeprefix("OK ").replace("@W", str(work)).replace("@H", str(home)).replace("⏎", "\n")
        if (reach.script(text, cwd=str(work), env=env) is None) != line.startswith("OK "):
            wrong.append(line)
    assert wrong == []
