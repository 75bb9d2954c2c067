"""The configuration as the program uses it: typed, complete, frozen. How files become one is in `load`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec

from spindle.mcp.spec import McpServer
from spindle.model.provider import OPENAI_ISSUER, LoginSettings, Provider
from spindle.policy.environment import EnvironmentPolicy
from spindle.policy.sandbox import Fence
from spindle.protocol.request import Prices
from spindle.protocol.settings import AgentRole, ApprovalPolicy, BudgetLimits, Granular, Personality, SandboxPolicy

if TYPE_CHECKING:
    from spindle.model.prices import PriceList

TrustLevel = Literal["trusted", "untrusted"]
WebSearch = Literal["disabled", "cached", "live"]


class TuiSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How the terminal interface looks and behaves: the `[tui]` table, and our own `[spindle.tui]`."""

    animations: bool = True
    """Whether anything on the screen moves by itself; false stops all motion."""
    alternate_screen: Literal["auto", "always", "never"] = "auto"
    """`always` uses the alternate screen. `auto` and `never` keep your scrollback."""
    theme: str | None = None
    """The name of a colour theme; None = the sixteen colours of the terminal."""
    status_line: tuple[str, ...] | None = None
    """The fields of the line below the composer, in order; None = the usual ones."""
    status_line_use_colors: bool = True
    """Whether that line has colours."""
    terminal_title: tuple[str, ...] | None = None
    """The fields of the window title, in order, `[]` = leave the title alone; None = state and folder."""
    notifications: bool | tuple[str, ...] = True
    """Notify you: always, never, or only of the events named (`agent-turn-complete`, `approval-requested`, …)."""
    notification_method: Literal["auto", "osc9", "bel"] = "auto"
    """How: a desktop notification by escape sequence, or the bell; `auto` picks by terminal."""
    notification_condition: Literal["unfocused", "always"] = "unfocused"
    """When: only while another window has the focus, or always."""
    vim_mode_default: bool = False
    """Begin with the vi keys in the composer."""
    raw_output_mode: bool = False
    """Begin with answers shown as plain text, not as rendered Markdown."""
    keymap: dict[str, Any] = {}
    """Your own keys: `[tui.keymap.CONTEXT]` with `action = "ctrl-x"` or a list of keys."""

    plain: bool = False
    """Line by line, for screen readers: nothing is redrawn, nothing moves."""
    keys: Literal["codex", "claude", "pi", "vim"] = "codex"
    """Whose keys to add to those of Codex, for users of another program."""
    cycle_permissions: bool = True
    """Whether Shift-Tab also stops at auto-edit; false: only at default and plan."""


class SpindleConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The `[spindle]` table: settings the reference program does not have."""

    jit_tools: bool | None = None
    """Offer list_dir, grep_files and read_file; None = only to models that were not trained to use a shell."""
    agents_md_untrusted: bool = True
    """Read AGENTS.md files of folders that are not trusted."""
    environment_extras: tuple[str, ...] = ()
    """Extra lines of the environment message: date, timezone."""
    compact_keep: tuple[str, ...] = ()
    """Facts that every compaction must keep."""
    compact_keep_tools: bool | None = None
    """Send the tool list with compaction requests; None = as the provider wants it."""
    image_tool_output: str = "array"
    """How images in tool outputs are sent: in the output itself (array), or in a message after it (message)."""
    memory: bool = False
    """Let the model keep notes that outlive the thread, in one folder per project, and tell it which ones there are."""
    offload_outputs: bool | None = None
    """Keep outputs that were cut or cleared as files; None = only if the context mode clears outputs."""
    nested_agents_md: bool = True
    """Show the model the AGENTS.md of a sub-folder when it first works there."""
    recollection: bool = True
    """Offer the tools `remember` and `recall`."""
    context_mode: str = "append_only"
    """Whether to clear old outputs by rule: never, whenever the rule triggers, or when that is cheaper."""
    context_rule: dict[str, Any] = {}
    """When and what to clear, with the parameters of [`compress_by_rule`](context.md#smaller-by-rule)."""
    context_prices: Prices | None = None
    """`{ input, cached_input, output, cache_write }` for all models, in dollars per million; None = the catalogue's."""
    context_model_prices: dict[str, Prices] = {}
    """The same for some models: `[spindle.context.model_prices.NAME]` is for those whose names begin with NAME."""
    fence: Fence = Fence()
    """How commands are confined, beside the mode."""
    mask_secrets: Literal["all", "known", "none"] = "all"
    """Which secrets are masked in tool output: everything that looks like one (`all`), known values only, or none."""
    unmasked_variables: tuple[str, ...] = ()
    """Variables whose values are not secret, whatever their names say."""
    agents_max_tokens: int = 0
    """The older name of `max_tokens` in `[spindle.budget.tree]`; 0 = no limit."""
    agents_max_requests: int = 0
    """The older name of `max_requests` in `[spindle.budget.tree]`; 0 = no limit."""
    budget: BudgetLimits = BudgetLimits()
    """What a turn may use."""
    budget_thread: BudgetLimits = BudgetLimits()
    """What a thread may use, over all its turns and processes."""
    budget_tree: BudgetLimits = BudgetLimits()
    """What all sub-agents of a thread may use together."""
    budget_day: BudgetLimits = BudgetLimits()
    """What all threads of this home may use on one day, by the local time."""
    prices: dict[str, Prices] = {}
    """`[spindle.prices."NAME"]`: `input`, `cached_input`, `output`, `cache_write`, for models called NAME or NAME-…."""
    checkpoints_enabled: bool = True
    """Keep what turns change, so that `spindle undo` can reverse it."""
    checkpoints_max_bytes: int = 1073741824
    """How much is kept for undo, of all threads together; the oldest goes first."""
    checkpoints_max_age_days: float = 30.0
    """How long it is kept."""
    checkpoints_max_file_bytes: int = 16777216
    """Larger files are not kept, and not touched by an undo."""
    models: dict[str, dict[str, Any]] = {}
    """`[spindle.models."SLUG"]`: fields of the catalogue that are different for a model, or describe a new one."""
    local_context: int | None = None
    """The window of models that Spindle runs itself, in tokens; None = 16384, or less where memory is short."""
    local_threads: int | None = None
    """On how many threads they run; None = one fewer than there are cores."""
    fleet_cache_dir: str | None = None
    """Where `spindle fleet` keeps mirrors and workspaces; None = `$XDG_CACHE_HOME/spindle`, or ~/.cache/spindle."""
    fleet_setup_network: bool = False
    """Whether `setup` of a task may use the network."""
    fleet_worker_memory: int = 2147483648
    """A worker that uses more memory takes no new task, and is replaced when its last one has ended."""
    fleet_network_beside_ray: bool = False
    """Whether commands of tasks may have the network where they can reach the ports of Ray."""
    fleet_orphan_ttl_s: float = 600.0
    """How many seconds workers on a Ray cluster keep their results after the driver died, so that --resume can take
    them over; 0 = they end with the driver."""
    max_steps: int = 0
    """The most requests in one turn; 0 = no limit."""
    turn_timeout_s: float = 0.0
    """The longest time of one turn, in seconds; 0 = no limit."""
    sse_event_max_bytes: int = 67108864
    """The largest single event that Spindle accepts from a model server."""
    log_level: str | None = None
    log_file: str | None = None
    login_issuer: str = OPENAI_ISSUER
    """The service that `spindle login` signs in at."""

    @property
    def price_list(self) -> PriceList:
        """What the user says that models cost."""
        from spindle.model.prices import PriceList  # only where somebody calculates

        return PriceList(by_model=self.prices, older=self.context_model_prices, for_all=self.context_prices)

    @property
    def tree_limits(self) -> BudgetLimits:
        """What all sub-agents may use together, under whichever name it is set; the lower limit counts."""
        tree, tokens, requests = self.budget_tree, self.agents_max_tokens, self.agents_max_requests
        if not tokens and not requests:
            return tree
        return msgspec.structs.replace(
            tree, max_tokens=_lower(tree.max_tokens, tokens), max_requests=_lower(tree.max_requests, requests)
        )


def _lower(one: int | None, other: int | None) -> int | None:
    """Of two limits the lower one; 0 and None are no limit."""
    return min(filter(None, (one, other)), default=None)


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the user decided, by file, environment or flag."""

    home: str
    """Folder of the user's files (`CODEX_HOME`); it need not exist if the variable is not set."""
    cwd: str
    """The working folder the configuration was loaded for; absolute."""
    operator_home: str | None = None
    """Where the login, AGENTS.md, skills and models of the user are if `home` is only for the records of one run."""
    provider: Provider
    """The model provider in use."""
    providers: dict[str, Provider] = {}
    """All providers by id, the built-in ones included."""
    trust_level: TrustLevel | None = None
    """What the user said about the working folder; None = nothing."""
    warnings: list[str] = []
    """What the user should hear; each is one sentence."""
    origins: dict[str, str] = {}
    """Where each value was set: dotted key → file, `-c`, or `command line`."""

    idle_keys: tuple[str, ...] = ()
    """Keys of the reference program that are set and have no effect here; `doctor` and `--strict-config` name them."""

    model: str | None = None
    """The name of the model; None = the first in the catalogue."""
    model_reasoning_effort: str | None = None
    """How long the model thinks; None = the model's own default."""
    model_reasoning_summary: str = "auto"
    """How detailed the model's summary of its thinking is."""
    model_verbosity: str | None = None
    """How long answers are, for models that have such a setting."""
    model_context_window: int | None = None
    """The size of the model's context window, in tokens; None = from the catalogue."""
    model_max_output_tokens: int | None = None
    """How many tokens one answer may have; None = as the server, or for Messages the catalogue, says."""
    model_auto_compact_token_limit: int | None = None
    """Compact a thread when it holds this many tokens; never later than at nine tenths of the window.

    0 means not set; None = from the catalogue."""
    model_supports_reasoning_summaries: bool | None = None
    """Ask for reasoning summaries even if the catalogue does not say that the model gives them."""
    model_catalog_json: str | None = None
    """A file that replaces the built-in catalogue of models."""
    base_instructions: str | None = None
    """Content of `model_instructions_file`; replaces the built-in base text."""
    developer_instructions: str | None = None
    """A message before the conversation, with the developer's role."""
    compact_prompt: str | None = None
    """Replaces the text that asks the model for a summary of the thread."""
    personality: Personality | None = None
    """The tone of the model; None = pragmatic."""
    review_model: str | None = None
    """The model of reviews; None = `model`."""
    service_tier: str | None = None
    """The service tier to ask for, sent with each request; not sent if unset."""
    tool_output_token_limit: int | None = None
    """How many tokens of one tool output the model sees; None = from the catalogue."""

    approval_policy: ApprovalPolicy = "on-request"
    """When a person is asked before something runs."""
    granular: Granular | None = None
    """Which kinds of question may be asked; None = all."""
    sandbox: SandboxPolicy = SandboxPolicy()
    """What commands and patches can reach."""
    workspace_write: SandboxPolicy = SandboxPolicy(mode="workspace-write")
    """What a later switch to workspace-write means: the user's extra folders and network setting."""
    allowed_approval_policies: tuple[str, ...] | None = None
    """The administrator's limit, strictest first; None = no limit."""
    allowed_sandbox_modes: tuple[str, ...] | None = None
    """The administrator's limit, strictest first; None = no limit."""
    rule_folders: tuple[tuple[str, bool], ...] = ()
    """Where `.rules` files are read from, lowest precedence first, and whether what they allow counts; none = off."""
    environment: EnvironmentPolicy
    """Which environment variables commands get."""
    allow_login_shell: bool = True
    """Whether commands may run in a login shell."""

    project_doc_max_bytes: int = 32768
    """Bytes of project documents (AGENTS.md) that are read; 0 = none."""
    project_doc_fallback_filenames: tuple[str, ...] = ()
    """Other names under which a folder may keep its AGENTS.md."""
    project_root_markers: tuple[str, ...] = (".git",)
    """Files or folders that mark the root of a project; with an empty list only the working folder counts."""
    include_permissions_instructions: bool = True
    """Tell the model what it may do."""
    include_environment_context: bool = True
    """Tell the model about the working folder and shell."""
    skills_include_instructions: bool = True
    """Tell the model which skills there are."""
    disabled_skills: tuple[str, ...] = ()
    """Paths (of a SKILL.md or its folder) or names of skills that are switched off."""
    extra_skill_roots: tuple[str, ...] = ()
    """Folders with skills beside the usual ones; a client of the app-server names them."""

    web_search: WebSearch = "cached"
    """The server's own web search: off, from its cache, or live."""
    view_image: bool = True
    """Offer the tool that shows an image file to the model."""
    update_plan: bool = True
    """Offer the tool with which the model keeps its plan."""
    features: dict[str, bool] = {}
    """Every feature flag with its value."""
    mcp_servers: dict[str, McpServer] = {}
    """Tool servers by name."""

    notify: tuple[str, ...] = ()
    """A program called after each turn with one JSON argument."""
    hooks: tuple[Any, ...] = ()
    """Commands that run at named moments (`protocol.hook_records.Hook`), also those that may not run yet."""
    history_persistence: Literal["save-all", "none"] = "save-all"
    """Whether prompts are kept for recall in the interactive front end."""
    history_max_bytes: int | None = None
    """Size at which that record is trimmed."""
    hide_agent_reasoning: bool = False
    """Do not show the model's thinking."""
    show_raw_agent_reasoning: bool = False
    """Show the raw thinking of models that give it."""
    file_opener: str = "vscode"
    """The editor that file links open in."""
    disable_paste_burst: bool = False
    """Do not mistake fast typing for a paste."""
    check_for_update_on_startup: bool = True
    """Accepted; Spindle never looks for updates by itself."""
    oss_provider: str | None = None
    """What `--oss` uses: the server ollama or lmstudio, or a model that you have added (local)."""
    chatgpt_base_url: str | None = None
    """Where ChatGPT is, for those who signed in with it; the model is below `/codex` there."""
    forced_login_method: str | None = None
    """The only way to sign in that is allowed: chatgpt or api."""
    forced_chatgpt_workspace_id: tuple[str, ...] = ()
    """The only ChatGPT workspace that you may sign in to, or several of them."""
    cli_auth_credentials_store: Literal["file", "keyring", "auto", "ephemeral"] = "file"
    """Where Spindle keeps the login: in auth.json, in the system's keyring (which needs the extra `keyring`), in the
    keyring if there is one, else in auth.json (auto), or only in memory until the program ends (ephemeral)."""
    mcp_oauth_credentials_store: str = "auto"
    """Where credentials of tool servers are kept."""
    log_dir: str
    """Folder of the log files."""
    agents_max_threads: int = 6
    """The most sub-agents at the same time."""
    agents_max_depth: int = 1
    """How many levels of sub-agents there may be; 0 = none at all."""
    agent_roles: dict[str, AgentRole] = {}
    """Kinds of sub-agents by name."""
    tui: TuiSettings = TuiSettings()
    """The terminal interface."""
    spindle: SpindleConfig = SpindleConfig()
    """Settings of our own."""

    @property
    def own_home(self) -> str:
        """The folder of what the user has, as apart from what is recorded."""
        return self.operator_home or self.home

    @property
    def login(self) -> LoginSettings:
        """How to sign in, and where that is kept."""
        return LoginSettings(
            home=self.own_home,
            store=self.cli_auth_credentials_store,
            issuer=self.spindle.login_issuer,
            forced_method=self.forced_login_method,
            workspaces=self.forced_chatgpt_workspace_id,
            chatgpt_base_url=self.chatgpt_base_url,
        )

    @property
    def secret_variables(self) -> tuple[str, ...]:
        """Variables that hold keys of ours; commands never inherit them."""
        names: list[str | None] = []
        for provider in (self.provider, *self.providers.values()):  # a thread can go to any of them
            names += [provider.env_key, *provider.env_http_headers.values()]
        for server in self.mcp_servers.values():
            names += [server.bearer_token_env_var, *server.env_http_headers.values()]
        return tuple(dict.fromkeys(name for name in names if name))
