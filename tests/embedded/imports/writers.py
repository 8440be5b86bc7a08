"""Writes fills and statement lines in the layouts that brokers and banks export, for the tests to import back."""

from __future__ import annotations

import csv
import datetime as dt
import io
from collections.abc import Sequence
from decimal import Decimal
from xml.sax.saxutils import escape, quoteattr
from zoneinfo import ZoneInfo

import msgspec

from tests.embedded.imports import pdf

NEW_YORK = ZoneInfo("America/New_York")
MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]


class Contract(msgspec.Struct, frozen=True):
    """What was traded: a share, or an option when there is a strike."""

    root: str
    expiry: dt.date | None = None
    right: str = ""
    strike: Decimal | None = None

    @property
    def normal(self) -> str:
        return f"{self.root} {self.expiry:%y%m%d} {self.right} {self._strike}" if self.expiry else self.root

    @property
    def _strike(self) -> str:
        assert self.strike is not None
        return format(self.strike.normalize(), "f")

    @property
    def occ(self) -> str:
        if self.strike is None:
            return self.root
        return f"{self.root:<6}{self.expiry:%y%m%d}{self.right}{int(self.strike * 1000):08d}"

    @property
    def dotted(self) -> str:
        return f".{self.root}{self.expiry:%y%m%d}{self.right}{self._strike}" if self.expiry else self.root

    @property
    def ibkr(self) -> str:
        if not self.expiry:
            return self.root
        month = MONTHS[self.expiry.month - 1]
        return f"{self.root} {self.expiry.day:02d}{month}{self.expiry:%y} {self._strike} {self.right}"

    @property
    def schwab(self) -> str:
        return f"{self.root} {self.expiry:%m/%d/%Y} {self.strike:.2f} {self.right}" if self.expiry else self.root

    @property
    def etrade(self) -> str:
        word = "Call" if self.right == "C" else "Put"
        return f"{self.root} {self.expiry:%b %d '%y} ${self._strike} {word}" if self.expiry else self.root


class Fill(msgspec.Struct, frozen=True):
    """One execution as the tests know it; `at` is New York time to the second."""

    at: dt.datetime
    contract: Contract
    is_buy: bool
    quantity: int
    price: Decimal
    commission: Decimal = Decimal(0)
    fee: Decimal = Decimal(0)

    @property
    def multiplier(self) -> int:
        return 100 if self.contract.expiry else 1

    @property
    def side(self) -> str:
        return "BOT" if self.is_buy else "SLD"

    def word(self, buy: str, sell: str) -> str:
        return buy if self.is_buy else sell

    @property
    def signed(self) -> int:
        return self.quantity if self.is_buy else -self.quantity


def table(rows: Sequence[Sequence[object]], delimiter: str = ",", quoting: int = csv.QUOTE_MINIMAL) -> str:
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator="\r\n", quoting=quoting).writerows(rows)  # type: ignore[arg-type]
    return out.getvalue()


def money(value: Decimal) -> str:
    return f"-${-value:,.2f}" if value < 0 else f"${value:,.2f}"


def flex_xml(fills: Sequence[Fill], with_ids: bool = False) -> bytes:
    rows = []
    for number, fill in enumerate(fills):
        attributes = {
            "accountId": "A1",
            "symbol": fill.contract.occ,
            "assetCategory": "OPT" if fill.contract.expiry else "STK",
            "dateTime": f"{fill.at:%Y%m%d;%H%M%S}",
            "quantity": str(fill.signed),
            "tradePrice": str(fill.price),
            "ibCommission": str(-fill.commission),
            "taxes": str(-fill.fee),
            "buySell": fill.word("BUY", "SELL"),
            "currency": "USD",
            "fxRateToBase": "1",
            "multiplier": str(fill.multiplier),
        }
        if with_ids:
            attributes["tradeID"] = str(5000 + number)
        rows.append("<Trade " + " ".join(f"{key}={quoteattr(value)}" for key, value in attributes.items()) + " />")
    body = "\n".join(rows)
    return (
        '<FlexQueryResponse queryName="q" type="AF"><FlexStatements count="1"><FlexStatement accountId="A1">'
        f"<Trades>\n{body}\n</Trades></FlexStatement></FlexStatements></FlexQueryResponse>"
    ).encode()


