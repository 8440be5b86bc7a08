"""What the short forms of a tool file mean."""

from __future__ import annotations

from typing import Any

import msgspec

from zorivest_rpc.serving.catalog.spec import Definitions, ToolRoute, ToolSpec, defaults, pick, routes


def tool(rest: Any, *inputs: str) -> ToolSpec:
    return msgspec.convert(
        {
            "name": "sample",
            "title": "Sample",
            "description": {"minimal": "", "rich": ""},
            "inputSchema": {"type": "object", "properties": {name: {"type": "string"} for name in inputs}},
            "annotations": dict.fromkeys(("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"), False),
            "rest": rest,
        },
        ToolSpec,
    )


def only(spec: ToolSpec) -> ToolRoute:
    (route,) = routes(spec)
    return route


def by_name(definitions: Definitions, name: str) -> ToolSpec:
    return next(spec for spec in definitions.tools if spec.name == name)


def test_inputs_of_a_read_go_to_the_path_and_then_to_the_query() -> None:
    route = only(tool("GET /things/{kind}", "kind", "limit"))
    assert (route.method, route.path, route.path_params) == ("GET", "/things/{kind}", {"kind": "kind"})
    assert (route.query_params, route.body_params) == ({"limit": "limit"}, {})


def test_inputs_of_a_write_go_to_the_path_and_then_to_the_body() -> None:
    route = only(tool("POST /things/{kind}", "kind", "size"))
    assert (route.query_params, route.body_params) == ({}, {"size": "size"})


def test_a_confirmation_token_goes_nowhere() -> None:
    assert only(tool("POST /things", "size", "confirmation_token")).body_params == {"size": "size"}


def test_a_renamed_input_travels_under_the_wire_name_only() -> None:
    route = only(tool({"route": "GET /things", "query_params": {"id": "thing_id"}}, "thing_id", "limit"))
    assert route.query_params == {"id": "thing_id", "limit": "limit"}


def test_a_body_root_is_the_whole_body() -> None:
    route = only(tool({"route": "PUT /things", "body_root": "things"}, "things"))
    assert (route.body_root, route.body_params) == ("things", {})


def test_a_file_makes_the_request_multipart_and_takes_its_inputs_with_it() -> None:
    file = {"field": "file", "source": "base64", "param": "image", "content_type_param": "mime"}
    route = only(tool({"route": "POST /images", "file": file}, "image", "mime", "caption"))
    assert route.multipart
    assert route.body_params == {"caption": "caption"}


def test_the_first_route_whose_placeholders_are_given_is_taken() -> None:
    choices = routes(tool(["GET /settings/{key}", "GET /settings"], "key"))
    assert pick(choices, {"key": "ui.theme"}).path == "/settings/{key}"
    assert pick(choices, {}).path == "/settings"
    assert pick(choices, {"key": ""}).path == "/settings"


def test_an_input_that_only_chooses_a_route_is_not_sent_to_the_other() -> None:
    fallback = routes(tool(["GET /policies/{policy_id}/runs", "GET /runs"], "policy_id", "limit"))[1]
    assert fallback.query_params == {"limit": "limit"}


def test_zero_and_false_count_as_given() -> None:
    choices = routes(tool(["GET /images/{number}", "GET /images"], "number"))
    assert pick(choices, {"number": 0}).path == "/images/{number}"


def test_a_tool_with_logic_has_no_route(definitions: Definitions) -> None:
    assert routes(by_name(definitions, "zorivest_diagnose")) == ()


def test_every_input_of_a_forwarding_tool_reaches_the_backend_or_is_held_back_on_purpose(
    definitions: Definitions,
) -> None:
    for spec in definitions.tools:
        for route in routes(spec)[:1]:
            held_back = {"confirmation_token", "confirm_destructive", *(["dry_run"] if route.preview else [])}
            sent = [*route.path_params.values(), *route.query_params.values(), *route.body_params.values()]
            if route.body_root:
                sent.append(route.body_root)
            if route.file:
                sent += [route.file.param, *filter(None, [route.file.content_type_param])]
            assert sorted(sent) == sorted(set(spec.input_schema["properties"]) - held_back), spec.name


def test_routes_that_differ_from_the_simple_rule(definitions: Definitions) -> None:
    image = only(by_name(definitions, "attach_screenshot"))
    assert (image.path_params, image.body_params) == ({"exec_id": "trade_id"}, {"caption": "caption"})
    preview = only(by_name(definitions, "preview_report"))
    assert (preview.fixed_params, preview.body_params) == ({"body": {"dry_run": True}}, {})
    grade = only(by_name(definitions, "score_execution_quality"))
    assert grade.query_params == {"trade_id": "trade_exec_id"}
    disconnect = only(by_name(definitions, "disconnect_market_provider"))
    assert (disconnect.method, disconnect.query_params) == ("DELETE", {})


def test_constant_defaults_are_collected_and_dated_ones_kept_apart(definitions: Definitions) -> None:
    quarter = by_name(definitions, "get_quarterly_estimate")
    assert defaults(quarter) == {"estimation_method": "annualized"}
    assert quarter.dynamic_defaults == {"tax_year": "current_year"}
