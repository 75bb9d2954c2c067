"""`default_permissions` and `[permissions.NAME]`: what they become, who wins, and what is refused with which words."""

from __future__ import annotations

import pytest

from config.throwaway import Setup
from spindle.errors import ConfigError
from spindle.protocol.settings import SandboxPolicy

MINE = """
default_permissions = "mine"
[permissions.mine]
description = "what I let it do"
extends = ":read-only"
[permissions.mine.filesystem]
"~/.ssh" = "deny"
"/srv/data/**" = "write"
":slash_tmp" = "write"
":workspace_roots" = { "." = "write", "docs" = "read", "**/.env" = "deny" }
"""


def rules(policy: SandboxPolicy) -> dict[str, str]:
    assert policy.permissions is not None
    return {rule.place: rule.access for rule in policy.permissions.rules}


def test_a_profile_is_read_rule_by_rule(setup: Setup, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", setup.env["HOME"])
    setup.user(MINE)
    policy = setup.load().sandbox
    assert rules(policy) == {
        ":root": "read",
        f"{setup.root}/.ssh": "deny",
        "/srv/data": "write",
        ":slash_tmp": "write",
        ":workspace_roots": "write",
        ":workspace_roots/docs": "read",
        ":workspace_roots/**/.env": "deny",
    }
    assert (policy.mode, policy.has_network, policy.permissions and policy.permissions.name) == (
        "workspace-write",
        False,
        "mine",
    )
    assert SandboxPolicy.from_wire(policy.to_wire()) == policy


@pytest.mark.parametrize(
    ("name", "mode"),
    [(":read-only", "read-only"), (":workspace", "workspace-write"), (":danger-full-access", "danger-full-access")],
)
def test_built_in_profiles_are_the_modes(setup: Setup, name: str, mode: str) -> None:
    setup.user(
        f'default_permissions = "{name}"\nsandbox_mode = "workspace-write"\n'
        '[sandbox_workspace_write]\nnetwork_access = true\nwritable_roots = ["/srv"]\n'
    )
    assert setup.load().sandbox == SandboxPolicy(mode=mode)  # pyright: ignore[reportArgumentType]


def test_what_is_extended_comes_first_and_is_overridden_place_by_place(setup: Setup) -> None:
    setup.user(
        'default_permissions = "c"\n'
        '[permissions.a]\nextends = ":workspace"\nworkspace_roots = { "/one" = true, "/two" = true }\n'
        '[permissions.a.filesystem]\n"/x" = "write"\n"/y" = "deny"\n[permissions.a.network]\nenabled = true\n'
        '[permissions.b]\nextends = "a"\n[permissions.b.filesystem]\n"/x" = "read"\n'
        '[permissions.c]\nextends = "b"\nworkspace_roots = { "/two" = false, "three" = true }\n'
        '[permissions.c.filesystem]\n":tmpdir" = "read"\n'
    )
    policy = setup.load().sandbox
    assert rules(policy) == {
        ":root": "read",
        ":workspace_roots": "write",
        ":slash_tmp": "write",
        ":tmpdir": "read",
        "/x": "read",
        "/y": "deny",
    }
    assert policy.permissions is not None
    assert policy.permissions.workspace_roots == ("/one", setup.path("home/three"))
    assert policy.has_network


# ---- which one counts ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overrides", "flags", "mode"),
    [
        ([], {}, "mine"),
        (["sandbox_mode=read-only"], {}, "read-only"),
        ([], {"sandbox_mode": "danger-full-access"}, "danger-full-access"),
        (["default_permissions=:read-only"], {}, "read-only"),
        (["default_permissions=:read-only"], {"sandbox_mode": "workspace-write"}, "workspace-write"),
        (["sandbox_mode=read-only"], {"default_permissions": "mine"}, "mine"),
    ],
)
def test_the_last_layer_that_names_a_mode_or_a_profile_decides(
    setup: Setup, overrides: list[str], flags: dict[str, str], mode: str
) -> None:
    setup.user('sandbox_mode = "read-only"\n' + MINE)
    config = setup.load(*overrides, flags=flags, headless=True)
    found = config.sandbox.permissions.name if config.sandbox.permissions else config.sandbox.mode
    assert found == mode
    said = "the permission profile 'mine' is not in use because sandbox_mode is set by"
    is_replaced = mode != "mine" and not any("default_permissions" in word for word in overrides)
    assert any(said in warning for warning in config.warnings) == is_replaced


