"""Log files: JSON lines per feature, live levels, rotation, and no secret ever."""

from __future__ import annotations

import json
import logging
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.disk.logs import Logs
from zorivest_rpc.embedded.disk.redact import redact, redact_text
from zorivest_rpc.embedded.vault.crypto import new_api_key

from ..conftest import Caller

QUIET = {"app": "INFO"}


@pytest.fixture
def logs(tmp_path: Path) -> Iterator[Logs]:
    logs = Logs(tmp_path)
    logs.start()
    yield logs
    logs.close()


def lines(directory: Path, name: str) -> list[dict[str, Any]]:
    path = directory / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_each_feature_has_its_file_and_each_line_its_fields(logs: Logs, tmp_path: Path) -> None:
    logs.configure(QUIET, 10, 5)
    logging.getLogger("zorivest.trades").info("stored %s", "E-1", extra={"exec_id": "E-1"})
    logging.getLogger("zorivest.something.else").warning("odd")
    logging.getLogger("aiohttp.server").error("bad request line")
    logs.close()
    (line,) = lines(tmp_path, "trades")
    assert set(line) == {
        *("timestamp", "level", "logger", "thread", "module", "funcName", "lineno", "message"),
        "exec_id",
    }
    assert (line["message"], line["level"], line["exec_id"]) == ("stored E-1", "INFO", "E-1")
    assert [line["message"] for line in lines(tmp_path, "misc")] == ["odd"]
    assert [line["message"] for line in lines(tmp_path, "server")] == ["bad request line"]
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in tmp_path.iterdir())


def test_before_the_settings_are_known_everything_goes_to_one_file(logs: Logs, tmp_path: Path) -> None:
    logging.getLogger("zorivest.trades").info("early")
    logs.close()
    assert [line["message"] for line in lines(tmp_path, "bootstrap")] == ["early"]
    assert not (tmp_path / "trades.jsonl").exists()


def test_files_rotate_and_old_ones_go(logs: Logs, tmp_path: Path) -> None:
    logs.configure(QUIET, 1, 1)
    for number in range(140):
        logging.getLogger("zorivest.app").info("%s %s", number, "xyzxyzx " * 2_000)
    logs.close()
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["app.jsonl", "app.jsonl.1"]
    assert all(path.stat().st_size <= 1024 * 1024 for path in tmp_path.iterdir())
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in tmp_path.iterdir())


def test_an_exception_is_logged_with_its_traceback_and_without_its_secrets(logs: Logs, tmp_path: Path) -> None:
    logs.configure(QUIET, 10, 5)
    key = new_api_key()
    try:
        raise ValueError(f"cannot use {key}")
    except ValueError:
        logging.getLogger("zorivest.app").exception("failed with %s", key)
    logs.close()
    (line,) = lines(tmp_path, "app")
    assert "ValueError" in line["exception"]
    assert key not in json.dumps(line)


async def test_a_level_changes_at_once(admin: Caller, backend: Embedded) -> None:
    backend.logs.start()
    logger = logging.getLogger("zorivest.tax")
    logger.debug("one")
    await admin.expect(200, "PUT", "/settings", {"logging.tax.level": "DEBUG"})
    logger.debug("two")
    await admin.expect(200, "PUT", "/settings", {"logging.tax.level": "ERROR"})
    logger.warning("three")
    await admin.expect(200, "PUT", "/settings", {"logging.tax.level": "INFO"})
    logger.info("four")
    backend.logs.close()
    assert [line["message"] for line in lines(backend.logs.directory, "tax")] == ["two", "four"]


