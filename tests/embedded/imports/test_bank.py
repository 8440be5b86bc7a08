"""Bank statements as banks write them."""

# ruff: noqa: E501 - the lines of statements are as long as they are

from __future__ import annotations

import datetime as dt
from decimal import Decimal as D

import pytest

from tests.embedded.imports import writers
from tests.embedded.imports.writers import Line
from zorivest_rpc.embedded.imports.bank import import_bank_file
from zorivest_rpc.embedded.imports.drafts import BankHints, BankImport, ImportRefused, Status
from zorivest_rpc.embedded.imports.ofx import category


def load(text: str, **hints: object) -> BankImport:
    return import_bank_file(text.encode(), BankHints(account_id="C1", **hints))  # type: ignore[arg-type]


def rows(result: BankImport) -> list[tuple[str, str, D, str]]:
    return [(line.date.isoformat(), line.description, line.amount, line.category.value) for line in result.transactions]


def codes(result: BankImport) -> set[str]:
    return {note.code for note in result.warnings}


OFX = """OFXHEADER:100
DATA:OFXSGML
VERSION:102
CHARSET:1252

<OFX><SIGNONMSGSRSV1><SONRS><STATUS><CODE>0<SEVERITY>INFO</STATUS><DTSERVER>20240201<LANGUAGE>ENG
<FI><ORG>First Bank<FID>1</FI></SONRS></SIGNONMSGSRSV1>
<BANKMSGSRSV1><STMTTRNRS><TRNUID>1<STATUS><CODE>0<SEVERITY>INFO</STATUS>
<STMTRS><CURDEF>EUR<BANKACCTFROM><BANKID>1<ACCTID>99887766<ACCTTYPE>CHECKING</BANKACCTFROM>
<BANKTRANLIST><DTSTART>20240101<DTEND>20240131
<STMTTRN><TRNTYPE>DEBIT<DTPOSTED>20240105233000[-8:PST]<DTAVAIL>20240107<TRNAMT>-12.50<FITID>A1<NAME>Coffee &amp; Co<MEMO>latte</STMTTRN>
<STMTTRN>
<TRNTYPE>XFER
<DTPOSTED>20240106
<TRNAMT>100.00
<FITID>A2
<NAME>
<MEMO>from savings
</STMTTRN>
<STMTTRN><TRNTYPE>POS<DTPOSTED>2024010<TRNAMT>100.00<FITID>A3<NAME>x</STMTTRN>
<STMTTRN><TRNTYPE>CHECK<DTPOSTED>20240108<TRNAMT>x<FITID>A4<NAME>x</STMTTRN>
<STMTTRN><TRNTYPE>CHECK<DTPOSTED>20240109<TRNAMT>-40<CHECKNUM>1001<NAME><![CDATA[A <b> & c]]></STMTTRN>
</BANKTRANLIST><LEDGERBAL><BALAMT>500.25<DTASOF>20240131</LEDGERBAL></STMTRS></STMTTRNRS></BANKMSGSRSV1></OFX>
"""


