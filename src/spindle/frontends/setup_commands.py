"""The commands to set Spindle up, to serve other programs, and to try things out, as data."""

from __future__ import annotations

from spindle.frontends.commands import CONFIG, JSON_LINES, PERMISSIONS, SERVER, Command
from spindle.frontends.options import FLAG, LIST, VALUE, Option
from spindle.protocol.settings import SANDBOX_MODES

SHELLS = ("bash", "zsh", "fish", "powershell", "elvish")

# ---- set-up ----------------------------------------------------------------------------------------

LOGIN = Command(
    name="login",
    summary="sign in with ChatGPT, or store an API key",
    run="login:run",
    usage=("", "--device-auth", "--with-api-key", "status"),
    about="""Signs in with ChatGPT in a browser on this computer, which comes back to port 1455 or 1457. With
--device-auth you type a code into a page instead, on any device. Either way the login is stored in `auth.json` of the
Codex home, which Codex uses too.""",
    options=(
        Option(("--device-auth",), FLAG, "sign in with a code that you type into a page, on any device"),
        Option(("--with-api-key",), FLAG, "read an API key from stdin and store it"),
        Option(("--experimental_issuer",), VALUE, "sign in at another login service", "URL", is_hidden=True),
    ),
    common=CONFIG,
    examples=(
        ("spindle login", "sign in with ChatGPT"),
        ("printenv OPENAI_API_KEY | spindle login --with-api-key", ""),
    ),
    commands=(
        Command(
            name="status",
            summary="say whether you are logged in, and how",
            run="login:run",
            common=CONFIG,
            exit_codes=(("0", "logged in"), ("1", "not logged in")),
        ),
    ),
)
LOGOUT = Command(
    name="logout",
    summary="forget the stored login",
    run="login:run",
    about="A sign-in with ChatGPT is also revoked at the login service, if that can be reached.",
    common=CONFIG,
)
MODELS = Command(
    name="models",
    summary="which models there are: windows, efforts, prices",
    run="models_command:run",
    about="""Lists the models that Spindle knows, those that you have described under `[spindle.models]`, and those that
the model server lists, if that is not OpenAI's. `unknown` means that nobody says.""",
    options=(
        Option(("--json",), FLAG, "print one JSON object"),
        Option(("--provider",), VALUE, "only the models of this provider; its server is asked", "ID"),
        Option(("--forget",), FLAG, "forget what Spindle has learned about what servers can do"),
    ),
    common=CONFIG,
    examples=(("spindle models --provider ollama", ""),),
)
DOCTOR = Command(
    name="doctor",
    summary="check what Spindle needs on this system, above all the sandbox",
    run="doctor:run",
    about="Changes nothing and shows no key.",
    options=(Option(("--json",), FLAG, "print one JSON object"),),
    common=(*CONFIG, *PERMISSIONS, "ask_for_approval"),
    exit_codes=(("0", "commands can be confined"), ("1", "they cannot")),
)
_FEATURE_WORD = (("FEATURE", "its name; `spindle features list` shows all"),)
FEATURES = Command(
    name="features",
    summary="feature flags: show them, switch them on or off",
    commands=(
        Command(
            name="list",
            summary="every feature, how mature it is, and whether it is on",
            run="features:run",
            about="""Columns: name, stage, true or false. The stage `unused` is for flags of Codex that you have set and
that have no effect in Spindle.""",
            common=CONFIG,
        ),
        Command(name="enable", summary="switch a feature on in config.toml", run="features:run", words=_FEATURE_WORD),
        Command(name="disable", summary="switch a feature off in config.toml", run="features:run", words=_FEATURE_WORD),
    ),
)
_RUN_MCP = "mcp.command:run"
_SERVER_WORD = (("NAME", "the name of the server"),)
_SERVER_JSON = (Option(("--json",), FLAG, "print JSON"),)
MCP = Command(
    name="mcp",
    summary="MCP servers: more tools for the model",
    commands=(
        Command(name="list", summary="list the servers", run=_RUN_MCP, options=_SERVER_JSON, common=CONFIG),
        Command(
            name="get",
            summary="show one server",
            run=_RUN_MCP,
            words=_SERVER_WORD,
            options=_SERVER_JSON,
            common=CONFIG,
        ),
        Command(
            name="add",
            summary="add a server to config.toml",
            run=_RUN_MCP,
            words=(("NAME", "letters, digits, `-` and `_`"), ("[COMMAND...]", "the program and its arguments")),
            usage=("NAME [--env KEY=VALUE] [--] COMMAND...", "NAME --url URL [--bearer-token-env-var NAME]"),
            options=(
                Option(("--env",), LIST, "a variable of the program", "KEY=VALUE"),
                Option(("--url",), VALUE, "the address of a streamable HTTP server", "URL"),
                Option(("--bearer-token-env-var",), VALUE, "with --url: the variable that holds its token", "NAME"),
            ),
            verbatim_from=1,
            examples=(
                ("spindle mcp add docs -- npx -y docs-server", ""),
                ("spindle mcp add tickets --url https://mcp.example.com/", ""),
            ),
        ),
        Command(
            name="remove", summary="remove a server from config.toml", run=_RUN_MCP, words=_SERVER_WORD, aliases=("rm",)
        ),
        Command(
            name="trust",
            summary="agree to a server that a project describes",
            run=_RUN_MCP,
            words=_SERVER_WORD,
            common=CONFIG,
        ),
        Command(name="untrust", summary="take the consent back", run=_RUN_MCP, words=_SERVER_WORD, common=CONFIG),
        Command(
            name="login",
            summary="sign in to a server in the browser",
            run=_RUN_MCP,
            words=_SERVER_WORD,
            options=(Option(("--scopes",), VALUE, "what to ask for, separated by commas", "SCOPES"),),
            common=CONFIG,
        ),
        Command(name="logout", summary="forget the login to a server", run=_RUN_MCP, words=_SERVER_WORD),
    ),
)
_RUN_LOCAL = "local_command:run"
LOCAL = Command(
    name="local",
    summary="models that Spindle runs itself: add, list, remove",
    default="list",
    about="""A model is a GGUF file that llama.cpp runs on this computer, in a separate process; nothing leaves the
computer. It needs the extra `local`: pip install 'spindle-agent[local]'. To use a model that you have added, pass
`-c model_provider=local -m NAME`.

Small models list, read and quote files and write small new ones. They do not fix bugs reliably.""",
    commands=(
        Command(
            name="add",
            summary="copy or download a GGUF file",
            run=_RUN_LOCAL,
            words=(("SOURCE", "a file on this computer, or an http or https address"),),
            options=(
                Option(("--sha256",), VALUE, "the checksum that the file must have; any other file is refused", "SUM"),
                Option(("--name",), VALUE, "what to call the model; without it, the name of the file", "NAME"),
            ),
            examples=(("spindle local add ~/Downloads/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", ""),),
        ),
        Command(
            name="list",
            summary="list the models that you have added",
            run=_RUN_LOCAL,
            options=(JSON_LINES,),
        ),
        Command(
            name="remove",
            summary="delete the file of a model",
            run=_RUN_LOCAL,
            words=(("NAME", "a name from `spindle local`"),),
            aliases=("rm",),
        ),
    ),
)
GRANTS = Command(
    name="grants",
    summary="what you have allowed for good: show it, take it back",
    default="list",
    commands=(
        Command(name="list", summary="list what is allowed", run="grants:run", options=(JSON_LINES,)),
        Command(
            name="revoke",
            summary="take a grant back, so that you are asked again from the next session on",
            run="grants:run",
            words=(("ID...", "ids from `spindle grants`"),),
        ),
    ),
)
_HOOK_WORDS = (("[KEY...]", "keys from `spindle hooks`; without one: all hooks of the project"),)
HOOKS = Command(
    name="hooks",
    summary="commands that run at named moments: list them, decide which may run",
    default="list",
    commands=(
        Command(
            name="list",
            summary="list the hooks that apply here",
            run="hooks_command:run",
            options=(JSON_LINES,),
            common=CONFIG,
        ),
        Command(
            name="trust",
            summary="let hooks of this project run",
            run="hooks_command:run",
            words=_HOOK_WORDS,
            common=CONFIG,
        ),
        Command(
            name="distrust",
            summary="no longer let them run",
            run="hooks_command:run",
            words=_HOOK_WORDS,
            common=CONFIG,
        ),
    ),
)
COMPLETION = Command(
    name="completion",
    summary="print a script that completes commands and options in your shell",
    run="completion.command:run",
    words=(("[SHELL]", f"{', '.join(SHELLS)}; bash when left out"),),
    examples=(
        ('eval "$(spindle completion bash)"', "in ~/.bashrc"),
        ('eval "$(spindle completion zsh)"', "in ~/.zshrc, after compinit"),
        ("spindle completion fish > ~/.config/fish/completions/spindle.fish", "once"),
    ),
)