def activity_csv(fills: Sequence[Fill]) -> bytes:
    rows: list[list[object]] = [
        ["Statement", "Header", "Field Name", "Field Value"],
        ["Statement", "Data", "Title", "Activity Statement"],
        ["Account Information", "Header", "Field Name", "Field Value"],
        ["Account Information", "Data", "Account", "A1"],
        [
            *("Trades", "Header", "DataDiscriminator", "Asset Category", "Currency", "Symbol", "Date/Time", "Quantity"),
            *("T. Price", "C. Price", "Proceeds", "Comm/Fee", "Basis", "Realized P/L", "MTM P/L", "Code"),
        ],
    ]
    for fill in fills:
        kind = "Equity and Index Options" if fill.contract.expiry else "Stocks"
        when = f"{fill.at:%Y-%m-%d, %H:%M:%S}"
        start: list[object] = ["Trades", "Data", "Order", kind, "USD", fill.contract.ibkr, when, f"{fill.signed:,}"]
        rows.append([*start, fill.price, 0, 0, -fill.commission, 0, 0, 0, "O"])
    rows.append(["Trades", "Total", "", "Stocks", "USD", "", "", "", "", "", "1", "-1", "", "", "", ""])
    return table(rows).encode("utf-8-sig")


def thinkorswim(fills: Sequence[Fill]) -> bytes:
    header = ["", "Exec Time", "Spread", "Side", "Qty", "Pos Effect", "Symbol", "Exp", "Strike", "Type", "Price"]
    rows: list[list[object]] = [[*header, "Net Price", "Order Type"]]
    for fill in fills:
        contract = fill.contract
        when = f"{fill.at.month}/{fill.at.day}/{fill.at:%y %H:%M:%S}"
        net = fill.price + fill.commission / (fill.quantity * fill.multiplier)
        middle: list[object] = ["", "", "STOCK"]
        if contract.expiry:
            month = MONTHS[contract.expiry.month - 1]
            middle = [f"{contract.expiry.day} {month} {contract.expiry:%y}", contract.strike]
            middle.append("CALL" if contract.right == "C" else "PUT")
        spread = "SINGLE" if contract.expiry else "STOCK"
        side = fill.word("BUY", "SELL")
        rows.append(
            ["", when, spread, side, f"{fill.signed:+d}", "TO OPEN", contract.root, *middle, fill.price, net, "LMT"]
        )
    before = (
        "Account Statement for 1 (individual) since 1/1/24\n\nCash Balance\nDATE,TIME,TYPE\n1/1/24,00:00:00,BAL\n\n"
    )
    return (before + "Account Trade History\n" + table(rows) + "\nProfits and Losses\nSymbol,P/L\nAAPL,1\n").encode()


def webull(fills: Sequence[Fill]) -> bytes:
    rows: list[list[object]] = [["Date", "Time", "Symbol", "Side", "Qty", "Price", "Amount", "Commission", "Fee"]]
    for fill in fills:
        amount = fill.price * fill.quantity
        start: list[object] = [
            f"{fill.at:%m/%d/%Y}",
            f"{fill.at:%H:%M:%S}",
            fill.contract.occ,
            fill.word("Buy", "Sell"),
        ]
        rows.append([*start, fill.quantity, fill.price, amount, fill.commission, fill.fee])
    return table(rows).encode()


def webull_orders(fills: Sequence[Fill]) -> bytes:
    header = ["Name", "Symbol", "Side", "Status", "Filled", "Total Qty", "Price", "Avg Price", "Time-in-Force"]
    rows: list[list[object]] = [[*header, "Placed Time", "Filled Time"]]
    for fill in fills:
        moment = f"{fill.at:%m/%d/%Y %H:%M:%S} {fill.at.tzname()}"
        start: list[object] = ["A name", fill.contract.occ.replace(" ", ""), fill.word("Buy", "Sell"), "Filled"]
        rows.append([*start, fill.quantity, fill.quantity, f"@{fill.price}", fill.price, "DAY", moment, moment])
    rows.append(["A name", "F", "Buy", "Cancelled", 0, 5, "@1.00", "", "DAY", "03/15/2024 10:00:00 EDT", ""])
    return table(rows).encode()


def flex_csv(fills: Sequence[Fill]) -> bytes:
    header = ["ClientAccountID", "CurrencyPrimary", "AssetClass", "Symbol", "DateTime", "Quantity", "TradePrice"]
    rows: list[list[object]] = [[*header, "IBCommission", "Taxes", "Buy/Sell", "Multiplier"]]
    for fill in fills:
        kind = "OPT" if fill.contract.expiry else "STK"
        start: list[object] = ["A1", "USD", kind, fill.contract.occ, f"{fill.at:%Y%m%d;%H%M%S}", fill.signed]
        rows.append([*start, fill.price, -fill.commission, -fill.fee, fill.word("BUY", "SELL"), fill.multiplier])
    return table(rows, quoting=csv.QUOTE_ALL).encode()