class TestOfx:
    def test_transactions_balance_and_bank_are_read(self) -> None:
        result = load(OFX)
        assert (result.format, result.bank, result.status) == ("ofx", "First Bank", Status.PARTIAL)
        assert rows(result) == [
            ("2024-01-05", "Coffee & Co", D("-12.50"), "withdrawal"),
            ("2024-01-06", "from savings", D(100), "transfer_in"),
            ("2024-01-09", "A <b> & c", D(-40), "check"),
        ]
        first = result.transactions[0]
        assert (first.post_date, first.reference_id, first.notes, first.currency) == (
            dt.date(2024, 1, 7),
            "A1",
            "latte",
            "EUR",
        )
        assert (result.transactions[2].reference_id, result.transactions[2].reference_is_unique) == ("1001", False)
        assert (result.closing_balance, result.closing_date) == (D("500.25"), dt.date(2024, 1, 31))
        assert result.balance_source == "ofx_import"

    def test_bad_transactions_are_listed_with_their_line(self) -> None:
        assert [(error.row_number, error.field) for error in load(OFX).errors] == [(20, "DTPOSTED"), (21, "TRNAMT")]

    def test_a_reference_used_for_different_lines_identifies_neither(self) -> None:
        result = load(OFX.replace("<FITID>A2", "<FITID>A1"))
        assert "reused_reference" in codes(result)
        assert not any(line.reference_is_unique for line in result.transactions)

    def test_several_accounts_in_one_file_are_told_without_their_numbers(self) -> None:
        block = OFX[OFX.index("<STMTTRNRS>") : OFX.index("</BANKMSGSRSV1>")]
        result = load(OFX.replace(block, block + block.replace("99887766", "11223344")))
        (note,) = [note for note in result.warnings if note.code == "several_accounts"]
        assert "…7766" in note.message
        assert "99887766" not in note.message

    def test_an_answer_without_a_statement_is_refused_with_the_banks_code(self) -> None:
        with pytest.raises(ImportRefused, match="15500"):
            load("OFXHEADER:100\n\n<OFX><SONRS><STATUS><CODE>15500<SEVERITY>ERROR</STATUS></SONRS></OFX>")

    @pytest.mark.parametrize(
        ("kind", "amount", "expected"),
        [
            ("CREDIT", 1, "deposit"),
            ("DEP", 1, "deposit"),
            ("DEBIT", -1, "withdrawal"),
            ("XFER", 1, "transfer_in"),
            ("XFER", -1, "transfer_out"),
            ("INT", 1, "interest"),
            ("DIV", 1, "dividend"),
            ("FEE", -1, "fee"),
            ("SRVCHG", -1, "fee"),
            ("CHECK", -1, "check"),
            ("PAYMENT", -1, "ach_debit"),
            ("DIRECTDEBIT", -1, "ach_debit"),
            ("REPEATPMT", -1, "ach_debit"),
            ("DIRECTDEP", 1, "ach_credit"),
            ("ATM", -1, "atm"),
            ("POS", -1, "card_purchase"),
            ("HOLD", -1, "other"),
        ],
    )
    def test_transaction_types_have_their_category(self, kind: str, amount: int, expected: str) -> None:
        assert category(kind, D(amount)).value == expected


QIF = """!Option:AutoSwitch
!Account
NChecking
TBank
^
!Type:Bank
D1/ 1'24
T1,000.00
POpening Balance
L[Checking]
^
D1/ 5'24
T-1,234.50
PRent
MJanuary
N101
LHousing
SHousing
$-1,000.00
^
D12/31/23
U100
PFrom savings
L[Savings]
^
D1/6'4
T5.00
PInterest
^
Dnonsense
T5.00
^
!Type:Invst
D1/6/24
NBuy
^
"""


class TestQif:
    def test_records_are_read_and_other_lists_left_out(self) -> None:
        result = load(QIF)
        assert rows(result) == [
            ("2004-01-06", "Interest", D(5), "interest"),
            ("2023-12-31", "From savings", D(100), "transfer_in"),
            ("2024-01-05", "Rent", D("-1234.50"), "check"),
        ]
        rent = result.transactions[2]
        assert (rent.reference_id, rent.notes, rent.row_number) == ("101", "January · Housing", 12)
        assert [(error.row_number, error.field) for error in result.errors] == [(30, "date")]
        assert codes(result) == {"opening_balance", "sections_skipped"}
        assert (result.skipped_rows, result.total_rows) == (1, 5)

    def test_days_before_months_are_noticed(self) -> None:
        result = load("!Type:CCard\nD25/01/2024\nT-1\nPx\n^\nD02/01/2024\nT-1\nPx\n^\n")
        assert [line.date for line in result.transactions] == [dt.date(2024, 1, 2), dt.date(2024, 1, 25)]

    def test_a_record_that_was_not_closed_is_an_error(self) -> None:
        result = load("!Type:Bank\nD1/5/24\nT5\n^\nD1/6/24\nT5")
        assert [(error.row_number, error.field) for error in result.errors] == [(5, "record")]

    def test_a_file_of_investments_alone_is_refused(self) -> None:
        with pytest.raises(ImportRefused, match="Invst") as caught:
            load("!Type:Invst\nD1/5/24\nT5\n^\n")
        assert caught.value.code == "no_bank_transactions"


