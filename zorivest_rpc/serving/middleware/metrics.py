"""How often each tool was called, how long it took, how much it answered and how often it failed.

Counters count everything; latencies and sizes are of the last 1 000 calls of a tool. In memory only: a new process
starts from nothing. A round that only asks the user something is neither a call nor an error. The same figures of each
call go to the log of a client that asked for that much detail: names and numbers, nothing that was sent or answered."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Collection, Iterator
from math import ceil, floor
from typing import Final

from zorivest_rpc.errors import ProtocolError, ToolError
from zorivest_rpc.mcp.call import BecomeTask, Call, Handler, InputRequired, Outcome
from zorivest_rpc.mcp.protocol.content import Block
from zorivest_rpc.mcp.protocol.jsonrpc import Json

__all__ = ["RING", "Metrics"]

RING: Final = 1000
_ERROR_RATE: Final = 0.10
_SLOW_MS: Final = 2000
_QUANTILES: Final = (0.5, 0.95, 0.99)
_LOGGER: Final = "zorivest.calls"


class _Tool:
    """The numbers of one tool; two rings that are written at the same place."""

    __slots__ = ("calls", "errors", "latencies", "place", "seconds", "size", "sizes")

    def __init__(self) -> None:
        self.calls = 0
        self.errors = 0
        self.seconds = 0.0  # of all calls
        self.size = 0
        self.latencies = array("d")  # milliseconds
        self.sizes = array("q")
        self.place = 0

    def add(self, milliseconds: float, size: int, failed: bool) -> None:
        self.calls += 1
        self.errors += failed
        self.seconds += milliseconds / 1000
        self.size += size
        if len(self.latencies) < RING:
            self.latencies.append(milliseconds)
            self.sizes.append(size)
        else:
            place = self.place
            self.latencies[place] = milliseconds
            self.sizes[place] = size
            self.place = (place + 1) % RING

    def fail_last(self, more: int) -> None:
        self.errors += 1
        self.size += more
        self.sizes[self.place - 1] += more  # before the ring is full its place is 0, and the last entry is the last one

    @property
    def error_rate(self) -> float:
        return self.errors / self.calls


class Metrics:
    """The collector, and the layer that feeds it."""

    def __init__(
        self,
        clock: Callable[[], float] = time.perf_counter,
        is_network_bound: Callable[[str], bool] = lambda name: False,
        started: float | None = None,
    ) -> None:
        """A tool that `is_network_bound` waits for others by nature, so its latency raises no warning. `started` is
        when the server did, by the same clock; the collector itself may be younger."""
        self._clock = clock
        self._is_network_bound = is_network_bound
        self._started = clock() if started is None else started
        self._tools: dict[tuple[str, str], _Tool] = {}  # by client and tool; of one client the name is empty
        self.unresolved = 0  # calls that named no client they could be done for

    async def __call__(self, call: Call, inner: Handler) -> Outcome:
        started = self._clock()
        try:
            outcome = await inner(call)
        except (InputRequired, BecomeTask):
            raise
        except BaseException as error:
            # what a ToolError says is the result that the client is given
            size = _bytes(error.text) if isinstance(error, ToolError) else 0
            elapsed = (self._clock() - started) * 1000
            self.record(call.name, elapsed, size, True, call.scope.name)
            if isinstance(error, ToolError):
                _log(call, "debug", elapsed, size, "refused", error.code)
            elif isinstance(error, ProtocolError):  # a program's mistake, such as an answer of the wrong form
                _log(call, "debug", elapsed, size, "refused", str(error.code))
            elif isinstance(error, Exception):  # a defect of ours; its traceback is in the server's own log
                _log(call, "error", elapsed, size, "failed")
            raise
        content = outcome.content
        size = _size(content[0]) if len(content) == 1 else sum(map(_size, content))
        elapsed = (self._clock() - started) * 1000
        self.record(call.name, elapsed, size, outcome.is_error, call.scope.name)
        if call.session.log_level == "debug":
            _log(call, "debug", elapsed, size, "refused" if outcome.is_error else "done")
        return outcome

    def record(self, tool: str, milliseconds: float, size: int, failed: bool, client: str = "") -> None:
        numbers = self._tools.get((client, tool))
        if numbers is None:
            numbers = self._tools[client, tool] = _Tool()
        numbers.add(milliseconds, size, failed)

    def mark_failed(self, tool: str, more: int, client: str = "") -> None:
        """The call that was recorded last turned out to be an error after all, with a result this much longer."""
        numbers = self._tools.get((client, tool))
        if numbers is not None:
            numbers.fail_last(more)

    def uptime_minutes(self) -> int:
        return _round((self._clock() - self._started) / 60)

    def summary(self, verbose: bool = False, clients: Collection[str] | None = None) -> dict[str, Json]:
        """The session as a whole; each tool by itself only on demand. With `clients` theirs alone, added up."""
        calls = errors = 0
        slowest = most_errored = None
        highest = 0.0
        most = 0
        warnings: list[str] = []
        per_tool: dict[str, Json] = {}
        for (client, own), tool in self._tools.items():
            if clients is not None and client and client not in clients:
                continue
            name = f"{own} (client {client})" if client else own
            calls += tool.calls
            errors += tool.errors
            ordered = sorted(tool.latencies)
            average = sum(ordered) / len(ordered)
            if average > highest:
                highest, slowest = average, own
            if tool.errors > most:
                most, most_errored = tool.errors, own
            warnings += self._warnings(name, own, tool, _round(_percentile(ordered, 0.95)))
            if verbose:
                per_tool[name] = _describe(tool, ordered, average)
        minutes = self.uptime_minutes()
        found: dict[str, Json] = {
            "session_uptime_minutes": minutes,
            "total_tool_calls": calls,
            "overall_error_rate": _round_to(errors / calls, 4) if calls else 0,
            "calls_per_minute": _round_to(calls / minutes, 2) if minutes > 0 else 0,
            "slowest_tool": slowest,
            "most_errored_tool": most_errored,
            "warnings": warnings,
        }
        if clients is not None:
            found["unresolved"] = self.unresolved
        if verbose:
            found["per_tool"] = per_tool
        return found

    def _warnings(self, name: str, own: str, tool: _Tool, p95: int) -> Iterator[str]:
        if tool.error_rate > _ERROR_RATE:
            percent = _round(tool.error_rate * 100)
            yield f"Tool '{name}' has {percent}% error rate ({tool.errors}/{tool.calls} calls)"
        if p95 > _SLOW_MS and not self._is_network_bound(own):
            yield f"Tool '{name}' p95 latency is {p95}ms"

    def prometheus(self, clients: Collection[str] | None = None) -> str:
        """The same numbers in the text format that scrapers read; with `clients` theirs alone."""
        lines = [
            "# HELP zorivest_uptime_seconds Time since the server started.",
            "# TYPE zorivest_uptime_seconds gauge",
            f"zorivest_uptime_seconds {self._clock() - self._started:.3f}",
        ]
        tools = [
            (_labels(client, own), tool)
            for (client, own), tool in sorted(self._tools.items())
            if clients is None or not client or client in clients
        ]
        if clients is not None:
            lines += [
                "# HELP zorivest_unresolved_calls_total Calls that named no client they could be done for.",
                "# TYPE zorivest_unresolved_calls_total counter",
                f"zorivest_unresolved_calls_total {self.unresolved}",
            ]

        def family(name: str, kind: str, about: str, samples: Iterator[str]) -> None:
            lines.extend((f"# HELP {name} {about}", f"# TYPE {name} {kind}", *samples))

        family(
            "zorivest_tool_calls_total",
            "counter",
            "Calls of a tool.",
            (f"zorivest_tool_calls_total{{{labels}}} {tool.calls}" for labels, tool in tools),
        )
        family(
            "zorivest_tool_errors_total",
            "counter",
            "Calls of a tool that failed or were refused.",
            (f"zorivest_tool_errors_total{{{labels}}} {tool.errors}" for labels, tool in tools),
        )
        family(
            "zorivest_tool_latency_seconds",
            "summary",
            f"Duration of a call; quantiles over the last {RING}.",
            (line for labels, tool in tools for line in _latency(labels, tool)),
        )
        family(
            "zorivest_tool_payload_bytes_total",
            "counter",
            "Bytes of the results of a tool.",
            (f"zorivest_tool_payload_bytes_total{{{labels}}} {tool.size}" for labels, tool in tools),
        )
        return "\n".join(lines) + "\n"


def _describe(tool: _Tool, ordered: list[float], average: float) -> dict[str, Json]:
    p50, p95, p99 = (_round(_percentile(ordered, rank)) for rank in _QUANTILES)
    return {
        "call_count": tool.calls,
        "error_count": tool.errors,
        "error_rate": _round_to(tool.error_rate, 4),
        "latency": {
            "avg": _round(average),
            "min": _round(ordered[0]),
            "max": _round(ordered[-1]),
            "p50": p50,
            "p95": p95,
            "p99": p99,
        },
        "avg_payload_bytes": _round(sum(tool.sizes) / len(tool.sizes)),
    }


def _latency(labels: str, tool: _Tool) -> Iterator[str]:
    ordered = sorted(tool.latencies)
    for rank in _QUANTILES:
        seconds = _percentile(ordered, rank) / 1000
        yield f'zorivest_tool_latency_seconds{{{labels},quantile="{rank}"}} {seconds:.6f}'
    yield f"zorivest_tool_latency_seconds_sum{{{labels}}} {tool.seconds:.6f}"
    yield f"zorivest_tool_latency_seconds_count{{{labels}}} {tool.calls}"


def _percentile(ordered: list[float], rank: float) -> float:
    """Nearest rank: the smallest value that at least this share of the values does not exceed."""
    return ordered[max(0, ceil(round(rank * len(ordered), 9)) - 1)]


def _size(block: Block) -> int:
    words = block.get("text")
    if isinstance(words, str):
        return _bytes(words)
    data = block.get("data")
    return len(data) if isinstance(data, str) else 0


def _bytes(words: str) -> int:
    return len(words) if words.isascii() else len(words.encode("utf-8", "replace"))


def _round(value: float) -> int:
    return floor(value + 0.5)


def _round_to(value: float, digits: int) -> float:
    return floor(value * 10.0**digits + 0.5) / 10.0**digits


def _log(call: Call, level: str, milliseconds: float, size: int, outcome: str, code: str | None = None) -> None:
    told: dict[str, Json] = {"tool": call.name, "outcome": outcome, "ms": _round_to(milliseconds, 3), "bytes": size}
    if call.scope.name:
        told["tenant"] = call.scope.name
    call.log(level, told if code is None else {**told, "code": code}, _LOGGER)


def _labels(client: str, tool: str) -> str:
    of_client = f',tenant="{_label(client)}"' if client else ""
    return f'tool="{_label(tool)}"{of_client}'


def _label(name: str) -> str:
    return name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
