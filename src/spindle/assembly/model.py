"""The model a session talks to, and the tools it offers it."""

from __future__ import annotations

from collections.abc import Sequence

from spindle import __version__
from spindle.assembly.options import model_overrides
from spindle.assembly.record import Draft
from spindle.auth.credentials import Secured, sign_in
from spindle.config.providers import choose_provider
from spindle.config.schema import Config
from spindle.core.access import ModelAccess
from spindle.errors import ConfigError
from spindle.model.catalog import SMALL, ModelInfo
from spindle.model.credential import StaticCredential
from spindle.model.endpoint import Endpoint
from spindle.model.headers import Identity
from spindle.model.provider import Provider
from spindle.model.remote import RemoteModel
from spindle.protocol.quote import visible
from spindle.tools.router import JIT_TOOLS, ToolChoice, ToolSet, build_tools
from spindle.tools.tool import Tool


def model_access(draft: Draft) -> tuple[ModelAccess, Secured]:
    """How the session reaches its model, and as whom; a sub-agent does so within its budget."""
    request, order, config = draft.request, draft.request.order, draft.request.config
    switchboard: Switchboard | None = None
    if request.client is not None:
        client, provider, secured = request.client, config.provider, Secured(config.provider, StaticCredential())
    else:
        switchboard = Switchboard(draft)
        client, provider, secured = switchboard.remote, switchboard.remote.endpoint.provider, switchboard.secured
    if request.gate is not None:
        from spindle.core.gated_client import GatedClient  # only where many sessions share a limit

        client = GatedClient(client, request.gate, provider.id)
    if order is not None:
        from spindle.features.agents.agent_tree import MeteredClient  # only for sub-agents

        client = MeteredClient(client, order.charge, is_borrowed=request.client is not None)
    access = ModelAccess(
        client=client,
        provider=provider,
        catalog=draft.catalog,
        overrides=model_overrides(config),
        remote=None if switchboard is None else switchboard.remote,
        provider_ids=() if switchboard is None else config.providers,
        switch=None if switchboard is None else switchboard.switch,
    )
    return access, secured


class Switchboard:
    """Connects a thread with one provider of the configuration after the other; each is signed in to once."""

    def __init__(self, draft: Draft) -> None:
        request, config = draft.request, draft.request.config
        self._draft = draft
        self._identity = Identity(
            thread_id=draft.thread_id,
            version=__version__,
            originator=request.originator,
            subagent=request.order.header if request.order is not None else None,
        )
        self._endpoints: dict[str, Endpoint] = {}
        first = self._endpoint(config.provider)
        self.secured = Secured(first.provider, first.credential)
        max_bytes = config.spindle.sse_event_max_bytes
        self.remote = RemoteModel(first, request.clock, sse_event_max_bytes=max_bytes)

    def switch(self, provider_id: str) -> tuple[Provider, list[str]]:
        """Later questions go to this provider; with it, what people should know. Raises SpindleError if they cannot."""
        known = len(self._draft.warnings)
        endpoint = self._endpoint(choose_provider(provider_id, self._draft.request.config.providers, "this session"))
        self.remote.use(endpoint)
        self._draft.small.provider = endpoint.provider
        self.secured.add(endpoint.provider, endpoint.credential)
        return endpoint.provider, self._draft.warnings[known:]

    def _endpoint(self, provider: Provider) -> Endpoint:
        known = self._endpoints.get(provider.id)
        if known is not None:
            return known
        request, config = self._draft.request, self._draft.request.config
        if provider.runs_inside:
            from spindle.assembly.inside import local_endpoint  # only for models that we run ourselves

            endpoint = self._endpoints[provider.id] = local_endpoint(self._draft, provider, self._identity)
            return endpoint
        signed_in = sign_in(provider, config.login, is_exec=request.source == "exec", clock=request.clock)
        self._draft.warnings.extend(signed_in.warnings)
        endpoint = self._endpoints[provider.id] = self._kind_of(provider)(
            signed_in.provider,
            signed_in.credential,
            self._identity,
            memory=self._draft.memory,
            catalog_path=config.model_catalog_json,
        )
        return endpoint

    def _kind_of(self, provider: Provider) -> type[Endpoint]:
        if provider.id != "lmstudio":
            return Endpoint
        from spindle.assembly.local_servers import lm_studio  # only for those who use it

        return lm_studio(self._draft.model)


class ToolNameTaken(ConfigError):
    """Two tools of a thread have the same name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is already a tool with the name {name!r}")
        self.name = name


def client_tools(draft: Draft) -> list[Tool]:
    """The tools that a client brings along, or brought along when the thread was started."""
    request = draft.request
    specs = None if request.order is not None else request.dynamic_tools or draft.history.meta.get("dynamic_tools")
    if not specs:
        return [*request.tools]
    from spindle.tools.dynamic import dynamic_tools  # few clients have any

    try:
        found = dynamic_tools(specs)
        if not request.dynamic_tools and draft.is_foreign:
            names = ", ".join(visible(tool.name) for tool in found)
            draft.warnings.append(
                f"the thread's file, which Spindle with this home did not write, brings tools: {names}"
            )
        return [*found, *request.tools]
    except ConfigError as error:
        if request.dynamic_tools:
            raise
        draft.warnings.append(f"the thread goes on without the tools it was started with: {error}")
        return [*request.tools]


def tool_set(
    config: Config,
    info: ModelInfo,
    of_features: Sequence[Tool],
    brought: Sequence[Tool],
    resources: Sequence[Tool] = (),
    of_servers: Sequence[Tool] = (),
) -> ToolSet:
    """All tools of a session. One that the caller brought cannot take the place of another."""
    if brought:
        ours = tool_set(config, info, of_features, (), resources, of_servers)
        for number, tool in enumerate(brought):
            if tool.name in ours or any(tool.name == other.name for other in brought[:number]):
                raise ToolNameTaken(tool.name)
    features, has_few = config.features, info.profile == SMALL
    patch_type = "freeform" if features.get("apply_patch_freeform") and not has_few else info.apply_patch_tool_type
    live = config.web_search == "live" or (config.web_search == "cached" and config.sandbox.is_full_access)
    choice = ToolChoice(
        shell_type=info.shell_type,
        patch_type=patch_type,
        web_search=None if config.web_search == "disabled" or has_few else "live" if live else "cached",
        shell_tool=features.get("shell_tool", True),
        unified_exec=features.get("unified_exec", True),
        request_rule=features.get("request_rule", True),
        update_plan=config.update_plan and not has_few,
        request_user_input=features.get("collaboration_modes", True) and not has_few,
        view_image=config.view_image and not has_few,
        jit_tools=_jit_tools(config.spindle.jit_tools, info),
        recollection=config.spindle.recollection and not has_few,
        of_features=of_features,
        resources=resources,
        extra=(*of_servers, *brought),
    )
    return build_tools(choice)


def _jit_tools(wanted: bool | None, info: ModelInfo) -> tuple[str, ...]:
    """The file tools: as the user says, else as the catalogue says, else for models nobody taught the shell."""
    if wanted is None:
        return info.experimental_supported_tools if info.known or info.profile == SMALL else JIT_TOOLS
    return JIT_TOOLS if wanted else ()
