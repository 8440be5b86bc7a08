"""The step `send`: delivers what was rendered by e-mail or as a file in the reports directory, once."""

from __future__ import annotations

import asyncio
import hashlib
import html
import re
from typing import Any, NamedTuple

from ...paths import write_private
from .. import mail
from ..budget import MAILS_PER_DAY, note, spend_mail
from ..deliveries import claim, cut_off, dedup_key, settle
from ..step import Context, Outcome, StepFailed, StepType
from ..templates import TemplateRefused, render

__all__ = ["SEND"]

_SUFFIX = {"html": ".html", "markdown": ".md", "text": ".txt"}


class _Message(NamedTuple):
    """What is delivered, the same to everybody."""

    subject: str
    text: str
    content: str
    format: str
    report: str
    name: str
    snapshot: str


class _Delivery(NamedTuple):
    recipient: str
    status: str  # sent, already_sent, failed, uncertain
    detail: str | None = None

    def view(self) -> dict[str, Any]:
        return {name: value for name, value in self._asdict().items() if value is not None}


async def _run(params: dict[str, Any], context: Context) -> Outcome:
    message = await _message(params, context)
    channel = params["channel"]
    if context.dry_run:
        skipped = {"deliveries": [], "sent": 0, "failed": 0, "dry_run": True, "subject": message.subject}
        return Outcome(skipped, {"channel": channel, "sent": 0, "failed": 0, "dry_run": True})
    if channel == "email":
        done = await _mail(params["recipients"], message, context)
    else:
        done = [await _file(message, context)]
    sent = sum(one.status in ("sent", "already_sent") for one in done)
    summary = {"channel": channel, "sent": sent, "failed": len(done) - sent, "statuses": [one.status for one in done]}
    if sent < len(done):
        told = "; ".join(f"{one.recipient}: {one.detail or one.status}" for one in done if "sent" not in one.status)
        raise StepFailed(
            f"{len(done) - sent} of {len(done)} deliveries failed: {told}",
            retry=any(one.status == "failed" for one in done),
        )
    return Outcome({"deliveries": [one.view() for one in done], "sent": sent, "failed": 0}, summary)


async def _message(params: dict[str, Any], context: Context) -> _Message:
    rendered, report = context.latest("render"), context.latest("store_report")
    title = rendered["title"] if rendered is not None else context.policy_name
    texts = {"subject": params.get("subject") or "{{ title }} ({{ as_of }})"}
    texts["body"] = params.get("body_template") or "{{ title }}, {{ as_of }}. The report is in the HTML part."
    data = {"title": title, "policy": context.policy_name, "as_of": context.as_of, "ctx": context.outputs()}
    try:
        done = await render(texts, data)
    except TemplateRefused as exc:
        raise StepFailed(str(exc), retry=False) from None
    text = html.unescape(done["body"])  # plain text was rendered with the escapes of HTML
    content, kind = (rendered["text"], rendered["format"]) if rendered is not None else (text, "text")
    name = report["report_name"] if report is not None else title
    # An approved change of the policy, or another send step, is another delivery.
    identity = f"{context.policy_id}/{context.content_hash}/{context.step_id}/{name}"
    snapshot = report["snapshot_hash"] if report is not None else _digest(f"{context.as_of}\n{content}\n{text}")
    return _Message(html.unescape(done["subject"]), text, content, kind, identity, name, snapshot)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


async def _mail(recipients: list[str], message: _Message, context: Context) -> list[_Delivery]:
    server = await context.db.read(mail.load)
    if server is None:
        raise StepFailed("E-mail is not set up: no mail server is configured. local_file needs none.", retry=False)
    done = []
    for recipient in dict.fromkeys(recipients):
        done.append(await _mail_one(server, recipient, message, context))  # noqa: PERF401 one after the other
    return done


