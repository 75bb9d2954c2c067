"""Every configuration key, as data: those Spindle uses with their types, and the reference program's other ones."""

from __future__ import annotations

from spindle.config.kinds import (
    ANY,
    BOOL,
    COUNT,
    IDLE,
    NUMBER,
    PATH,
    PATHS,
    POSITIVE,
    SIZE,
    STR,
    STRING_MAP,
    STRINGS,
    Kind,
    Table,
    one_of,
)
from spindle.model.provider import FLAGS, WIRES
from spindle.protocol.settings import APPROVAL_POLICIES, EFFORTS, PERSONALITIES, SANDBOX_MODES, SUMMARIES


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FEATURES: dict[str, tuple[str, bool]] = {
    "shell_tool": ("stable", True),
    "unified_exec": ("stable", True),
    "apply_patch_freeform": ("stable", False),
    "request_rule": ("stable", True),
    "exec_policy": ("stable", True),
    "remote_compaction": ("stable", True),
    "collaboration_modes": ("stable", True),
    "personality": ("stable", True),
    "steer": ("stable", True),
    "hooks": ("stable", True),
    "goals": ("stable", True),
    "collab": ("experimental", False),
    "request_permissions_tool": ("experimental", False),
    "child_agents_md": ("experimental", False),
    "undo": ("experimental", False),
    "shell_snapshot": ("experimental", False),
    "web_search_request": ("deprecated", False),
    "web_search_cached": ("deprecated", False),
}
"""Feature flags: name → (stage, default)."""

REFERENCE_FEATURES = _words("""
    apply_patch_streaming_events apps apps_mcp_path_override auth_elicitation browser_use browser_use_external
    chronicle code_mode code_mode_host code_mode_only codex_git_commit codex_hooks computer_use connectors
    current_time_reminder default_mode_request_user_input elevated_windows_sandbox
    enable_experimental_windows_sandbox enable_fanout enable_mcp_apps enable_request_compression
    exec_permission_approvals experimental_use_freeform_apply_patch experimental_use_unified_exec_tool
    experimental_windows_sandbox external_migration fast_mode ghost_commit guardian_approval
    image_detail_original image_generation imagegenext in_app_browser include_apply_patch_tool js_repl
    js_repl_tools_only memories memory_tool multi_agent network_proxy parallel plugins powershell_utf8
    prevent_idle_sleep realtime_conversation remote_control remote_models remote_plugin request_permissions
    responses_websockets responses_websockets_v2 rmcp_client runtime_metrics search_tool
    shell_zsh_fork skill_env_var_dependency_prompt skill_mcp_dependency_install skills skip_host_skill_discovery
    sqlite streamable_shell telepathy tool_call_mcp_elicitation tool_search tool_suggest tui2 tui_app_server
    use_legacy_landlock use_linux_sandbox_bwrap view_image_tool voice_transcription web_search
    workspace_dependencies workspace_owner_usage_nudge
""")
"""Flags of the reference program that Spindle has no use for."""

_REFERENCE_ONLY = _words("""
    allow_symlinked_codex_home analytics approvals_reviewer apps apps_mcp_product_sku audio auto_review
    background_terminal_max_timeout browser_use cloud commit_attribution computer_use
    debug desktop experimental_realtime_start_instructions experimental_realtime_webrtc_call_base_url
    experimental_realtime_ws_backend_prompt experimental_realtime_ws_base_url experimental_realtime_ws_mode
    experimental_realtime_ws_model experimental_realtime_ws_startup_context experimental_resume
    experimental_thread_config_endpoint experimental_thread_store experimental_thread_store_endpoint
    experimental_use_exec_command_tool experimental_use_freeform_apply_patch experimental_use_rmcp_client
    experimental_use_unified_exec_tool feedback ghost_snapshot goals
    include_apps_instructions include_collaboration_mode_instructions js_repl_node_module_dirs js_repl_node_path
    marketplaces mcp_enterprise_managed_auth mcp_oauth_callback_port mcp_oauth_callback_url
    mcp_optional_startup_grace_ms memories model_auto_compact_token_limit_scope model_availability_nux
    model_post_turn_compact_threshold_percent model_reasoning_summary_format notice
    orchestrator otel plan_mode_reasoning_effort plugins preferred_auth_method realtime requirements
    responses_api_metadata sqlite_home suppress_unstable_features_warning thread_unload_delay_secs tool_suggest
    windows windows_wsl_setup_acknowledged zsh_path
""")

