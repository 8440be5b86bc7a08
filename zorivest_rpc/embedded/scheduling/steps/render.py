"""The step `render`: turns the last stored report, or what earlier steps produced, into HTML, Markdown or a PDF.

Text stays in memory. A PDF becomes a file in the reports directory, except on a dry run."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

from ...disk.paths import write_private
from ..budget import note
from ..charts import Series, chart
from ..files import file_name
from ..pdf import PdfRefused, make_pdf
from ..step import Context, StepFailed, StepResult, StepType
from ..templates import BASE_REPORT, MARKDOWN_REPORT, PAGE, TemplateRefused, render

__all__ = ["RENDER"]


async def _run(params: dict[str, Any], context: Context) -> StepResult:
    report = context.latest("store_report")
    own = params.get("template_source")
    if report is None and own is None:
        raise StepFailed("There is no report to render: no store_report step has succeeded.", retry=False)
    settings = params.get("chart_settings", {})
    sections, charts = _sections(report, settings) if report is not None else ([], {})
    title = params.get("title") or (report["spec"]["title"] if report is not None else context.policy_name)
    data = {
        "title": title,
        "policy": context.policy_name,
        "as_of": context.as_of,
        "sections": sections,
        "data": _records(report),
        "ctx": context.outputs() if own is not None else {},
    }
    wanted = params.get("output_format", "html")
    markdown = wanted == "markdown"
    body = own if own is not None else MARKDOWN_REPORT if markdown else BASE_REPORT
    templates = {"body": body} if markdown else {"body": body, "page": PAGE}
    try:
        done = await render(templates, data, {"charts": charts}, chain=True)
    except TemplateRefused as exc:
        raise StepFailed(str(exc), retry=False) from None
    text = done["body"] if markdown else done["page"]
    output = {"format": wanted, "title": title, "text": text}
    summary = {"format": wanted, "characters": len(text), "charts": len(charts)}
    if not markdown:
        output["html"] = text
    if wanted in ("pdf", "both"):
        name = report["report_name"] if report is not None else title
        document = await _pdf(name, title, done["body"], charts, context)
        output["pdf_path"] = document
        summary |= {"pdf": document, "pdf_bytes": len(context.documents[document])}
    if not context.dry_run:
        await context.db.write(
            lambda conn: note(conn, context.now(), context.actor, "report.render", "run", context.run_id)
        )
    return StepResult(output, summary)


async def _pdf(name: str, title: str, body: str, charts: dict[str, str], context: Context) -> str:
    """The document's file name below the reports directory; the same report of one day has one file."""
    identity = f"{context.policy_id}\n{context.step_id}\n{context.as_of}\n{body}"
    file = file_name(name, context.as_of, hashlib.sha256(identity.encode()).hexdigest(), ".pdf")
    try:
        context.documents[file] = await make_pdf(title, body, charts, context.now())
    except PdfRefused as exc:
        raise StepFailed(str(exc), retry=False) from None
    if not context.dry_run:
        try:
            await asyncio.to_thread(write_private, context.reports / file, context.documents[file])
        except OSError as exc:
            raise StepFailed(f"{file} cannot be written: {exc.strerror}") from None
    return file


def _records(report: dict[str, Any] | None) -> dict[str, list[dict[str, Any]]]:
    if report is None:
        return {}
    return {
        name: [dict(zip(found["columns"], row, strict=True)) for row in found["rows"]]
        for name, found in report["data"].items()
    }


def _sections(report: dict[str, Any], settings: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """What the layout shows, and the charts by name."""
    sections, charts = [], {}
    for number, section in enumerate(report["spec"]["sections"]):
        found = report["data"][section["query"]]
        shown = {"type": section["type"], "title": section.get("title", section["query"])}
        if section["type"] == "metric_card":
            column = _column(found, section.get("value"))
            shown["value"] = found["rows"][0][column] if found["rows"] else None
        else:
            names = section.get("columns") if section["type"] == "data_table" else None
            picks = [_column(found, name) for name in names] if names else range(len(found["columns"]))
            shown["columns"] = [found["columns"][pick] for pick in picks]
            shown["rows"] = [[row[pick] for pick in picks] for row in found["rows"]]
            shown["truncated"] = found["truncated"]
        if section["type"] == "chart":
            shown["chart"] = f"chart_{number}"
            charts[shown["chart"]] = _chart(section, found, settings)
        sections.append(shown)
    return sections, charts


def _column(found: dict[str, Any], name: str | None) -> int:
    if name is None:
        return 0
    if name not in found["columns"]:
        raise StepFailed(f'There is no column "{name}"; there are {", ".join(found["columns"])}.', retry=False)
    index: int = found["columns"].index(name)
    return index


def _chart(section: dict[str, Any], found: dict[str, Any], settings: dict[str, Any]) -> str:
    x = _column(found, section.get("x"))
    names = section.get("y") or [name for index, name in enumerate(found["columns"]) if index != x][:5]
    series = [Series(name, [row[_column(found, name)] for row in found["rows"]]) for name in names]
    labels = [row[x] for row in found["rows"]]
    width, height = settings.get("width", 640), settings.get("height", 280)
    return chart(section.get("kind", "line"), labels, series, section.get("title", ""), width, height)


RENDER = StepType(
    "render",
    side_effects=True,
    description="Renders the last stored report as HTML (charts are inline SVG), Markdown, PDF (a file below reports/) "
    "or both HTML and PDF. template_source is an own Jinja2 body with title, as_of, sections, charts, data (rows by "
    "query) and ctx (outputs by step); a PDF shows its headings, text, lists, tables and charts.",
    params={
        "type": "object",
        "properties": {
            "template": {"enum": ["base_report"], "default": "base_report", "x-literal": True},
            "template_source": {"type": "string", "minLength": 1, "maxLength": 20000, "x-literal": True},
            "title": {"type": "string", "maxLength": 200},
            "output_format": {"enum": ["html", "markdown", "pdf", "both"], "default": "html", "x-literal": True},
            "chart_settings": {
                "type": "object",
                "properties": {
                    "width": {"type": "integer", "minimum": 200, "maximum": 1600},
                    "height": {"type": "integer", "minimum": 120, "maximum": 1000},
                },
                "additionalProperties": False,
                "x-literal": True,
            },
        },
        "additionalProperties": False,
    },
    run=_run,
)
