"""Finding a tool by words or by an expression, over the whole catalogue and the same way every time.

Words are ranked by BM25 with weighted fields: a hit in a name counts more than one in a long description. Queries are
widened by what traders call things. Expressions run on an engine that works in linear time, because a model writes them
and no pattern may hold up a session."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

import msgspec

from zorivest_rpc.errors import InvalidArguments
from zorivest_rpc.serving.catalog.spec import ToolSpec

__all__ = ["LONGEST_EXPRESSION", "LONGEST_QUERY", "Match", "SearchIndex"]

LONGEST_EXPRESSION = 200
LONGEST_QUERY = 1_000
_MOST_CORRECTED = 12  # words that are compared with every term of the index, which takes milliseconds each

_FIELD_WEIGHTS = {
    "name": 4.0,
    "title": 2.5,
    "keywords": 2.5,
    "minimal": 2.0,
    "toolset": 1.5,
    "inputs": 1.0,
    "rich": 0.7,
}
_K1, _B = 1.2, 0.6
_SYNONYM, _PREFIX, _TYPO = 0.45, 0.5, 0.35
_REGEX_SIZE = 1 << 20

# Phrases that mean the same to a trader; each stands for all the others of its line.
_SYNONYMS = (
    ("pnl", "p&l", "profit and loss", "profit", "profitable", "earnings"),
    ("fill", "execution", "trade", "order"),
    ("stock", "ticker", "symbol", "equity", "share"),
    ("price", "quote", "last price"),
    ("fee", "commission", "cost", "charge"),
    ("pfof", "payment for order flow", "order flow"),
    ("drawdown", "losing streak", "risk of ruin", "monte carlo"),
    ("expectancy", "edge", "win rate", "kelly", "profit factor"),
    ("sqn", "system quality number"),
    ("mfe", "mae", "excursion"),
    ("slippage", "execution quality", "good fill", "bad fill", "price improvement", "nbbo"),
    ("position size", "sizing", "how many shares", "how big", "lot size"),
    ("wash sale", "disallowed loss", "rebuy", "buy back", "30 days"),
    ("tax loss harvesting", "harvest", "tlh", "loser", "losing position"),
    ("tax", "irs", "owe"),
    ("quarter", "quarterly", "q1", "q2", "q3", "q4"),
    ("recent", "last", "latest", "newest"),
    ("pipeline history", "last run", "run history"),
    ("stale", "up to date", "outdated", "out of date"),
    ("market provider", "data source", "feed", "polygon", "finnhub", "alpha vantage", "yahoo"),
    ("lot", "cost basis", "basis"),
    ("capital gain", "realized gain", "gain"),
    ("broker", "brokerage", "ibkr", "interactive brokers", "alpaca", "schwab"),
    ("bank", "cash", "checking", "savings"),
    ("statement", "import", "upload", "file"),
    ("screenshot", "image", "chart", "picture"),
    ("review", "report", "post mortem", "journal"),
    ("mistake", "error", "discipline", "fomo", "revenge"),
    (
        "schedule",
        "cron",
        "policy",
        "pipeline",
        "automation",
        "recurring",
        "every",
        "daily",
        "nightly",
        "weekly",
        "monthly",
    ),
    ("configured", "set up", "connected"),
    ("news", "headline", "article"),
    ("filing", "sec", "edgar", "10-k", "10-q", "8-k"),
    ("stop", "halt", "kill switch", "panic", "freeze", "lock"),
    ("health", "status", "diagnose", "diagnostics", "troubleshoot"),
    ("setting", "preference", "configuration", "option"),
    ("option", "spread", "leg", "condor", "straddle"),
    ("delete", "remove", "disconnect"),
    ("confirm", "approve", "token"),
    ("round trip", "closed trade", "position"),
)
_STOP_WORDS = """
    a about after all allowed am an and any are as at be before can could did do does for from get good had has have how
    i if in into is it its like me much my need now of on or our out please really should some that the their them then
    there these this to today up us use want was we were what when where which who will with would you your tool
    tools show give tell