def test_folders_of_the_command_line_are_workspaces_too(setup: Setup) -> None:
    setup.user(MINE)
    policy = setup.load(flags={"add_dirs": ["/other"]}).sandbox
    assert policy.permissions is not None and policy.permissions.workspace_roots == ("/other",)
    assert setup.load("default_permissions=:workspace", flags={"add_dirs": ["/other"]}).sandbox == SandboxPolicy(
        mode="workspace-write", writable_roots=("/other",)
    )


def test_a_project_can_neither_set_a_profile_nor_replace_it_by_a_mode(setup: Setup) -> None:
    setup.user(MINE + setup.trust())
    setup.write(
        "repo/.codex/config.toml",
        'default_permissions = ":danger-full-access"\nsandbox_mode = "read-only"\n'
        '[permissions.mine.filesystem]\n"~/.ssh" = "read"\n',
    )
    config = setup.load()
    assert config.sandbox.permissions is not None and "deny" in rules(config.sandbox).values()
    assert sum("is ignored: a project file cannot" in warning for warning in config.warnings) == 3


# ---- limits of the administrator -------------------------------------------------------------------


def test_an_administrator_takes_writing_out_of_a_profile_and_leaves_what_it_denies(setup: Setup) -> None:
    setup.user(MINE)
    setup.write("etc/requirements.toml", 'allowed_sandbox_modes = ["read-only"]\n')
    config = setup.load()
    assert "write" not in rules(config.sandbox).values() and "deny" in rules(config.sandbox).values()
    assert config.sandbox.mode == "read-only"
    assert any("amounts to workspace-write, which is not allowed by" in warning for warning in config.warnings)


@pytest.mark.parametrize(
    ("user", "limits", "complaint"),
    [
        (
            'default_permissions = "p"\n[permissions.p.filesystem]\n":root" = "write"\n',
            'allowed_sandbox_modes = ["workspace-write"]\n',
            "the permission profile 'p' amounts to danger-full-access, which is not allowed by",
        ),
        (
            'default_permissions = ":workspace"\n',
            '[allowed_permission_profiles]\n":read-only" = true\n',
            "the permission profile ':workspace' is not allowed by",
        ),
        ("", "[rules]\nprefix_rules = []\n", "Spindle cannot keep to the limit rules, so nothing is started"),
        ("", "[experimental_network]\nenabled = false\n", "cannot keep to the limit experimental_network"),
    ],
)
def test_a_limit_that_cannot_be_kept_stops_everything(setup: Setup, user: str, limits: str, complaint: str) -> None:
    setup.user(user)
    setup.write("etc/requirements.toml", limits)
    with pytest.raises(ConfigError, match=complaint):
        setup.load()


# ---- what is refused -------------------------------------------------------------------------------

FILES = '[permissions.p.filesystem]\n":root" = "read"\n'


