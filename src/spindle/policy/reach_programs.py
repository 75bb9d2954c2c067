"""Programs that run what they are given or find: interpreters, package runners, and how they are told what to run.

Tables for `reach_commands.py`. A program that is missing here is judged by the looks of its arguments.
"""

from __future__ import annotations

import re

import msgspec


class Interpreter(msgspec.Struct, frozen=True, kw_only=True):
    """How a program that runs texts or files is told which."""

    code: tuple[str, ...] = ()
    """Options whose value is a program's text."""
    module: tuple[str, ...] = ()
    """Options whose value is looked up by name, in the working folder too."""
    folders: tuple[str, ...] = ()
    """Options whose value is a folder or a file with code."""
    valued: tuple[str, ...] = ()
    """Other options that take the next word."""
    subcommands: tuple[str, ...] = ()
    """Words before the file."""
    looks_around: bool = False
    """It reads settings or modules that lie in the folder it is started in, whatever file it is given."""


PYTHON = Interpreter(code=("-c",), module=("-m",), valued=("-W", "-X", "--check-hash-based-pycs"))
NODE = Interpreter(
    code=("-e", "--eval", "-p", "--print", "-pe"),
    folders=("-r", "--require", "--import", "--loader", "--experimental-loader", "--env-file"),
    valued=("-C", "--conditions", "--input-type", "--title", "--icu-data-dir"),
)
INTERPRETERS: tuple[tuple[str, Interpreter], ...] = (
    (r"(python|pypy)w?[\d.]*t?", PYTHON),
    (r"ipython\d*", msgspec.structs.replace(PYTHON, looks_around=True)),
    (r"node(js)?[\d.]*", NODE),
    (
        r"tsx|ts-node(-\w+)?|esr|esbuild-runner|babel-node|vite-node|swc-node|zx",
        msgspec.structs.replace(NODE, looks_around=True),
    ),
    (r"bun", msgspec.structs.replace(NODE, subcommands=("run",), looks_around=True)),
    (r"deno", Interpreter(subcommands=("run", "eval", "serve"), looks_around=True)),
    (r"perl[\d.]*", Interpreter(code=("-e", "-E"), folders=("-I",))),
    (r"j?ruby[\d.]*", Interpreter(code=("-e",), module=("-r",), folders=("-I", "-C"))),
    (r"php[\d.]*", Interpreter(code=("-r",), folders=("-c",), valued=("-d",))),
    (r"(lua|luajit)[\d.-]*", Interpreter(code=("-e",), module=("-l",), looks_around=True)),
    (r"Rscript|R", Interpreter(code=("-e",), valued=("-f",), looks_around=True)),
    (r"at|batch|crontab", Interpreter(valued=("-q", "-t", "-u"))),
    (
        r"java",
        Interpreter(
            folders=("-cp", "-classpath", "--class-path", "-p", "--module-path"),
            valued=("--add-modules", "--add-opens", "--enable-native-access"),
        ),
    ),
    (r"(tclsh|wish|expect)[\d.]*", Interpreter(code=("-c",))),
    (
        r"julia|groovy|scala|elixir|iex|osascript|ghc|runghc|runhaskell|guile|sbcl|racket|swipl",
        Interpreter(code=("-e",)),
    ),
    (
        r"dotnet|mono|wine(64)?|wasmtime|wasmer|pwsh|powershell|swift|dart|crystal|nim|kotlin|erl|escript",
        Interpreter(),
    ),
)
PROJECT_RUNNERS = frozenset(
    (
        *("npm", "pnpm", "yarn", "uv", "poetry", "pipenv", "pdm", "hatch", "rye", "pixi", "conda", "mamba", "cargo"),
        *("go", "make", "gmake", "just", "task", "rake", "bundle", "bundler", "composer", "gradle", "gradlew", "mvn"),
        *("mvnw", "sbt", "lein", "clj", "clojure", "mix", "rebar3", "stack", "cabal", "zig", "nix", "nix-shell", "tox"),
        *("nox", "invoke", "inv", "fab", "ninja", "cmake", "bazel", "bazelisk", "meson", "docker-compose", "direnv"),
        *(
            "lefthook",
            "overcommit",
            "pre-commit",
            "prek",
            "lint-staged",
            "husky",
            "commitlint",
            "captainhook",
            "grumphp",
        ),
        *(
            "eslint",
            "prettier",
            "stylelint",
            "jest",
            "vitest",
            "mocha",
            "rubocop",
            "rspec",
            "phpunit",
            "pylint",
            "flake8",
        ),
        *("uvicorn", "gunicorn", "hypercorn", "daphne", "flask", "celery", "streamlit", "fastmcp", "mcp", "jupyter"),
        *("dotenv", "nodemon", "pm2", "forever", "terraform", "tofu", "pulumi", "gdb", "lldb", "irb", "pry", "ghci"),
        *("vi", "vim", "nvim", "ex", "view"),
        *("devbox", "mise", "asdf", "lerna", "nx", "turbo", "rush", "pytest", "ansible-playbook", "vagrant", "earthly"),
    )
)
"""Programs that do what files of the folder say."""
FETCHERS = frozenset(("npx", "pnpx", "bunx", "uvx", "pipx"))
FETCHING = {
    ("npm", "exec"), ("npm", "x"), ("pnpm", "dlx"), ("yarn", "dlx"), ("bun", "x"), ("uv", "tool"), ("deno", "x"),
}  # fmt: skip
"""Programs that fetch what they run, unless they find it in the folder."""
SOURCE_OPTIONS = frozenset(
    (
        *("-p", "--package", "--prefix", "--userconfig", "--globalconfig", "--cwd", "-C", "--dir", "-w", "--workspace"),
        *(
            "--from",
            "--with",
            "--with-editable",
            "--with-requirements",
            "--spec",
            "--directory",
            "--project",
            "--index",
        ),
        *(
            "--index-url",
            "--extra-index-url",
            "--default-index",
            "--find-links",
            "-f",
            "-i",
            "--config-file",
            "--python",
        ),
        *(
            "-c",
            "--constraints",
            "--overrides",
            "--pip-args",
            "--registry",
            "--script-shell",
            "--node-options",
            "--call",
        ),
    )
)
"""Options of theirs that take the next word, which may be a folder that code comes from."""
FOLDER_OPTIONS = ("-C", "--directory", "--project", "--prefix", "--cwd", "--dir", "--manifest-path", "-f", "--file")
FOLDER_OPTIONS += (
    "--app-dir",
    "--chdir",
    "--pythonpath",
    "--rootdir",
    "--with",
    "--with-editable",
    "--with-requirements",
)
CODE_ENDS = (
    *(".py", ".pyz", ".pyc", ".pyw", ".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".tsx", ".jsx", ".sh", ".bash"),
    *(".zsh", ".fish", ".rb", ".pl", ".pm", ".php", ".lua", ".jar", ".class", ".wasm", ".so", ".dylib", ".node"),
    *(".dll", ".exe", ".ps1", ".bat", ".cmd", ".awk", ".tcl", ".r", ".R", ".jl", ".groovy", ".kts", ".scm", ".el"),
)
HARMLESS_BUILTINS = frozenset(
    ("echo", "printf", "true", "false", ":", "test", "[", "pwd", "exit", "return", "sleep", "wait", "umask", "ulimit")
)
TAME_BUILTINS = HARMLESS_BUILTINS | {"read", "export", "readonly", "declare", "typeset", "local", "set", "unset", "let"}
"""The same where the values of variables are followed."""
OTHER_BUILTINS = frozenset(
    (
        *("eval", "trap", "alias", "unalias", "hash", "enable", "export", "readonly", "declare", "typeset", "local"),
        *(
            "set",
            "unset",
            "shopt",
            "bind",
            "complete",
            "compopt",
            "fc",
            "mapfile",
            "readarray",
            "coproc",
            "let",
            "read",
        ),
        *("popd", "dirs", "getopts", "setopt", "autoload", "zmodload", "fg", "bg", "disown", "suspend", "vared"),
    )
)
"""They change what the words behind them mean, or run what they are given."""
TEXT_TOOLS = frozenset(("awk", "gawk", "mawk", "nawk", "sed", "gsed", "jq", "yq", "m4", "bc", "dc", "sqlite3", "psql"))
"""Programs whose own language is given as a word, or in the file of an option; what else they are given is data."""


SCRIPT_OPTIONS = {
    **dict.fromkeys(("vi", "vim", "view", "ex", "nvim", "rvim", "gvim"), ("-S", "-u", "-s", "-c")),
    **dict.fromkeys(("gdb", "lldb"), ("-x", "-ix", "--command", "-s", "--source")),
    **dict.fromkeys(("emacs", "emacsclient"), ("-l", "--load", "--script", "-x")),
    **dict.fromkeys(("sqlite3", "sqlite"), ("-init", "-cmd")),
    **dict.fromkeys(("psql", "mysql", "mariadb"), ("-f", "--file", "--defaults-file", "--defaults-extra-file")),
    **dict.fromkeys(("dc", "bc", "octave", "gnuplot", "lftp"), ("-f", "--file", "-l", "-c")),
    **dict.fromkeys(("less", "more", "most"), ("-k", "--lesskey-file", "--lesskey-src")),
}
"""Options with a file of commands."""
_SQL = frozenset(("sqlite3", "psql"))


def program_files(name: str, words: list[str], at: int) -> list[str]:
    """`-f FILE`, `-fFILE`, `--file=FILE`: the file if such an option stands there."""
    options = ("-f", "--file", "--from-file", *(("-i", "-l", "-E") if name.endswith("awk") else ()))
    options += ("-init", "--init") if name in _SQL else ()
    option, equals, value = words[at].partition("=")
    if option in options:
        return [value] if equals else words[at + 1 : at + 2]
    if name not in _SQL and (cluster := re.match(r"-[a-zA-Z]*?f(.*)", words[at])):
        return [cluster[1]] if cluster[1] else words[at + 1 : at + 2]
    return []


def package_names(source: str) -> list[str]:
    """`@scope/name@1.2` → the names that it may be found by."""
    package = re.sub(r"(?<=.)[@=<>~!\[].*", "", source)
    return [name for name in (package, package.rpartition("/")[2]) if name]
