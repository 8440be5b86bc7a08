"""The step `send`: delivers what was rendered by e-mail or as a file in the reports directory, once."""

from __future__ import annotations

import asyncio
import hashlib
import html
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from ...disk.paths import write_private
from .. import mail
from ..budget import MAILS_PER_DAY, note, spend_mail
from ..deliveries import claim, cut_off, dedup_key, settle
from ..files import file_name
from ..step import Context, StepFailed, StepResult, StepType
from ..templates import TemplateRefused, render

__all__ = ["SEND"]

_SUFFIX = {"html": ".html", "both": ".html", "markdown": ".md", "text": ".txt"}
_WHERE = {"html": "is in the HTML part", "both": "is in the HTML part and attached", "pdf": "is attached"}


class _Message(NamedTuple):
    """What is delivered, the same to every recipient."""

    subject: str
    text: str
    content: str
    format: str
    report: str
    name: str
    snapshot: str
    pdf: tuple[str, bytes] | None  # file name and document


class _Delivery(NamedTuple):
    recipient: str
    status: str  # sent, already_sent, failed, refused (trying again cannot help), uncertain
    detail: str | None = None
    files: tuple[str, ...] = ()

    def view(self) -> dict[str, Any]:
        shown = {"recipient": self.recipient, "status": self.status, "detail": self.detail, "files": list(self.files)}
        return {name: value for name, value in shown.items() if value}


async def _run(params: dict[str, Any], context: Context) -> StepResult:
    message = await _message(params, context)
    channel = params["channel"]
    if context.dry_run:
        skipped = {"deliveries": [], "sent": 0, "failed": 0, "dry_run": True, "subject": message.subject}
        return StepResult(skipped, {"channel": channel, "sent": 0, "failed": 0, "dry_run": True})
    if channel == "email":
        done = await _mail(params["recipients"], message, context)
    else:
        done = [await _files(message, context)]
    sent = sum(one.status in ("sent", "already_sent") for one in done)
    summary = {"channel": channel, "sent": sent, "failed": len(done) - sent, "statuses": [one.status for one in done]}
    if files := [name for one in done for name in one.files]:
        summary["files"] = files
    if sent < len(done):
        told = "; ".join(f"{one.recipient}: {one.detail or one.status}" for one in done if "sent" not in one.status)
        raise StepFailed(
            f"{len(done) - sent} of {len(done)} deliveries failed: {told}",
            retry=any(one.status == "failed" for one in done),
        )
    return StepResult({"deliveries": [one.view() for one in done], "sent": sent, "failed": 0}, summary)


async def _message(params: dict[str, Any], context: Context) -> _Message:
    rendered, report = context.latest("render"), context.latest("store_report")
    title = rendered["title"] if rendered is not None else context.policy_name
    texts = {"subject": params.get("subject") or "{{ title }} ({{ as_of }})"}
    where = _WHERE.get(rendered["format"] if rendered is not None else "", "follows")
    texts["body"] = params.get("body_template") or f"{{{{ title }}}}, {{{{ as_of }}}}. The report {where}."
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
    file = rendered.get("pdf_path") if rendered is not None else None
    pdf = (file, context.documents[file]) if file is not None else None
    return _Message(html.unescape(done["subject"]), text, content, kind, identity, name, snapshot, pdf)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


async def _mail(recipients: list[str], message: _Message, context: Context) -> list[_Delivery]:
    server = await context.db.read(mail.load)
    if server is None:
        raise StepFailed(
            "E-mail is not set up: no mail server is configured. A person enters one: zorivest-rpc connect mail; "
            "local_file needs none.",
            retry=False,
        )
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
            raise mail.NotSent(f"the limit of {MAILS_PER_DAY} mails per day is reached", final=True)

    page = message.content if message.format in ("html", "both") else None
    text = message.text if message.format != "markdown" else f"{message.text}\n\n{message.content}"
    try:
        async with _own_delivery(key, context):
            built = mail.build(server, recipient, message.subject, text, page, key, context.now(), message.pdf)
            await mail.deliver(server, context.fields, built, before_data)
            await mark("sent")
    except mail.NotSent as exc:
        status = "refused" if exc.final else "failed"
        await mark(status, str(exc))
        return _Delivery(recipient, status, str(exc))
    except mail.MailUncertain as exc:
        await mark("uncertain", str(exc))
        return _Delivery(recipient, "uncertain", f"{exc}; it is not sent again")
    return _Delivery(recipient, "sent")


@asynccontextmanager
async def _own_delivery(key: str, context: Context) -> AsyncIterator[None]:
    """Whatever ends the work on a delivery, its row says what that means for the next attempt."""
    try:
        yield
    except (mail.NotSent, mail.MailUncertain, OSError):
        raise
    except BaseException:  # cancelled, out of time, or a mistake of ours
        await asyncio.shield(context.db.write(lambda conn: cut_off(conn, key, context.now())))
        raise


async def _claim(key: str, channel: str, recipient: str, message: _Message, context: Context) -> _Delivery | None:
    """None if the delivery is ours, else what became of it before."""
    status = await context.db.write(
        lambda conn: claim(conn, key, context.run_id, message.name, channel, recipient, message.snapshot, context.now())
    )
    if status is None:
        return None
    if status == "sent":
        return _Delivery(recipient, "already_sent")
    if status == "refused":
        return _Delivery(recipient, "refused", "it was refused before in this run")
    detail = {
        "uncertain": "an earlier attempt broke off while it was sent; it may have arrived and is not sent again",
    }.get(status, "another run is delivering the same report")
    return _Delivery(recipient, "uncertain", detail)


async def _files(message: _Message, context: Context) -> _Delivery:
    key = dedup_key(message.report, "local_file", "reports", message.snapshot)
    wanted = {message.pdf[0]: message.pdf[1]} if message.pdf is not None else {}
    if suffix := _SUFFIX.get(message.format):
        wanted[file_name(message.name, context.as_of, key, suffix)] = message.content.encode()
    names = tuple(sorted(wanted))
    taken = await _claim(key, "local_file", "reports", message, context)
    paths = [context.reports / name for name in names]
    missing = [path for path in paths if path.is_symlink() or not path.is_file()]  # a link is not our file
    if taken is not None and (taken.status != "already_sent" or not missing):
        return taken._replace(files=names)
    try:
        async with _own_delivery(key, context):
            for name in names:
                await asyncio.to_thread(write_private, context.reports / name, wanted[name])

            def finish(conn: Any) -> None:
                settle(conn, key, "sent", context.now(), ", ".join(names))
                for name in names:
                    note(conn, context.now(), context.actor, "report.send", "local_file", context.run_id, file=name)

            await context.db.write(finish)
    except OSError as exc:
        reason = f"{', '.join(names)} cannot be written: {exc.strerror}"
        await context.db.write(lambda conn: settle(conn, key, "failed", context.now(), reason))
        return _Delivery("reports", "failed", reason)
    return _Delivery("reports", "sent", files=names)


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
