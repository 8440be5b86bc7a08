"""What the operator says of the tools that observe: by flag, by variable, and in a table of the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from zorivest_rpc.app.policy import is_named, opted_in
from zorivest_rpc.config import Settings, parse
from zorivest_rpc.config_file import ConfigFileRefused


def settings(place: Path, *words: str, file: str = "", **variables: str) -> Settings:
    path = place / "config.toml"
    path.write_text(file)
    data = place / "data"
    data.mkdir(exist_ok=True)
    return parse("stdio", ["--config", str(path), "--data-dir", str(data), *words], {"HOME": str(place), **variables})


def test_the_table_of_the_file_has_their_names_without_the_prefix(tmp_path: Path) -> None:
    text = '[devtools]\nenabled = true\nport = 0\norigins = ["https://a.test", "https://b.test"]\nexport_dir = "/x"\n'
    found = settings(tmp_path, file=text)
    assert (found.devtools_enabled, found.devtools_port, found.devtools_export_dir) == (True, 0, "/x")
    assert found.devtools_origins == ("https://a.test", "https://b.test")
    assert settings(tmp_path, "--devtools-port", "7", file=text).devtools_port == 7


@pytest.mark.parametrize(
    "text", ["[devtools]\nspy = true\n", "[devtools]\nport = 'x'\n", "[server]\ndevtools_port = 1\n"]
)
def test_what_the_table_does_not_know_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigFileRefused):
        settings(tmp_path, file=text)


def test_the_key_comes_from_the_environment_alone(tmp_path: Path) -> None:
    found = settings(tmp_path, ZORIVEST_DEVTOOLS_KEY="zdk_x")
    assert found.devtools_key == "zdk_x"
    with pytest.raises(ConfigFileRefused):
        settings(tmp_path, file='[devtools]\nkey = "zdk_x"\n')


@pytest.mark.parametrize(
    ("words", "variables", "config", "exists", "named"),
    [
        ((), {}, None, False, False),
        (("--toolsets", "all"), {}, None, False, False),
        (("--toolsets", "core, devtools"), {}, None, True, True),
        ((), {"ZORIVEST_TOOLSETS": "devtools"}, None, True, True),
        (("--devtools-enabled",), {}, None, True, False),
        ((), {}, '{"defaultToolsets": ["core", "devtools"]}', True, True),
        ((), {}, '{"clientOverrides": {"cline": ["devtools"]}}', True, True),
        ((), {}, '{"defaultToolsets": ["core"]}', False, False),
        ((), {}, "not JSON", False, False),
    ],
)
def test_the_toolset_exists_where_it_is_named_or_enabled(
    tmp_path: Path, words: tuple[str, ...], variables: dict[str, str], config: str | None, exists: bool, named: bool
) -> None:
    found = settings(tmp_path, *words, **variables)
    if config is not None:
        (tmp_path / "data" / "toolset-config.json").write_text(config)
    assert opted_in(found) == (("devtools",) if exists else ())
    assert is_named(found, "devtools") is named
