"""A model server: where it is and how it wants to be asked; how people sign in. Plain data, and no keys."""

from __future__ import annotations

import msgspec

OPENAI_BASE_URL = "https://api.openai.com/v1"
CHATGPT_BASE_URL = "https://chatgpt.com/backend-api/codex"
OPENAI_ISSUER = "https://auth.openai.com"
"""The login service."""

BUILT_IN = ("openai", "ollama", "lmstudio")
"""The ids that no table of the user can take."""
RETRY_CAP = 100
WIRES = ("responses", "chat", "messages")
"""The dialects there are: the values of `wire_api`."""
FLAGS = (
    *("custom_tools", "hosted_tools", "tools", "parallel", "stream_options", "json_schema", "images"),
    *("developer_role", "replay_reasoning", "tool_choice_none", "responses", "effort", "thinking"),
    "max_completion_tokens",
)
"""What may be said of a server's capabilities; each is explained in `capabilities.py`."""

_AZURE_MARKS = (
    "openai.azure.",
    "cognitiveservices.azure.",
    "aoai.azure.",
    "azure-api.",
    "azurefd.",
    "windows.net/openai",
)


_VENDORS = {"api.openai.com": "openai", "api.anthropic.com": "anthropic"}


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of `model_providers`, or a built-in one."""

    id: str
    name: str
    base_url: str = OPENAI_BASE_URL
    env_key: str | None = None
    env_key_instructions: str | None = None
    bearer_token: str | None = None
    wire_api: str = "responses"
    """The dialect it speaks: `responses`, `chat` or `messages`."""
    auth_header: str | None = None
    """`bearer` where a Messages server wants the key in `authorization`."""
    replay_reasoning: bool = False
    """A Chat server wants its reasoning back."""
    capabilities: dict[str, bool] = {}
    """What the user knows of it, by the names of `model/capabilities.py`."""
    query_params: dict[str, str] = {}
    http_headers: dict[str, str] = {}
    env_http_headers: dict[str, str] = {}
    """Header name to variable name; sent only while the variable is set and not blank."""
    request_max_retries: int = 4
    stream_max_retries: int = 5
    stream_idle_timeout_ms: int = 300_000
    requires_openai_auth: bool = False
    supports_websockets: bool = False
    """Whether its Responses API accepts a WebSocket too."""
    image_tool_output: str = "array"
    """"array" puts a tool's image into its output, "message" into a user message after it."""
    runs_inside: bool = False
    """It is no server of others: Spindle runs its models itself."""
    ca_file: str | None = None
    client_cert: str | None = None
    client_key: str | None = None

    @property
    def is_openai(self) -> bool:
        """The built-in one; the only one that gets OpenAI's own headers."""
        return self.id == "openai"

    @property
    def vendor(self) -> str:
        """The maker whose own servers these are, by the name the catalogue has for it; else its own id."""
        if self.is_openai:
            return "openai"
        scheme, _, rest = self.base_url.partition("://")
        host = rest.partition("/")[0].lower()
        return _VENDORS.get(host, self.id) if scheme.lower() == "https" else self.id

    @property
    def is_built_in(self) -> bool:
        return self.id in BUILT_IN

    @property
    def public_base_url(self) -> str:
        """The address without a name and password that may stand in it."""
        scheme, mark, rest = self.base_url.partition("://")
        host, slash, path = rest.partition("/")
        return scheme + mark + host.rpartition("@")[2] + slash + path

    @property
    def password(self) -> str:
        """The one that stands in the address, as it is spelled there; "" for none."""
        place = self.base_url.partition("://")[2].partition("/")[0]
        return place.rpartition("@")[0].partition(":")[2]

    @property
    def is_azure(self) -> bool:
        """Azure keeps responses and wants the ids of items back."""
        url = self.base_url.lower()
        return self.name.lower() == "azure" or any(mark in url for mark in _AZURE_MARKS)

    @property
    def request_retries(self) -> int:
        return max(0, min(self.request_max_retries, RETRY_CAP))

    @property
    def stream_retries(self) -> int:
        return max(0, min(self.stream_max_retries, RETRY_CAP))

    @property
    def idle_timeout_s(self) -> float:
        return self.stream_idle_timeout_ms / 1000


class LoginSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How people sign in, and where that is kept, as they configured it."""

    home: str
    store: str = "file"
    """`file`, `keyring`, `auto` (the keyring where there is one) or `ephemeral` (nowhere)."""
    issuer: str = OPENAI_ISSUER
    """The login service."""
    forced_method: str | None = None
    """`chatgpt` or `api`: the only way that is allowed."""
    workspaces: tuple[str, ...] = ()
    """The ChatGPT accounts that are allowed; none = any."""
    chatgpt_base_url: str | None = None
    """Where ChatGPT is, without `/codex`; None = where it usually is."""
