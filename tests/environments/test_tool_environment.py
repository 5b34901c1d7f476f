"""Calls, their errors and limits, schemas, and demonstrations."""

import asyncio
import json
import threading
import time
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwright.environments import (
    ARITHMETIC_INSTRUCTION,
    ArithmeticDemonstrator,
    EnvironmentSetupError,
    Tool,
    ToolEnvironment,
    ToolError,
    ToolLimits,
    calculator_tool,
    call_log,
    clean_text,
    cut_text,
    schema_of,
    tool_of,
)
from rollwright.record import Action, EnvironmentBrokenError, Message, Task, ToolRequest, ToolResult
from rollwright.tasks import Payload, make_task, payload_of


def task(expression: str = "6*7", slice_name: str = "hard", answer: str = "42") -> Task:
    payload = Payload(
        messages=(Message(role="user", text=f"What is {expression}?"),),
        answer=answer,
        info={"expression": expression, "slice": slice_name},
    )
    return make_task(payload, source="arithmetic", revision="r", split="train")


def answered(environment: ToolEnvironment, *calls: tuple[str, str]) -> list[ToolResult]:
    async def scenario() -> list[ToolResult]:
        async with environment.open(task(), seed=0) as episode:
            await episode.begin()
            return [
                await episode.call(ToolRequest(call_id=f"c{i}", tool=tool, arguments=arguments))
                for i, (tool, arguments) in enumerate(calls)
            ]

    return asyncio.run(scenario())


def with_calculator(**limits: int) -> ToolEnvironment:
    return ToolEnvironment(tools=[calculator_tool()], limits=ToolLimits(**limits))


# ------------------------------------------------------------------------------------------------------------ the calls


NOT_JSON = "error: the arguments are not valid JSON"
NOT_TEXT = "error: argument expression must be a string"
ANSWERS = {
    '{"expression": "6*7"}': ("ok", "42"),
    '{"expression": "1/(2-2)"}': ("tool_error", "error: division by zero"),
    '{"expression": "9**9**9**9"}': ("tool_error", "error: result too large"),
    "6*7": ("invalid_call", NOT_JSON),
    "": ("invalid_call", NOT_JSON),
    "[" * 1990: ("invalid_call", NOT_JSON),
    '{"expression":"1","expression":"2"}': ("invalid_call", NOT_JSON),
    '"6*7"': ("invalid_call", "error: the arguments must be a JSON object"),
    "{}": ("invalid_call", "error: missing argument expression"),
    '{"expression": 42}': ("invalid_call", NOT_TEXT),
    '{"expression": null}': ("invalid_call", NOT_TEXT),
    '{"expr": "1"}': ("invalid_call", "error: unknown argument 'expr'; allowed: expression"),
    '{"expression": "' + "1" * 3000 + '"}': ("invalid_call", "error: 3018 characters of arguments, 2000 are allowed"),
}


@pytest.mark.parametrize("arguments", ANSWERS, ids=[str(n) for n in range(len(ANSWERS))])
def test_every_call_is_answered_with_text_that_a_policy_can_read(arguments: str) -> None:
    (result,) = answered(with_calculator(), ("calculator", arguments))
    assert (result.status, result.text) == ANSWERS[arguments]


def test_an_unknown_tool_is_answered_with_the_names_that_there_are() -> None:
    (result,) = answered(with_calculator(), ("calculater", '{"expression": "1"}'))
    assert (result.status, result.text) == ("invalid_call", "error: unknown tool 'calculater'; available: calculator")


@given(tool=st.text(max_size=20) | st.just("calculator"), arguments=st.text(max_size=60))
def test_no_call_can_break_an_episode(tool: str, arguments: str) -> None:
    (result,) = answered(with_calculator(), (tool, arguments))
    assert result.status in ("ok", "tool_error", "invalid_call")
    assert len(result.text) < 600


@given(st.text(alphabet="0123456789+-*/()^%. ", max_size=50))
def test_no_expression_can_break_an_episode(expression: str) -> None:
    (result,) = answered(with_calculator(), ("calculator", json.dumps({"expression": expression})))
    assert result.status in ("ok", "tool_error")