_PROVIDER = Table(
    {
        "name": STR,
        "base_url": STR,
        "env_key": STR,
        "env_key_instructions": STR,
        "experimental_bearer_token": STR,
        "wire_api": one_of(*WIRES),
        "auth_header": one_of("bearer"),
        "replay_reasoning": BOOL,
        "capabilities": Table(dict.fromkeys(FLAGS, BOOL)),
        "query_params": STRING_MAP,
        "http_headers": STRING_MAP,
        "env_http_headers": STRING_MAP,
        "request_max_retries": COUNT,
        "stream_max_retries": COUNT,
        "stream_idle_timeout_ms": COUNT,
        "requires_openai_auth": BOOL,
        "image_tool_output": one_of("array", "message"),
        "ca_file": PATH,
        "client_cert": PATH,
        "client_key": PATH,
        "supports_websockets": BOOL,
        "websocket_connect_timeout_ms": IDLE,
        "auth": IDLE,
        "aws": IDLE,
    },
    each=True,
)

_MCP_SERVER = Table(
    {
        "command": STR,
        "args": STRINGS,
        "env": STRING_MAP,
        "env_vars": ANY,
        "cwd": PATH,
        "url": STR,
        "bearer_token": ANY,
        "bearer_token_env_var": STR,
        "http_headers": STRING_MAP,
        "env_http_headers": STRING_MAP,
        "enabled": BOOL,
        "required": BOOL,
        "startup_timeout_sec": NUMBER,
        "startup_timeout_ms": COUNT,
        "tool_timeout_sec": NUMBER,
        "enabled_tools": STRINGS,
        "disabled_tools": STRINGS,
        "scopes": STRINGS,
        "default_tools_approval_mode": one_of("auto", "prompt", "approve"),
        "supports_parallel_tool_calls": BOOL,
        "tools": Table({"approval_mode": one_of("auto", "prompt", "approve")}, each=True, is_open=True),
    },
    each=True,
    is_open=True,
)

AGENT_ROLE = Table(
    {
        "description": STR,
        "instructions": STR,
        "config_file": PATH,
        "model": STR,
        "model_reasoning_effort": one_of(*EFFORTS),
        "sandbox_mode": one_of(*SANDBOX_MODES),
    },
    is_open=True,
)
"""A role of sub-agents."""

_BUDGET = {"max_tokens": COUNT, "max_requests": COUNT, "max_cost": NUMBER, "max_seconds": NUMBER}
_PRICES = Table(
    {
        "input": NUMBER,
        "cached_input": NUMBER,
        "output": NUMBER,
        "cache_write": NUMBER,
        "long_prompt": Table({"above": POSITIVE, "input": NUMBER, "output": NUMBER}),
        "priority": NUMBER,
    }
)
_MODEL = Table(
    {
        "display_name": STR,
        "description": STR,
        "provider": STR,
        "context_window": POSITIVE,
        "max_output_tokens": POSITIVE,
        "auto_compact_token_limit": COUNT,
        "effective_context_window_percent": POSITIVE,
        "efforts": STRINGS,
        "supported_reasoning_levels": ANY,
        "default_reasoning_level": STR,
        "supports_reasoning_summaries": BOOL,
        "thinking": one_of("adaptive", "enabled", "none"),
        "profile": one_of("small", "default"),
        "prices": _PRICES,
        "family": one_of("codex", "gpt", "small", "tiny", "default"),
        "shell_type": one_of("default", "local", "shell_command", "unified_exec", "disabled"),
        "apply_patch_tool_type": one_of("freeform", "function"),
        "supports_parallel_tool_calls": BOOL,
        "experimental_supported_tools": STRINGS,
        "input_modalities": STRINGS,
        "support_verbosity": BOOL,
        "default_verbosity": one_of("low", "medium", "high"),
        "truncation_policy": Table({"mode": one_of("bytes", "tokens"), "limit": POSITIVE}),
        "base_instructions": STR,
        "visibility": one_of("list", "hide", "none"),
        "priority": COUNT,
    },
    each=True,
)
"""What the user may say of a model: fields of the catalogue, and `efforts` for their names alone."""

