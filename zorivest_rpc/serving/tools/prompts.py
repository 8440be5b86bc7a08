"""Prompts a person can pick: a weekly review, a check before a trade, the tax year's end, and one trade's post-mortem.

Each names the tools to call and in which order, what must not be done without asking, and what the answer looks like.
They hold no data of their own: every number has to come from a tool."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from zorivest_rpc.errors import ToolError
from zorivest_rpc.mcp.call import Call
from zorivest_rpc.mcp.offer import Messages, Prompt, PromptShelf, message
from zorivest_rpc.mcp.protocol.content import text
from zorivest_rpc.mcp.protocol.jsonrpc import dumps

__all__ = ["ARGUMENTS", "shelf"]

_GROUND_RULES: Final = (
    "Ground rules: every figure comes from a tool result; where a tool cannot tell, say so instead of estimating. "
    "Tools that are not in your list run through `call_tool`, and `tool_search` finds them. Nothing is written, synced "
    "or traded without my explicit yes in this conversation. If a call answers that the guard blocked it, stop and "
    "tell me; do not unlock it on your own."
)
_LONGEST: Final = 200
Values = Mapping[str, str]


def _weekly_review(given: Values) -> str:
    period = given.get("period") or "7d"
    account = _and_argument("account_id", given.get("account_id"))
    return f"""Review my trading of the period {_quote(period)}{_of_account(given)}.

1. `zorivest_diagnose`: if the backend is unreachable or the guard locked, report that and stop.
2. `get_account_review_checklist` with scope "stale_only": name accounts whose figures are old before you use them, \
and offer `sync_broker` for them without calling it.
3. `get_round_trips` with status "closed"{account}, and `list_trades` for the executions behind them.
4. `get_expectancy_metrics`, `get_sqn` and `get_fee_breakdown` with period {_quote(period)}{account}; \
`get_strategy_breakdown`{_with_account(given)}.
5. `get_mistake_summary` with period {_quote(period)}{account}.

Then write: a table of results (trades, win rate, expectancy, fees, net), the three findings that matter most with \
their numbers, the costliest mistake category, and one rule for next week that follows from them. With fewer than 30 \
closed round trips say that the statistics are weak.

{_GROUND_RULES}"""


def _pre_trade_check(given: Values) -> str:
    ticker = given["ticker"].strip().upper()
    idea = [f"{name} {_quote(given[name])}" for name in ("direction", "entry", "stop", "target") if given.get(name)]
    return f"""Check a trade in {_quote(ticker)} before I enter it{": " + ", ".join(idea) if idea else ""}\
{_of_account(given)}.

1. `get_stock_quote` with ticker {_quote(ticker)}: the price now, and how old it is.
2. `get_market_news` and `get_sec_filings` for {_quote(ticker)}: what could move it while I hold it.
3. `get_round_trips` and `get_strategy_breakdown`{_with_account(given)}: how I did with this symbol and this kind of \
trade before.
4. `find_wash_sales` with ticker {_quote(ticker)}: whether a new purchase would disallow a recent loss.
5. `calculate_position_size` with my balance, entry, stop and target. Ask me for whichever of them is missing; do not \
invent one.

Then give a verdict of one line (go, wait or no), the position size with the money at risk and the reward-to-risk \
ratio, the strongest argument against the trade, and the price at which the idea is wrong. If I agree, offer to save \
it with `create_trade_plan`; `create_trade` is for executions that have happened.

{_GROUND_RULES}"""


def _tax_year_end(given: Values) -> str:
    year = given.get("tax_year", "").strip()
    if year and not (len(year) == 4 and year.isascii() and year.isdigit()):
        words = "tax_year must be a year of four digits, such as 2026."
        raise ToolError(words, code="invalid_arguments", next="Give the year, or leave tax_year out.")
    argument = f"tax_year {year}" if year else ""
    of_year = f" with {argument}" if year else ""
    lots = _with_account(given) or " for each account"
    return f"""Prepare the end of {f"the tax year {year}" if year else "the current tax year"}{_of_account(given)}.