class TestCsv:
    def test_schwab_has_two_columns_and_a_running_balance(self) -> None:
        result = load(
            "Date,Type,Check #,Description,Withdrawal,Deposit,RunningBalance\n"
            '01/05/2024,ATM,,"ATM, MAIN ST",$40.00,,"$1,060.00"\n'
            '01/04/2024,CHECK,77,CHECK 77,$10.00,,"$1,100.00"\n'
            '01/04/2024,ACH,,PAYROLL,,"$1,000.00","$1,110.00"\n'
        )
        assert (result.bank, result.balance_match, result.balance_drift) == ("schwab", True, D(0))
        assert rows(result) == [
            ("2024-01-04", "PAYROLL", D(1000), "ach_credit"),
            ("2024-01-04", "CHECK 77", D(-10), "check"),
            ("2024-01-05", "ATM, MAIN ST", D(-40), "atm"),
        ]
        assert (result.closing_balance, result.closing_date, result.net_change) == (
            D(1060),
            dt.date(2024, 1, 5),
            D(950),
        )

    def test_a_running_balance_that_drifts_is_told_with_its_line(self) -> None:
        result = load("Date,Description,Amount,Balance\n2024-01-04,a,5,105\n2024-01-05,b,5,111\n2024-01-06,c,5,116\n")
        assert (result.balance_match, result.balance_drift) == (False, D(1))
        (note,) = [note for note in result.warnings if note.code == "balance_drift"]
        assert note.row_number == 3

    def test_chase_has_two_layouts(self) -> None:
        card = load(
            "Transaction Date,Post Date,Description,Category,Type,Amount,Memo\n"
            "01/05/2024,01/07/2024,GROCER,Groceries,Sale,-12.50,\n01/06/2024,01/07/2024,Refund GROCER,Groceries,Return,2,\n"
        )
        assert rows(card) == [
            ("2024-01-05", "GROCER", D("-12.50"), "card_purchase"),
            ("2024-01-06", "Refund GROCER", D(2), "refund"),
        ]
        assert card.transactions[0].post_date == dt.date(2024, 1, 7)
        checking = load(
            "Details,Posting Date,Description,Amount,Type,Balance,Check or Slip #\n"
            "DEBIT,01/05/2024,WIRE OUT,-12.50,WIRE_OUTGOING,87.50,\n"
        )
        assert (checking.bank, rows(checking)[0][3], checking.closing_balance) == ("chase", "wire_out", D("87.50"))

    def test_fidelity_has_name_and_memo(self) -> None:
        result = load("Date,Transaction,Name,Memo,Amount\n01/05/2024,DEBIT,SHOP,corner,-5\n")
        assert (result.bank, result.transactions[0].notes) == ("fidelity", "corner")

    def test_columns_without_known_names_are_understood_by_what_they_hold(self) -> None:
        result = load("foo;bar;baz;qux\n25.01.2024;Coffee shop downtown;-5,00;1\n26.01.2024;Salary;1.100,00;1\n")
        assert rows(result) == [
            ("2024-01-25", "Coffee shop downtown", D("-5.00"), "other"),
            ("2024-01-26", "Salary", D(1100), "other"),
        ]

    def test_a_table_without_a_header_is_understood_too(self) -> None:
        result = load("2024-01-25,Coffee shop,-5.00\n2024-01-26,Salary,100.00\n")
        assert [line.row_number for line in result.transactions] == [1, 2]

    def test_amounts_without_a_sign_take_it_from_the_indicator(self) -> None:
        result = load("Date,Description,Amount,Debit/Credit\n2024-01-25,a,5.00,Debit\n2024-01-26,b,7.00,Credit\n")
        assert [line.amount for line in result.transactions] == [D(-5), D(7)]

    def test_signs_are_turned_where_asked(self) -> None:
        text = "Date,Description,Amount\n2024-01-25,Shop,5.00\n2024-01-26,Payment,-7.00\n"
        assert load(text, invert_sign=True).net_change == 2

    def test_doubtful_days_are_told_and_rows_without_amount_are_skipped(self) -> None:
        result = load(
            "Date,Description,Amount,Balance\n05/01/2024,Opening,,100\n05/01/2024,a,-5,95\n05/01/2024,zero,0,95\n"
        )
        assert (len(result.transactions), result.skipped_rows) == (1, 2)
        assert "ambiguous_dates" in codes(result)
        assert load("Date,Description,Amount\n05/01/2024,a,-5\n", day_first=True).date_from == dt.date(2024, 1, 5)

    def test_bad_rows_are_listed_and_the_rest_is_read(self) -> None:
        result = load(
            "Date,Description,Amount\n2024-01-25,a,-5\nbad,b,-5\n2024-01-26,c,x\n2024-01-26,d\n2024-01-27,e,1\n"
        )
        assert [(error.row_number, error.field) for error in result.errors] == [
            (3, "date"),
            (4, "amount"),
            (5, "amount"),
        ]
        assert (result.status, len(result.transactions)) == (Status.PARTIAL, 2)

    def test_columns_can_be_named_by_the_caller(self) -> None:
        text = (
            "Report;x\nMade by;y;z\nWhen;What;Out;In;Left\n25.01.2024;Shop;5,00;;95,00\n26.01.2024;Pay;;10,00;105,00\n"
        )
        names = {"date": "When", "description": "What", "debit": "Out", "credit": "In", "balance": "Left"}
        result = load(text, skip_rows=2, columns=names)
        assert [line.amount for line in result.transactions] == [D(-5), D(10)]
        assert (result.balance_match, result.closing_balance) == (True, D(105))
        with pytest.raises(ImportRefused) as caught:
            load(text, skip_rows=2, columns={**names, "memo": "Nowhere"})
        assert caught.value.headers == ("When", "What", "Out", "In", "Left")

    def test_unknown_columns_are_refused_with_the_headers_seen(self) -> None:
        with pytest.raises(ImportRefused) as caught:
            load("Foo,Bar\nx,y\nz,w\n")
        assert (caught.value.code, caught.value.headers) == ("unknown_bank_format", ("Foo", "Bar"))


