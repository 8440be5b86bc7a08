"""The catalogue as it is shipped, and a copy of its files that a test may spoil."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from zorivest_rpc.serving.catalog.load import load, schemas_dir
from zorivest_rpc.serving.catalog.spec import Definitions


@pytest.fixture(scope="session")
def definitions() -> Definitions:
    return load()


@pytest.fixture
def schemas(tmp_path: Path) -> Path:
    return Path(shutil.copytree(schemas_dir(), tmp_path / "schemas"))
