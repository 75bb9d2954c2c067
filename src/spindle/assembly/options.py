"""The user's Config as what the parts of a session are given."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from spindle.assembly.request import SessionRequest
from spindle.auth.credentials import Secured, session_secrets
from spindle.config.schema import Config
from spindle.core.access import ModelOverrides
from spindle.core.briefing import BriefingOptions
from spindle.core.feature import Feature
from spindle.core.settings import Limits
from spindle.policy.sandbox import PROTECTED_NAMES
from spindle.policy.secrets import Secrets
from spindle.protocol.settings import AgentRole, Allowed, ThreadSettings
from spindle.workspace.git import find_root

if TYPE_CHECKING:
    from spindle.tools.services import EditorFiles


def settings_from(config: Config, model: str) -> ThreadSettings:
    return ThreadSettings(
        cwd=config.cwd,
        model=model,
        model_provider=config.provider.id,
        approval_policy=config.approval_policy,
        granular=config.granular,
        sandbox=config.sandbox,
        effort=config.model_reasoning_effort,
        summary=config.model_reasoning_summary,
        verbosity=config.model_verbosity,
        personality=config.personality or "pragmatic",
        service_tier=config.service_tier,
    )


def allowed_by(config: Config) -> Allowed:
    """The administrator's limits."""
    return Allowed(approval_policies=config.allowed_approval_policies, sandbox_modes=config.allowed_sandbox_modes)


def model_overrides(config: Config) -> ModelOverrides:
    return ModelOverrides(
        context_window=config.model_context_window,
        max_output_tokens=config.model_max_output_tokens,
        compact_limit=config.model_auto_compact_token_limit,
        output_token_limit=config.tool_output_token_limit,
        reasoning_summaries=config.model_supports_reasoning_summaries,
        shows_raw_reasoning=config.show_raw_agent_reasoning,
    )


def offloads(config: Config) -> bool:
    wanted = config.spindle.offload_outputs
    return config.spindle.context_mode != "append_only" if wanted is None else wanted


def notes_folder(config: Config) -> str:
    """The folder of the project's notes."""
    from spindle.tools.memory_folder import project_folder  # only where notes are switched on

    return project_folder(config.home, find_root(config.cwd, config.project_root_markers) or config.cwd)


def agent_roles(config: Config) -> tuple[AgentRole, ...] | None:
    """The roles a model can choose from; None if it has no sub-agents. Describing a role switches them on."""
    is_on = config.features.get("collab") or config.agent_roles
    return tuple(config.agent_roles.values()) if is_on else None


def editor_for(request: SessionRequest) -> EditorFiles | None:
    """The editor that files are patched through, unless something runs beside that the model has a say in.

    Sub-agents and tool servers in a sandbox could put a link in the place of a file while the editor opens it.
    """
    config = request.config
    return request.editor if agent_roles(config) is None and not config.mcp_servers else None


def briefing_options(
    request: SessionRequest, shell_name: str, environment: dict[str, str], features: Sequence[Feature]
) -> BriefingOptions:
    config = request.config
    return BriefingOptions(
        home=config.own_home,
        shell_name=shell_name,
        environment=environment,
        doc_max_bytes=config.project_doc_max_bytes,
        doc_fallback_names=config.project_doc_fallback_filenames,
        root_markers=config.project_root_markers,
        read_project_docs=config.trust_level == "trusted" or config.spindle.agents_md_untrusted,
        trusts_project=config.trust_level == "trusted",
        fence=config.spindle.fence,
        include_permissions=config.include_permissions_instructions,
        include_environment=config.include_environment_context,
        include_skills=config.skills_include_instructions,
        disabled_skills=config.disabled_skills,
        extra_skill_roots=config.extra_skill_roots,
        developer_instructions=config.developer_instructions,
        user_instructions=request.user_instructions,
        extras=config.spindle.environment_extras,
        notes=tuple(feature.notes for feature in features),
        nested_docs=config.spindle.nested_agents_md,
        bypass=request.bypass,
        protected=(*PROTECTED_NAMES, *config.spindle.fence.protected),
    )


def secrets_of(config: Config, secured: Secured) -> Secrets:
    """What is masked in the record and the events of a session."""
    return session_secrets(
        os.environ,
        secured,
        home=config.own_home,
        variables=config.secret_variables,
        given=config.environment.set,
        mask=config.spindle.mask_secrets,
        unmasked=config.spindle.unmasked_variables,
    )


def limits_of(request: SessionRequest) -> Limits:
    config, order = request.config, request.order
    return Limits(
        allowed=allowed_by(config),
        is_attended=request.is_attended,
        max_requests=config.spindle.max_steps,
        turn_s=config.spindle.turn_timeout_s,
        cap=order.cap if order is not None else lambda settings: settings,
        legacy_interrupt_error=request.legacy_interrupt_error,
    )