def robinhood(fills: Sequence[Fill]) -> bytes:
    header = ["Activity Date", "Process Date", "Settle Date", "Instrument", "Description", "Trans Code", "Quantity"]
    rows: list[list[object]] = [[*header, "Price", "Amount"]]
    for fill in reversed(fills):
        contract = fill.contract
        text, code = "A name\nCUSIP: 037833100", fill.word("Buy", "Sell")
        if contract.expiry:
            day = f"{contract.expiry.month}/{contract.expiry.day}/{contract.expiry.year}"
            right = "Call" if contract.right == "C" else "Put"
            text, code = f"{contract.root} {day} {right} ${contract.strike:,.2f}", fill.word("BTO", "STC")
        start: list[object] = [*[f"{fill.at.month}/{fill.at.day}/{fill.at.year}"] * 3, contract.root, text, code]
        cash = fill.price * -fill.signed * fill.multiplier
        amount = f"(${-cash:,.2f})" if cash < 0 else f"${cash:,.2f}"
        rows.append([*start, fill.quantity, f"${fill.price:,.4f}", amount])
    rows.append(["", "", "", "", "", "", "", "", ""])
    rows.append(["", "", "", "", "", "", "", "", "The data provided is for informational purposes only."])
    return table(rows, quoting=csv.QUOTE_ALL).encode()


class RoundTrip(msgspec.Struct, frozen=True):
    """A whole trade in futures as NinjaTrader lists it."""

    entered: dt.datetime
    left: dt.datetime
    root: str
    month: int
    year: int
    is_long: bool
    quantity: int
    entry: Decimal
    exit: Decimal
    commission: Decimal
    exchange_fee: Decimal


def ninjatrader(trips: Sequence[RoundTrip]) -> bytes:
    header = ["Trade number", "Instrument", "Account", "Strategy", "Market pos.", "Qty", "Entry price", "Exit price"]
    rows: list[list[object]] = [[*header, "Entry time", "Exit time", "Profit", "Commission", "Exchange Fee", ""]]
    for number, trip in enumerate(trips, 1):
        name = f"{trip.root} {MONTHS[trip.month - 1]}{trip.year % 100:02d}"
        start: list[object] = [number, name, "A1", "", "Long" if trip.is_long else "Short", trip.quantity]
        times = [f"{moment:%m/%d/%Y %I:%M:%S %p}" for moment in (trip.entered, trip.left)]
        costs = [f"${trip.commission:.2f}", f"${trip.exchange_fee:.2f}", ""]
        rows.append([*start, trip.entry, trip.exit, *times, "($1.00)", *costs])
    return table(rows).encode()


def lightspeed(fills: Sequence[Fill]) -> bytes:
    header = ["Date", "Time", "Symbol", "B/S", "Qty", "Price", "Route", "Commission", "ECN Fee", "SEC Fee"]
    rows: list[list[object]] = [list(header)]
    for fill in fills:
        start: list[object] = [f"{fill.at:%m/%d/%Y}", f"{fill.at:%H:%M:%S}", fill.contract.dotted, fill.word("B", "S")]
        rows.append([*start, fill.quantity, fill.price, "ARCA", fill.commission, fill.fee, "0.00"])
    return table(rows).encode()


def etrade(fills: Sequence[Fill]) -> bytes:
    header = [
        "TransactionDate",
        "TransactionType",
        "SecurityType",
        "Symbol",
        "Quantity",
        "Amount",
        "Price",
        "Commission",
    ]
    rows: list[list[object]] = [[*header, "Description"]]
    for fill in reversed(fills):
        kind = "OPTN" if fill.contract.expiry else "EQ"
        start: list[object] = [f"{fill.at:%m/%d/%y}", fill.word("Bought", "Sold"), kind, fill.contract.etrade]
        rows.append([*start, fill.signed, -fill.signed * fill.price, fill.price, fill.commission, "x"])
    return ("For Account:,#####1234\n\n" + table(rows)).encode()


def schwab(fills: Sequence[Fill]) -> bytes:
    rows: list[list[object]] = [
        ["Date", "Action", "Symbol", "Description", "Quantity", "Price", "Fees & Comm", "Amount"]
    ]
    for fill in reversed(fills):
        action = fill.word("Buy", "Sell") + (" to Open" if fill.contract.expiry else "")
        start: list[object] = [f"{fill.at:%m/%d/%Y}", action, fill.contract.schwab, "TEXT", f"{fill.quantity:,}"]
        rows.append([*start, f"${fill.price:,.4f}", money(fill.commission), money(fill.price * -fill.signed)])
    rows.append(["Transactions Total", "", "", "", "", "", "", "$1.00"])
    return table(rows, quoting=csv.QUOTE_ALL).encode()


