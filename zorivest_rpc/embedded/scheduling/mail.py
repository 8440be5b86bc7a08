"""The mail server of the journal's owner, and one message to one recipient through it.

The password is stored encrypted and decrypted only to log in. Without TLS a server is used on this machine only."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime
from typing import Any

import aiosmtplib
from sqlalchemy import Connection, select

from ..database.schema.scheduling import email_provider
from ..values.fields import Fields
from ..vault.credentials import Credential
from ..vault.crypto import FieldCipher

__all__ = [
    "ADDRESS",
    "CREDENTIALS",
    "PORTS",
    "PRESETS",
    "MailServer",
    "MailUncertain",
    "NotSent",
    "build",
    "deliver",
    "keep_password",
    "load",
    "read_fields",
    "save",
]

ADDRESS = r"^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,250}[A-Za-z0-9])?$"
SECURITY = ("starttls", "ssl", "none")
PORTS = {"starttls": 587, "ssl": 465, "none": 25}
PRESETS = {
    "fastmail": ("smtp.fastmail.com", "ssl"),
    "gmail": ("smtp.gmail.com", "starttls"),
    "gmx": ("mail.gmx.net", "starttls"),
    "icloud": ("smtp.mail.me.com", "starttls"),
    "outlook": ("smtp-mail.outlook.com", "starttls"),
    "sendgrid": ("smtp.sendgrid.net", "starttls"),
    "yahoo": ("smtp.mail.yahoo.com", "ssl"),
}
"""Host and security of well-known services; what else is given counts more."""
CREDENTIALS = (
    Credential("username", "username", secret=False, required=False),
    Credential("password", "password", required=False),
    Credential("from_email", "from address", secret=False),
)
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_SECONDS = 30.0


class NotSent(Exception):
    """The server did not take the message; sending it again is safe, and `final` says that it would not help."""

    def __init__(self, text: str, *, final: bool = False) -> None:
        super().__init__(text)
        self.final = final


class MailUncertain(Exception):
    """The connection broke after the message was sent: it may or may not have arrived."""


@dataclass(frozen=True)
class MailServer:
    host: str
    port: int
    security: str
    username: str
    encrypted_password: str
    from_email: str

    def view(self) -> dict[str, Any]:
        """Without the password."""
        preset = next((name for name, known in PRESETS.items() if known[0] == self.host), None)
        return {
            "configured": True,
            "preset": preset,
            "host": self.host,
            "port": self.port,
            "security": self.security,
            "username": self.username,
            "has_password": bool(self.encrypted_password),
            "from_email": self.from_email,
        }


def read_fields(body: dict[str, Any], cipher: FieldCipher) -> MailServer:
    """A server from a request's body; 422 names what is wrong."""
    fields = Fields(body)
    preset = fields.choice("preset", tuple(PRESETS), None)
    usual_host, usual_security = PRESETS.get(preset or "", (None, "starttls"))
    host = (fields.text("host", usual_host, least=1, most=253) or "").strip()
    security = fields.choice("security", SECURITY, usual_security)
    port = fields.integer("port", PORTS[security], least=1, most=65_535)
    username = fields.text("username", "", most=320)
    password = fields.text("password", "", most=1000)
    from_email = fields.text("from_email", least=3, most=320)
    if not host and preset is None:
        fields.wrong("host", "is required without a preset")
    elif not re.fullmatch(r"[A-Za-z0-9.:_-]+", host):
        fields.wrong("host", "must be a host name")
    if security == "none" and host.lower() not in _LOOPBACK:
        fields.wrong("security", "may be none only for a server on this machine")
    if not re.fullmatch(ADDRESS, from_email):
        fields.wrong("from_email", "must be an e-mail address")
    fields.done()
    return MailServer(host, port, security, username, cipher.encrypt(password), from_email)


def load(conn: Connection) -> MailServer | None:
    row = conn.execute(select(email_provider).where(email_provider.c.id == 1)).mappings().first()
    if row is None:
        return None
    return MailServer(**{name: row[name] for name in MailServer.__dataclass_fields__})


def save(conn: Connection, server: MailServer | None, now: datetime) -> None:
    """Keep one server, or none."""
    conn.execute(email_provider.delete())
    if server is not None:
        values = {name: getattr(server, name) for name in MailServer.__dataclass_fields__}
        conn.execute(email_provider.insert().values(id=1, updated_at=now, **values))


def keep_password(conn: Connection, server: MailServer, given: bool) -> MailServer:
    """The server with the password it already has here, unless one was given; another host or user starts without."""
    known = load(conn)
    if given or known is None or (known.host, known.username) != (server.host, server.username):
        return server
    return replace(server, encrypted_password=known.encrypted_password)


def build(
    server: MailServer,
    recipient: str,
    subject: str,
    text: str,
    html: str | None,
    key: str,
    now: datetime,
    pdf: tuple[str, bytes] | None = None,
) -> EmailMessage:
    """The message; its id follows from the delivery's key, so a mailbox can recognise a second copy too."""
    message = EmailMessage()
    message["From"] = server.from_email
    message["To"] = recipient
    message["Subject"] = " ".join(subject.split())[:200]
    message["Date"] = format_datetime(now)
    message["Message-ID"] = f"<{key[:40]}@{server.from_email.rpartition('@')[2]}>"
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(text)
    if html is not None:
        message.add_alternative(html, subtype="html")
    if pdf is not None:
        message.add_attachment(pdf[1], maintype="application", subtype="pdf", filename=pdf[0])
    return message


async def deliver(
    server: MailServer, cipher: FieldCipher, message: EmailMessage, before_data: Callable[[], Awaitable[None]]
) -> None:
    """Hand one message over. `before_data` is awaited at the point of no return, before the first byte of content."""
    client = aiosmtplib.SMTP(
        hostname=server.host,
        port=server.port,
        timeout=_SECONDS,
        use_tls=server.security == "ssl",
        start_tls=server.security == "starttls",
        local_hostname="localhost",  # the name of this machine stays private
    )
    password = cipher.decrypt(server.encrypted_password)
    underway = False
    try:
        await client.connect()
        if server.username:
            await client.login(server.username, password)
        await client.mail(server.from_email)
        await client.rcpt(message["To"])
        await before_data()
        underway = True
        await client.data(message.as_bytes())
    except aiosmtplib.SMTPResponseException as exc:
        answer = _clean(f"The mail server answered {exc.code} {exc.message}", password)
        raise NotSent(answer, final=exc.code >= 500) from None  # 4xx means later, 5xx means no
    except aiosmtplib.SMTPException as exc:
        problem = _clean(str(exc) or type(exc).__name__, password)
        if underway:
            raise MailUncertain(f"The connection broke while the message was sent: {problem}") from None
        raise NotSent(f"The mail server cannot be used: {problem}") from None
    except (OSError, asyncio.IncompleteReadError) as exc:
        if underway:
            raise MailUncertain("The connection broke while the message was sent") from None
        raise NotSent(f"The mail server cannot be reached: {_clean(str(exc), password)}") from None
    finally:
        client.close()


def _clean(text: str, password: str) -> str:
    """A server may quote what it was told."""
    text = " ".join(text.split())[:300]
    return text.replace(password, "[redacted]") if password else text
