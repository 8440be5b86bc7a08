"""The reference of the tenants file, from its schema and the two samples that the tests load."""

from __future__ import annotations

import json
from typing import Any

from tests.places import ROOT

__all__ = ["render"]

SCHEMA = ROOT / "schemas" / "tenants" / "clients.schema.json"
SAMPLES = ROOT / "tests" / "tenants" / "fixtures"
_INTRO = """\
# The clients of a server

What `CLIENTS_CONFIG` and a tenants file may say. [The guide](../guide/tenants.md) shows them in use, and
`zorivest-rpc tenants check` tells everything that is wrong with one, a line each, and ends with exit code 2.

| source | format |
|---|---|
| `CLIENTS_CONFIG` | a JSON object, or what `zorivest-rpc tenants pack` makes of it |
| `--tenants-file`, `ZORIVEST_TENANTS_FILE`, ending in `.json` | a JSON object |
| ending in `.json.gz` | the same, gzipped |
| ending in `.toml` | a table `[clients.ID]` for each client, and `[[access]]` for each access key |

Exactly one of them may be set; set but empty is refused. At most 500 clients, 256 KiB as given and 4 MiB unpacked. A
file that is open to group or others is warned of, and refused with `--strict-permissions`.

An id has the characters a-z, 0-9, `-` and `_`, at most 64, and begins with a letter or digit. Capitals and surrounding
blanks are folded, in the configuration and in calls alike. An unknown field is refused, because a misspelt one must not
silently mean a default.
"""


def render() -> str:
    schema = json.loads(SCHEMA.read_text())
    client, access = schema["$defs"]["client"], schema["$defs"]["access"]
    return "\n".join(
        [
            _INTRO,
            "## Fields of a client\n",
            *_fields(client),
            "\n## Fields of an access rule\n",
            f"{schema['properties']['$access']['description']} In JSON the rules are the list `$access`.\n",
            *_fields(access),
            "\n## The same clients twice\n",
            f"```toml\n{(SAMPLES / 'clients.toml').read_text()}```\n",
            f"```json\n{(SAMPLES / 'clients.json').read_text()}```\n",
        ]
    )


def _fields(shape: dict[str, Any]) -> list[str]:
    lines = ["| field | type | default | meaning |", "|---|---|---|---|"]
    for name, field in shape["properties"].items():
        required = name in shape.get("required", ())
        default = "required" if required else _value(field["default"]) if field.get("default") is not None else ""
        lines.append(f"| `{name}` | {_type(field)} | {default} | {field['description']} |")
    return lines


def _type(field: dict[str, Any]) -> str:
    if "$ref" in field:
        return "URL"
    if "enum" in field:
        return ", ".join(f"`{choice}`" for choice in field["enum"])
    if "oneOf" in field:
        return "list of ids, or `*`"
    kind = field["type"] if isinstance(field["type"], str) else field["type"][0]
    if kind == "integer":
        return f"integer, {field['minimum']} to {field['maximum']}"
    if kind == "string" and "maxLength" in field:
        return f"text, at most {field['maxLength']} characters"
    return {"array": "list of names", "string": "text"}.get(str(kind), str(kind))


def _value(value: Any) -> str:
    return f"`{json.dumps(value) if not isinstance(value, str) else value}`"
