"""The backend as a process: vitals, a restart that needs a proof, and log files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.serving.tools.stage import (
    DOWN,
    Clock,
    FakeBackend,
    Stage,
    Turn,
    fits,
    kit,
    make_call,
    payload,
    refused,
)
from zorivest_rpc.errors import BackendError, BackendUnreachable, OutcomeUnknown, ToolError
from zorivest_rpc.mcp.call import Call
from zorivest_rpc.serving.tools.service import Service

HEALTH: dict[str, Any] = {
    "status": "ok",
    "version": "1.0.0",
    "uptime_seconds": 500,
    "instance_id": "old",
    "scheduler": {"active_policies": 2, "next_run": "2026-03-01T09:00:00+00:00"},
    "database": {"unlocked": True, "encrypted": True, "key_source": "file"},
}
PROCESS = {"pid": 4242, "uptime_seconds": 500, "memory_mb": 81.5, "cpu_percent": 0.4, "python_version": "3.11.8"}
UP: dict[str, Any] = {"GET /health": HEALTH, "GET /service/status": PROCESS}
NEW = {**HEALTH, "instance_id": "new", "uptime_seconds": 1}
SHUTDOWN = "POST /service/graceful-shutdown"


# --- status


async def status(answers: dict[str, Any]) -> Any:
    backend = FakeBackend(answers)
    outcome = await Service(kit(backend), lambda call: "/logs").status(make_call("zorivest_service_status"))
    fits("zorivest_service_status", payload(outcome))
    return outcome


async def test_a_running_backend_shows_its_vitals() -> None:
    outcome = await status(UP)
    assert not outcome.is_error
    assert outcome.structured == {
        "backend": "running",
        "pid": 4242,
        "uptime_seconds": 500,
        "memory_mb": 81.5,
        "cpu_percent": 0.4,
        "version": "1.0.0",
        "scheduler": {"active_policies": 2, "next_run": "2026-03-01T09:00:00+00:00"},
        "database": {"unlocked": True},
    }


async def test_both_questions_go_out_at_once_and_only_health_needs_no_session() -> None:
    backend = FakeBackend(UP)
    await Service(kit(backend), lambda call: "/logs").status(make_call("zorivest_service_status"))
    assert backend.most_running == 2
    assert {asked.path: asked.auth for asked in backend.asked} == {"/health": "none", "/service/status": "needed"}
    assert all(asked.urgent for asked in backend.asked)


async def test_an_unreachable_backend_is_an_object_with_the_error_flag() -> None:
    outcome = await status({})
    assert outcome.is_error
    assert outcome.structured["backend"] == "unreachable"
    assert outcome.structured["error"] == DOWN.text
    assert "zorivest_launch_gui" in outcome.structured["hint"]
    assert outcome.meta["com.zorivest/error"]["code"] == "backend_unreachable"


async def test_something_else_at_the_address_counts_as_unreachable() -> None:
    strange = refused(200, "text/html instead of JSON", code="not_json")
    assert (await status({"GET /health": strange, "GET /service/status": strange})).is_error


async def test_a_refused_session_still_shows_a_running_backend_and_says_why_figures_are_missing() -> None:
    outcome = await status({**UP, "GET /service/status": refused(403, "The role is too low.")})
    assert not outcome.is_error
    found = outcome.structured
    assert (found["backend"], found["pid"], found["memory_mb"]) == ("running", None, None)
    assert found["version"] == "1.0.0"
    assert "The role is too low." in found["note"]


@pytest.mark.parametrize(
    "nonsense", [None, [], "up", {"pid": "four", "scheduler": 3, "version": 1, "database": {"unlocked": 1}}]
)
async def test_nonsense_in_the_answers_does_not_break_the_shape(nonsense: Any) -> None:
    outcome = await status({"GET /health": Turn(nonsense), "GET /service/status": Turn(nonsense)})
    assert outcome.structured["backend"] == "running"
    assert outcome.structured["pid"] is None


# --- restart


class Restart:
    def __init__(self, *healths: Any, shutdown: Any = None, process: Any = None) -> None:
        """The answers of /health one after the other, the last of them for good."""
        self.clock = Clock()
        self.healths = list(healths)
        self.backend = FakeBackend(
            {
                "GET /health": self._health,
                SHUTDOWN: {"status": "shutting_down"} if shutdown is None else shutdown,
                "GET /service/status": PROCESS if process is None else process,
            }
        )
        self.call: Call = make_call("zorivest_service_restart", confirm="RESTART")

    async def _health(self, question: Any) -> Any:
        found = self.healths.pop(0) if len(self.healths) > 1 else self.healths[0]
        return found if isinstance(found, Exception) else as_reply(found)

    async def run(self) -> dict[str, Any]:
        service = Service(kit(self.backend), lambda call: "/logs", clock=self.clock, sleep=self.clock.sleep)
        self.outcome = await service.restart(self.call)
        found = payload(self.outcome)
        fits("zorivest_service_restart", found)
        return found


def as_reply(value: Any) -> Any:
    from zorivest_rpc.serving.backend.interface import Reply

    return Reply(200, value)


async def test_a_restart_is_done_when_another_instance_answers() -> None:
    restart = Restart(HEALTH, DOWN, DOWN, NEW)
    found = await restart.run()
    assert found["status"] == "restarted"
    assert found["version"] == "1.0.0"
    assert restart.clock.slept == [2.0, 2.0, 2.0]
    assert restart.outcome.meta is not None
    assert restart.outcome.meta["com.zorivest/receipt"]["changed"] == "POST /service/graceful-shutdown"
    assert restart.backend.paths().count(SHUTDOWN) == 1


async def test_the_old_process_answering_the_first_polls_is_not_taken_for_a_restart() -> None:
    restart = Restart(HEALTH, HEALTH, HEALTH, NEW)
    await restart.run()
    assert len(restart.clock.slept) == 3


async def test_a_backend_that_never_left_is_a_failure_after_thirty_seconds() -> None:
    restart = Restart(HEALTH)
    with pytest.raises(ToolError) as failed:
        await restart.run()
    assert failed.value.code == "restart_timed_out"
    assert "service manager" in failed.value.text
    assert restart.clock.now == 1030.0


async def test_a_new_instance_that_is_not_healthy_yet_is_waited_for() -> None:
    restart = Restart(HEALTH, {**NEW, "status": "starting"}, NEW)
    await restart.run()
    assert len(restart.clock.slept) == 2


async def test_an_instance_that_stops_saying_who_it_is_proves_nothing() -> None:
    anonymous = {name: value for name, value in NEW.items() if name != "instance_id"}
    with pytest.raises(ToolError, match="no new process"):
        await Restart(HEALTH, DOWN, anonymous).run()


OLD_STYLE = {"status": "ok", "version": "0.9", "uptime_seconds": 500}


@pytest.mark.parametrize(
    ("polls", "waits"),
    [
        ([OLD_STYLE, {**OLD_STYLE, "uptime_seconds": 1}], 2),  # the clock of the process began again
        ([DOWN, {"status": "ok"}], 2),  # it was gone in between
        ([DOWN, {**OLD_STYLE, "uptime_seconds": 501}], 2),
        ([{"status": "ok"}, {"status": "ok"}, DOWN, {"status": "ok"}], 4),
    ],
)
async def test_without_an_instance_id_other_evidence_is_needed(polls: list[Any], waits: int) -> None:
    restart = Restart(OLD_STYLE, *polls)
    await restart.run()
    assert len(restart.clock.slept) == waits


async def test_without_any_evidence_a_restart_is_not_claimed() -> None:
    with pytest.raises(ToolError, match="no new process"):
        await Restart({"status": "ok"}).run()


async def test_a_breaker_that_remembers_failures_is_no_evidence() -> None:
    remembered = BackendUnreachable("Not tried.", code="backend_down")
    with pytest.raises(ToolError, match="no new process"):
        await Restart({"status": "ok"}, remembered, {"status": "ok"}).run()


async def test_a_stuck_backend_whose_health_fails_can_be_restarted() -> None:
    restart = Restart(refused(500), {**OLD_STYLE, "uptime_seconds": 900}, {**OLD_STYLE, "uptime_seconds": 0})
    await restart.run()
    assert len(restart.clock.slept) == 2


async def test_the_new_process_is_unlocked_again() -> None:
    restart = Restart(HEALTH, NEW)
    found = await restart.run()
    assert restart.backend.asked[-1].path == "/service/status"
    assert restart.backend.asked[-1].auth == "needed"
    assert "unlocked again" in found["message"]


async def test_a_new_process_that_cannot_be_unlocked_is_reported_with_the_reason() -> None:
    found = await Restart(HEALTH, NEW, process=refused(401, "Auth failed (401): unknown.")).run()
    assert found["status"] == "restarted"
    assert "Auth failed (401): unknown." in found["message"]


async def test_a_backend_that_is_down_already_is_not_asked_to_leave() -> None:
    restart = Restart(DOWN)
    with pytest.raises(BackendUnreachable, match="nothing was done"):
        await restart.run()
    assert SHUTDOWN not in restart.backend.paths()


async def test_a_refused_shutdown_is_an_error_and_nothing_is_waited_for() -> None:
    restart = Restart(HEALTH, shutdown=refused(403, "Only an admin may."))
    with pytest.raises(BackendError, match="Only an admin may"):
        await restart.run()
    assert restart.clock.slept == []


async def test_a_shutdown_whose_answer_was_lost_is_settled_by_looking() -> None:
    lost = OutcomeUnknown("No answer.")
    assert (await Restart(HEALTH, DOWN, NEW, shutdown=lost).run())["status"] == "restarted"
    with pytest.raises(OutcomeUnknown, match="Check with zorivest_service_status"):
        await Restart(HEALTH, shutdown=lost).run()


async def test_progress_is_told_while_waiting() -> None:
    restart = Restart(HEALTH, DOWN, NEW)
    await restart.run()
    wire: Any = restart.call.wire
    assert [params["progress"] for _, params in wire.notes] == [0.0, 2.0]


# --- logs


async def logs(directory: Path) -> dict[str, Any]:
    outcome = await Service(kit(FakeBackend()), lambda call: str(directory)).logs(make_call("zorivest_service_logs"))
    assert not outcome.is_error
    found = payload(outcome)
    fits("zorivest_service_logs", found)
    assert found["log_directory"] == str(directory)
    return found


async def test_only_names_that_end_in_jsonl_are_listed_and_in_order(tmp_path: Path) -> None:
    for name in ("trades.jsonl", "api.jsonl", "api.jsonl.1", "service-stdout.log"):
        (tmp_path / name).write_text("{}\n")
    assert (await logs(tmp_path))["log_files"] == ["api.jsonl", "trades.jsonl"]


async def test_a_missing_directory_is_an_empty_list_and_is_not_made(tmp_path: Path) -> None:
    found = await logs(tmp_path / "logs")
    assert found["log_files"] == []
    assert "no log directory" in found["hint"]
    assert not (tmp_path / "logs").exists()


async def test_a_directory_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("not a directory")
    found = await logs(tmp_path / "logs")
    assert found["log_files"] == []
    assert "not a directory" in found["hint"]


# --- through a client


async def test_status_and_logs_answer_a_client_while_the_backend_is_down(tmp_path: Path) -> None:
    (tmp_path / "app.jsonl").touch()
    client = await Stage(FakeBackend(), logs=str(tmp_path)).connect()
    answer = await client.call("zorivest_service_status")
    assert answer["isError"] is True
    assert answer["structuredContent"]["backend"] == "unreachable"
    assert (await client.call("zorivest_service_logs"))["structuredContent"]["log_files"] == ["app.jsonl"]


async def test_a_client_restarts_the_backend() -> None:
    allowed = {"allowed": True, "reason": "ok"}
    backend = FakeBackend({**UP, "POST /mcp-guard/check": allowed, SHUTDOWN: {"status": "shutting_down"}})
    backend.answers["GET /health"] = [Turn(HEALTH), DOWN, Turn(NEW)]
    client = await Stage(backend).connect()
    answer = await client.call("zorivest_service_restart", confirm="RESTART")
    assert answer["structuredContent"]["status"] == "restarted"
    assert (await client.call("zorivest_service_restart"))["isError"] is True