_TUI = Table(
    {
        "animations": BOOL,
        "alternate_screen": one_of("auto", "always", "never"),
        "theme": STR,
        "status_line": STRINGS,
        "status_line_use_colors": BOOL,
        "terminal_title": STRINGS,
        "notifications": Kind("true, false or an array of strings", (bool, list, tuple)),
        "notification_method": one_of("auto", "osc9", "bel"),
        "notification_condition": one_of("unfocused", "always"),
        "vim_mode_default": BOOL,
        "raw_output_mode": BOOL,
        "keymap": Kind("tables", (dict,)),  # read by the interface, which knows the names of its actions
        "disable_paste_burst": BOOL,
    },
    is_open=True,
)

_SPINDLE = Table(
    {
        "jit_tools": BOOL,
        "agents_md_untrusted": BOOL,
        "nested_agents_md": BOOL,
        "memory": BOOL,
        "offload_outputs": BOOL,
        "environment_extras": STRINGS,
        "compact_keep": STRINGS,
        "compact_keep_tools": BOOL,
        "image_tool_output": one_of("array", "message"),
        "context": Table(
            {
                "mode": one_of("append_only", "edit", "hybrid"),
                "rule": Table({}, is_open=True),
                "recollection": BOOL,
                "prices": _PRICES,
                "model_prices": Table(_PRICES.keys, each=True),
            }
        ),
        "sandbox": Table(
            {
                "protected": STRINGS,
                "backend": one_of("auto", "bwrap", "landlock", "none"),
                "read": one_of("all", "workspace"),
                "deny_read": STRINGS,
                "unix_sockets": PATHS,
                "pids_max": COUNT,
                "memory_max": SIZE,
            }
        ),
        "agents": Table({"max_tokens": COUNT, "max_requests": COUNT}),
        "budget": Table({**_BUDGET, "thread": Table(_BUDGET), "tree": Table(_BUDGET), "day": Table(_BUDGET)}),
        "models": _MODEL,
        "prices": Table(_PRICES.keys, each=True),
        "secrets": Table({"mask": one_of("all", "known", "none"), "ignore": STRINGS}),
        "checkpoints": Table(
            {"enabled": BOOL, "max_bytes": SIZE, "max_age_days": NUMBER, "max_file_bytes": SIZE},
        ),
        "local": Table({"context": POSITIVE, "threads": POSITIVE}),
        "fleet": Table(
            {
                "cache_dir": PATH,
                "setup_network": BOOL,
                "worker_memory": SIZE,
                "network_beside_ray": BOOL,
                "orphan_ttl_s": NUMBER,
            }
        ),
        "limits": Table({"max_steps": COUNT, "turn_timeout_sec": NUMBER, "sse_event_max_bytes": COUNT}),
        "log": Table({"level": STR, "file": PATH}),
        "login": Table({"issuer": STR}),
        "telemetry": BOOL,
        "tui": Table(
            {"plain": BOOL, "keys": one_of("codex", "claude", "pi", "vim"), "cycle_permissions": BOOL},
        ),
    }
)

