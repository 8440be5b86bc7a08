"""A configuration file, read as the product reads it, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from zorivest_rpc.config import Settings, parse
from zorivest_rpc.config_file import ConfigFileRefused
from zorivest_rpc.gateway.config import Profile, load_profile


def settings_of(text: str, *argv: str, environ: dict[str, str] | None = None) -> Settings:
    Path("config.toml").write_text(text)
    home = {"HOME": str(Path.cwd().parent)}
    return parse("mcp", ["--config", "config.toml", *argv], {**home, **(environ or {})})


def profile_of(text: str, *argv: str, environ: dict[str, str] | None = None) -> Profile:
    return load_profile(settings_of(text, *argv, environ=environ))


def problems_of(text: str, *argv: str, built_in: tuple[str, ...] = ()) -> list[str]:
    """Every line about the file, without its name in front."""
    with pytest.raises(ConfigFileRefused) as refused:
        load_profile(settings_of(text, *argv), built_in)
    lines = refused.value.lines()
    assert all(line.startswith("config.toml: ") for line in lines)
    return [line.removeprefix("config.toml: ") for line in lines]


def server_problems(lines: str) -> list[str]:
    """The problems of one server, without the path that leads to it."""
    found = problems_of(f"[[profiles.default.mcp_servers]]\n{lines}")
    path = "profiles.default.mcp_servers[0]"
    assert all(line.startswith(path) for line in found)
    return [line.removeprefix(path).removeprefix(".").removeprefix(": ") for line in found]


def with_server(lines: str) -> list[str]:
    return server_problems(f'name = "ops"\nendpoint = "https://a.example"\n{lines}')


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path