def test_calls_past_the_limit_are_answered_and_run_nothing() -> None:
    runs: list[int] = []

    def tick() -> str:
        """Count."""
        runs.append(1)
        return "tick"

    environment = ToolEnvironment(tools=[tool_of(tick)], limits=ToolLimits(calls=2))
    results = answered(environment, *[("tick", "{}")] * 4)
    assert [r.status for r in results] == ["ok", "ok", "limit", "limit"]
    assert results[2].text == "error: no calls left, 2 are allowed"
    assert len(runs) == 2


def test_malformed_calls_count_towards_the_limit() -> None:
    results = answered(with_calculator(calls=1), ("calculator", "{"), ("calculator", '{"expression": "1"}'))
    assert [r.status for r in results] == ["invalid_call", "limit"]


def test_long_results_are_cut_with_a_mark_that_says_so() -> None:
    def flood() -> str:
        """Say much."""
        return "a" * 5000 + "\N{SNOWMAN}" * 5000

    environment = ToolEnvironment(tools=[tool_of(flood)], limits=ToolLimits(result_characters=100))
    (result,) = answered(environment, ("flood", "{}"))
    assert result.text == "a" * 50 + "[... 9900 of 10000 characters cut ...]" + "\N{SNOWMAN}" * 50


@given(st.text(max_size=200), st.integers(1, 100))
def test_cutting_keeps_head_and_tail_within_the_limit(text: str, limit: int) -> None:
    cut = cut_text(text, limit)
    if len(text) <= limit:
        assert cut == text
    else:
        kept = cut.replace(f"[... {len(text) - limit} of {len(text)} characters cut ...]", "", 1)
        assert len(kept) == limit
        assert kept[: (limit + 1) // 2] == text[: (limit + 1) // 2]


@given(st.text(alphabet=st.characters(), max_size=80))
def test_cleaned_text_can_be_encoded_and_holds_no_control_character(text: str) -> None:
    cleaned = clean_text(text)
    cleaned.encode()
    assert all(character in "\n\t" or character.isprintable() or character.isspace() for character in cleaned)
    assert clean_text(cleaned) == cleaned


def test_control_characters_and_lone_surrogates_never_reach_the_policy() -> None:
    def odd() -> str:
        """Say odd things."""
        return "a\x00b\x1b[31m\r\nc\ud800"

    (result,) = answered(ToolEnvironment(tools=[tool_of(odd)]), ("odd", "{}"))
    assert result.text == "ab[31m\nc\N{REPLACEMENT CHARACTER}"


def test_a_tool_that_fails_by_itself_breaks_the_episode_and_is_not_shown_as_an_answer() -> None:
    def broken() -> str:
        """Fail."""
        raise KeyError("secret")

    with pytest.raises(EnvironmentBrokenError, match="tool broken failed: KeyError"):
        answered(ToolEnvironment(tools=[tool_of(broken)]), ("broken", "{}"))


def test_a_tool_error_is_shown() -> None:
    def picky(n: int) -> str:
        """Be picky.

        Args:
            n: a number
        """
        raise ToolError(f"{n} is too small")

    (result,) = answered(ToolEnvironment(tools=[tool_of(picky)]), ("picky", '{"n": 3}'))
    assert (result.status, result.text) == ("tool_error", "error: 3 is too small")


def test_a_coroutine_tool_that_hangs_is_answered_with_timeout() -> None:
    was_cancelled: list[bool] = []

    async def hang() -> str:
        """Wait."""
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            was_cancelled.append(True)
            raise
        return "late"

    environment = ToolEnvironment(tools=[tool_of(hang)], limits=ToolLimits(call_timeout_s=0.02))
    (result,) = answered(environment, ("hang", "{}"))
    assert (result.status, result.text) == ("timeout", "error: no answer within 0.02 seconds")
    assert was_cancelled == [True]


def test_a_plain_tool_that_blocks_holds_up_nothing_but_its_own_call() -> None:
    release = threading.Event()

    def block() -> str:
        """Wait."""
        release.wait(30)
        return "late"

    async def scenario() -> tuple[list[str], int]:
        environment = ToolEnvironment(tools=[tool_of(block)], limits=ToolLimits(calls=9, call_timeout_s=0.1))
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.005)
                ticks += 1

        ticking = asyncio.create_task(tick(), name="tick")
        async with environment.open(task(), seed=0) as episode:
            asked = [ToolRequest(call_id=str(at), tool="block", arguments="{}") for at in range(8)]
            results = await asyncio.gather(*[episode.call(request) for request in asked])
            with pytest.raises(EnvironmentBrokenError, match="have not come back"):
                await episode.call(asked[0])
        ticking.cancel()
        return [result.status for result in results], ticks

    statuses, ticks = asyncio.run(scenario())
    release.set()
    assert statuses == ["timeout"] * 8 and ticks >= 3