_USED = {
    "model": STR,
    "model_provider": STR,
    "model_reasoning_effort": one_of(*EFFORTS, "persistent"),  # the last one: what SDKs may pass
    "model_reasoning_summary": one_of(*SUMMARIES),
    "model_verbosity": one_of("low", "medium", "high"),
    "model_context_window": POSITIVE,
    "model_max_output_tokens": POSITIVE,
    "model_auto_compact_token_limit": COUNT,
    "model_supports_reasoning_summaries": BOOL,
    "model_instructions_file": PATH,
    "experimental_instructions_file": PATH,
    "model_catalog_json": PATH,
    "developer_instructions": STR,
    "instructions": STR,
    "compact_prompt": STR,
    "experimental_compact_prompt_file": PATH,
    "personality": one_of(*PERSONALITIES),
    "review_model": STR,
    "service_tier": STR,
    "tool_output_token_limit": POSITIVE,
    "approval_policy": Kind(
        f"one of {', '.join(APPROVAL_POLICIES)}", (str, dict), APPROVAL_POLICIES
    ),  # or a `granular` table
    "sandbox_mode": one_of(*SANDBOX_MODES),
    "default_permissions": STR,
    "permissions": Kind("tables", (dict,)),  # checked by `permissions`, which knows what each name may hold
    "sandbox_workspace_write": Table(
        {
            "writable_roots": PATHS,
            "network_access": BOOL,
            "exclude_tmpdir_env_var": BOOL,
            "exclude_slash_tmp": BOOL,
        }
    ),
    "shell_environment_policy": Table(
        {
            "inherit": one_of("all", "core", "none"),
            "ignore_default_excludes": BOOL,
            "exclude": STRINGS,
            "set": STRING_MAP,
            "include_only": STRINGS,
            "experimental_use_profile": BOOL,
        }
    ),
    "allow_login_shell": BOOL,
    "project_doc_max_bytes": COUNT,
    "project_doc_fallback_filenames": STRINGS,
    "project_root_markers": STRINGS,
    "include_permissions_instructions": BOOL,
    "include_environment_context": BOOL,
    "web_search": one_of("disabled", "cached", "live"),
    "tools": Table({"web_search": ANY, "view_image": BOOL, "update_plan": Table({"enabled": BOOL})}, is_open=True),
    "features": Table(dict.fromkeys(FEATURES, BOOL) | dict.fromkeys(REFERENCE_FEATURES, IDLE)),
    "mcp_servers": _MCP_SERVER,
    "mcp_oauth_credentials_store": one_of("auto", "file", "keyring"),
    "model_providers": _PROVIDER,
    "profile": STR,
    "projects": Table({"trust_level": one_of("trusted", "untrusted")}, each=True, is_open=True),
    "skills": Table(
        {
            "include_instructions": BOOL,
            "config": Table({"path": PATH, "name": STR, "enabled": BOOL}, array=True, is_open=True),
        },
        is_open=True,
    ),
    "agents": Table({"max_threads": COUNT, "max_depth": COUNT}, is_open=True, named=AGENT_ROLE),
    "notify": STRINGS,
    "hooks": Kind("tables", (dict,)),
    "history": Table({"persistence": one_of("save-all", "none"), "max_bytes": COUNT}),
    "hide_agent_reasoning": BOOL,
    "show_raw_agent_reasoning": BOOL,
    "file_opener": one_of("vscode", "vscode-insiders", "windsurf", "cursor", "none"),
    "disable_paste_burst": BOOL,
    "check_for_update_on_startup": BOOL,
    "oss_provider": one_of("ollama", "lmstudio", "local"),
    "chatgpt_base_url": STR,
    "openai_base_url": STR,
    "forced_login_method": one_of("chatgpt", "api"),
    "forced_chatgpt_workspace_id": Kind("a string or an array of strings", (str, list)),
    "cli_auth_credentials_store": one_of("file", "keyring", "auto", "ephemeral"),
    "log_dir": PATH,
    "tui": _TUI,
    "spindle": _SPINDLE,
}

PROFILE = Table(dict.fromkeys(_REFERENCE_ONLY, IDLE) | _USED)
"""What a profile may hold: any top-level key."""

KEYS = Table({**PROFILE.keys, "profiles": Table(PROFILE.keys, each=True)})
"""What a configuration file may hold."""


NOT_FOR_PROJECTS = _words("""
    model_provider model_providers chatgpt_base_url openai_base_url oss_provider experimental_realtime_ws_base_url
    experimental_thread_config_endpoint forced_login_method forced_chatgpt_workspace_id cli_auth_credentials_store
    mcp_oauth_credentials_store mcp_oauth_callback_url mcp_oauth_callback_port notify hooks profile profiles projects
    otel analytics feedback log_dir sqlite_home zsh_path plugins marketplaces approvals_reviewer auto_review permissions
    default_permissions shell_environment_policy.set shell_environment_policy.include_only
    shell_environment_policy.inherit shell_environment_policy.ignore_default_excludes
    spindle.sandbox spindle.secrets spindle.log spindle.agents spindle.limits spindle.budget spindle.prices
    spindle.local spindle.login spindle.models spindle.context.prices spindle.context.model_prices
    spindle.checkpoints spindle.fleet spindle.tui tui history agents.max_threads agents.max_depth features.exec_policy
    features.codex_hooks features.hooks features.guardian_approval
    """)
"""What a project's own file can never set: where data goes, what runs by itself, what is protected, what is
recorded."""
