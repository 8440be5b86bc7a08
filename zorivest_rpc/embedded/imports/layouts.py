"""The flat broker layouts, one row per fill, as data: how each is recognised and which column plays which role.

Headers are written squashed (lower case, no spaces), alternatives separated by `|`. Layouts with sections or with whole
round trips per row have modules of their own.
"""

from __future__ import annotations

import msgspec

from zorivest_rpc.embedded.imports.drafts import FeeType
from zorivest_rpc.embedded.values.kinds import AssetClass

__all__ = ["ASSETS", "BROKERS", "GENERIC", "LAYOUTS", "Layout"]

BROKERS = (
    "ibkr",
    "thinkorswim",
    "ninjatrader",
    "webull",
    "lightspeed",
    "etrade",
    "tastytrade",
    "alpaca",
    "tradier",
    "schwab",
    "robinhood",
    "tradovate",
    "fidelity",
    "generic",
)

ASSETS = {
    **dict.fromkeys(("stk", "stock", "stocks", "equity", "eq", "etf", "us_equity", "common stock"), AssetClass.EQUITY),
    **dict.fromkeys(("opt", "optn", "option", "options", "equity option", "us_option"), AssetClass.OPTION),
    **dict.fromkeys(("equity and index options", "call", "put"), AssetClass.OPTION),
    **dict.fromkeys(("fut", "future", "futures"), AssetClass.FUTURE),
    **dict.fromkeys(("cash", "forex", "fx"), AssetClass.FOREX),
    **dict.fromkeys(("bond", "bonds", "bnd"), AssetClass.BOND),
    **dict.fromkeys(("fund", "mf", "mutual fund", "mutual funds", "mmf"), AssetClass.MUTUAL_FUND),
    **dict.fromkeys(("crypto", "cryptocurrency"), AssetClass.CRYPTO),
}


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """One flat layout.

    `keep` names a role and the words (squashed) whose rows are trades; others are skipped. `fees` maps roles to ledger
    kinds; a role in `signed` keeps its sign (positive is a cost, negative a rebate), all others cost their amount.
    With `skip_unknown_side` a row whose action is not a trade is skipped instead of refused; `newest_first` orders the
    rows of a file that covers one day only. `contract` is the role whose text names an option where the symbol gives
    its underlying alone; a side in `option_sides` (squashed) says that it must. With `phrases` a sentence such as
    "YOU SOLD …" or "Bought 10 …" names the side, in the side column or in the notes. `signed_quantity` says that sales
    have negative quantities. `names_shorts`: the broker calls a short sale and its cover by these names, so a plain
    Sell closes."""

    broker: str
    name: str
    fingerprint: tuple[str, ...]
    columns: dict[str, str]
    keep: tuple[str, frozenset[str]] | None = None
    fees: dict[str, FeeType] = {}
    signed: frozenset[str] = frozenset()
    skip_unknown_side: bool = False
    price_times_multiplier: bool = False
    newest_first: bool = False
    contract: str = ""
    option_sides: frozenset[str] = frozenset()
    phrases: bool = False
    signed_quantity: bool = False
    names_shorts: bool = False

    def fits(self, headers: frozenset[str]) -> bool:
        return all(any(name in headers for name in part.split("|")) for part in self.fingerprint)