@pytest.mark.parametrize(
    ("text", "line", "complaint"),
    [
        (
            'default_permissions = "nope"\n',
            1,
            "there is no permission profile 'nope'; use one of :read-only, :workspace, :danger-full-access, or define "
            "[permissions.nope]",
        ),
        (
            FILES,
            1,
            "there are permission profiles, and nothing says which one is used; set default_permissions to one of "
            ":read-only, :workspace, :danger-full-access, p",
        ),
        (
            'default_permissions = "p"\n[permissions.p]\nextends = "q"\n[permissions.q]\nextends = "p"\n',
            5,
            "permissions.q.extends: the profiles extend each other in a circle: p → q → p",
        ),
        (
            'default_permissions = "p"\n[permissions.p]\nextends = "nope"\n',
            3,
            "permissions.p.extends: the profile 'nope' does not exist; extend one of :read-only, :workspace, or none",
        ),
        (
            'default_permissions = "p"\n[permissions.p]\nextends = ":danger-full-access"\n',
            3,
            "permissions.p.extends: the profile ':danger-full-access' has no limits that could be narrowed; extend "
            "one of :read-only, :workspace, or none",
        ),
        (
            'default_permissions = ":x"\n[permissions.":x"]\n',
            2,
            "the profile name ':x' is not free: names that begin with `:` belong to built-in profiles; choose another",
        ),
        (
            'default_permissions = "p"\n[permissions.p]\nfoo = 1\n',
            3,
            "permissions.p.foo: a permission profile has no key 'foo'; it has description, extends, filesystem, "
            "network, workspace_roots",
        ),
        (
            f'default_permissions = "p"\n{FILES}":home" = "deny"\n',
            4,
            "permissions.p.filesystem.':home': there is no place ':home'; use a path, a glob, or one of :root, "
            ":minimal, :workspace_roots, :project_roots, :tmpdir, :slash_tmp",
        ),
        (
            f'default_permissions = "p"\n{FILES}"rel/x" = "write"\n',
            4,
            "permissions.p.filesystem.'rel/x': 'rel/x' must be absolute or begin with `~/`; write a path of the "
            'project under ":workspace_roots"',
        ),
        (
            f'default_permissions = "p"\n{FILES}"/x/*.txt" = "write"\n',
            4,
            "permissions.p.filesystem.'/x/*.txt': a glob can only be denied: which files it means is known only when "
            "they exist; name the folder itself (or end it with /**) to let it be written",
        ),
        (
            f'default_permissions = "p"\n{FILES}"/x" = "exec"\n',
            4,
            'permissions.p.filesystem.\'/x\': must be "read", "write" or "deny"',
        ),
        (
            f'default_permissions = "p"\n{FILES}":workspace_roots" = {{ "../x" = "write" }}\n',
            4,
            "permissions.p.filesystem.':workspace_roots'.'../x': '../x' must be a path without `..` and without NUL "
            "characters",
        ),
        (
            f'default_permissions = "p"\n{FILES}":tmpdir" = {{ "x" = "deny" }}\n',
            4,
            "permissions.p.filesystem.':tmpdir': :tmpdir takes no table of sub-paths, only read, write or deny",
        ),
        (
            f'default_permissions = "p"\n{FILES}"/proc/1" = "deny"\n',
            4,
            "permissions.p.filesystem.'/proc/1': a profile cannot name /proc/1: every command has devices and "
            "processes of its own there",
        ),
        (
            f'default_permissions = "p"\n{FILES}[permissions.p.network]\nenabled = true\n'
            'domains = { "a.com" = "allow" }\n',
            6,
            "permissions.p.network.domains: commands have the whole network or none, so single hosts can be neither "
            "allowed nor denied; set network.enabled = false, or remove `domains` to open the whole network",
        ),
        (
            f'default_permissions = "p"\n{FILES}[permissions.p.network]\nproxy_url = "http://x"\n',
            5,
            "permissions.p.network.proxy_url: Spindle has no 'proxy_url' for the network and cannot keep to it; "
            "remove the key",
        ),
    ],
)
def test_what_cannot_be_kept_is_refused_with_file_line_and_key(
    setup: Setup, text: str, line: int, complaint: str
) -> None:
    path = setup.user(text)
    with pytest.raises(ConfigError) as refused:
        setup.load()
    assert str(refused.value) == f"{path}:{line}: {complaint}"


def test_a_mistake_in_a_profile_that_is_not_in_use_is_found_too(setup: Setup) -> None:
    setup.user(MINE + '[permissions.other.filesystem]\n":root" = "maybe"\n')
    with pytest.raises(ConfigError, match=r"permissions\.other\.filesystem"):
        setup.load()


def test_hosts_may_be_listed_where_the_network_is_off(setup: Setup) -> None:
    setup.user(f'default_permissions = "p"\n{FILES}[permissions.p.network]\ndomains = {{ "a.com" = "allow" }}\n')
    assert not setup.load().sandbox.has_network


def test_a_relative_glob_holds_in_every_workspace(setup: Setup) -> None:
    setup.user(f'default_permissions = "p"\n{FILES}"**/*.pem" = "deny"\n')
    assert rules(setup.load().sandbox) == {":root": "read", ":workspace_roots/**/*.pem": "deny"}