"""
_WORD = re.compile(r"[a-z0-9]+(?:&[a-z0-9]+)?")


class Match(msgspec.Struct, frozen=True):
    """A tool that was found and how well it fits; scores compare within one answer only."""

    tool: ToolSpec
    score: float


class SearchIndex:
    """An index over some tools, in list order, which also breaks ties."""

    def __init__(self, tools: Iterable[ToolSpec]) -> None:
        self._tools = tuple(tools)
        self._texts = [_texts(tool) for tool in self._tools]
        self._postings: dict[str, dict[int, float]] = defaultdict(dict)
        fields = [{name: _terms(text) for name, text in texts.items()} for texts in self._texts]
        mean = {name: max(1.0, _mean(len(entry[name]) for entry in fields)) for name in _FIELD_WEIGHTS}
        for number, entry in enumerate(fields):
            for name, terms in entry.items():
                weight = _FIELD_WEIGHTS[name] / (1 - _B + _B * len(terms) / mean[name])
                for term in terms:
                    self._postings[term][number] = self._postings[term].get(number, 0.0) + weight

    def words(self, query: str) -> list[Match]:
        """The tools that fit the words, best first; an exact name always comes first."""
        if len(query) > LONGEST_QUERY:
            raise InvalidArguments(
                f"The query has {len(query)} characters; at most {LONGEST_QUERY} are allowed.",
                next="Search with the few words that matter.",
            )
        scores: dict[int, float] = defaultdict(float)
        for term, share in self._widen(query).items():
            postings = self._postings.get(term, {})
            rarity = math.log(1 + (len(self._tools) - len(postings) + 0.5) / (len(postings) + 0.5))
            for number, frequency in postings.items():
                scores[number] += share * rarity * frequency * (_K1 + 1) / (_K1 + frequency)
        exact = "_".join(_WORD.findall(query.lower()))
        for number, tool in enumerate(self._tools):
            if tool.name == exact:
                scores[number] += 100.0
        return self._rank(scores)

    def expression(self, pattern: str) -> list[Match]:
        """The tools some text of which matches, by the weight of the texts that do; case does not matter."""
        matches = _compile_pattern(pattern)
        scores = {
            number: sum(_FIELD_WEIGHTS[name] for name, text in texts.items() if matches(text))
            for number, texts in enumerate(self._texts)
        }
        return self._rank({number: score for number, score in scores.items() if score})

    def _rank(self, scores: dict[int, float]) -> list[Match]:
        order = sorted(scores, key=lambda number: (-round(scores[number], 6), number))
        return [Match(self._tools[number], round(scores[number], 4)) for number in order]

    def _widen(self, query: str) -> dict[str, float]:
        """The terms to look for and how much each counts: the query's own, synonyms, and what is nearly the same."""
        words = _terms(query)
        meant = [word for word in words if word not in _stop_terms()] or words
        shares = dict.fromkeys(meant, 1.0)
        for term, share in _synonyms_of(words).items():
            shares[term] = max(share, shares.get(term, 0.0))
        unknown = [word for word in meant if word not in self._postings]
        for word in unknown[:_MOST_CORRECTED]:
            for term, share in self._near(word):
                shares[term] = max(share, shares.get(term, 0.0))
        return shares

    def _near(self, word: str) -> list[tuple[str, float]]:
        if len(word) < 4:
            return []
        longer = [term for term in self._postings if term.startswith(word)]
        if longer:
            return [(term, _PREFIX) for term in longer]
        from difflib import get_close_matches

        return [(term, _TYPO) for term in get_close_matches(word, sorted(self._postings), n=2, cutoff=0.8)]