LAYOUTS = (
    Layout(
        broker="ibkr",
        name="ibkr_flex_csv",
        fingerprint=("symbol", "buy/sell", "quantity", "tradeprice", "ibcommission"),
        columns={
            "datetime": "datetime|date/time",
            "date": "tradedate",
            "time": "tradetime",
            "symbol": "symbol",
            "side": "buy/sell",
            "quantity": "quantity",
            "price": "tradeprice",
            "commission": "ibcommission",
            "tax": "taxes",
            "currency": "currencyprimary|currency",
            "asset": "assetclass|assetcategory",
            "multiplier": "multiplier",
            "exec_id": "ibexecid|tradeid",
            "order_id": "iborderid|orderid",
            "account": "clientaccountid|accountid",
        },
        fees={"tax": FeeType.REGULATORY},
    ),
    Layout(
        broker="tastytrade",
        name="tastytrade",
        fingerprint=("date", "type", "subtype", "action", "symbol", "instrumenttype", "quantity", "value"),
        columns={
            "datetime": "date",
            "kind": "type",
            "subtype": "subtype",
            "side": "action",
            "symbol": "symbol",
            "asset": "instrumenttype",
            "quantity": "quantity",
            "price": "price",
            "average": "averageprice",
            "commission": "commissions|commission",
            "fee": "fees|fee",
            "multiplier": "multiplier",
            "currency": "currency",
            "order_id": "order#|orderid",
            "notes": "description",
        },
        keep=("kind", frozenset({"trade"})),
        fees={"fee": FeeType.OTHER},
        price_times_multiplier=True,
    ),
    Layout(
        broker="etrade",
        name="etrade",
        fingerprint=("transactiondate", "transactiontype", "securitytype", "symbol", "quantity", "price"),
        columns={
            "date": "transactiondate",
            "side": "transactiontype",
            "asset": "securitytype",
            "symbol": "symbol",
            "quantity": "quantity",
            "price": "price",
            "commission": "commission",
            "amount": "amount",
            "notes": "description",
        },
        skip_unknown_side=True,
        newest_first=True,
        names_shorts=True,
    ),
    Layout(
        broker="schwab",
        name="schwab",
        fingerprint=("date", "action", "symbol", "description", "quantity", "price", "fees&comm", "amount"),
        columns={
            "date": "date",
            "side": "action",
            "symbol": "symbol",
            "quantity": "quantity",
            "price": "price",
            "commission": "fees&comm",
            "amount": "amount",
            "notes": "description",
        },
        skip_unknown_side=True,
        newest_first=True,
        names_shorts=True,
    ),
    Layout(
        broker="lightspeed",
        name="lightspeed",
        fingerprint=("date", "time", "symbol", "b/s", "qty", "price", "route"),
        columns={
            "date": "date",
            "time": "time",
            "symbol": "symbol",
            "side": "b/s",
            "quantity": "qty",
            "price": "price",
            "commission": "commission",
            "ecn_fee": "ecnfee",
            "sec_fee": "secfee",
            "taf_fee": "taffee|nasdfee|finrafee",
            "clearing_fee": "clrfee|clearingfee",
            "account": "account",
            "order_id": "orderid|cloid",
            "route": "route",
        },
        fees={
            "ecn_fee": FeeType.ECN,
            "sec_fee": FeeType.REGULATORY,
            "taf_fee": FeeType.REGULATORY,
            "clearing_fee": FeeType.CLEARING,
        },
        signed=frozenset({"ecn_fee"}),
    ),
    Layout(
        broker="webull",
        name="webull",
        fingerprint=("date", "time", "symbol", "side", "qty", "price", "amount", "commission", "fee"),
        columns={
            "date": "date",
            "time": "time",
            "symbol": "symbol",
            "side": "side",
            "quantity": "qty",
            "price": "price",
            "commission": "commission",
            "fee": "fee",
            "currency": "currency",
        },
        fees={"fee": FeeType.OTHER},
    ),
    Layout(
        broker="webull",
        name="webull_orders",
        fingerprint=("symbol", "side", "status", "filled", "avgprice", "filledtime"),
        columns={
            "datetime": "filledtime",
            "symbol": "symbol",
            "side": "side",
            "status": "status",
            "quantity": "filled",
            "price": "avgprice",
            "notes": "name",
        },
        keep=("status", frozenset({"filled", "partiallyfilled"})),
    ),
    Layout(
        broker="alpaca",
        name="alpaca_activities",
        fingerprint=("symbol", "side", "qty", "price", "transactiontime", "orderid"),
        columns={
            "datetime": "transactiontime",
            "symbol": "symbol",
            "side": "side",
            "quantity": "qty",
            "price": "price",
            "kind": "activitytype",
            "exec_id": "id|activityid",
            "order_id": "orderid",
            "commission": "commission",
            "account": "accountid|account",
        },
        keep=("kind", frozenset({"fill", ""})),
    ),
    Layout(
        broker="robinhood",
        name="robinhood",
        fingerprint=("activitydate", "instrument", "description", "transcode", "quantity", "price", "amount"),
        columns={
            "date": "activitydate",
            "symbol": "instrument",
            "notes": "description",
            "side": "transcode",
            "quantity": "quantity",
            "price": "price",
            "amount": "amount",
        },
        skip_unknown_side=True,
        newest_first=True,
        names_shorts=True,
        contract="notes",
        option_sides=frozenset({"bto", "sto", "btc", "stc"}),
    ),
    Layout(
        broker="tradier",
        name="tradier_history",
        fingerprint=("date", "type", "symbol", "quantity", "price", "commission", "tradetype"),
        columns={
            "datetime": "date",
            "kind": "type",
            "symbol": "symbol",
            "quantity": "quantity",
            "price": "price",
            "commission": "commission",
            "asset": "tradetype",
            "notes": "description",
        },
        keep=("kind", frozenset({"trade"})),
        signed_quantity=True,
    ),
    Layout(
        broker="thinkorswim",
        name="tdameritrade",
        fingerprint=("date", "transactionid", "description", "quantity", "symbol", "price", "commission", "amount"),
        columns={
            "date": "date",
            "exec_id": "transactionid",
            "notes": "description",
            "quantity": "quantity",
            "symbol": "symbol",
            "price": "price",
            "commission": "commission",
            "amount": "amount",
            "reg_fee": "regfee|salesfee",
            "rdm_fee": "shorttermrdmfee",
            "fund_fee": "fundredemptionfee",
            "sales_charge": "deferredsalescharge",
        },
        fees={
            "reg_fee": FeeType.REGULATORY,
            "rdm_fee": FeeType.OTHER,
            "fund_fee": FeeType.OTHER,
            "sales_charge": FeeType.OTHER,
        },
        skip_unknown_side=True,
        phrases=True,
        names_shorts=True,
    ),
    Layout(
        broker="fidelity",
        name="fidelity",
        fingerprint=("rundate", "action", "symbol", "quantity", "price", "commission", "fees", "amount"),
        columns={
            "date": "rundate",
            "side": "action",
            "symbol": "symbol",
            "notes": "description|securitydescription",
            "quantity": "quantity",
            "price": "price",
            "commission": "commission",
            "fee": "fees",
            "amount": "amount",
            "currency": "currency",
            "account": "accountnumber|account",
        },
        fees={"fee": FeeType.REGULATORY},
        skip_unknown_side=True,
        newest_first=True,
        phrases=True,
        names_shorts=True,
    ),
)

