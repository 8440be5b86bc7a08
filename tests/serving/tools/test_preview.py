"""What an import would write, as a dry run shows it, and when the user has to confirm it."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import pytest

from tests.serving.tools.stage import SPECS, FakeBackend, make_call, refused
from zorivest_rpc.errors import BackendError, ToolError
from zorivest_rpc.mcp.call import Call
from zorivest_rpc.serving.backend.interface import FilePart, MultipartBody
from zorivest_rpc.serving.catalog.spec import RouteFile, ToolSpec
from zorivest_rpc.serving.tools.preview import Preview

DATA = b"Date,Symbol\n"
DIGEST = sha256(DATA).hexdigest()
PATH = "/import/csv/preview"
FILE = RouteFile("file", "local_path", "file_path")
NAMES = [f"SYM{number}" for number in range(9)]


class Asking:
    """Confirmation that notes what it was asked to confirm."""

    def __init__(self, asks: bool = True) -> None:
        self._asks = asks
        self.required: list[tuple[str, dict[str, Any], str]] = []

    def asks(self, call: Call) -> bool:
        return self._asks

    def require(self, call: Call, spec: ToolSpec, bound: Mapping[str, Any], words: str) -> None:
        self.required.append((spec.name, dict(bound), words))


def preview(answer: Any, tool: str = "import_broker_csv") -> tuple[Preview, FakeBackend]:
    backend = FakeBackend({f"POST {PATH}": answer})
    form = MultipartBody({"account_id": "A1"}, FilePart("file", "trades.csv", "text/csv", DATA))
    return Preview(SPECS[tool], FILE, backend, PATH, form), backend


def arguments(**more: Any) -> dict[str, Any]:
    return {"file_path": "/tmp/trades.csv", "account_id": "A1", "broker_hint": "ibkr", **more}


async def test_a_dry_run_shows_the_preview_and_the_bytes_it_is_of() -> None:
    shown, backend = preview({"imported": 3})
    assert await shown.show() == {"imported": 3, "dry_run": True, "file_sha256": DIGEST}
    (asked,) = backend.asked
    assert (asked.method, asked.path, asked.may_repeat, asked.timeout) == ("POST", PATH, True, 120)
    assert asked.form is not None
    assert asked.form.upload.data == DATA


NO_ROUTE = [
    refused(404, code="unknown_route"),
    refused(405, code="unknown_route"),
    refused(404, detail="Not Found"),
]


@pytest.mark.parametrize("answer", NO_ROUTE)
async def test_a_backend_without_previews_is_told_and_nothing_is_written(answer: BackendError) -> None:
    shown, backend = preview(answer)
    with pytest.raises(ToolError, match="cannot preview import_broker_csv; nothing was written") as told:
        await shown.show()
    assert (told.value.code, backend.paths()) == ("no_preview", [f"POST {PATH}"])


@pytest.mark.parametrize(
    "answer", [refused(404, code="no_such_account"), refused(422), refused(500, code="unknown_route"), refused(406)]
)
async def test_a_refusal_of_the_file_is_the_backends_own(answer: BackendError) -> None:
    shown, _ = preview(answer)
    with pytest.raises(BackendError) as told:
        await shown.show()
    assert told.value is answer
    asking = Asking()
    with pytest.raises(BackendError):
        await shown.confirm(make_call("import_broker_csv", **arguments()), asking)
    assert asking.required == []


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"imported": 26, "symbols": NAMES[:1]}, "Import 26 trades from trades.csv into account A1 (SYM0)?"),
        (
            {"imported": 27, "symbols": NAMES[:6]},
            "Import 27 trades from trades.csv into account A1 (SYM0, SYM1, SYM2, SYM3, SYM4, SYM5)?",
        ),
        (
            {"imported": 27, "symbols": NAMES[:7]},
            "Import 27 trades from trades.csv into account A1 (SYM0, SYM1, SYM2, SYM3, SYM4, SYM5 and 1 more)?",
        ),
        ({"imported": 27, "symbols": []}, "Import 27 trades from trades.csv into account A1?"),
        ({"imported": 27, "symbols": "SPY"}, "Import 27 trades from trades.csv into account A1?"),
        ({"imported": "27"}, "Import an unknown number of trades from trades.csv into account A1?"),
        ({}, "Import an unknown number of trades from trades.csv into account A1?"),
        (NO_ROUTE[0], "Import an unknown number of trades from trades.csv into account A1?"),
    ],
)
async def test_many_trades_or_an_unknown_number_are_confirmed_for_the_bytes(answer: Any, words: str) -> None:
    shown, _ = preview(answer)
    asking = Asking()
    call = make_call("import_broker_csv", **arguments(dry_run=False, confirmation_token="ct_1"))
    await shown.confirm(call, asking)
    bound = {"account_id": "A1", "broker_hint": "ibkr", "file_sha256": DIGEST}
    assert asking.required == [("import_broker_csv", bound, words)]


@pytest.mark.parametrize("count", [0, 1, 25])
async def test_few_trades_are_not_confirmed(count: int) -> None:
    shown, backend = preview({"imported": count})
    asking = Asking()
    await shown.confirm(make_call("import_broker_csv", **arguments()), asking)
    assert (asking.required, len(backend.asked)) == ([], 1)


@pytest.mark.parametrize(("tool", "asks"), [("import_broker_csv", False), ("import_bank_statement", True)])
async def test_where_none_has_to_confirm_no_preview_is_fetched(tool: str, asks: bool) -> None:
    shown, backend = preview({"imported": 99}, tool)
    asking = Asking(asks)
    await shown.confirm(make_call(tool, **arguments()), asking)
    assert (asking.required, backend.asked) == ([], [])