class TestFormat:
    STATEMENT = (Line(dt.date(2024, 1, 5), "a", D(-5)), Line(dt.date(2024, 1, 31), "b", D(7)))

    @pytest.mark.parametrize(
        ("data", "expected"),
        [
            (writers.ofx(STATEMENT), "ofx"),
            (writers.ofx2(STATEMENT), "ofx"),
            (writers.qif(STATEMENT), "qif"),
            (writers.camt(STATEMENT), "camt"),
            (writers.chase(STATEMENT), "csv"),
        ],
    )
    def test_content_decides_whatever_the_file_is_called(self, data: bytes, expected: str) -> None:
        for name in ("", "x.csv", "x.xml"):
            assert import_bank_file(data, BankHints(account_id="C1", file_name=name)).format == expected

    def test_a_hint_wins(self) -> None:
        with pytest.raises(ImportRefused) as caught:
            import_bank_file(writers.chase(self.STATEMENT), BankHints(account_id="C1", format="ofx"))
        assert caught.value.code == "broken_ofx"
        assert import_bank_file(writers.ofx(self.STATEMENT), BankHints(account_id="C1", format="QFX")).format == "ofx"

    def test_an_unknown_hint_is_refused(self) -> None:
        with pytest.raises(ImportRefused) as caught:
            load("x", format="mt940")
        assert caught.value.code == "unknown_format_hint"

    def test_a_camt_statement_has_parties_references_and_a_closing_balance(self) -> None:
        result = load(
            '<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.02"><BkToCstmrStmt><Stmt>\n'
            "<Bal><Tp><CdOrPrtry><Cd>OPBD</Cd></CdOrPrtry></Tp><Amt Ccy='EUR'>1</Amt><CdtDbtInd>CRDT</CdtDbtInd></Bal>\n"
            "<Bal><Tp><CdOrPrtry><Cd>CLBD</Cd></CdOrPrtry></Tp><Amt Ccy='EUR'>500.00</Amt><CdtDbtInd>DBIT</CdtDbtInd>"
            "<Dt><Dt>2024-01-31</Dt></Dt></Bal>\n"
            "<Ntry><Amt Ccy='EUR'>12.50</Amt><CdtDbtInd>DBIT</CdtDbtInd><BookgDt><Dt>2024-01-05</Dt></BookgDt>"
            "<ValDt><Dt>2024-01-06</Dt></ValDt><AcctSvcrRef>R1</AcctSvcrRef><NtryDtls><TxDtls><Amt Ccy='EUR'>1</Amt>"
            "<RltdPties><Cdtr><Nm>Shop</Nm></Cdtr></RltdPties><RmtInf><Ustrd>Invoice 1</Ustrd></RmtInf></TxDtls></NtryDtls>"
            "</Ntry>\n<Ntry><Amt Ccy='EUR'>x</Amt><CdtDbtInd>DBIT</CdtDbtInd></Ntry>\n"
            "</Stmt></BkToCstmrStmt></Document>"
        )
        (line,) = result.transactions
        assert (line.description, line.amount, line.notes, line.reference_id) == (
            "Shop",
            D("-12.50"),
            "Invoice 1",
            "R1",
        )
        assert (line.post_date, line.currency) == (dt.date(2024, 1, 6), "EUR")
        assert (result.closing_balance, result.closing_date) == (D(-500), dt.date(2024, 1, 31))
        assert [(error.row_number, error.field) for error in result.errors] == [(5, "Amt")]
