"""Where programs, compilers, package managers and their caches live, and where keys do: tables, for `view.py`.

Paths that begin with `~/` lie in the person's home. A folder in which tools and keys are mixed is not listed itself,
only what is inside of it.
"""

from __future__ import annotations

SYSTEM = (
    *("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr", "/etc", "/opt", "/snap"),
    *("/nix", "/gnu", "/run/current-system", "/home/linuxbrew/.linuxbrew"),
    *("/var/lib/dpkg", "/var/lib/rpm", "/var/lib/pacman", "/var/lib/texmf", "/var/cache/fontconfig"),
    *("/sys/devices/system/cpu", "/sys/devices/system/node", "/sys/fs/cgroup", "/sys/kernel/mm"),
)
SYSTEM_KEYS = (
    *("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d"),
    *("/etc/ssh/ssh_host_*_key", "/etc/ssl/private", "/etc/pki/tls/private", "/etc/krb5.keytab", "/etc/wireguard"),
    *("/etc/NetworkManager/system-connections", "/etc/letsencrypt", "/etc/docker/key.json", "/etc/kubernetes"),
)
"""Of the system's folders, what ordinary users cannot read and root can."""

TOOLCHAINS = (
    *("~/.cargo", "~/.rustup", "~/.local/share/cargo", "~/.local/share/rustup"),
    *("~/.pyenv", "~/.local/share/pyenv", "~/.local/lib", "~/.local/share/uv", "~/.local/share/virtualenvs"),
    *("~/.local/pipx", "~/.local/share/pipx", "~/.local/share/hatch", "~/.local/share/pypoetry", "~/.virtualenvs"),
    *("~/miniconda3", "~/anaconda3", "~/miniforge3", "~/mambaforge", "~/micromamba", "~/.conda/pkgs", "~/.conda/envs"),
    *("~/.pixi", "~/.rye", "~/.cache/pip", "~/.cache/uv", "~/.cache/pypoetry", "~/.cache/pdm", "~/.cache/virtualenv"),
    *("~/.cache/pre-commit", "~/.cache/prek", "~/.cache/mypy", "~/.cache/ruff", "~/.cache/hatch"),
    *("~/.nvm", "~/.fnm", "~/.local/share/fnm", "~/.volta", "~/.nodenv", "~/.n", "~/n", "~/.local/share/nvm"),
    *("~/.npm/_cacache", "~/.npm/_npx", "~/.npm-global", "~/.npm-packages", "~/.node-gyp", "~/.cache/node-gyp"),
    *("~/.yarn", "~/.cache/yarn", "~/.local/share/pnpm", "~/.pnpm-store", "~/.cache/pnpm", "~/.cache/node"),
    *("~/.bun", "~/.deno", "~/.cache/deno", "~/.cache/ms-playwright", "~/.cache/Cypress", "~/.cache/electron"),
    *("~/go/bin", "~/go/pkg", "~/sdk", "~/.gvm", "~/.goenv", "~/.g", "~/.cache/go-build", "~/.cache/golangci-lint"),
    *("~/.sdkman", "~/.jenv", "~/.jdks", "~/.jbang", "~/.m2/repository", "~/.m2/wrapper", "~/.cache/coursier"),
    *("~/.gradle/caches", "~/.gradle/wrapper", "~/.gradle/jdks", "~/.gradle/native", "~/.ivy2/cache", "~/.sbt/boot"),
    *("~/.local/share/coursier", "~/.konan", "~/Android/Sdk", "~/flutter", "~/.pub-cache/hosted", "~/.pub-cache/bin"),
    *("~/.rbenv", "~/.rvm", "~/.rubies", "~/.gem", "~/.local/share/gem", "~/.bundle/cache", "~/.cache/bundle"),
    *("~/.asdf", "~/.local/share/asdf", "~/.local/share/mise", "~/.local/share/rtx", "~/.local/state/nix"),
    *("~/.nix-profile", "~/.linuxbrew", "~/.local/bin", "~/bin", "~/.cache/bazel", "~/.cache/bazelisk"),
    *("~/.ccache", "~/.cache/ccache", "~/.cache/sccache", "~/.cache/zig", "~/.zvm", "~/.swiftly", "~/.cache/nix"),
    *("~/.ghcup", "~/.cabal", "~/.local/state/cabal", "~/.stack", "~/.opam", "~/.elan", "~/.julia", "~/.juliaup"),
    *(
        "~/.mix",
        "~/.hex/packages",
        "~/.cache/rebar3",
        "~/.dotnet",
        "~/.nuget/packages",
        "~/.luarocks",
        "~/perl5",
        "~/R",
    ),
    *("~/.phpenv", "~/.composer/vendor", "~/.config/composer/vendor", "~/.cache/composer", "~/.config/nvm"),
    *("~/.platformio", "~/.espressif", "~/.arduino15", "~/.foundry", "~/.cache/fontconfig", "~/.agents/skills"),
)
TOOL_VARIABLES = (
    *("CARGO_HOME", "RUSTUP_HOME", "PYENV_ROOT", "VIRTUAL_ENV", "CONDA_PREFIX", "UV_CACHE_DIR", "PIP_CACHE_DIR"),
    *("UV_PYTHON_INSTALL_DIR", "PIPX_HOME", "POETRY_CACHE_DIR", "NVM_DIR", "VOLTA_HOME", "FNM_DIR", "N_PREFIX"),
    *("npm_config_cache", "NPM_CONFIG_CACHE", "PNPM_HOME", "YARN_CACHE_FOLDER", "BUN_INSTALL", "DENO_DIR"),
    *("GOROOT", "GOMODCACHE", "GOCACHE", "GOBIN", "JAVA_HOME", "MAVEN_HOME", "M2_HOME", "GRADLE_HOME", "SDKMAN_DIR"),
    *("RBENV_ROOT", "GEM_HOME", "ASDF_DATA_DIR", "ASDF_DIR", "MISE_DATA_DIR", "DOTNET_ROOT", "NUGET_PACKAGES"),
    *(
        "ANDROID_HOME",
        "ANDROID_SDK_ROOT",
        "CCACHE_DIR",
        "SCCACHE_DIR",
        "PLAYWRIGHT_BROWSERS_PATH",
        "ZIG_GLOBAL_CACHE_DIR",
    ),
)
"""Variables by which the person says that a toolchain or its cache is elsewhere."""