# ---- servers ---------------------------------------------------------------------------------------

_OUT = (
    Option(("--out", "-o"), VALUE, "the folder to write to (required)", "DIR"),
    Option(("--experimental",), FLAG, "accepted for Codex; experimental parts are always written"),
)
APP_SERVER = Command(
    name="app-server",
    summary="serve editors and SDKs over stdio, a Unix socket or a WebSocket",
    run="app_server.command:run",
    options=(
        Option(
            ("--listen",), VALUE, "where clients connect: stdio:// (the default), unix://PATH or ws://HOST:PORT", "URL"
        ),
        Option(
            ("--token-file",), VALUE, "with ws://: holds the token that clients need; created if it is missing", "FILE"
        ),
        Option(("--allow-remote",), FLAG, "with ws://: also accept addresses that other machines can reach"),
    ),
    common=SERVER,
    exit_codes=(
        ("0", "the client closed its end; with unix://, ended by a signal"),
        ("129, 130, 143", "ended by SIGHUP, Ctrl-C, SIGTERM"),
    ),
    commands=(
        Command(
            name="generate-json-schema",
            summary="write the JSON Schemas of the protocol",
            run="app_server.schema_files:run",
            usage=("--out DIR",),
            options=_OUT,
        ),
        Command(
            name="generate-ts",
            summary="write the TypeScript types of the protocol",
            run="app_server.schema_files:run",
            usage=("--out DIR",),
            options=_OUT,
        ),
    ),
)
PROTO = Command(
    name="proto",
    summary="speak protocol v1: operations in, events out; over stdio or sockets",
    run="proto.command:run",
    about="""Without --listen it serves the program that started it, over stdin and stdout. With --listen, every
connection has its own engine, which ends with the connection.""",
    options=(
        Option(("--listen",), VALUE, "listen for clients: tcp://HOST:PORT (0 is a free port) or unix://PATH", "URL"),
        Option(
            ("--token-file",), VALUE, "with tcp://: holds the token that clients need; created if it is missing", "FILE"
        ),
        Option(("--allow-remote",), FLAG, "with tcp://: also accept addresses that other machines can reach"),
        Option(("--max-connections",), VALUE, "how many clients at a time (default 64)", "N"),
        Option(("--wait-configure",), FLAG, "open no session before configure_session"),
        Option(("--legacy-interrupt-error",), FLAG, 'send an "interrupted" error before turn_aborted'),
    ),
    common=SERVER,
    exit_codes=(
        ("0", "shut down, or the end of input; with --listen, ended by a signal"),
        ("129, 130, 143", "ended by SIGHUP, Ctrl-C or SIGTERM"),
    ),
    examples=(
        ("spindle proto --listen unix:///run/user/1000/spindle.sock", ""),
        ("spindle proto --listen tcp://127.0.0.1:0 --token-file ~/.spindle-token", "on a free port"),
    ),
)