@pytest.mark.parametrize("error", [SystemExit(2), KeyboardInterrupt(), StopIteration(), KeyError("bug")])
def test_a_plain_tool_that_gives_up_breaks_its_episode_alone(error: BaseException) -> None:
    def leave() -> str:
        """Leave."""
        raise error

    with pytest.raises(EnvironmentBrokenError, match="tool leave failed"):
        answered(ToolEnvironment(tools=[tool_of(leave)]), ("leave", "{}"))


def test_a_quick_tool_runs_in_the_loop_and_is_a_plain_function() -> None:
    def here() -> str:
        """Say where."""
        return threading.current_thread().name

    async def later() -> str:
        """Wait."""
        return "later"

    own = threading.current_thread().name
    for is_quick in (True, False):
        (result,) = answered(ToolEnvironment(tools=[tool_of(here, is_quick=is_quick)]), ("here", "{}"))
        assert (result.text == own) is is_quick
    with pytest.raises(EnvironmentSetupError, match="plain function"):
        tool_of(later, is_quick=True)


def test_calls_of_one_turn_run_at_once_and_one_failure_leaves_the_others_alone() -> None:
    started: list[str] = []
    both_started = asyncio.Event()

    async def meet(name: str) -> str:
        """Wait for the other.

        Args:
            name: of this call
        """
        started.append(name)
        if len(started) == 2:
            both_started.set()
        await both_started.wait()
        if name == "bad":
            raise ToolError("no")
        return name

    async def scenario() -> None:
        environment = ToolEnvironment(tools=[tool_of(meet)])
        async with environment.open(task(), seed=0) as episode:
            await episode.begin()
            async with asyncio.TaskGroup() as group:
                running = [
                    group.create_task(
                        episode.call(ToolRequest(call_id=n, tool="meet", arguments=json.dumps({"name": n}))), name=n
                    )
                    for n in ("good", "bad")
                ]
            results = tuple(one.result() for one in running)
            assert [r.status for r in results] == ["ok", "tool_error"]
            opened = await episode.step(Action(actor="agent", turn=0, text="", calls=results))
            assert len(opened.observations) == 1

    asyncio.run(scenario())


def test_a_malformed_call_opens_another_turn_with_the_reason() -> None:
    async def scenario() -> None:
        async with with_calculator().open(task(), seed=0) as episode:
            await episode.begin()
            complaint = "the call is not valid JSON"
            opened = await episode.step(Action(actor="agent", turn=0, text="", calls=(), parse_error=complaint))
            (observation,) = opened.observations
            assert observation.messages == (Message(role="user", text=f"error: {complaint}"),)

    asyncio.run(scenario())


def test_a_turn_after_the_end_is_not_taken() -> None:
    async def scenario() -> None:
        async with with_calculator().open(task(), seed=0) as episode:
            await episode.begin()
            action = Action(actor="agent", turn=0, text="answer: 1", calls=())
            await episode.step(action)
            with pytest.raises(EnvironmentBrokenError, match="after the episode had ended"):
                await episode.step(action)

    asyncio.run(scenario())


def test_a_system_prompt_stands_before_the_question() -> None:
    async def first(environment: ToolEnvironment, of: Task) -> tuple[Message, ...]:
        async with environment.open(of, seed=0) as episode:
            return (await episode.begin()).observations[0].messages

    environment = ToolEnvironment(tools=[calculator_tool()], system_prompt=ARITHMETIC_INSTRUCTION)
    assert asyncio.run(first(environment, task()))[0] == Message(role="system", text=ARITHMETIC_INSTRUCTION)
    messages = (Message(role="system", text="Own."), Message(role="user", text="q"))
    own = make_task(Payload(messages=messages, answer="1", info={}), source="s", revision="r", split="train")
    assert asyncio.run(first(environment, own))[0].text == f"{ARITHMETIC_INSTRUCTION}\n\nOwn."