SETTINGS = (
    *("~/.gitconfig", "~/.config/git/config", "~/.config/git/ignore", "~/.config/git/attributes"),
    *(
        "~/.profile",
        "~/.bash_profile",
        "~/.bash_login",
        "~/.bashrc",
        "~/.zshenv",
        "~/.zprofile",
        "~/.zshrc",
        "~/.zlogin",
    ),
    *("~/.cargo/config", "~/.cargo/config.toml", "~/.cargo/env", "~/.config/pip/pip.conf", "~/.pip/pip.conf"),
    *("~/.config/uv/uv.toml", "~/.npmrc", "~/.yarnrc", "~/.yarnrc.yml", "~/.condarc", "~/.gemrc", "~/.config/go/env"),
    *("~/.bazelrc", "~/.editorconfig", "~/.inputrc", "~/.tool-versions", "~/.config/mise/config.toml", "~/.asdfrc"),
)
"""Files that tools and shells obey. Each can be read as long as it holds nothing that looks like a key."""

KEYS = (
    *("~/.ssh", "~/.aws", "~/.azure", "~/.gnupg", "~/.kube/config", "~/.docker/config.json", "~/.netrc", "~/.pgpass"),
    *("~/.git-credentials", "~/.config/git/credentials", "~/.config/gh", "~/.config/hub", "~/.config/glab-cli"),
    *("~/.cargo/credentials", "~/.cargo/credentials.toml", "~/.gem/credentials", "~/.local/share/gem/credentials"),
    *("~/.pypirc", "~/.my.cnf", "~/.vault-token", "~/.m2/settings.xml", "~/.m2/settings-security.xml"),
    *("~/.gradle/gradle.properties", "~/.terraform.d/credentials.tfrc.json", "~/.config/op", "~/.boto", "~/.s3cfg"),
    *("~/.hex/hex.config", "~/.composer/auth.json", "~/.config/composer/auth.json", "~/.config/gcloud"),
    *("~/.sbt/.credentials", "~/.ivy2/.credentials", "~/.nuget/NuGet", "~/.cabal/config", "~/.config/rclone"),
    *("~/.cache/huggingface/token", "~/.huggingface/token", "~/.rvm/user", "~/.platformio/.pioaccount"),
)
"""Closed also where the home itself is the workspace, and by other names (hard links) in the workspace."""
PRIVATE = (
    *("~/.mozilla", "~/.thunderbird", "~/.config/google-chrome", "~/.config/chromium", "~/.config/BraveSoftware"),
    *("~/.config/microsoft-edge", "~/.config/vivaldi", "~/.config/opera", "~/snap/firefox", "~/snap/chromium"),
    *("~/.var/app", "~/.local/share/keyrings", "~/.password-store", "~/.config/1Password", "~/.config/Bitwarden"),
    *("~/.config/Signal", "~/.config/Slack", "~/.config/discord", "~/.bash_history", "~/.zsh_history"),
    *("~/.python_history", "~/.node_repl_history", "~/.psql_history", "~/.mysql_history", "~/.lesshst", "~/.viminfo"),
    *("~/.kube", "~/.docker", "~/.config/Code/User/globalStorage", "~/.local/share/atuin", "~/.claude", "~/.gemini"),
)
"""Closed as well where the home is the workspace; otherwise simply not shown."""
OWN_KEYS = ("auth.json", "mcp-tokens.json", "config.toml", "history.jsonl")
"""Of the agent's own folder; closed by every name."""
OWN_SHOWN = ("skills", "prompts")
"""Of the agent's own folder, what the model is sent to by name."""