GENERIC = Layout(
    broker="generic",
    name="generic",
    fingerprint=(),
    columns={
        "datetime": "datetime|date/time|date&time|dateandtime|exectime|executiontime|executedat|filledtime|"
        "timestamp|transactiontime|tradedatetime|executiondatetime|filledat|dateexecuted",
        "date": "date|tradedate|rundate|activitydate|transactiondate|executiondate|filldate|tradeday|day|datum",
        "time": "time|tradetime|filltime|timeofday|zeit",
        "symbol": "symbol|ticker|instrument|tickersymbol|stocksymbol|stock|security|contract|underlying|product|"
        "cusip|isin",
        "side": "side|action|b/s|buy/sell|buysell|bs|transactiontype|transcode|direction|trantype|type",
        "quantity": "qty|quantity|shares|filledqty|filledquantity|execqty|executedquantity|units|contracts|size|filled|"
        "volume|stück",
        "price": "price|fillprice|execprice|executionprice|executedprice|avgprice|averageprice|avgfillprice|tradeprice|"
        "tprice|unitprice|pricepershare|price/share|kurs|preis",
        "commission": "commission|commissions|comm|comm/fee|fees&comm|ibcommission|brokerage|"
        "commissionamount|provision",
        "fee": "fee|fees|otherfees|totalfees|charges|gebühren",
        "sec_fee": "secfee|sec|regfee|regfees|regulatoryfee|regulatoryfees|section31fee",
        "taf_fee": "taffee|taf|finrafee|nasdfee|orf",
        "exchange_fee": "exchangefee|exchangefees|exchfee|exchfees",
        "clearing_fee": "clearingfee|clearingfees|clrfee|nscc|occfee",
        "nfa_fee": "nfafee|nfa",
        "ecn_fee": "ecnfee|ecnfees|routingfee|routingfees|liquidityfee",
        "misc_fee": "miscfee|miscfees|misc|transactionfee|transactionfees|platformfee|tax|taxes|stampduty",
        "currency": "currency|ccy|cur|currencycode|währung",
        "asset": "assetclass|assettype|assetcategory|securitytype|instrumenttype|sectype",
        "expiry": "exp|expiry|expiration|expirationdate|expdate",
        "strike": "strike|strikeprice",
        "right": "right|callput|call/put|putcall|put/call|callorput|c/p|p/c|optiontype",
        "exec_id": "execid|executionid|fillid|exec_id",
        "order_id": "orderid|order#|ordernumber|orderno",
        "fill": "fill#|fillnumber|fillno|execution#",
        "account": "account|accountid|accountnumber|acct|account#",
        "notes": "notes|description|memo|comment",
        "multiplier": "multiplier|contractmultiplier|pointvalue",
        "effect": "effect|openclose|open/close|o/c|poseffect|positioneffect|openorclose",
        "amount": "amount|netamount|netcash|cashamount|netproceeds|proceeds",
        "profit": "profit|pnl|p&l|p/l|realizedpnl|realizedp/l|realizedp&l|realizedprofit|realizedgain",
    },
    fees={
        "fee": FeeType.OTHER,
        "sec_fee": FeeType.REGULATORY,
        "taf_fee": FeeType.REGULATORY,
        "exchange_fee": FeeType.EXCHANGE,
        "clearing_fee": FeeType.CLEARING,
        "nfa_fee": FeeType.REGULATORY,
        "ecn_fee": FeeType.ECN,
        "misc_fee": FeeType.OTHER,
    },
    signed=frozenset({"ecn_fee"}),
    phrases=True,
)
