"""Delivery by e-mail to a real server: once, whatever goes wrong, and without a secret left anywhere."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from sqlalchemy import Connection, select

from tests.embedded.conftest import Caller
from zorivest_rpc.embedded.backend import Embedded
from zorivest_rpc.embedded.database.schema.journal import metadata
from zorivest_rpc.embedded.database.schema.scheduling import report_deliveries
from zorivest_rpc.embedded.disk.paths import DataDir
from zorivest_rpc.embedded.scheduling import budget
from zorivest_rpc.embedded.scheduling.engine import Scheduling

from .conftest import MAIL, RENDER, REPORT, Create, Wall, step
from .mailbox import Mailbox, serve
from .running import run

PASSWORD = "right-password"
RETRYING = {**MAIL, "on_error": "retry_then_fail"}


@pytest.fixture
async def mailbox(admin: Caller) -> AsyncIterator[Mailbox]:
    async with serve(Mailbox()) as box:
        await configure(admin, box)
        yield box


async def configure(admin: Caller, box: Mailbox, **changes: Any) -> Any:
    usual = {"host": "127.0.0.1", "port": box.port, "security": "none", "from_email": "journal@example.org"}
    return await admin.expect(200, "PUT", "/scheduling/email", {**usual, **changes})


async def statuses(backend: Embedded) -> list[str]:
    statement = select(report_deliveries.c.status).order_by(report_deliveries.c.recipient)
    return list(await backend.database().read(lambda conn: conn.execute(statement).scalars().all()))


async def test_a_report_arrives_with_its_html_and_subject(
    create_approved: Create, admin: Caller, mailbox: Mailbox, backend: Embedded
) -> None:
    body = {**MAIL["params"], "body_template": "Dear {{ policy }}: {{ ctx.report.counts.total }} & <more>"}
    done = await run(admin, await create_approved(REPORT, RENDER, {**MAIL, "params": body}))
    assert done["error"] is None
    (message,) = mailbox.messages
    assert (message["To"], message["From"]) == ("me@example.org", "journal@example.org")
    assert message["Subject"] == "Accounts & more"
    text, html = message.get_body(("plain",)), message.get_body(("html",))
    assert text is not None
    assert html is not None
    assert text.get_content().strip() == "Dear Daily: 1 & <more>"
    assert "<h1>Accounts &amp; more</h1>" in html.get_content()
    assert await statuses(backend) == ["sent"]


async def test_without_a_server_the_step_says_so(create_approved: Create, admin: Caller) -> None:
    done = await run(admin, await create_approved(REPORT, RENDER, RETRYING))
    assert (done["status"], "E-mail is not set up" in done["error"]) == ("failed", True)
    assert done["steps"][2]["attempt"] == 1


async def test_running_again_sends_nothing_twice(
    create_approved: Create, admin: Caller, mailbox: Mailbox, wall: Wall
) -> None:
    policy = await create_approved(REPORT, RENDER, MAIL)
    for _ in range(3):
        assert (await run(admin, policy))["status"] == "success"
    assert len(mailbox.messages) == 1
    wall.forward(days=1)
    await run(admin, policy)
    assert len(mailbox.messages) == 2  # the next day's report is another one
    assert mailbox.messages[0]["Message-ID"] != mailbox.messages[1]["Message-ID"]


async def test_a_refusal_is_tried_again_until_it_is_taken(
    create_approved: Create, admin: Caller, mailbox: Mailbox, engine: Scheduling
) -> None:
    mailbox.answers = ["451 try later", "452 still full"]
    done = await run(admin, await create_approved(REPORT, RENDER, RETRYING))
    assert (done["status"], done["steps"][2]["attempt"]) == ("success", 3)
    assert len(mailbox.messages) == 1


@pytest.mark.parametrize("answer", ["550 no such mailbox", "554 looks like spam"])
async def test_a_final_no_is_not_tried_again_in_the_same_run(
    create_approved: Create, admin: Caller, mailbox: Mailbox, engine: Scheduling, answer: str
) -> None:
    mailbox.answers = [answer]
    policy = await create_approved(REPORT, RENDER, RETRYING)
    done = await run(admin, policy)
    assert (done["status"], done["steps"][2]["attempt"]) == ("failed", 1)
    assert answer in done["error"]
    assert engine.pauses == []  # type: ignore[attr-defined]
    assert (await run(admin, policy))["status"] == "success"  # the next run asks anew
    assert len(mailbox.messages) == 1


async def test_one_who_is_refused_is_not_asked_again_when_another_is_tried_again(
    create_approved: Create, admin: Caller, mailbox: Mailbox
) -> None:
    mailbox.answers = ["550 never", "451 later"]
    params = {**MAIL["params"], "recipients": ["never@example.org", "later@example.org"]}
    done = await run(admin, await create_approved(REPORT, RENDER, {**RETRYING, "params": params}))
    assert (done["status"], done["steps"][2]["attempt"]) == ("failed", 2)
    assert "1 of 2 deliveries failed: never@example.org" in done["error"]
    assert mailbox.recipients == ["later@example.org"]


async def test_a_wrong_password_is_told_at_once(create_approved: Create, admin: Caller) -> None:
    box = Mailbox()
    async with serve(box, authenticator=box.authenticate, auth_require_tls=False):
        await configure(admin, box, username="me", password="wrong-password")
        done = await run(admin, await create_approved(REPORT, RENDER, RETRYING))
    assert (done["status"], done["steps"][2]["attempt"]) == ("failed", 1)
    assert "535" in done["error"]
    assert "wrong-password" not in done["error"]


async def test_a_retry_reaches_only_who_was_not_reached(
    create_approved: Create, admin: Caller, mailbox: Mailbox, backend: Embedded
) -> None:
    mailbox.refused = {"b@example.org"}
    params = {**MAIL["params"], "recipients": ["a@example.org", "b@example.org", "c@example.org", "a@example.org"]}
    policy = await create_approved(REPORT, RENDER, {**RETRYING, "params": params})
    done = await run(admin, policy)
    assert (done["status"], "1 of 3 deliveries failed: b@example.org" in done["error"]) == ("failed", True)
    assert mailbox.recipients == ["a@example.org", "c@example.org"]
    assert await statuses(backend) == ["sent", "refused", "sent"]
    mailbox.refused = set()
    assert (await run(admin, policy))["status"] == "success"
    assert mailbox.recipients == ["a@example.org", "c@example.org", "b@example.org"]


async def test_a_broken_connection_after_the_content_is_never_sent_again(
    create_approved: Create, admin: Caller, mailbox: Mailbox, backend: Embedded
) -> None:
    mailbox.answers = ["drop"]
    policy = await create_approved(REPORT, RENDER, RETRYING)
    done = await run(admin, policy)
    assert done["status"] == "failed"
    assert "not sent again" in done["error"]
    assert await statuses(backend) == ["uncertain"]
    again = await run(admin, policy)
    assert "may have arrived" in again["error"]
    assert len(mailbox.messages) == 1  # it had arrived: a second copy would have been a second copy


async def test_a_run_that_is_cancelled_while_sending_is_uncertain(
    create_approved: Create, admin: Caller, mailbox: Mailbox, backend: Embedded
) -> None:
    mailbox.go = asyncio.Event()
    policy = await create_approved(REPORT, RENDER, MAIL)
    under_way = asyncio.create_task(run(admin, policy))
    await mailbox.arrived.wait()
    (active,) = await admin.get("/scheduling/runs")
    await admin.expect(200, "POST", f"/scheduling/runs/{active['run_id']}/cancel")
    mailbox.go.set()
    assert (await under_way)["status"] == "cancelled"
    assert await statuses(backend) == ["uncertain"]


async def test_two_runs_at_once_send_one_mail(create_approved: Create, admin: Caller, mailbox: Mailbox) -> None:
    mailbox.go = asyncio.Event()
    policy = await create_approved(REPORT, RENDER, MAIL, max_instances=2)
    first = asyncio.create_task(run(admin, policy))
    await mailbox.arrived.wait()
    second = await run(admin, policy)
    assert "another run is delivering" in second["error"]
    mailbox.go.set()
    assert (await first)["status"] == "success"
    assert len(mailbox.messages) == 1


async def test_a_changed_policy_is_another_delivery(
    create_approved: Create, approve: Any, admin: Caller, mailbox: Mailbox
) -> None:
    policy = await create_approved(REPORT, RENDER, MAIL)
    await run(admin, policy)
    changed = {**policy["policy_json"], "metadata": {"description": "new"}}
    await admin.expect(200, "PUT", f"/scheduling/policies/{policy['id']}", {"policy_json": changed})
    await approve(policy["id"])
    await run(admin, policy)
    assert len(mailbox.messages) == 2


async def test_fifty_mails_a_day_are_the_limit(
    create_approved: Create, admin: Caller, mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch, backend: Embedded
) -> None:
    monkeypatch.setattr(budget, "MAILS_PER_DAY", 1)
    params = {**MAIL["params"], "recipients": ["a@example.org", "b@example.org"]}
    done = await run(admin, await create_approved(REPORT, RENDER, {**MAIL, "params": params}))
    assert "mails per day" in done["error"]
    assert mailbox.recipients == ["a@example.org"]
    assert await statuses(backend) == ["sent", "refused"]


async def test_a_subject_cannot_add_headers(create_approved: Create, admin: Caller, mailbox: Mailbox) -> None:
    params = {**MAIL["params"], "subject": "Hello\r\nBcc: evil@example.org\r\n\r\nbody"}
    await run(admin, await create_approved(REPORT, RENDER, {**MAIL, "params": params}))
    (message,) = mailbox.messages
    assert message["Bcc"] is None
    assert message["Subject"] == "Hello Bcc: evil@example.org body"
    assert mailbox.recipients == ["me@example.org"]


async def test_the_password_is_used_and_never_shown_kept_or_logged(
    create_approved: Create, admin: Caller, backend: Embedded, directory: DataDir, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    box = Mailbox()
    options = {"authenticator": box.authenticate, "auth_required": True, "auth_require_tls": False}
    async with serve(box, **options):
        shown = await configure(admin, box, username="me", password=PASSWORD)
        assert (shown["has_password"], PASSWORD in str(shown)) == (True, False)
        kept = await configure(admin, box, username="me")  # without a password the stored one stays
        assert kept["has_password"]
        policy = await create_approved(REPORT, RENDER, MAIL)
        assert (await run(admin, policy))["error"] is None
        assert box.logins == [(b"me", PASSWORD.encode())]
        await configure(admin, box, username="me", password="wrong-password")
        other = await create_approved(REPORT, RENDER, MAIL, name="Other")
        failed = await run(admin, other)
        assert (failed["status"], "535" in failed["error"]) == ("failed", True)
    everything = await backend.database().read(_everything)
    history = str([await admin.get("/scheduling/runs"), await admin.get("/scheduling/policies")])
    logs = "".join(path.read_text() for path in directory.logs.iterdir()) + caplog.text
    for secret in (PASSWORD, "wrong-password", "cmlnaHQtcGFzc3dvcmQ"):
        assert secret not in everything
        assert secret not in history
        assert secret not in logs
    await admin.expect(204, "DELETE", "/scheduling/email")
    await admin.expect(404, "DELETE", "/scheduling/email")


def _everything(conn: Connection) -> str:
    return str([conn.execute(select(table)).all() for table in metadata.tables.values()])


async def test_another_server_does_not_get_the_old_password(admin: Caller, mailbox: Mailbox) -> None:
    await configure(admin, mailbox, username="me", password=PASSWORD)
    assert not (await configure(admin, mailbox, username="you"))["has_password"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"host": "mail.example.org"}, "security"),
        ({"host": "evil host"}, "host"),
        ({"from_email": "nobody"}, "from_email"),
        ({"from_email": "a@b.c\r\nBcc: x@y.z"}, "from_email"),
        ({"port": 0}, "port"),
        ({"security": "rot13"}, "security"),
    ],
)
async def test_a_server_that_cannot_be_right_is_refused(
    engine: Scheduling, admin: Caller, change: dict[str, Any], field: str
) -> None:
    body = {"host": "127.0.0.1", "security": "none", "from_email": "a@example.org", **change}
    answer = await admin.expect(422, "PUT", "/scheduling/email", body)
    assert field in answer["detail"]["errors"]


async def test_a_server_without_tls_gets_neither_password_nor_mail(
    create_approved: Create, admin: Caller, mailbox: Mailbox, backend: Embedded
) -> None:
    await configure(admin, mailbox, security="starttls", username="me", password=PASSWORD)
    done = await run(admin, await create_approved(REPORT, RENDER, MAIL))
    assert done["status"] == "failed"
    assert (mailbox.logins, mailbox.messages) == ([], [])
    assert await statuses(backend) == ["failed"]


async def test_a_server_that_is_not_there_fails_plainly(
    create_approved: Create, admin: Caller, mailbox: Mailbox, unused_tcp_port: int
) -> None:
    await configure(admin, mailbox, port=unused_tcp_port)
    done = await run(admin, await create_approved(REPORT, RENDER, MAIL))
    assert "The mail server cannot be" in done["error"]


async def test_text_alone_can_be_sent(create_approved: Create, admin: Caller, mailbox: Mailbox) -> None:
    params = {**MAIL["params"], "body_template": "{{ ctx.load.results.rows | length }} accounts"}
    load = step("load", "query", {"queries": [{"name": "rows", "sql": "SELECT name FROM accounts"}]})
    done = await run(admin, await create_approved(load, {**MAIL, "params": params}))
    assert done["error"] is None
    assert mailbox.messages[0].get_content().strip() == "1 accounts"


def certificate(folder: Path) -> Path:
    """A certificate for 127.0.0.1 that signs itself, with its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / "server.pem"
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    return path


