"""A real SMTP server on loopback that keeps what it is given, and misbehaves when told to."""

from __future__ import annotations

import asyncio
import email
import ssl
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.message import EmailMessage
from email.policy import default
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult


class Mailbox:
    """`answers` are given to the next messages instead of taking them; "drop" breaks the connection after DATA."""

    def __init__(self) -> None:
        self.messages: list[EmailMessage] = []
        self.recipients: list[str] = []
        self.answers: list[str] = []
        self.refused: set[str] = set()
        self.logins: list[tuple[bytes, bytes]] = []
        self.arrived = asyncio.Event()
        self.go: asyncio.Event | None = None  # when set up, DATA waits for it
        self.port = 0

    def authenticate(self, server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        self.logins.append((data.login, data.password))
        right = data.password == b"right-password"
        return AuthResult(success=right, handled=right)  # not handled: the server gives its usual refusal

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:
        if address in self.refused:
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        self.arrived.set()
        if self.go is not None:
            await self.go.wait()
        answer = self.answers.pop(0) if self.answers else ""
        if answer and answer != "drop":
            return answer
        self.messages.append(email.message_from_bytes(envelope.content, policy=default))
        self.recipients += envelope.rcpt_tos
        if answer == "drop":
            server.transport.abort()
        return "250 OK"


@asynccontextmanager
async def serve(mailbox: Mailbox, **options: Any) -> AsyncIterator[Mailbox]:
    loop = asyncio.get_running_loop()
    over_tls: ssl.SSLContext | None = options.pop("over_tls", None)

    def session() -> SMTP:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that passwords need TLS is true, though not on loopback
            return SMTP(mailbox, loop=loop, hostname="localhost", **options)

    server = await loop.create_server(session, "127.0.0.1", 0, ssl=over_tls)
    mailbox.port = server.sockets[0].getsockname()[1]
    try:
        yield mailbox
    finally:
        server.close()
