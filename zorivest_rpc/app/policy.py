"""What the operator said about who is shown what, checked against the catalogue."""

from __future__ import annotations

import os

from zorivest_rpc.config import Settings
from zorivest_rpc.errors import ConfigError
from zorivest_rpc.mcp.catalog.names import nearest
from zorivest_rpc.serving.audience import Policy
from zorivest_rpc.serving.catalog.spec import Definitions
from zorivest_rpc.serving.catalog.toolsets import ToolsetConfig, decode_config, opt_in_names
from zorivest_rpc.serving.modes.detect import parse_mode

__all__ = ["is_named", "opted_in", "policy_of"]


def policy_of(settings: Settings, definitions: Definitions, channel: str = "auto") -> Policy:
    """What the operator said, checked against the catalogue; ConfigError names the nearest name."""
    mode, warning = parse_mode(settings.client_mode)
    if warning is not None:
        import sys

        print(f"zorivest-rpc: {warning}", file=sys.stderr)
    known = {spec.name for spec in (*definitions.tools, *definitions.meta_tools)}
    for name in settings.exclude_tools:
        if name not in known:
            near = nearest(name, known)
            raise ConfigError("--exclude-tools", f'no tool "{name}"' + (f'; did you mean "{near}"?' if near else ""))
    return Policy(
        toolsets=None if settings.toolsets_by_variable else settings.toolsets,
        toolsets_variable=settings.toolsets if settings.toolsets_by_variable else None,
        tools=settings.tools,
        excluded=frozenset(settings.exclude_tools),
        read_only=settings.read_only,
        mode=mode,
        config=_toolset_config(settings, definitions),
        allowed_callers=settings.allowed_callers,
        inside_claude_code=settings.inside_claude_code and settings.command == "stdio",
        confirm=settings.confirm,  # type: ignore[arg-type]
        channel=channel,  # type: ignore[arg-type]
        trusts_names=settings.command != "serve" or settings.trust_client_names,
        exposure=settings.exposure,
        meta_skip=settings.exposure_meta_skip,
    )


def opted_in(settings: Settings) -> tuple[str, ...]:
    """The toolsets that exist because the operator named them."""
    enabled = ("devtools",) if settings.devtools_enabled else ()
    return opt_in_names((settings.toolsets,), _read_toolset_file(settings)[1], enabled)


def is_named(settings: Settings, toolset: str) -> bool:
    """Whether some list begins with this toolset, because the options or the toolset file name it."""
    return toolset in opt_in_names((settings.toolsets,), _read_toolset_file(settings)[1])


def _toolset_config(settings: Settings, definitions: Definitions) -> ToolsetConfig:
    path, data = _read_toolset_file(settings)
    return ToolsetConfig() if data is None else decode_config(data, path, definitions)


def _read_toolset_file(settings: Settings) -> tuple[str, bytes | None]:
    """The named file, which must exist, or the one in the data directory, which may."""
    path = settings.toolset_config or os.path.join(settings.data_dir, "toolset-config.json")
    try:
        with open(path, "rb") as file:
            return path, file.read()
    except FileNotFoundError:
        if settings.toolset_config:
            raise ConfigError("ZORIVEST_TOOLSET_CONFIG", f"{path} does not exist") from None
        return path, None
    except OSError as exc:
        raise ConfigError(path, exc.strerror or "cannot be read") from None