@pytest.mark.parametrize("trusted", [True, False])
async def test_with_starttls_the_server_must_be_who_it_says(
    create_approved: Create, admin: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: bool
) -> None:
    pem = certificate(tmp_path)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    box = Mailbox()
    async with serve(box, tls_context=context, require_starttls=True, authenticator=box.authenticate):
        await configure(admin, box, security="starttls", username="me", password=PASSWORD)
        done = await run(admin, await create_approved(REPORT, RENDER, MAIL))
    assert done["status"] == ("success" if trusted else "failed")
    assert len(box.messages) == len(box.logins) == int(trusted)


async def test_a_server_that_speaks_tls_from_the_first_byte(
    create_approved: Create, admin: Caller, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pem = certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    box = Mailbox()
    async with serve(box, over_tls=context, authenticator=box.authenticate, auth_require_tls=False):
        await configure(admin, box, security="ssl", username="me", password=PASSWORD)
        done = await run(admin, await create_approved(REPORT, RENDER, MAIL))
    assert done["error"] is None
    assert (len(box.messages), box.logins) == (1, [(b"me", PASSWORD.encode())])


async def test_a_preset_knows_its_host_and_security(engine: Scheduling, admin: Caller) -> None:
    account = {"preset": "gmail", "username": "me@gmail.com", "password": PASSWORD, "from_email": "me@gmail.com"}
    shown = await admin.expect(200, "PUT", "/scheduling/email", account)
    assert (shown["preset"], shown["host"], shown["port"]) == ("gmail", "smtp.gmail.com", 587)
    shown = await admin.expect(200, "PUT", "/scheduling/email", {**account, "preset": "fastmail"})
    assert (shown["host"], shown["port"], shown["security"], shown["has_password"]) == (
        *("smtp.fastmail.com", 465, "ssl", True),
    )
    wrong = await admin.expect(422, "PUT", "/scheduling/email", {"preset": "hotmale", "from_email": "me@gmail.com"})
    assert "gmail" in wrong["detail"]["errors"]["preset"][0]
    none = await admin.expect(422, "PUT", "/scheduling/email", {"from_email": "me@gmail.com"})
    assert none["detail"]["errors"]["host"] == ["is required without a preset"]


async def test_a_pdf_is_attached_beside_or_instead_of_the_page(
    create_approved: Create, admin: Caller, mailbox: Mailbox
) -> None:
    for wanted in ("both", "pdf"):
        render = {**RENDER, "params": {"output_format": wanted}}
        assert (await run(admin, await create_approved(REPORT, render, MAIL, name=wanted)))["error"] is None
    for message, has_page in zip(mailbox.messages, (True, False), strict=True):
        (attached,) = message.iter_attachments()
        assert attached.get_content_type() == "application/pdf"
        assert str(attached.get_filename()).endswith(".pdf")
        assert attached.get_content().startswith(b"%PDF-")
        assert (message.get_body(("html",)) is not None) is has_page
        text = message.get_body(("plain",))
        assert text is not None
        assert "attached" in text.get_content()