# ---- other keys that protect, and keys without effect ----------------------------------------------


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('[tools.web_search]\nallowed_domains = ["a.com"]\n', "tools.web_search.allowed_domains"),
        ("[features]\nnetwork_proxy = true\n", "features.network_proxy"),
        ('[features.network_proxy]\ndomains = { "a.com" = "deny" }\n', "features.network_proxy"),
    ],
)
def test_a_key_that_protects_and_cannot_be_kept_is_refused(setup: Setup, text: str, key: str) -> None:
    path = setup.user(text)
    with pytest.raises(ConfigError, match=rf"^{path}:[12]: {key}: .*remove the key"):
        setup.load()


def test_how_one_may_sign_in_and_where_is_read(setup: Setup) -> None:
    plain = setup.load().login
    assert (plain.issuer, plain.store, plain.workspaces) == ("https://auth.openai.com", "file", ())
    setup.user(
        'forced_chatgpt_workspace_id = "w"\nforced_login_method = "chatgpt"\ncli_auth_credentials_store = "auto"\n'
        'chatgpt_base_url = "https://x.example/backend-api/"\n[spindle.login]\nissuer = "https://login.example"\n'
    )
    found = setup.load().login
    assert (found.issuer, found.store, found.workspaces) == ("https://login.example", "auto", ("w",))
    assert (found.forced_method, found.chatgpt_base_url) == ("chatgpt", "https://x.example/backend-api")
    setup.user('forced_chatgpt_workspace_id = ["v", " w "]\n')
    assert setup.load().login.workspaces == ("v", "w")
    for wrong in ("forced_chatgpt_workspace_id = [1]", 'chatgpt_base_url = "x.example"'):
        setup.user(f"{wrong}\n")
        with pytest.raises(ConfigError, match=wrong.split(" ")[0]):
            setup.load()


def test_a_single_tool_of_a_server_has_its_own_approval_mode(setup: Setup) -> None:
    setup.user('[mcp_servers.a]\ncommand = "x"\n[mcp_servers.a.tools.wipe]\napproval_mode = "prompt"\n')
    assert setup.load().mcp_servers["a"].tool_approval_modes == {"wipe": "prompt"}


def test_known_keys_without_effect_are_kept_apart_and_named_with_strict(setup: Setup) -> None:
    setup.user(
        "[analytics]\nenabled = false\n[features]\njs_repl = true\n"
        '[model_providers.x]\nname = "x"\nbase_url = "http://x"\nwebsocket_connect_timeout_ms = 5\n'
        '[mcp_servers.a]\ncommand = "x"\nnovel = 1\n'
    )
    idle = ("analytics", "features.js_repl", "model_providers.x.websocket_connect_timeout_ms", "mcp_servers.a.novel")
    plain, strict = setup.load(), setup.load(strict=True)
    assert (plain.idle_keys, plain.warnings) == (idle, [])
    assert strict.warnings == [f"these keys have no effect in Spindle: {', '.join(idle)}"]


def test_an_unknown_key_is_an_error_with_strict(setup: Setup) -> None:
    path = setup.user('default_permission = ":workspace"\n')
    with pytest.raises(ConfigError) as refused:
        setup.load(strict=True)
    assert str(refused.value) == (f"{path}:1: unknown key default_permission; did you mean default_permissions?")


def test_a_role_of_sub_agents_cannot_bring_a_profile(setup: Setup) -> None:
    setup.write("home/role.toml", 'description = "d"\ndefault_permissions = ":read-only"\n')
    setup.user('[agents.reader]\nconfig_file = "role.toml"\n')
    with pytest.raises(ConfigError, match=r"role\.toml:2: default_permissions cannot be set for a role of sub-agents"):
        setup.load()


def test_a_missing_profile_is_named_without_stray_quotes(setup: Setup) -> None:
    with pytest.raises(ConfigError) as refused:
        setup.load(profile="nope")
    home = setup.path("home")
    assert str(refused.value) == (
        f"profile 'nope' not found: there is neither a table [profiles.nope] in {home}/config.toml nor a file "
        f"nope.config.toml in {home}"
    )
