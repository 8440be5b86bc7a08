"""Finding tools: what a trader would type has to lead to the right tool, and always to the same one."""

from __future__ import annotations

import pytest

from tests.serving.catalog.test_contract import PROMISED
from zorivest_rpc.errors import InvalidArguments
from zorivest_rpc.serving.catalog.search import SearchIndex
from zorivest_rpc.serving.catalog.spec import Definitions


@pytest.fixture(scope="module")
def index(definitions: Definitions) -> SearchIndex:
    """Over the required tools alone: each tool more changes the weight of words, and with it the order of matches."""
    return SearchIndex([tool for tool in definitions.tools if tool.name in PROMISED])


def found(index: SearchIndex, query: str) -> list[str]:
    return [match.tool.name for match in index.words(query)]


@pytest.mark.parametrize(
    ("query", "tool"),
    [
        ("wash sale", "find_wash_sales"),
        ("how many shares should I buy", "calculate_position_size"),
        ("record a buy", "create_trade"),
        ("show my recent trades", "list_trades"),
        ("payment for order flow", "estimate_pfof_impact"),
        ("panic button", "zorivest_emergency_stop"),
        ("price of apple", "get_stock_quote"),
        ("10-K", "get_sec_filings"),
        ("tax bill this year", "estimate_tax"),
        ("upload my broker statement pdf", "import_broker_pdf"),
        ("import ofx", "import_bank_statement"),
        ("win rate", "get_expectancy_metrics"),
        ("risk of ruin", "simulate_drawdown"),
        ("iron condor", "detect_options_strategy"),
        ("pause the weekly report", "update_policy_schedule"),
        ("why did the pipeline fail", "get_pipeline_history"),
        ("unrealised losses to harvest", "harvest_losses"),
        ("remove api key", "disconnect_market_provider"),
        ("sync interactive brokers", "sync_broker"),
        ("stale balances", "get_account_review_checklist"),
        ("MAE MFE", "enrich_trade_excursion"),
        ("load more tools", "enable_toolset"),
        ("CUSIP", "resolve_identifiers"),
        ("how big should my position be if I risk 1%", "calculate_position_size"),
        ("am I allowed to rebuy after selling at a loss", "find_wash_sales"),
        ("which losers can I sell before year end to save taxes", "harvest_losses"),
        ("what do I owe the IRS for Q3", "get_quarterly_estimate"),
        ("did I get a good fill", "score_execution_quality"),
        ("show my last trades", "list_trades"),
        ("wat is my expectency", "get_expectancy_metrics"),
    ],
)
def test_what_a_trader_types_leads_to_the_tool(index: SearchIndex, query: str, tool: str) -> None:
    assert found(index, query)[0] == tool


@pytest.mark.parametrize(
    ("query", "tool"),
    [
        ("commissions paid", "get_fee_breakdown"),
        ("post mortem", "create_report"),
        ("how much did I pay in commissions this year", "get_fee_breakdown"),
        ("send me a weekly report every friday", "create_policy"),
        ("are my accounts up to date", "get_account_review_checklist"),
        ("is polygon connected", "list_market_providers"),
        ("when did the report last run", "get_pipeline_history"),
        ("am I profitable", "get_expectancy_metrics"),
    ],
)
def test_near_misses_are_among_the_first_three(index: SearchIndex, query: str, tool: str) -> None:
    assert tool in found(index, query)[:3]


def test_an_exact_name_comes_first(definitions: Definitions) -> None:
    index = SearchIndex(definitions.tools)
    for tool in definitions.tools:
        assert found(index, tool.name)[0] == tool.name


def test_spelling_number_and_form_of_a_word_do_not_matter(index: SearchIndex) -> None:
    assert found(index, "behavioural errors") == found(index, "behavioral errors")
    assert found(index, "realised gains") == found(index, "realized gain")
    assert found(index, "WASH SALES") == found(index, "wash sale")


def test_a_mistyped_or_cut_word_still_finds_its_tool(index: SearchIndex) -> None:
    assert found(index, "drawdwon")[0] == "simulate_drawdown"
    assert found(index, "quarterl")[0] in ("get_quarterly_estimate", "record_quarterly_tax_payment")


def test_parameters_are_searched_too(index: SearchIndex) -> None:
    assert "harvest_losses" in found(index, "exclude_wash_risk")[:1]


def test_what_fits_nothing_finds_nothing(index: SearchIndex) -> None:
    assert index.words("xylophone qwzzx") == []
    assert index.words("") == []
    assert index.words("!!! ???") == []


def test_an_index_over_fewer_tools_finds_only_those(definitions: Definitions) -> None:
    small = SearchIndex([tool for tool in definitions.tools if tool.reads_only])
    assert "create_trade" not in found(small, "record a buy")
    assert SearchIndex([]).words("tax") == []


def test_two_indexes_give_the_same_answer_with_scores_in_order(definitions: Definitions) -> None:
    one, other = SearchIndex(definitions.tools), SearchIndex(definitions.tools)
    assert one.words("tax on a sale") == other.words("tax on a sale")
    scores = [match.score for match in one.words("tax on a sale")]
    assert scores == sorted(scores, reverse=True)


def test_equal_scores_keep_the_order_of_the_list(index: SearchIndex, definitions: Definitions) -> None:
    order = [tool.name for tool in definitions.tools]
    matches = [match.tool.name for match in index.expression("^import_broker_(csv|pdf)")]
    assert matches == sorted(matches, key=order.index) == ["import_broker_csv", "import_broker_pdf"]


def test_an_expression_searches_every_text_without_regard_to_case(index: SearchIndex) -> None:
    assert [match.tool.name for match in index.expression("^GET_.*tax")] == ["get_tax_lots", "get_ytd_tax_summary"]
    assert index.expression("wash.?sale")[0].tool.name == "find_wash_sales"
    assert index.expression("zebra[0-9]+") == []


@pytest.mark.parametrize("pattern", ["(", "[a", "(?=x)y", r"(a)\1", "a{999}{999}{999}", "*"])
def test_an_expression_that_cannot_run_is_refused_with_advice(index: SearchIndex, pattern: str) -> None:
    with pytest.raises(InvalidArguments) as refused:
        index.expression(pattern)
    assert refused.value.next is not None


def test_an_expression_is_bounded_in_length(index: SearchIndex) -> None:
    with pytest.raises(InvalidArguments, match="201 characters"):
        index.expression("a" * 201)


def test_an_expression_that_would_run_for_ever_elsewhere_ends(index: SearchIndex) -> None:
    assert index.expression(r"(([a-z]+ ?)+)+#$") == []
    assert index.expression(r"(.*)*(.*)*(.*)*(.*)*~$") == []
