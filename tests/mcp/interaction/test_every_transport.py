"""What every client may rely on, over every transport and in both eras."""

from __future__ import annotations

from tests.connect import Host


async def test_what_is_sent_comes_back(connect: Host) -> None:
    client = await connect()
    result = await client.call("echo", {"text": "grüße \u2028 \U0001f600"})
    assert result["structuredContent"] == {"text": "grüße \u2028 \U0001f600"}


async def test_requests_run_side_by_side_and_answers_overtake(connect: Host) -> None:
    client = await connect()
    held = await client.start_call("hold", {"gate": "a"}, progressToken="held")
    await client.note("notifications/progress")
    assert (await client.call("echo", {"text": "first"}))["structuredContent"] == {"text": "first"}
    assert not [answer for answer in client.answers if answer["id"] == held]
    await client.call("open_gate", {"gate": "a"})
    assert (await client.answer(held))["result"]["content"] == [{"type": "text", "text": "released"}]


async def test_progress_comes_before_its_answer_and_stops_with_it(connect: Host) -> None:
    client = await connect()
    id = await client.start_call("progress", {"steps": [1, 2.5, 2, 2.5, 40]}, progressToken=7)
    await client.answer(id)
    await client.settle()
    told = [note["params"] for note in client.notes_of("notifications/progress")]
    assert [(each["progressToken"], each["progress"]) for each in told] == [(7, 1), (7, 2.5), (7, 40)]
    assert all(each["total"] == 100 for each in told)


async def test_no_progress_without_a_token(connect: Host) -> None:
    client = await connect()
    await client.call("progress", {"steps": [1, 2]})
    assert client.notes == []


async def test_an_unknown_tool_is_a_protocol_error_and_wrong_arguments_are_a_tool_error(connect: Host) -> None:
    client = await connect()
    assert (await client.error("tools/call", {"name": "no such tool"}))["code"] == -32602
    result = await client.call("echo", {"text": 5})
    assert result["isError"] is True
    assert "text" in result["content"][0]["text"]


async def test_a_tool_error_tells_the_model_and_programs_what_to_do(connect: Host) -> None:
    client = await connect()
    result = await client.call("tool_error")
    assert result["isError"] is True
    assert result["content"] == [{"type": "text", "text": "No account A-17."}]
    assert result["_meta"]["com.zorivest/error"] == {
        "class": "tool",
        "code": "no_account",
        "next": "list_bank_accounts gives the ids.",
    }


async def test_an_id_comes_back_with_its_type(connect: Host) -> None:
    client = await connect()
    for id in (7, "7", 0, -3, 2**53 + 1, 2**63, 10**30, "", 'ü\u2028\n"', "x" * 1024):
        assert (await client.ask("tools/list", id=id))["id"] == id
    assert [type(answer["id"]) for answer in client.answers if str(answer["id"]) == "7"] in ([int, str], [str, int])


async def test_a_question_to_the_user_reaches_the_handler(connect: Host) -> None:
    client = await connect()
    if client.modern:
        first = await client.call("ask_form")
        assert first["resultType"] == "input_required"
        assert first["inputRequests"]["name"]["method"] == "elicitation/create"
        answers = {"name": {"action": "accept", "content": {"name": "Ada"}}}
        done = await client.call("ask_form", inputResponses=answers, requestState=first["requestState"])
    else:
        id = await client.start_call("ask_form")
        question = await client.question()
        assert question["method"] == "elicitation/create"
        await client.reply(question, {"action": "accept", "content": {"name": "Ada"}})
        done = (await client.answer(id))["result"]
    assert done["content"] == [{"type": "text", "text": "hello Ada"}]


async def test_a_list_change_is_told_to_who_listens(connect: Host) -> None:
    client = await connect()
    if client.modern:
        await client.start("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        await client.note("notifications/subscriptions/acknowledged")
    await client.call("change", {"kind": "tools"})
    await client.note("notifications/tools/list_changed")


async def test_lists_prompts_resources_and_completion_answer(connect: Host) -> None:
    client = await connect()
    assert len((await client.result("tools/list"))["tools"]) > 30
    assert (await client.result("prompts/get", {"name": "named", "arguments": {"a": "x"}}))["messages"] == [
        {"role": "assistant", "content": {"type": "text", "text": "x -"}}
    ]
    read = await client.result("resources/read", {"uri": "test://note/1"})
    assert read["contents"] == [{"uri": "test://note/1", "text": "first"}]
    assert len((await client.result("resources/templates/list"))["resourceTemplates"]) == 2
    asked = {"ref": {"type": "ref/prompt", "name": "named"}, "argument": {"name": "a", "value": "v"}}
    completion = (await client.result("completion/complete", asked))["completion"]
    assert (len(completion["values"]), completion["total"], completion["hasMore"]) == (100, 150, True)


async def test_a_message_of_a_megabyte_goes_both_ways(connect: Host) -> None:
    client = await connect()
    words = "0123456789abcdef" * 65536
    assert (await client.call("echo", {"text": words}))["structuredContent"]["text"] == words