async def _mail_one(server: mail.MailServer, recipient: str, message: _Message, context: Context) -> _Delivery:
    key = dedup_key(message.report, "email", recipient, message.snapshot)
    if (taken := await _claim(key, "email", recipient, message, context)) is not None:
        return taken

    async def mark(status: str, detail: str | None = None) -> None:
        await context.db.write(lambda conn: settle(conn, key, status, context.now(), detail))

    async def before_data() -> None:
        def job(conn: Any) -> bool:
            allowed = spend_mail(conn, context.actor, context.run_id, context.now(), dedup_key=key)
            if allowed:
                settle(conn, key, "sending", context.now())
            return allowed

        if not await context.db.write(job):
            raise mail.NotSent(f"the limit of {MAILS_PER_DAY} mails per day is reached")

    page = message.content if message.format == "html" else None
    text = message.text if message.format != "markdown" else f"{message.text}\n\n{message.content}"
    try:
        built = mail.build(server, recipient, message.subject, text, page, key, context.now())
        await mail.deliver(server, context.fields, built, before_data)
    except mail.NotSent as exc:
        await mark("failed", str(exc))
        return _Delivery(recipient, "failed", str(exc))
    except mail.MailUncertain as exc:
        await mark("uncertain", str(exc))
        return _Delivery(recipient, "uncertain", f"{exc}; it is not sent again")
    except asyncio.CancelledError:
        await asyncio.shield(context.db.write(lambda conn: cut_off(conn, key, context.now())))
        raise
    await mark("sent")
    return _Delivery(recipient, "sent")


async def _claim(key: str, channel: str, recipient: str, message: _Message, context: Context) -> _Delivery | None:
    """None if the delivery is ours, else what became of it before."""
    status = await context.db.write(
        lambda conn: claim(conn, key, context.run_id, message.name, channel, recipient, message.snapshot, context.now())
    )
    if status is None:
        return None
    if status == "sent":
        return _Delivery(recipient, "already_sent")
    detail = {
        "uncertain": "an earlier attempt broke off while it was sent; it may have arrived and is not sent again",
    }.get(status, "another run is delivering the same report")
    return _Delivery(recipient, "uncertain", detail)


async def _file(message: _Message, context: Context) -> _Delivery:
    key = dedup_key(message.report, "local_file", "reports", message.snapshot)
    slug = re.sub(r"[^A-Za-z0-9]+", "-", message.name).strip("-").lower()[:60] or "report"
    # the key's first digits keep two reports of one name apart
    path = context.reports / f"{slug}-{context.as_of}-{key[:8]}{_SUFFIX[message.format]}"
    taken = await _claim(key, "local_file", "reports", message, context)
    if taken is not None and (taken.status != "already_sent" or path.exists()):
        return taken._replace(detail=taken.detail or path.name)
    try:
        await asyncio.to_thread(write_private, path, message.content.encode())
    except OSError as exc:
        reason = f"{path.name} cannot be written: {exc.strerror}"
        await context.db.write(lambda conn: settle(conn, key, "failed", context.now(), reason))
        return _Delivery("reports", "failed", reason)

    def finish(conn: Any) -> None:
        settle(conn, key, "sent", context.now(), path.name)
        note(conn, context.now(), context.actor, "report.send", "local_file", context.run_id, file=path.name)

    await context.db.write(finish)
    return _Delivery("reports", "sent", path.name)


SEND = StepType(
    "send",
    side_effects=True,
    description="Delivers the last rendered report: by e-mail to at most five recipients, or as a file below reports/. "
    "The same report of the same day and data reaches a recipient once.",
    params={
        "type": "object",
        "properties": {
            "channel": {"enum": ["email", "local_file"], "x-literal": True},
            "recipients": {
                "type": "array",
                "items": {"type": "string", "pattern": mail.ADDRESS, "maxLength": 320},
                "maxItems": 5,
                "x-literal": True,
            },
            "subject": {"type": "string", "maxLength": 500, "x-literal": True},
            "body_template": {"type": "string", "maxLength": 20000, "x-literal": True},
        },
        "required": ["channel"],
        "additionalProperties": False,
    },
    run=_run,
)