MCP_SERVER = Command(
    name="mcp-server",
    summary="serve other agents over MCP: tools that run a turn",
    run="mcp_server.command:run",
    about="""The tools are `codex`, which starts a thread, and `codex-reply`, which goes on with one. Spindle asks you
for approvals through the client, if the client can ask.""",
    options=(Option(("--no-events",), FLAG, "send no codex/event notifications, only results and progress"),),
    common=SERVER,
    exit_codes=(("0", "the client closed its end"), ("129, 130, 143", "ended by SIGHUP, Ctrl-C, SIGTERM")),
)
ACP = Command(
    name="acp",
    summary="serve an editor over the Agent Client Protocol: Zed, JetBrains, Neovim, …",
    run="acp.command:run",
    about="""Editors start it themselves; docs/clients.md shows how to set them up. The server speaks over stdin and
stdout.""",
    options=(Option(("--no-fs",), FLAG, "read and write files on disk, never through the editor"),),
    common=SERVER,
    exit_codes=(("0", "the editor closed its end"), ("129, 130, 143", "ended by SIGHUP, Ctrl-C, SIGTERM")),
)

# ---- trying things out -----------------------------------------------------------------------------

_RUN_SANDBOX = "sandbox:run"
_SANDBOXED = (("COMMAND...", "the program and its arguments; options after the program belong to it"),)
SANDBOX = Command(
    name="sandbox",
    summary="run a command as the agent would",
    run=_RUN_SANDBOX,
    words=_SANDBOXED,
    usage=("[linux|macos] [OPTIONS] [--] COMMAND...",),
    about="""Your configuration says what the command can reach. Older releases of Codex want the system named first
(`linux` or `macos`); here you may leave it out.""",
    options=(
        Option(
            ("--mode",),
            VALUE,
            "what the command may do (default: as configured, else read-only)",
            "MODE",
            SANDBOX_MODES,
        ),
        Option(("--network",), FLAG, "leave the network reachable"),
        Option(("-P", "--permission-profile"), VALUE, "the permission profile to run it under: :workspace, …", "NAME"),
    ),
    common=(*CONFIG, *PERMISSIONS),
    verbatim_from=0,
    exit_codes=(
        ("1", "nothing was run: the sandbox cannot be set up, or the mode is not allowed"),
        ("126, 127", "the program cannot be started, or does not exist"),
        ("other", "the command's own; 128 + N when signal N ended it"),
    ),
    examples=(("spindle sandbox --mode workspace-write make test", ""),),
    commands=tuple(
        Command(
            name=name,
            summary=f"the same, with the system named: {name}",
            run=_RUN_SANDBOX,
            words=_SANDBOXED,
            extends=True,
            common=(*CONFIG, *PERMISSIONS),
            verbatim_from=0,
            aliases=(alias,),
            is_hidden=True,
        )
        for name, alias in (("linux", "landlock"), ("macos", "seatbelt"))
    ),
)
EXECPOLICY = Command(
    name="execpolicy",
    summary="what the rules say about a command",
    commands=(
        Command(
            name="check",
            summary="which rules match a command, and what they say, as JSON",
            run="execpolicy:run",
            words=(("COMMAND...", "the command to look at; it is not run"),),
            usage=("[OPTIONS] [--] COMMAND...",),
            options=(
                Option(
                    ("-r", "--rules"),
                    LIST,
                    "a rule file to use, instead of those that a session would read",
                    "FILE",
                ),
                Option(("--pretty",), FLAG, "indent the JSON"),
                Option(
                    ("--resolve-host-executables",),
                    FLAG,
                    "accepted for compatibility; a program is matched as it is written",
                ),
            ),
            common=CONFIG,
            verbatim_from=0,
            examples=(("spindle execpolicy check --pretty git push origin main", ""),),
        ),
    ),
)
APPLY_PATCH = Command(
    name="apply-patch",
    summary="apply a patch in the *** Begin Patch format",
    run="apply_patch:run",
    words=(("[PATCH]", "the patch as one argument; without it, it is read from stdin"),),
    verbatim_from=0,
    about="Changes files one after the other: after a failure, the files before it are already changed.",
    exit_codes=(("0", "applied"), ("1", "the patch cannot be read or does not fit"), ("2", "bad arguments")),
    examples=(("spindle apply-patch < change.patch", ""),),
)