def tastytrade(fills: Sequence[Fill]) -> bytes:
    header = ["Date", "Type", "Sub Type", "Action", "Symbol", "Instrument Type", "Description", "Value", "Quantity"]
    rows: list[list[object]] = [[*header, "Average Price", "Commissions", "Fees", "Multiplier", "Order #"]]
    for fill in fills:
        cash = -1 if fill.is_buy else 1
        each = fill.price * fill.multiplier * cash
        kind = "Equity Option" if fill.contract.expiry else "Equity"
        action = fill.word("BUY_TO_OPEN", "SELL_TO_CLOSE")
        start: list[object] = [f"{fill.at:%Y-%m-%dT%H:%M:%S%z}", "Trade", "x", action, fill.contract.occ, kind, "text"]
        rows.append(
            [*start, each * fill.quantity, fill.quantity, each, -fill.commission, -fill.fee, fill.multiplier, 77]
        )
    return table(rows).encode()


def alpaca(fills: Sequence[Fill]) -> bytes:
    rows: list[list[object]] = [
        ["activity_type", "transaction_time", "price", "qty", "side", "symbol", "order_id", "commission"]
    ]
    for fill in fills:
        when = f"{fill.at.astimezone(dt.UTC):%Y-%m-%dT%H:%M:%SZ}"
        side = fill.word("buy", "sell")
        rows.append(["FILL", when, fill.price, fill.quantity, side, fill.contract.occ, "o-1", fill.commission])
    return table(rows).encode()


def tradier(fills: Sequence[Fill]) -> bytes:
    rows: list[list[object]] = [
        ["date", "type", "trade_type", "symbol", "quantity", "price", "commission", "amount", "description"]
    ]
    for fill in fills:
        when = f"{fill.at.astimezone(dt.UTC):%Y-%m-%dT%H:%M:%SZ}"
        kind = "Option" if fill.contract.expiry else "Equity"
        row: list[object] = [when, "trade", kind, fill.contract.occ.replace(" ", ""), fill.signed, fill.price]
        rows.append([*row, fill.commission, "1", "x"])
    return table(rows).encode()


def generic(fills: Sequence[Fill], delimiter: str = ",", decimal: str = ".", encoding: str = "utf-8") -> bytes:
    def number(value: Decimal | int) -> str:
        text = f"{value:,}"
        return text.translate(str.maketrans(",.", ".,")) if decimal == "," else text

    rows: list[list[object]] = [
        ["Trade Date", "Time", "Ticker", "Action", "Shares", "Price", "Commission", "Fees", "Notes"]
    ]
    for fill in fills:
        start: list[object] = [
            f"{fill.at:%Y-%m-%d}",
            f"{fill.at:%H:%M:%S}",
            fill.contract.normal,
            fill.word("BUY", "SELL"),
        ]
        numbers = (fill.quantity, fill.price, fill.commission, fill.fee)
        rows.append([*start, *(number(value) for value in numbers), "café"])
    return table(rows, delimiter).encode(encoding)


def pdf_table(fills: Sequence[Fill]) -> bytes:
    header = ["Date", "Time", "Symbol", "Side", "Quantity", "Price", "Commission"]
    rows = [
        [
            *(f"{fill.at:%m/%d/%Y}", f"{fill.at:%H:%M:%S}", fill.contract.normal, fill.word("Buy", "Sell")),
            *(f"{fill.quantity:,}", f"{fill.price:,}", str(fill.commission)),
        ]
        for fill in fills
    ]
    pages = [pdf.table_page([header, *rows[at : at + 20]]) for at in range(0, len(rows), 20)]
    return pdf.document(pages or [pdf.table_page([header])])


class Line(msgspec.Struct, frozen=True):
    """One bank transaction as the tests know it."""

    day: dt.date
    text: str
    amount: Decimal


