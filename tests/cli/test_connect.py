"""`connect` and `disconnect` on a real backend: what a person types is stored and tested, and shows up nowhere."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import psutil
import pytest

from tests.cli.conftest import Ran
from tests.embedded.upstream import Upstream, addresses, start, status
from tests.places import ROOT
from zorivest_rpc.__main__ import main
from zorivest_rpc.embedded.brokers.registry import BROKERS
from zorivest_rpc.embedded.locate import find
from zorivest_rpc.embedded.market.providers import PROVIDERS

KEY, SECRET, PASSWORD = "planted-key-8d1f", "planted-secret-77c2", "planted pass word"
PLANTED = (KEY, SECRET, PASSWORD)


class Home:
    """A data directory with its backend, whose providers are all one local server."""

    def __init__(self, directory: Path, upstream: Upstream) -> None:
        self.directory = directory
        self.upstream = upstream
        self.environ = {name: value for name, value in os.environ.items() if not name.startswith(("ZORIVEST_", "XDG_"))}
        self.environ |= {
            "HOME": str(directory.parent),
            "ZORIVEST_DATA_DIR": str(directory),
            "ZORIVEST_KEYRING": "off",
            "ZORIVEST_BACKEND_PORT": "0",
            "PYTHONIOENCODING": "utf-8:strict",
        }

    def run(self, *words: str, said: str = "", **environ: str) -> Ran:
        """In this process, with something that is no terminal as its standard input."""
        out, err = io.StringIO(), io.StringIO()
        with (
            patch.dict(os.environ, self.environ | environ, clear=True),
            patch.object(sys, "stdin", io.StringIO(said)),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                code = main(list(words))
            except SystemExit as exit:
                code = int(exit.code or 0)
        return self._clean(Ran(code, out.getvalue(), err.getvalue()))

    def piped(self, *words: str, said: str) -> Ran:
        """In a process of its own, with a pipe."""
        done = subprocess.run(
            [sys.executable, "-m", "zorivest_rpc", *words],
            cwd=ROOT,
            env=self.environ,
            input=said,
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=60,
            check=False,
            start_new_session=True,
        )
        return self._clean(Ran(done.returncode, done.stdout, done.stderr))

    @staticmethod
    def _clean(ran: Ran) -> Ran:
        assert not any(planted in ran.out + ran.err for planted in PLANTED)
        return ran

    def at_a_terminal(self, *words: str, typed: list[str]) -> tuple[int, str]:
        """Exit code and everything the terminal showed; each question is answered with the next text."""
        leader, follower = pty.openpty()
        command = [sys.executable, "-m", "zorivest_rpc", *words]
        child = subprocess.Popen(
            command,
            cwd=ROOT,
            env=self.environ,
            stdin=follower,
            stdout=follower,
            stderr=follower,
            start_new_session=True,
        )
        os.close(follower)
        shown, waiting, deadline = b"", list(typed), time.monotonic() + 60
        while time.monotonic() < deadline:
            if select.select([leader], [], [], 0.2)[0]:
                try:
                    shown += os.read(leader, 4096)
                except OSError:
                    break
                if waiting and shown.endswith(b": "):
                    seen = " ".join(psutil.Process(child.pid).cmdline())
                    assert not any(planted in seen for planted in PLANTED)
                    os.write(leader, waiting.pop(0).encode() + b"\n")
            elif child.poll() is not None:
                break
        os.close(leader)
        return child.wait(30), shown.decode()

    def listed(self) -> dict[str, dict[str, object]]:
        """Providers and brokers by name, and mail."""
        found = json.loads(self.run("connect", "--json").out)
        return {entry["name"]: entry for entry in (*found["brokers"], *found["providers"])} | {"mail": found["mail"]}


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    """In a thread of its own, for processes of their own."""
    upstream, ready, loop = Upstream(), threading.Event(), asyncio.new_event_loop()

    async def serve(ended: asyncio.Event) -> None:
        server = await start(upstream)
        ready.set()
        await ended.wait()
        await server.close()

    ended = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(serve(ended)))
    thread.start()
    assert ready.wait(10)
    yield upstream
    loop.call_soon_threadsafe(ended.set)
    thread.join(10)
    loop.close()


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory, upstream: Upstream) -> Iterator[Home]:
    directory = tmp_path_factory.mktemp("connect") / "zorivest"
    directory.mkdir(mode=0o700)
    (directory / "addresses.json").write_text(json.dumps(addresses(upstream.address)))
    home = Home(directory, upstream)
    yield home
    if running := find(directory):
        process = psutil.Process(running.pid)
        seen = " ".join([*process.cmdline(), *process.environ().values()])
        process.send_signal(signal.SIGTERM)
        process.wait(30)
        assert not any(planted in seen for planted in PLANTED)
    files = [path for path in directory.rglob("*") if path.is_file()]
    assert any(path.suffix == ".log" or "log" in path.name for path in files), "the backend's log is among them"
    for path in files:
        data = path.read_bytes()
        assert not any(planted.encode() in data for planted in PLANTED), path.name


@pytest.fixture
def home(backend: Home, upstream: Upstream) -> Home:
    upstream.answers.clear()
    upstream.asked.clear()
    return backend


def test_the_list_names_everything_that_can_be_connected_within_80_columns(home: Home) -> None:
    ran = home.run("connect")
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert max(map(len, lines)) <= 80
    rows = {tuple(line.split()[:2]) for line in lines if line}
    assert {("provider", provider.slug) for provider in PROVIDERS} <= rows
    assert {("broker", broker.broker_id) for broker in BROKERS if broker.adapter} <= rows
    assert ("broker", "schwab") not in rows
    assert any(line.startswith("mail") for line in lines)
    assert "Flex token, Flex query number, account" in ran.out
    assert "…" not in ran.out


def test_a_key_is_typed_unseen_stored_and_tested_with_the_provider(home: Home) -> None:
    home.upstream.answers["/finnhub/quote"] = {"c": 190.5, "pc": 189.0, "d": 1.5, "dp": 0.79, "t": 1773154800, "v": 1}
    code, shown = home.at_a_terminal("connect", "provider", "Finnhub", "--rate-limit", "30", typed=[KEY])
    assert "API key: " in shown
    assert "https://finnhub.io/register" in shown
    assert KEY not in shown
    assert "Finnhub: stored" in shown
    assert "Finnhub: tested, connection successful" in shown, shown
    assert code == 0
    assert home.upstream.asked[-1].headers["X-Finnhub-Token"] == KEY
    assert (home.listed()["finnhub"]["connected"], home.listed()["finnhub"]["last_test_status"]) == (True, "success")
    ran = home.run("disconnect", "provider", "finnhub", "--json")
    assert json.loads(ran.out) == {"status": "disconnected", "kind": "provider", "name": "finnhub"}
    assert home.listed()["finnhub"]["connected"] is False


def test_a_refused_key_is_kept_and_the_refusal_told(home: Home) -> None:
    home.upstream.answers["/finnhub/quote"] = status(401, {"error": f"Invalid API key {KEY}"})
    ran = home.run("connect", "provider", "finnhub", said=f"{KEY}\n")
    assert ran.code == 1
    assert ran.out.splitlines() == ["Finnhub: stored", "Finnhub: the test did not succeed: invalid API key"]
    assert "finnhub           failing" in home.run("connect").out
    assert home.run("disconnect", "provider", "finnhub").code == 0


def test_key_and_secret_are_lines_of_a_pipe_in_the_order_asked(home: Home) -> None:
    home.upstream.answers["/alpaca_paper/v2/positions"] = [
        {"symbol": "AAPL", "qty": "5", "side": "long", "avg_entry_price": "190", "market_value": "955"}
    ]
    ran = home.piped("connect", "broker", "alpaca_paper", said=f"{KEY}\n{SECRET}\n")
    assert (ran.code, ran.err) == (0, "")
    assert "Alpaca (paper): tested, connection successful, 1 open positions" in ran.out
    asked = home.upstream.asked[-1]
    assert (asked.headers["APCA-API-KEY-ID"], asked.headers["APCA-API-SECRET-KEY"]) == (KEY, SECRET)
    assert home.run("disconnect", "broker", "alpaca_paper").out == "Alpaca (paper): what was entered is deleted\n"
    assert home.listed()["alpaca_paper"]["missing"] == ["api_key", "api_secret"]


def test_a_broker_that_refuses_the_token_is_told_without_it(home: Home) -> None:
    home.upstream.answers["/tradier_sandbox/v1/user/profile"] = status(401, {"fault": f"bad {KEY}"})
    ran = home.run("connect", "broker", "tradier_sandbox", "--json", said=f"{KEY}\n")  # the account may be left out
    assert ran.code == 1
    done = json.loads(ran.out)
    assert (done["status"], done["test"]["success"]) == ("connected", False)
    assert "Tradier (sandbox): it does not accept the API key" in done["test"]["message"]


def test_a_flex_query_takes_token_number_and_account_and_shows_only_the_token_s_absence(home: Home) -> None:
    code, shown = home.at_a_terminal("connect", "broker", "IBKR-Pro", typed=[KEY, "123456", "U1234567"])
    assert code == 0, shown
    assert KEY not in shown
    assert "Flex query number: 123456" in shown
    assert "not tested; zorivest-rpc tools call sync_broker broker_id=ibkr_pro" in shown
    assert home.listed()["ibkr_pro"]["connected"] is True


def test_one_json_object_replaces_the_lines(home: Home) -> None:
    given = {"api_key": KEY, "query_id": 123456, "account_id": "U1"}
    ran = home.run("connect", "broker", "ibkr_lite", "--stdin-json", said=json.dumps(given))
    assert (ran.code, ran.err) == (0, "")
    ran = home.run("connect", "broker", "ibkr_lite", "--stdin-json", said=json.dumps({"api_key": KEY, KEY: "1"}))
    assert (ran.code, "may hold api_key, query_id, account_id" in ran.err) == (1, True)
    ran = home.run("connect", "broker", "ibkr_lite", "--stdin-json", said=f'{{"api_key": "{KEY}')
    assert (ran.code, "is not a JSON object" in ran.err) == (1, True)


def test_edgar_takes_a_contact_address_and_yahoo_nothing(home: Home) -> None:
    assert home.listed()["sec_edgar"]["connected"] is False
    code, shown = home.at_a_terminal("connect", "provider", "edgar", "--no-test", typed=["you@example.com"])
    assert (code, "Contact address: you@example.com" in shown) == (0, True), shown
    assert home.listed()["sec_edgar"]["connected"] is True
    assert home.run("disconnect", "provider", "yahoo").out == "Yahoo Finance: it is switched off\n"
    assert home.listed()["yahoo"]["connected"] is False
    assert home.run("connect", "provider", "yahoo", "--no-test").out == "Yahoo Finance: switched on\n"
    assert home.listed()["yahoo"]["connected"] is True


def test_mail_is_asked_for_at_a_terminal_and_the_password_is_not_shown(home: Home) -> None:
    code, shown = home.at_a_terminal("connect", "mail", typed=["gmail", "me@gmail.com", PASSWORD, ""])
    assert code == 0, shown
    assert "From address [me@gmail.com]: " in shown
    assert PASSWORD not in shown
    assert "mail: stored; from me@gmail.com through smtp.gmail.com:587 (starttls)" in shown
    server = home.listed()["mail"]["server"]
    assert isinstance(server, dict)
    assert (server["preset"], server["has_password"]) == ("gmail", True)
    assert home.run("disconnect", "mail").out == "mail: what was entered is deleted\n"
    assert home.run("disconnect", "mail").out == "mail: was not connected\n"


def test_of_mail_only_the_password_is_piped_when_the_rest_are_options(home: Home) -> None:
    options = ("--host", "mail.example.com", "--security", "ssl", "--username", "me", "--from", "me@example.com")
    ran = home.run("connect", "mail", *options, said=PASSWORD + "\n")
    assert (ran.code, ran.out) == (0, "mail: stored; from me@example.com through mail.example.com:465 (ssl)\n")
    given = {"preset": "gmx", "username": "a@gmx.net", "password": PASSWORD}
    ran = home.run("connect", "mail", "--stdin-json", "--json", said=json.dumps(given))
    assert json.loads(ran.out)["server"]["from_email"] == "a@gmx.net"
    longer = ("--host", f"{'long.' * 12}example.com", "--username", "", "--from", "me@example.com")
    assert home.run("connect", "mail", *longer).code == 0
    assert max(map(len, home.run("connect").out.splitlines())) <= 80
    ran = home.run("connect", "mail", "--preset", "gmial", said=PASSWORD)
    assert (ran.code, "did you mean gmail?" in ran.err) == (1, True)


@pytest.mark.parametrize("said", ["", "\n", "   \n"])
def test_an_empty_key_is_refused_and_nothing_is_stored(home: Home, said: str) -> None:
    ran = home.run("connect", "provider", "benzinga", said=said)
    assert (ran.code, ran.out) == (1, "")
    assert "API key" in ran.err
    assert "nothing was stored" in ran.err
    assert home.listed()["benzinga"]["connected"] is False


def test_what_is_no_text_is_refused(home: Home) -> None:
    ran = home.piped("connect", "provider", "benzinga", said="\udcff\udcfe\n")
    assert (ran.code, ran.err) == (1, "zorivest-rpc connect: the API key is not text; nothing was stored\n")


def test_a_key_that_no_header_can_carry_is_refused_without_being_repeated(home: Home) -> None:
    ran = home.run("connect", "provider", "benzinga", said=f"{KEY} {SECRET}\n")
    assert (ran.code, ran.err) == (
        1,
        "zorivest-rpc connect: api_key: must be a key of visible ASCII characters\n",
    )


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("provider", "finhub"), "did you mean finnhub?"),
        (("broker", "alpaca"), "did you mean alpaca_paper or alpaca_live?"),
        (("broker", "tradier_life"), "did you mean tradier_live?"),
        (("broker", "schwab"), "Charles Schwab has no connection; its trades are imported from files"),
        (("provider", "qqqqqq"), "zorivest-rpc connect lists the names"),
    ],
)
def test_an_unknown_name_gives_the_nearest(home: Home, words: tuple[str, str], hint: str) -> None:
    for command in ("connect", "disconnect"):
        ran = home.run(command, *words)
        assert (ran.code, ran.out) == (1, "")
        assert hint in ran.err


@pytest.mark.parametrize(
    "words",
    [
        ("provider", "finnhub", KEY),
        ("provider", "finnhub", "--api-key", KEY),
        ("provider", "finnhub", f"--key={KEY}"),
        ("provider", "finnhub", f"--passphrase={KEY}"),
        ("mail", KEY),
        (KEY,),
        ("provider",),
        ("provider", "finnhub", "--host", "example.com"),
        ("broker", "ibkr_pro", "--rate-limit", "3"),
    ],
)
def test_a_key_among_the_arguments_is_misuse_and_is_not_repeated(home: Home, words: tuple[str, ...]) -> None:
    ran = home.run("connect", *words)
    assert (ran.code, ran.out) == (2, "")
    assert "usage: zorivest-rpc connect" in ran.err


@pytest.mark.parametrize("command", ["connect", "disconnect"])
def test_with_another_zorivest_it_says_whose_command_this_is(home: Home, command: str) -> None:
    words = (command, "provider", "finnhub")
    for ran in (
        home.run(*words, said=KEY, ZORIVEST_API_URL="http://127.0.0.1:9/api/v1"),
        home.run(*words, "--api-url", "http://127.0.0.1:9/api/v1", said=KEY),
    ):
        assert (ran.code, ran.out) == (1, "")
        assert "this command is for the embedded backend" in ran.err
