"""The rules of docs/architecture.md that a machine can check.

Which way imports go, that there are no cycles, what is loaded on the way to the first answer, how big modules and
functions are, and whether the way of a message is as long as the page says.
`python tests/test_architecture.py` prints the size of every module.
"""

from __future__ import annotations

import ast
import io
import os
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator, Set
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from fake_server import FakeServer, Received, Turn, call, message, turn

SOURCE = Path(__file__).parent.parent / "src" / "spindle"
DOCS = Path(__file__).parent.parent / "docs"
LAYERS = [
    {"errors", "module_path"},
    {"protocol"},
    {"thread", "policy", "patch", "context"},
    {"prompt", "model", "process", "workspace", "mcp"},
    {"tools"},
    {"core", "config", "auth"},
    {"features", "local"},
    {"assembly", "lookback"},
    {"api"},
    {"types", "models", "testing"},
    {"fleet"},
    {"frontends"},
    {"__main__", "spindle"},
]
"""`spindle` itself is the Python API's front door; anybody may ask it for the version."""
MODULE_LINES = 500
KERNEL_LINES = 300
PARAMETERS = 8
FUNCTION_LINES = 60
HOPS = 30
HOP_LINES = 4_000

EXCEPTED = {
    "context/rule.py:compress_by_rule": "users of the library know its options by name",
    "context/compaction.py:compress_by_model": "users of the library know its options by name",
    **dict.fromkeys(
        (
            *(f"api/client.py:Spindle.thread_{what}" for what in ("start", "resume", "fork")),
            *(f"api/async_client.py:AsyncSpindle.thread_{what}" for what in ("start", "resume", "fork")),
            *(f"api/thread.py:Thread.{what}" for what in ("run", "stream", "turn")),
            *(f"api/async_thread.py:AsyncThread.{what}" for what in ("run", "stream", "turn")),
        ),
        "the public API: options are keywords, and its signatures are the reference",
    ),
}
"""Functions that may take more, and why. Records (`msgspec.Struct`) have no constructor to be counted."""


@cache
def modules() -> dict[str, Path]:
    """Every module of ours by dotted name."""
    found: dict[str, Path] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


class Import(NamedTuple):
    """A statement that imports something."""

    node: ast.Import | ast.ImportFrom
    is_loaded: bool
    """When the module is imported, and not only when a function runs or types are checked."""


