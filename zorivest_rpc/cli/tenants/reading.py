"""`zorivest-rpc tenants check` and `tenants pack`: what a source of tenants says, and the same as one line."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from zorivest_rpc.cli.mcp.listing import columns
from zorivest_rpc.cli.words import Words
from zorivest_rpc.config import Settings, parse
from zorivest_rpc.errors import ConfigError
from zorivest_rpc.tenants.config import Access, Tenant, Tenants, build, load_tenants
from zorivest_rpc.tenants.embedded import directory_of, left_behind
from zorivest_rpc.tenants.sources import TenantsRefused, compress, parse_document, read_bytes

__all__ = ["known_toolsets", "run_check", "run_pack"]

CHECK: str = "zorivest.tenants.check.v1"


def run_check(words: Words) -> int:
    """Exit code 0, or 2 with every problem on a line of its own."""
    _no_more(words, "check")
    settings = parse("tenants", words.options)
    try:
        tenants = load_tenants(settings, os.environ, known_toolsets(settings))
        if tenants is None:
            raise ConfigError("tenants check", "no clients are named; give --tenants-file, or set CLIENTS_CONFIG")
    except ConfigError as exc:
        if not words.json:
            raise
        _print_json({"schema": CHECK, "errors": exc.lines() if isinstance(exc, TenantsRefused) else [str(exc)]})
        return 2
    stays = left_behind(settings.data_dir, tenants.tenants)
    if words.json:
        _print_json(_facts(settings, tenants, os.environ, stays))
        return 0
    print("\n".join(_lines(settings, tenants, os.environ)))
    for warning in tenants.warnings:
        print(f"zorivest-rpc: {warning}", file=sys.stderr)
    for id in stays:
        print(f"zorivest-rpc: {_tell_stays(settings, id)}", file=sys.stderr)
    return 0


def run_pack(words: Words) -> int:
    """One line on stdout; what there is to say about it on stderr."""
    if len(words.words) != 1:
        raise ConfigError("tenants pack", f"takes one FILE, found {len(words.words)}")
    path = words.words[0]
    settings = parse("tenants", words.options)
    document = parse_document(path, read_bytes(path))
    tenants = build(path, document, known_toolsets(settings))
    whole = {**document.clients, **({"$access": document.access} if document.access else {})}
    text = json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode()
    packed = compress(text)
    print(packed)
    print(f"{len(packed)} characters instead of {len(text)}: CLIENTS_CONFIG='…'", file=sys.stderr)
    if any(tenant.api_key is not None or tenant.authorization is not None for tenant in tenants.tenants.values()):
        print("It holds secrets, as the file does: whoever reads it can unpack it.", file=sys.stderr)
    return 0


def known_toolsets(settings: Settings) -> frozenset[str]:
    """Our own, and those of the MCP servers in the profile."""
    from zorivest_rpc.serving.catalog.load import load
    from zorivest_rpc.serving.catalog.toolsets import toolset_names

    names = frozenset(toolset_names(load()))
    if settings.file is None or "profiles" not in settings.file.document:
        return names
    from zorivest_rpc.gateway.config import load_profile

    return names | {server.toolset for server in load_profile(settings).enabled}


def _no_more(words: Words, verb: str) -> None:
    if words.words:
        raise ConfigError(f"tenants {verb}", f"takes no word, found {words.words[0]!r}")


def _lines(settings: Settings, tenants: Tenants, environ: Mapping[str, str]) -> list[str]:
    clients, keys = len(tenants.tenants), len(tenants.access)
    head = f"{tenants.source}: {_many(clients, 'client')}, {_many(keys, 'access key')}"
    rows = [
        [id, tenant.where, _credential(settings, tenant, environ), *_notes(tenant)]
        for id, tenant in sorted(tenants.tenants.items())
    ]
    access = [
        [f"key {entry.name}", _opens(entry), f"seat {entry.seat}"]
        for entry in sorted(tenants.access, key=lambda entry: entry.name)
    ]
    open_to_all = (
        []
        if tenants.access
        else ["No access keys: every client is granted, over stdio, or on a loopback address with --no-auth."]
    )
    return [head, *columns(rows), *columns(access), *open_to_all]


def _opens(entry: Access) -> str:
    return "opens all clients" if entry.clients == "*" else f"opens {', '.join(entry.clients)}"


def _credential(settings: Settings, tenant: Tenant, environ: Mapping[str, str]) -> str:
    if tenant.embedded:
        made = directory_of(settings.data_dir, tenant.id).joinpath("bootstrap.json").exists()
        return "journal: there" if made else "journal: made by its first call"
    if tenant.authorization is not None:
        return "authorization: in the source"
    if tenant.api_key_env is None:
        return "key: in the source"
    return f"key {tenant.api_key_env}: {'set' if tenant.is_configured(environ) else 'NOT SET'}"


def _notes(tenant: Tenant) -> list[str]:
    notes = [tenant.name or "", "" if tenant.enabled else "disabled", "read-only" if tenant.read_only else ""]
    return [", ".join(filter(None, notes))]


def _facts(settings: Settings, tenants: Tenants, environ: Mapping[str, str], stays: list[str]) -> dict[str, Any]:
    clients = [
        {
            "id": id,
            "name": tenant.name,
            "address": tenant.api_base_url,
            "embedded": tenant.embedded,
            "directory": str(directory_of(settings.data_dir, id)) if tenant.embedded else None,
            "key_variable": tenant.api_key_env,
            "credential_set": tenant.is_configured(environ),
            "enabled": tenant.enabled,
            "read_only": tenant.read_only,
            "toolsets": None if tenant.toolsets is None else list(tenant.toolsets),
        }
        for id, tenant in sorted(tenants.tenants.items())
    ]
    access = [
        {
            "name": entry.name,
            "clients": entry.clients if entry.clients == "*" else list(entry.clients),
            "seat": entry.seat,
        }
        for entry in tenants.access
    ]
    facts: dict[str, Any] = {"schema": CHECK, "source": tenants.source, "errors": [], "clients": clients}
    warnings = [*tenants.warnings, *(_tell_stays(settings, id) for id in stays)]
    return {**facts, "access": access, "warnings": warnings}


def _tell_stays(settings: Settings, id: str) -> str:
    return f"{directory_of(settings.data_dir, id)}: no client is configured for this journal; it stays as it is"


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _print_json(value: dict[str, Any]) -> None:
    from zorivest_rpc.cli.terminal import print_json

    print_json(value)