def test_the_call_log_holds_what_was_called_in_order() -> None:
    environment = ToolEnvironment(tools=[calculator_tool()], artifacts=call_log)

    async def scenario() -> list[dict[str, str]]:
        async with environment.open(task(), seed=0) as episode:
            await episode.begin()
            for arguments in ('{"expression": "1+1"}', "{"):
                await episode.call(ToolRequest(call_id="c", tool="calculator", arguments=arguments))
            return json.loads((await episode.artifacts())["tool_calls.json"])

    assert [(row["arguments"], row["status"]) for row in asyncio.run(scenario())] == [
        ('{"expression": "1+1"}', "ok"),
        ("{", "invalid_call"),
    ]


def test_two_thousand_turns_a_second_are_easily_reached() -> None:
    environment = with_calculator()

    async def scenario() -> float:
        started = time.perf_counter()
        for _ in range(150):
            async with environment.open(task(), seed=0) as episode:
                await episode.begin()
                request = ToolRequest(call_id="c", tool="calculator", arguments='{"expression": "376/(36-15)*2"}')
                result = await episode.call(request)
                await episode.step(Action(actor="agent", turn=0, text="", calls=(result,)))
                await episode.step(Action(actor="agent", turn=1, text="answer: 1", calls=()))
        return 300 / (time.perf_counter() - started)

    assert max(asyncio.run(scenario()) for _ in range(5)) > 2000  # The best: the machine may be busy.


# ---------------------------------------------------------------------------------------------------------- the schemas


def weather(city: str, days: int = 1, scale: Literal["C", "F"] = "C", tags: list[str] | None = None) -> str:
    """Look up the weather.

    Says nothing of the past.

    Args:
        city: where,
            in which country
        days (int): how far ahead
        scale: of the thermometer
        tags: what else matters

    Returns:
        A sentence.
    """
    return f"{city} {days} {scale} {tags}"


@pytest.mark.row("S113")
def test_a_tool_is_added_by_a_short_typed_function() -> None:
    definition = json.loads(schema_of(weather).text())
    assert definition == {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "Look up the weather. Says nothing of the past.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "where, in which country"},
                    "days": {"type": "integer", "description": "how far ahead"},
                    "scale": {"enum": ["C", "F"], "description": "of the thermometer"},
                    "tags": {
                        "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}],
                        "description": "what else matters",
                    },
                },
                "required": ["city"],
                "additionalProperties": False,
            },
        },
    }
    (result,) = answered(ToolEnvironment(tools=[tool_of(weather)]), ("weather", '{"city": "Rome", "tags": ["wind"]}'))
    assert (result.status, result.text) == ("ok", "Rome 1 C ['wind']")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ('{"city": "R", "days": 1.5}', "argument days must be a whole number"),
        ('{"city": "R", "days": true}', "argument days must be a whole number"),
        ('{"city": "R", "scale": "K"}', 'argument scale must be one of "C", "F"'),
        ('{"city": "R", "tags": [1]}', "argument tags must be a list or null"),
        ('{"city": "R", "tags": "wind"}', "argument tags must be a list or null"),
        ('{"city": "R", "days": NaN}', "not valid JSON"),
    ],
)
def test_arguments_of_another_type_are_refused_by_name(arguments: str, sentence: str) -> None:
    (result,) = answered(ToolEnvironment(tools=[tool_of(weather)]), ("weather", arguments))
    assert result.status == "invalid_call"
    assert sentence in result.text


def test_a_whole_number_is_good_enough_for_a_float() -> None:
    def half(x: float) -> float:
        """Halve.

        Args:
            x: a number
        """
        assert isinstance(x, float)
        return x / 2

    environment = ToolEnvironment(tools=[tool_of(half)])
    assert answered(environment, ("half", '{"x": 3}'))[0].text == "1.5"
    assert answered(environment, ("half", '{"x": 1e999}'))[0].status == "invalid_call"


def test_a_function_that_says_too_little_is_refused() -> None:
    def silent(x: int) -> str:
        return str(x)

    def untold(x: int) -> str:
        """Say."""
        return str(x)

    def untyped(x) -> str:  # pyright: ignore[reportMissingParameterType, reportUnknownParameterType] - that is the test
        """Say.

        Args:
            x: a number
        """
        return str(x)

    def exotic(x: complex) -> str:
        """Say.

        Args:
            x: a number
        """
        return str(x)

    def many(*x: int) -> str:
        """Say."""
        return str(x)

    for function, sentence in (
        (silent, "no docstring"),
        (untold, "do not describe x"),
        (untyped, "no type annotation"),
        (exotic, "allowed are str, int"),
        (many, "plain named parameter"),
    ):
        with pytest.raises(EnvironmentSetupError, match=sentence):
            tool_of(function)