@cache
def import_statements() -> dict[str, list[Import]]:
    """Those of every module; each is read once for all tests."""
    found: dict[str, list[Import]] = {}
    for name, path in modules().items():
        tree = ast.parse(path.read_text())
        loaded = set(map(id, loaded_at_import(tree)))
        statements = [node for node in statements_in(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
        found[name] = [Import(node, id(node) in loaded) for node in statements]
    return found


def statements_in(tree: ast.AST) -> Iterator[ast.AST]:
    """All of them, with what belongs to them, but no expressions: a statement is never inside of one."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += statements_below(node)


def statements_below(node: ast.AST) -> list[ast.AST]:
    return [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr)]


def imports_of(name: str, *, everywhere: bool) -> Iterator[str]:
    """The modules of ours that `name` imports; `everywhere` counts those inside functions and for types only too."""
    for node, is_loaded in import_statements()[name]:
        if not everywhere and not is_loaded:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "spindle")
        else:
            assert node.level == 0, f"{name}: write imports of our own modules in full"
            base = node.module or ""
            if base.split(".")[0] != "spindle":
                continue
            for alias in node.names:
                deeper = f"{base}.{alias.name}"
                yield deeper if deeper in modules() else base


def loaded_at_import(tree: ast.Module) -> Iterator[ast.AST]:
    """The statements that run when the module is imported."""
    waiting: list[ast.AST] = [*tree.body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += node.orelse
            continue
        yield node
        waiting += statements_below(node)


def package_of(name: str) -> str:
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else "spindle"


def layer_of(name: str) -> int:
    package = package_of(name)
    for number, packages in enumerate(LAYERS):
        if package in packages:
            return number
    raise AssertionError(f"{name} is in no layer: give it one here and in docs/architecture.md")


def front_end_of(name: str) -> str | None:
    """The front end a module belongs to; what lies directly in `frontends` is shared by all."""
    parts = name.split(".")
    is_package = (SOURCE / "frontends" / parts[2]).is_dir() if len(parts) > 2 else False
    return parts[2] if parts[:2] == ["spindle", "frontends"] and is_package else None


@cache
def all_imports() -> list[tuple[str, str]]:
    return [(name, target) for name in modules() for target in imports_of(name, everywhere=True)]


def test_a_module_imports_only_lower_layers_and_its_own_package() -> None:
    wrong = [
        f"{name} imports {target}"
        for name, target in all_imports()
        # The version, in the package itself, is for everybody.
        if target != "spindle" and package_of(name) != package_of(target) and layer_of(name) <= layer_of(target)
    ]
    assert wrong == []


def test_only_one_method_replaces_what_the_model_is_shown() -> None:
    callers = {
        name
        for name, path in modules().items()
        if "append_compacted" in (source := path.read_text())
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute) and node.attr == "append_compacted"
    }
    assert callers == {"spindle.core.live_thread"}


def test_front_ends_do_not_import_each_other() -> None:
    wrong = [
        f"{name} imports {target}"
        for name, target in all_imports()
        if (front_end := front_end_of(name)) is not None
        and (target == "spindle.frontends.cli" or front_end_of(target) not in (None, front_end))
    ]
    assert wrong == []


def feature_of(name: str) -> str | None:
    parts = name.split(".")
    return parts[2] if parts[:2] == ["spindle", "features"] and len(parts) > 2 else None


def test_features_do_not_import_each_other() -> None:
    wrong = [
        f"{name} imports {target}"
        for name, target in all_imports()
        if (feature := feature_of(name)) is not None and feature_of(target) not in (None, feature)
    ]
    assert wrong == []
    assert {"hooks", "servers", "agents", "compaction", "plan", "notify", "memory"} <= set(map(feature_of, modules()))


def test_a_session_loads_no_feature_before_it_needs_it(
    spindle_cmd: list[str], environment: dict[str, str], server: FakeServer, workspace: Path
) -> None:
    server.script(turn(call("exec_command", {"cmd": "true"}, "c1")), turn(message("done")))
    done = subprocess.run(
        [*spindle_cmd, "exec", "--json", "hello"],
        cwd=workspace,
        env={**environment, **REPORTS_IMPORTS},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0
    loaded = reported_imports(done.stderr)
    assert "spindle.core.feature" in loaded and {name for name in loaded if package_of(name) == "features"} == set()


BEHIND_THE_DOOR = {"core", "features", "assembly"}
NOT_BEHIND_IT = {"spindle.core.stream"}
"""What a front end may use of these packages: the reading end of the events."""


def test_a_front_end_reaches_a_thread_through_the_door_and_through_nothing_else() -> None:
    wrong = [
        f"{name} imports {target}"
        for name, target in all_imports()
        if package_of(name) == "frontends" and package_of(target) in BEHIND_THE_DOOR and target not in NOT_BEHIND_IT
    ]
    assert wrong == []


def test_a_front_end_never_appends_to_history() -> None:
    """Not even through an object that somebody handed it: it asks for views of a record, and submits ops."""
    wrong: list[str] = []
    for name, path in modules().items():
        if package_of(name) != "frontends":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and (node.attr.startswith("append_") or node.attr in INSIDES):
                wrong.append(f"{name}:{node.lineno} touches .{node.attr}")
            elif isinstance(node, ast.alias) and node.name in WRITERS:
                wrong.append(f"{name}:{node.lineno} imports {node.name}")
    assert wrong == []


WRITERS = {"History", "RolloutWriter", "spindle.thread.history", "history"}
INSIDES = {"history", "session", "_session"}
"""What a front end would have to go through to get at the list of items."""


def test_nothing_but_its_own_commands_loads_the_fleet() -> None:
    users = {name for name, target in all_imports() if package_of(target) == "fleet" and package_of(name) != "fleet"}
    assert users and all(front_end_of(name) == "fleet" for name in users)


def test_imports_have_no_cycles() -> None:
    graph = {
        name: {target for target in imports_of(name, everywhere=False) if target != name} - parents(name)
        for name in modules()
    }
    finished: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, "import cycle: " + " -> ".join((*path[path.index(name) :], name))
        if name not in finished:
            for target in sorted(graph.get(name, ())):
                visit(target, (*path, name))
            finished.add(name)

    for name in graph:
        visit(name, ())


def test_the_architecture_page_draws_every_package() -> None:
    drawn = set(re.findall(r"^[├└]── (\w+)(?:/|\.py) ", (DOCS / "architecture.md").read_text(), re.MULTILINE))
    there = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert drawn == there


def test_the_architecture_page_names_every_package_below_those() -> None:
    page = (DOCS / "architecture.md").read_text()
    packages = {str(path.parent.relative_to(SOURCE)) for path in SOURCE.rglob("__init__.py")} - {"."}
    assert {package for package in packages if f"{package.split('/')[-1]}/" not in page} == set()


def test_the_exec_page_names_every_option() -> None:
    from spindle.frontends.command_table import EXEC
    from spindle.frontends.commands import COMMON

    options = [*COMMON, *EXEC.options, *(option for below in EXEC.commands for option in below.options)]
    page = set(re.findall(r"--?[A-Za-z][a-z-]*", (DOCS / "exec.md").read_text()))
    assert {name for option in options for name in option.names} - page == set()


def parents(name: str) -> set[str]:
    """The packages around a module: Python imports them anyway, and ours hold only a docstring or the version."""
    parts = name.split(".")
    return {".".join(parts[:end]) for end in range(1, len(parts))}


def test_modules_can_be_read_in_one_sitting() -> None:
    sizes = {name: line_count(path) for name, path in modules().items()}
    assert {name: size for name, size in sizes.items() if size > MODULE_LINES} == {}
    kernel = {name: sizes[name] for name in ("spindle.core.turn", "spindle.core.session")}
    assert {name: size for name, size in kernel.items() if size > KERNEL_LINES} == {}


def line_count(path: Path) -> int:
    return path.read_text().count("\n")


# Functions: how many parameters, how long, and why they import something.


class Function(NamedTuple):
    """A function or method, or a function inside one, anywhere in the program."""

    name: str
    """`file.py:Class.method`, the file named from src/spindle."""
    parameters: int
    lines: int
    imports: list[range]
    """The lines of each import that stands in the function itself, and not in a function inside it."""


def parameters_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    given = node.args
    named = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    own = 1 if named[:1] in (["self"], ["cls"]) else 0
    return len(named) - own + (given.vararg is not None) + (given.kwarg is not None)


def lines_of(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def functions_in(file: str, source: str) -> list[Function]:
    found: list[Function] = []

    def look(node: ast.AST, prefix: str, imports: list[range]) -> None:
        for child in statements_below(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                one = Function(f"{file}:{prefix}{child.name}", parameters_of(child), len(lines_of(child)), [])
                found.append(one)
                look(child, f"{prefix}{child.name}.", one.imports)
                continue
            if isinstance(child, ast.Import | ast.ImportFrom):
                imports.append(lines_of(child))
            look(child, f"{prefix}{child.name}." if isinstance(child, ast.ClassDef) else prefix, imports)

    look(ast.parse(source), "", [])
    return found


@cache
def functions() -> dict[str, list[Function]]:
    """Those of every file, which is named from src/spindle."""
    paths = {str(path.relative_to(SOURCE)): path for path in sorted(SOURCE.rglob("*.py"))}
    return {file: functions_in(file, path.read_text()) for file, path in paths.items()}


def all_functions() -> list[Function]:
    return [one for found in functions().values() for one in found]


def reasons_in(source: str) -> Set[int]:
    """The lines with a comment that tells something: one for a checker alone is no reason."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            told = re.sub(r"^#\s*(noqa(:\s*\w+(,\s*\w+)*)?|(type|pyright):\s*ignore(\[[\w, -]*\])?)", "", token.string)
            if told.strip("# "):
                lines.add(token.start[0])
    return lines


def imports_without_reason(source: str, functions: list[Function]) -> set[str]:
    """Those of a file's functions that import something and do not say why on the line."""
    importing = [one for one in functions if one.imports]
    if not importing:
        return set()
    reasons = reasons_in(source)
    return {one.name for one in importing for lines in one.imports if reasons.isdisjoint(lines)}


def test_a_function_takes_at_most_eight_parameters() -> None:
    found = {one.name for one in all_functions() if one.parameters > PARAMETERS}
    assert found - EXCEPTED.keys() == set()


def test_a_function_fits_on_a_screen() -> None:
    assert {one.name: one.lines for one in all_functions() if one.lines > FUNCTION_LINES} == {}


def test_an_exception_is_made_only_for_what_needs_it() -> None:
    assert EXCEPTED.keys() - {one.name for one in all_functions() if one.parameters > PARAMETERS} == set()


def test_an_import_inside_a_function_tells_its_reason_on_the_line() -> None:
    assert len(functions()) == len(modules())
    found = [imports_without_reason((SOURCE / file).read_text(), those) for file, those in functions().items()]
    assert set[str]().union(*found) == set()


# The way of one message, as docs/architecture.md lists it.


class Hop(NamedTuple):
    file: str
    function: str


def hops_in(page: str) -> list[Hop]:
    """The numbered lines of the section: `N. file.py · Class.function — what happens`."""
    _, heading, rest = page.partition("\n## From the command line to the screen\n")
    assert heading, "docs/architecture.md has no section `From the command line to the screen`"
    hops: list[Hop] = []
    for line in rest.partition("\n## ")[0].splitlines():
        if not re.match(r"\d", line):
            continue
        found = re.fullmatch(r"(\d+)\. `?([\w/]+\.py)`? · `?([\w.]+)`? — \S.*", line)
        assert found is not None, f"a hop is `N. file.py · Class.function — what happens`, not {line!r}"
        assert int(found[1]) == len(hops) + 1, f"out of order: {line!r}"
        hops.append(Hop(found[2], found[3]))
    return hops


def listed_hops() -> list[Hop]:
    return hops_in((DOCS / "architecture.md").read_text())


def test_every_hop_of_a_message_is_a_function_that_exists() -> None:
    existing = {one.name for one in all_functions()}
    hops = listed_hops()
    assert hops and [f"{hop.file}:{hop.function}" for hop in hops if f"{hop.file}:{hop.function}" not in existing] == []


def test_the_way_of_a_message_is_short() -> None:
    hops = listed_hops()
    lines = sum(line_count(SOURCE / file) for file in {hop.file for hop in hops})
    assert len(hops) <= HOPS and lines <= HOP_LINES, f"{len(hops)} hops over {lines} lines"


WALK = """
import os, sys
import spindle

source = os.path.dirname(spindle.__file__) + os.sep
walked = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
hops = set(sys.argv[2].split(","))


def name_of(frame):
    return f"{frame.f_code.co_filename.removeprefix(source)}:{frame.f_code.co_qualname}"


def note(frame, event, _):
    code = frame.f_code
    # A coroutine that goes on counts as called again, on another line.
    if event != "call" or not code.co_filename.startswith(source) or frame.f_lineno != code.co_firstlineno:
        return
    if name_of(frame) in hops:
        above = []
        while frame is not None:
            if frame.f_code.co_filename.startswith(source):
                above.append(name_of(frame))
            frame = frame.f_back
        os.write(walked, (",".join(above) + "\\n").encode())


from spindle.__main__ import run

sys.argv = ["spindle", "exec", "hello"]
sys.setprofile(note)
run()
"""
"""Runs `spindle exec` and writes a line for each hop it takes: itself, and who of ours is above it on the stack."""


@pytest.fixture
def walked(environment: dict[str, str], server: FakeServer, workspace: Path, tmp_path: Path) -> list[list[str]]:
    """The hops that a message with one command takes, one after the other, each with those who called it."""
    hops = ",".join(f"{hop.file}:{hop.function}" for hop in listed_hops())
    server.script(turn(call("exec_command", {"cmd": "echo printed by the command"}, "c1")), turn(message("done")))
    done = subprocess.run(
        [sys.executable, "-c", WALK, str(tmp_path / "walked"), hops],
        cwd=workspace,
        env={**environment, "PYTHONUTF8": "1", "PYTHONSAFEPATH": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0 and "printed by the command" in done.stderr, done.stderr[-2000:]
    return [line.split(",") for line in (tmp_path / "walked").read_text().splitlines()]


ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="other systems have another fence")


@ON_LINUX
def test_a_message_takes_every_hop_in_this_order(walked: list[list[str]]) -> None:
    taken = iter([hop for hop, *_ in walked])
    # What was passed on the way to one hop cannot be the next one: the iterator goes on from there.
    missed = [f"{hop.file}:{hop.function}" for hop in listed_hops() if f"{hop.file}:{hop.function}" not in taken]
    assert missed[:1] == []


@ON_LINUX
def test_the_way_to_a_hop_leads_through_no_file_that_is_not_listed(walked: list[list[str]]) -> None:
    """At least once for each hop; but features may stand around a call."""
    files = {hop.file for hop in listed_hops()}
    beside: dict[str, set[str]] = {}
    for hop, *above in walked:
        others = {name for name in above if name.split(":")[0] not in files and not name.endswith(".around_call")}
        beside[hop] = min(others, beside.get(hop, others), key=len)
    assert {hop: others for hop, others in beside.items() if others} == {}


def test_the_checks_of_functions_see_what_they_look_for() -> None:
    source = """
class Room:
    def wide(self, a, b, /, c, d, *rest, e, f, g, **more):
        async def inner():
            import os
            import re  # noqa: F401
            import sys  # noqa: F401  for its size
            from json import (
                dumps,  # only here
            )
"""
    wide, inner = functions_in("room.py", source)
    assert (wide.name, wide.parameters, wide.lines) == ("room.py:Room.wide", 9, 8)
    assert inner.name == "room.py:Room.wide.inner"
    assert imports_without_reason(source, [wide, inner]) == {"room.py:Room.wide.inner"}
    mended = source.replace("import os", "import os  # late").replace("# noqa: F401\n", "# noqa: F401  late\n")
    assert imports_without_reason(mended, functions_in("room.py", mended)) == set()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("1. a.py: run, it runs", "a hop is"),
        ("2. a.py · run — it runs", "out of order"),
        ("1. a.py · run —", "a hop is"),
    ],
)
def test_a_list_of_hops_that_cannot_be_read_is_refused(line: str, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        hops_in(f"\n## From the command line to the screen\n\n{line}\n\n## Next\n")
    assert hops_in("\n## From the command line to the screen\n\n1. a.py · A.run — it runs\n\n## B\n9\n") == [
        Hop("a.py", "A.run")
    ]


# What is loaded on the way: Python itself reports each import on stderr when asked to.

REPORTS_IMPORTS = {"PYTHONPROFILEIMPORTTIME": "1"}
HEAVY = {
    *("base64", "dataclasses", "datetime", "email", "hashlib", "html", "http", "inspect", "json", "logging.config"),
    *("multiprocessing", "pathlib", "pickle", "random", "secrets", "shlex", "shutil", "sqlite3", "statistics"),
    *("tempfile", "typing_extensions", "unittest", "urllib", "uuid", "xml", "zipfile", "difflib", "ctypes", "curses"),
    *("PIL", "anyio", "h11", "httpx", "httpx2", "mcp", "openai", "prompt_toolkit", "pydantic", "requests", "rich"),
    *("markdown_it", "pygments"),
    *("textual", "tomlkit", "tree_sitter", "websockets", "yaml", "pkg_resources", "setuptools"),
}


def reported_imports(stderr: str) -> set[str]:
    lines = [line for line in stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines[1:]}


def imported_by(code: str) -> set[str]:
    """What a plain interpreter loads for these lines."""
    environment = {**os.environ, **REPORTS_IMPORTS}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return reported_imports(done.stderr)


@pytest.mark.parametrize("flag", ["--version", "-V"])
def test_asking_for_the_version_loads_nothing_but_the_version(
    spindle_cmd: list[str], environment: dict[str, str], flag: str
) -> None:
    done = subprocess.run(
        [*spindle_cmd, flag], env={**environment, **REPORTS_IMPORTS}, capture_output=True, text=True, check=True
    )
    ours = {"spindle", "spindle.__main__"}
    # Started by `python -m`, the interpreter needs its own module runner first.
    runner = imported_by("import runpy") if "-m" in spindle_cmd else set[str]()
    assert reported_imports(done.stderr) - imported_by("pass") - runner - ours == set()
    assert done.stdout.startswith("spindle ")


@pytest.mark.parametrize("words", [["--help"], ["exec", "--help"], ["exce"], ["help", "mcp", "add"]])
def test_a_page_or_a_slip_loads_the_table_of_commands_and_nothing_that_works(
    spindle_cmd: list[str], environment: dict[str, str], words: list[str]
) -> None:
    done = subprocess.run(
        [*spindle_cmd, *words], env={**environment, **REPORTS_IMPORTS}, capture_output=True, text=True
    )
    loaded = {name for name in reported_imports(done.stderr) if name.startswith("spindle.")}
    assert {package_of(name) for name in loaded} <= {"__main__", "errors", "frontends", "protocol"}
    front_ends = {name for name in loaded if front_end_of(name) is not None}
    assert "spindle.frontends.command_table" in loaded and front_ends == set()


READS_RECORDS = {f"spindle.thread.{name}" for name in ("reading", "reopening", "summary")}


def test_nothing_heavy_is_loaded_before_the_first_request(
    spindle_cmd: list[str], environment: dict[str, str], server: FakeServer, workspace: Path, tmp_path: Path
) -> None:
    report = tmp_path / "stderr"
    loaded: list[str] = []

    def note_what_is_loaded(_: Received) -> Turn:
        loaded.append(report.read_text())
        return turn(message("done"))

    server.script(note_what_is_loaded)
    with report.open("w") as stderr:
        done = subprocess.run(
            [*spindle_cmd, "exec", "--json", "hello"],
            cwd=workspace,
            env={**environment, **REPORTS_IMPORTS},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            timeout=30,
        )
    assert done.returncode == 0, report.read_text()[-2000:]
    # asyncio and the two libraries on the path bring modules of their own; those cost nothing more.
    allowed = imported_by("import asyncio, msgspec, httptools, argparse, tomllib")
    ours = reported_imports(loaded[0]) - allowed
    assert {name for name in ours if name in HEAVY or name.split(".")[0] in HEAVY} == set()
    assert "spindle.core.turn" in ours
    assert sys.platform != "linux" or "platform" not in reported_imports(loaded[0]), "uuid asks it for one word only"
    assert "_ssl" not in reported_imports(loaded[0]), "the server is reached without TLS"
    assert ours.isdisjoint(READS_RECORDS), "a thread that begins has nothing to read"
    assert not [name for name in ours if name.startswith("spindle.model.websocket")], "no provider offers them"
    seldom = {"inspect", "linecache", "locale", "logging", "textwrap", "traceback", "asyncio.sslproto"}
    assert not seldom & reported_imports(loaded[0]), "the libraries need them when something is out of the way"
    # What a module loads is indented below it. This one is loaded by none, but while the server works.
    assert re.search(r"\|  +spindle\.model\.wires\.responses\.decoder$", loaded[0], re.MULTILINE) is None


DRAWING = ("prompt_toolkit", "markdown_it", "pygments")


def test_the_first_paint_waits_for_neither_the_event_loop_nor_the_engine_nor_the_editor() -> None:
    loaded = imported_by(
        "import spindle.frontends.cli, spindle.frontends.tui.command, spindle.frontends.tui.first_paint"
    )
    assert "spindle.frontends.tui.screen.painter" in loaded
    ours = {package_of(name) for name in loaded if name.startswith("spindle.")}
    assert ours.isdisjoint({"core", "assembly", "api", "tools", "prompt", "features"}) and loaded.isdisjoint(
        {"asyncio", *DRAWING}
    )


def test_libraries_for_drawing_are_used_by_the_terminal_interface_alone() -> None:
    users = {
        name
        for name, statements in import_statements().items()
        for node, _ in statements
        for target in ([alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""])
        if target.split(".")[0] in DRAWING
    }
    assert users and all(front_end_of(name) == "tui" for name in users)


def test_yaml_is_loaded_for_skills_that_are_new_and_not_again(
    spindle_cmd: list[str], environment: dict[str, str], server: FakeServer, workspace: Path, home: Path
) -> None:
    skill = home / "skills/one/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: one\ndescription: does things\n---\n")
    server.script(turn(message("done")), turn(message("done")))
    loads_yaml: list[bool] = []
    for _ in range(2):
        done = subprocess.run(
            [*spindle_cmd, "exec", "--json", "hello"],
            cwd=workspace,
            env={**environment, **REPORTS_IMPORTS},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        loads_yaml.append("yaml" in reported_imports(done.stderr))
    assert loads_yaml == [True, False]
    first, second = ([item for item in request.json["input"] if item["role"] == "user"] for request in server.requests)
    assert "does things" in str(first) and first == second


def test_what_draws_on_a_terminal_is_loaded_only_where_there_is_one(
    spindle_cmd: list[str], environment: dict[str, str], server: FakeServer, workspace: Path
) -> None:
    server.script(turn(message("done")))
    done = subprocess.run(
        [*spindle_cmd, "exec", "hello"],
        cwd=workspace,
        env={**environment, **REPORTS_IMPORTS},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
    )
    loaded = reported_imports(done.stderr)
    assert done.returncode == 0 and "spindle.frontends.exec.people" in loaded
    assert loaded.isdisjoint({"spindle.frontends.exec.live", "unicodedata", "shutil"})


def test_the_sandbox_command_loads_little_more_than_the_fence(
    spindle_cmd: list[str], environment: dict[str, str], workspace: Path
) -> None:
    done = subprocess.run(
        [*spindle_cmd, "sandbox", "true"],
        cwd=workspace,
        env={**environment, **REPORTS_IMPORTS},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = reported_imports(done.stderr)
    assert loaded.isdisjoint({"asyncio", "ssl", "logging", "tempfile", "concurrent.futures"})
    ours = {name for name in loaded if name.startswith("spindle.")}
    assert "spindle.process.sandbox" in ours
    packages = {package_of(name) for name in ours}
    assert packages.isdisjoint({"assembly", "auth", "context", "core", "patch", "prompt", "thread", "tools"})
    assert {name for name in ours if package_of(name) == "model"} == {"spindle.model", "spindle.model.provider"}
    assert "spindle.protocol.events" not in ours


def test_schemas_are_written_without_the_server_they_describe(
    spindle_cmd: list[str], environment: dict[str, str], tmp_path: Path
) -> None:
    """An SDK waits for them before its first real request."""
    done = subprocess.run(
        [*spindle_cmd, "app-server", "generate-json-schema", "--out", str(tmp_path / "schemas")],
        env={**environment, **REPORTS_IMPORTS},
        capture_output=True,
        text=True,
        timeout=30,
    )
    loaded = reported_imports(done.stderr)
    assert done.returncode == 0 and "spindle.frontends.app_server.schema_files" in loaded
    assert loaded.isdisjoint({"asyncio", "msgspec.inspect", "spindle.frontends.app_server.registry"})
    # The configuration says what the agent can write, and so which links must not be followed.
    packages = {package_of(name) for name in loaded if name.startswith("spindle.")}
    assert packages.isdisjoint({"api", "assembly", "context", "core", "process", "prompt", "tools"})


if __name__ == "__main__":
    for name, path in sorted(modules().items(), key=lambda entry: -line_count(entry[1])):
        print(f"{line_count(path):5} {name}")