def ofx(lines: Sequence[Line], version: int = 1, balance: Decimal | None = None) -> bytes:
    def leaf(tag: str, value: object) -> str:
        return f"<{tag}>{escape(str(value))}" + (f"</{tag}>" if version == 2 else "\n")

    head = (
        '<?xml version="1.0" encoding="UTF-8"?>\n<?OFX OFXHEADER="200" VERSION="211" SECURITY="NONE" '
        'OLDFILEUID="NONE" NEWFILEUID="NONE"?>\n'
        if version == 2
        else "OFXHEADER:100\nDATA:OFXSGML\nVERSION:102\nSECURITY:NONE\nENCODING:USASCII\nCHARSET:1252\n\n"
    )
    body = "".join(
        "<STMTTRN>\n"
        + leaf("TRNTYPE", "CREDIT" if line.amount > 0 else "DEBIT")
        + leaf("DTPOSTED", f"{line.day:%Y%m%d}120000[-5:EST]")
        + leaf("TRNAMT", line.amount)
        + leaf("FITID", f"F{number}")
        + leaf("NAME", line.text)
        + "</STMTTRN>\n"
        for number, line in enumerate(lines)
    )
    ledger = (
        f"<LEDGERBAL>{leaf('BALAMT', balance)}{leaf('DTASOF', '20240131')}</LEDGERBAL>" if balance is not None else ""
    )
    account = (
        f"<BANKACCTFROM>{leaf('BANKID', 1)}{leaf('ACCTID', 12345678)}{leaf('ACCTTYPE', 'CHECKING')}</BANKACCTFROM>"
    )
    return (
        f"{head}<OFX><BANKMSGSRSV1><STMTTRNRS>{leaf('TRNUID', 0)}<STMTRS>{leaf('CURDEF', 'USD')}{account}"
        f"<BANKTRANLIST>{leaf('DTSTART', '20240101')}{leaf('DTEND', '20240131')}{body}</BANKTRANLIST>{ledger}"
        "</STMTRS></STMTTRNRS></BANKMSGSRSV1></OFX>\n"
    ).encode()


def ofx2(lines: Sequence[Line]) -> bytes:
    return ofx(lines, 2)


def qif(lines: Sequence[Line]) -> bytes:
    records = "".join(
        f"D{line.day.month}/{line.day.day:>2}'{line.day:%y}\nT{line.amount:,}\nP{line.text}\n^\n" for line in lines
    )
    return f"!Type:Bank\n{records}".encode()


def chase(lines: Sequence[Line]) -> bytes:
    rows: list[list[object]] = [["Transaction Date", "Post Date", "Description", "Category", "Type", "Amount", "Memo"]]
    for line in reversed(lines):
        day = f"{line.day:%m/%d/%Y}"
        rows.append([day, day, line.text, "Shopping", "Sale", line.amount, ""])
    return table(rows).encode()


def fidelity(lines: Sequence[Line]) -> bytes:
    rows: list[list[object]] = [["Date", "Transaction", "Name", "Memo", "Amount"]]
    rows += [
        [f"{line.day:%m/%d/%Y}", "DEBIT" if line.amount < 0 else "CREDIT", line.text, "m", line.amount]
        for line in lines
    ]
    return table(rows).encode()


def schwab_bank(lines: Sequence[Line]) -> bytes:
    rows: list[list[object]] = [["Date", "Type", "Check #", "Description", "Withdrawal", "Deposit", "RunningBalance"]]
    balance = Decimal(1000)
    for line in lines:
        balance += line.amount
        out = money(-line.amount) if line.amount < 0 else ""
        into = money(line.amount) if line.amount > 0 else ""
        rows.append([f"{line.day:%m/%d/%Y}", "ACH", "", line.text, out, into, money(balance)])
    return table([rows[0], *reversed(rows[1:])], quoting=csv.QUOTE_ALL).encode()


def unknown_bank(lines: Sequence[Line]) -> bytes:
    rows: list[list[object]] = [["Booked", "Umsatz", "Wording"]]
    for line in lines:
        amount = f"{line.amount:,}".translate(str.maketrans(",.", ".,"))
        rows.append([f"{line.day:%Y-%m-%d}", amount, line.text])
    return table(rows, ";").encode("cp1252")


def camt(lines: Sequence[Line]) -> bytes:
    entries = "".join(
        f'<Ntry><Amt Ccy="USD">{abs(line.amount)}</Amt><CdtDbtInd>{"CRDT" if line.amount > 0 else "DBIT"}</CdtDbtInd>'
        f"<BookgDt><Dt>{line.day}</Dt></BookgDt><AddtlNtryInf>{escape(line.text)}</AddtlNtryInf></Ntry>\n"
        for line in lines
    )
    space = "urn:iso:std:iso:20022:tech:xsd:camt.053.001.02"
    body = f"<BkToCstmrStmt><Stmt>{entries}</Stmt></BkToCstmrStmt>"
    return f'<?xml version="1.0"?><Document xmlns="{space}">{body}</Document>'.encode()