SECRETS = {
    "api key": ("zrv_sk_abcdefghijklmnopqrstuvwxyz012345", "abcdefghijklmnopqrstuvwxyz012345"),
    "query": ("GET /q?apikey=s3cr3tvalue&x=1", "s3cr3tvalue"),
    "header": ("X-Api-Key: s3cr3tvalue", "s3cr3tvalue"),
    "token query": ("https://h/x?api_token=s3cr3tvalue", "s3cr3tvalue"),
    "bearer": ("Authorization: Bearer s3cr3t.value-1", "s3cr3t.value-1"),
    "raw authorization": ("authorization: s3cr3tvalue", "s3cr3tvalue"),
    "field": ("stored ENC:gAAAAABs3cr3tvalue==", "s3cr3tvalue"),
    "jwt": ("eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.s3cr3tvalue", "s3cr3tvalue"),
    "aws": ("key AKIAIOSFODNN7EXAMPLE used", "AKIAIOSFODNN7EXAMPLE"),
    "url": ("postgres://user:s3cr3tvalue@host/db", "s3cr3tvalue"),
    "card": ("card 4111 1111 1111 1111 ok", "4111 1111 1111 1111"),
    "ssn": ("ssn 123-45-6789", "123-45-6789"),
    "passphrase": ("passphrase=s3cr3tvalue", "s3cr3tvalue"),
    "passphrase with spaces": ('{"passphrase": "correct horse s3cr3tvalue"}', "s3cr3tvalue"),
    "passphrase unquoted": ("passphrase: correct horse s3cr3tvalue", "s3cr3tvalue"),
    "quoted with spaces": ("password='two s3cr3tvalue'", "s3cr3tvalue"),
    "broker header": ("APCA-API-SECRET-KEY: s3cr3tvalue", "s3cr3tvalue"),
    "broker header of the id": ("APCA-API-KEY-ID=s3cr3tvalue", "s3cr3tvalue"),
    "key query": ("https://h/x?a=1&key=s3cr3tvalue", "s3cr3tvalue"),
    "other scheme": ('Authorization: Digest username="s3cr3tvalue", uri="/"', "s3cr3tvalue"),
    "json authorization": ('{"Authorization": "Token s3cr3tvalue"}', "s3cr3tvalue"),
    "second cookie": ("Cookie: a=1; sid=s3cr3tvalue", "s3cr3tvalue"),
    "url with a token": ("https://s3cr3tvalue@host/x", "s3cr3tvalue"),
    "private key": ("private_key=s3cr3tvalue", "s3cr3tvalue"),
    "json": ('{"password": "s3cr3tvalue"}', "s3cr3tvalue"),
    "session": ("tok_0123456789abcdef0123456789abcdef", "0123456789abcdef"),
    "confirmation": ("ctk_AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAA"),
    "wrapped": ("gAAAAABmWrappedKeyTokenOfFernet0000", "WrappedKeyToken"),
}


@pytest.mark.parametrize("kind", sorted(SECRETS))
def test_secrets_are_redacted_in_text_and_in_data(kind: str) -> None:
    text, secret = SECRETS[kind]
    assert secret not in redact_text(text)
    assert secret not in json.dumps(redact({"outer": [{"note": text}], text: 1}))


def test_telling_names_hide_whatever_they_hold() -> None:
    for name in (
        "password",
        "Token",
        "api_key",
        "secret",
        "Authorization",
        "cookie",
        "passphrase",
        "dek",
        "wrapped_dek",
        "clientSecret",
        "smtp_password",
        "X-Api-Key",
        "APCA-API-SECRET-KEY",
        "Set-Cookie",
    ):
        assert redact({name: {"a": "b"}}) == {name: "[redacted]"}


def test_ordinary_text_stays_as_it_is() -> None:
    for text in (
        "bought 100 SPY at 512.40 on 2026-03-02",
        "exec 0000e0d5.6512.01.01",
        "E-1 to account DU1234567",
        "key_id 4f2a, 3 tokens",
    ):
        assert redact_text(text) == text


async def test_planted_secrets_never_reach_a_log_file(
    admin: Caller, anybody: Caller, backend: Embedded, api_key: str
) -> None:
    """Secrets in every place a request can carry one: body, header, path, query, wrong type, failing request."""
    backend.logs.start()
    await admin.expect(200, "PUT", "/settings", {f"logging.{name}.level": "DEBUG" for name in ("api", "app", "db")})
    made = await admin.expect(201, "POST", "/auth/keys", {"label": "x"})
    token = (await admin.expect(201, "POST", "/confirmation-tokens", {"action": "create_trade"}))["token"]
    caller = await anybody.unlock(made["raw_key"])
    await caller.ask("GET", f"/settings/{made['raw_key']}?token={token}")
    await caller.ask("PUT", "/settings", {"ui.activePage": made["raw_key"] * 40})
    await anybody.ask("POST", "/auth/unlock", {"api_key": new_api_key()})
    logging.getLogger("zorivest.app").error("leaked %s and Bearer %s", made["raw_key"], caller.token)
    await anybody.ask("GET", "/settings", headers={"Authorization": f"Basic {made['raw_key']}"})
    await admin.expect(204, "DELETE", f"/auth/keys/{made['key_id']}")
    dek = bytes(backend._dek)
    await backend.close()
    backend.logs.close()
    written = b"".join(path.read_bytes() for path in backend.directory.logs.iterdir())
    assert b"unlocked with key" in written
    assert admin.token is not None
    assert caller.token is not None
    for secret in (api_key, made["raw_key"], admin.token, caller.token, token, dek.hex()):
        assert secret.encode() not in written
        assert secret[8:30].encode() not in written