def _texts(tool: ToolSpec) -> dict[str, str]:
    inputs = tool.input_schema.get("properties", {})
    return {
        "name": tool.name,
        "title": tool.title,
        "keywords": "; ".join(tool.keywords),
        "minimal": tool.description.minimal,
        "toolset": " ".join(tool.toolsets),
        "inputs": "; ".join(f"{name} {schema.get('description', '')}" for name, schema in inputs.items()),
        "rich": tool.description.rich.removeprefix(tool.description.minimal),
    }


def _mean(values: Iterable[int]) -> float:
    counted = list(values)
    return sum(counted) / len(counted) if counted else 0.0


def _terms(text: str) -> list[str]:
    return [_stem(word) for word in _WORD.findall(text.lower().replace("_", " "))]


@lru_cache(maxsize=4096)
def _stem(word: str) -> str:
    """A crude common form, the same for texts and queries: no plural, no -ing or -ed, one English spelling."""
    for ending, instead in (("sses", "ss"), ("ies", "y"), ("ches", "ch"), ("shes", "sh"), ("xes", "x")):
        if word.endswith(ending) and len(word) > len(ending) + 1:
            word = word.removesuffix(ending) + instead
            break
    else:
        if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
            word = word[:-1]
    for ending in ("ing", "ed"):
        if word.endswith(ending) and len(word) >= len(ending) + 3:
            word = word.removesuffix(ending)
            if word[-1] == word[-2] and word[-1] not in "ls":
                word = word[:-1]
            break
    word = word.replace("isation", "ization").replace("iour", "ior").replace("avour", "avor").replace("arbour", "arbor")
    if word.endswith("is") and len(word) > 5:  # realis(ed), summaris(ing)
        word = word[:-2] + "iz"
    word = word.removesuffix("e") if len(word) > 3 else word
    return word[:-2] + "iz" if word.endswith("is") and len(word) > 5 else word


@lru_cache(maxsize=1)
def _stop_terms() -> frozenset[str]:
    return frozenset(_stem(word) for word in _STOP_WORDS.split())


@lru_cache(maxsize=1)
def _phrases() -> dict[tuple[str, ...], list[tuple[str, float]]]:
    """Each phrase, in stems, with the terms of those that mean the same, each for its part of its phrase."""
    phrases: dict[tuple[str, ...], list[tuple[str, float]]] = defaultdict(list)
    for line in _SYNONYMS:
        for phrase in line:
            for other in line:
                terms = [term for term in _terms(other) if term not in _stop_terms()]
                if other != phrase:
                    phrases[tuple(_terms(phrase))] += [(term, 1 / len(terms)) for term in terms]
    return phrases


def _synonyms_of(words: Sequence[str]) -> dict[str, float]:
    found: dict[str, float] = {}
    for phrase, others in _phrases().items():
        width = len(phrase)
        if any(tuple(words[at : at + width]) == phrase for at in range(len(words) - width + 1)):
            for term, part in others:  # the more ways there are to say it, the less each tells
                found[term] = max(found.get(term, 0.0), part * _SYNONYM / (1 + 0.1 * len(others)))
    return found


def _compile_pattern(pattern: str) -> Callable[[str], bool]:
    """A search for the expression; jsonschema-rs brings the one linear-time engine that is installed anyway."""
    from jsonschema_rs import RegexOptions, ValidationError, validator_for

    if len(pattern) > LONGEST_EXPRESSION:
        raise InvalidArguments(
            f"The expression has {len(pattern)} characters; at most {LONGEST_EXPRESSION} are allowed.",
            next="Search with a shorter expression, or by words.",
        )
    try:
        judge = validator_for({"pattern": f"(?i){pattern}"}, pattern_options=RegexOptions(size_limit=_REGEX_SIZE))
    except (ValidationError, ValueError):
        raise InvalidArguments(
            f"{pattern!r} is not an expression that can be used: it must be complete and have neither look-around nor "
            "back references.",
            next='Search by words instead (mode "bm25"), or correct the expression.',
        ) from None
    return judge.is_valid