1. `get_ytd_tax_summary`{of_year}: realised gains and losses, short and long, wash-sale adjustments.
2. `find_wash_sales`: chains that are still open, and the day from which each symbol is free again.
3. `get_tax_lots`{lots}, with sort_by "holding_period": lots about to become long-term.
4. `harvest_losses`: candidates ranked by what they save; leave out those with wash-sale risk or mark them.
5. `simulate_tax_impact` for the sales worth considering, one by one.
6. `estimate_tax`{of_year} and `get_quarterly_estimate` with quarter "Q4"{argument and f" and {argument}"}: \
what is owed, what was paid, what is due.

Then write: where I stand, a ranked list of moves before 31 December with the tax effect of each and its deadline, \
and what not to buy back before which date. Record a payment with `record_quarterly_tax_payment` only after I say \
that it has been made. These are estimates and no tax advice; say so once.

{_GROUND_RULES}"""


def _trade_post_mortem(given: Values) -> str:
    trade = _quote(given["exec_id"].strip())
    return f"""Take one trade apart: execution {trade}.

1. `list_trades` and `get_round_trips` with status "all": the execution, its partner and the result.
2. `get_report_for_trade` with trade_id {trade}: a missing report is an answer, not a failure.
3. `get_trade_screenshots` with trade_id {trade}, then `get_screenshot` for each image: what the chart showed then.
4. `score_execution_quality` with trade_exec_id {trade}: the fill against the quote of the moment.
5. `enrich_trade_excursion` with trade_exec_id {trade}: it computes how far the trade went for and against me and \
stores the figures with the trade, so ask me first.

Then write: what was planned, what happened, where the two parted, what was decision and what was luck, and one \
lesson in one sentence. Offer `track_mistake` if a mistake of a known category shows, and `create_report` to keep the \
lesson; `ai_review_trade` may cost money, so name its budget_cap before you suggest it.

{_GROUND_RULES}"""


_ACCOUNT: Final = ("account_id", "Only this account; all accounts if left out", False)


def _prompt(
    name: str,
    title: str,
    description: str,
    words: Callable[[Values], str],
    *arguments: tuple[str, str, bool],
) -> Prompt:
    async def get(call: Call) -> Messages:
        for argument, value in call.arguments.items():
            if len(value) > _LONGEST:
                long = f"{argument} is longer than {_LONGEST} characters."
                raise ToolError(long, code="too_long", next="Give a shorter one.")
        return [message(text(words(call.arguments)))]

    return Prompt(name, description, get, arguments, title=title)


def _all() -> tuple[Prompt, ...]:
    return (
        _prompt(
            "weekly_review",
            "Weekly review",
            "Review a week of trading: results, costs, mistakes, and one rule for the next week.",
            _weekly_review,
            ("period", "What to review, such as 7d, wtd or 2026-03; 7d if left out", False),
            _ACCOUNT,
        ),
        _prompt(
            "pre_trade_check",
            "Pre-trade check",
            "Check an idea before entering: price, news, own record, wash sales and position size.",
            _pre_trade_check,
            ("ticker", "Symbol to trade, such as AAPL", True),
            ("direction", "LONG or SHORT", False),
            ("entry", "Planned entry price", False),
            ("stop", "Planned stop price", False),
            ("target", "Planned target price", False),
            _ACCOUNT,
        ),
        _prompt(
            "tax_year_end",
            "Tax year-end",
            "Plan the last moves of a tax year: gains, wash sales, loss harvesting and what is due.",
            _tax_year_end,
            ("tax_year", "Four digits; the current year if left out", False),
            _ACCOUNT,
        ),
        _prompt(
            "trade_post_mortem",
            "Post-mortem of a trade",
            "Take one trade apart: plan, execution, excursion, screenshots and the lesson.",
            _trade_post_mortem,
            ("exec_id", "Execution id of the trade, from list_trades", True),
        ),
    )


def shelf() -> PromptShelf:
    return PromptShelf(_all())


ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    prompt.name: tuple(name for name, _, _ in prompt.arguments) for prompt in _all()
}
"""The names of each prompt's arguments."""


def _quote(value: str) -> str:
    """A person's value as one visible unit, whatever is in it."""
    return dumps(value).decode()


def _of_account(given: Values) -> str:
    return f" for account {_quote(given['account_id'])}" if given.get("account_id") else ""


def _with_account(given: Values) -> str:
    return f" with account_id {_quote(given['account_id'])}" if given.get("account_id") else ""


def _and_argument(name: str, value: str | None) -> str:
    return f", {name} {_quote(value)}" if value else ""