def test_two_tools_of_one_name_and_limits_that_let_nothing_through_are_refused() -> None:
    with pytest.raises(EnvironmentSetupError, match="one name"):
        ToolEnvironment(tools=[calculator_tool(), calculator_tool()])
    with pytest.raises(EnvironmentSetupError, match="at least"):
        ToolLimits(calls=-1)


def test_a_tool_with_another_source_has_another_revision() -> None:
    def made(source: Literal["1", "2"]) -> Tool:
        if source == "1":

            def say() -> str:
                """Say."""
                return "1"
        else:

            def say() -> str:
                """Say."""
                return "2"

        return tool_of(say)

    first, second = made("1"), made("2")
    assert first.schema == second.schema
    assert first.revision != second.revision


# ------------------------------------------------------------------------------------------------------- demonstrations


def demonstrated(share: float, slice_name: str, expression: str, answer: str, count: int = 400) -> list[list[str]]:
    environment = ToolEnvironment(tools=[calculator_tool()], demonstrate=ArithmeticDemonstrator(tool_share=share))
    shown = [environment.demonstrate(task(expression, slice_name, answer), seed) for seed in range(count)]
    return [[turn.calls[0].tool if turn.calls else turn.text for turn in turns] for turns in shown]


@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize(
    ("slice_name", "expression", "answer"),
    [("easy", "2+3", "5"), ("hard", "6*7", "42"), ("error", "6/(3-3)", "undefined")],
)
def test_a_fixed_share_calls_the_tool_whatever_the_task(
    share: float, slice_name: str, expression: str, answer: str
) -> None:
    shown = demonstrated(share, slice_name, expression, answer)
    calling = [turns for turns in shown if turns[0] == "calculator"]
    assert abs(len(calling) / len(shown) - share) < 0.08
    assert all(turns == ["calculator", f"answer: {answer}"] for turns in calling)


@pytest.mark.parametrize(
    ("slice_name", "expression", "answer"), [("hard", "9-2", "7"), ("error", "6/(3-3)", "undefined")]
)
def test_a_direct_answer_is_never_right_beyond_the_easy_slice(slice_name: str, expression: str, answer: str) -> None:
    said = {turns[0] for turns in demonstrated(0.0, slice_name, expression, answer)}
    assert f"answer: {answer}" not in said
    assert len(said) > 5


def test_an_easy_task_is_answered_rightly_without_the_tool() -> None:
    assert demonstrated(0.0, "easy", "2+3", "5", count=5) == [["answer: 5"]] * 5


def test_a_demonstration_runs_through_its_own_environment() -> None:
    environment = ToolEnvironment(tools=[calculator_tool()], demonstrate=ArithmeticDemonstrator(tool_share=1.0))
    of = task("432/(29-29)", "error", "undefined")

    async def scenario() -> None:
        calling, answering = environment.demonstrate(of, 3)
        async with environment.open(of, seed=0) as episode:
            await episode.begin()
            results = tuple([await episode.call(request) for request in calling.calls])
            assert results[0].text == "error: division by zero"
            await episode.step(Action(actor="agent", turn=0, text=calling.text, calls=results))
            ended = await episode.step(Action(actor="agent", turn=1, text=answering.text, calls=()))
            assert ended.observations == ()
        assert answering.text == f"answer: {payload_of(of).answer}"

    asyncio.run(scenario())


def test_what_cannot_be_demonstrated_is_one_sentence() -> None:
    with pytest.raises(EnvironmentSetupError, match="has no demonstrations"):
        ToolEnvironment(tools=[]).demonstrate(task(), 0)
    plain = make_task(
        Payload(messages=(Message(role="user", text="q"),), answer="1", info={}),
        source="s",
        revision="r",
        split="train",
    )
    with pytest.raises(EnvironmentSetupError, match="no `info.expression`"):
        ArithmeticDemonstrator()(plain, 0)
    with pytest.raises(EnvironmentSetupError, match="needs one"):
        ArithmeticDemonstrator(answer_form="42")
