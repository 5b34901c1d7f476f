"""Mixtures, the held-out list and the drawing order."""

import json
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwright.record import Message
from rollwright.tasks import HeldOut, Mixture, Payload, Stratum, TaskError, TaskOrder, make_task
from tests.cases import case


def stratum(name: str, size: int, weight: float = 1.0, held_out: int = 0) -> Stratum:
    def task(n: int, split: str):
        payload = Payload(messages=(Message(role="user", text=f"{name} {n}?"),), answer=str(n), info={"slice": name})
        return make_task(payload, source=name, revision="r", split=split)

    return Stratum(
        name=name,
        weight=weight,
        train=tuple(task(n, "train") for n in range(size)),
        held_out=tuple(task(n, "held_out") for n in range(size, size + held_out)),
    )


sizes = st.lists(st.tuples(st.integers(1, 7), st.floats(0.1, 5.0)), min_size=1, max_size=4)


def mixed(parts: list[tuple[int, float]]) -> Mixture:
    return Mixture(strata=tuple(stratum(f"s{i}", size, weight) for i, (size, weight) in enumerate(parts)))


@given(sizes, st.integers(0, 2**40), st.integers(1, 60))
def test_equal_seeds_draw_the_same_tasks(parts: list[tuple[int, float]], seed: int, count: int) -> None:
    one, two = TaskOrder(mixed(parts), seed=seed), TaskOrder(mixed(parts), seed=seed)
    assert [one.draw() for _ in range(count)] == [two.draw() for _ in range(count)]


@given(sizes, st.integers(1, 200))
def test_after_any_number_of_draws_each_stratum_has_its_share_within_one(
    parts: list[tuple[int, float]], count: int
) -> None:
    order = TaskOrder(mixed(parts), seed=0)
    drawn = Counter(order.draw().stratum for _ in range(count))
    total = sum(weight for _, weight in parts)
    for i, (_, weight) in enumerate(parts):
        assert abs(drawn[f"s{i}"] - count * weight / total) <= max(1, len(parts) - 1)


@given(st.integers(1, 12), st.integers(1, 5), st.integers(0, 99))
def test_an_epoch_goes_through_every_task_once(size: int, epochs: int, seed: int) -> None:
    order = TaskOrder(Mixture(strata=(stratum("a", size),)), seed=seed)
    for epoch in range(epochs):
        drawn = [order.draw() for _ in range(size)]
        assert {d.epoch for d in drawn} == {epoch}
        assert len({d.task.task_id for d in drawn}) == size


def test_epochs_have_orders_of_their_own() -> None:
    order = TaskOrder(Mixture(strata=(stratum("a", 30),)), seed=0)
    epochs = [tuple(order.draw().task.task_id for _ in range(30)) for _ in range(4)]
    assert all(one != two for one, two in pairwise(epochs))


@given(
    parts=sizes,
    script=st.lists(st.sampled_from(["draw", "settle_first", "settle_last", "give_back", "restart"]), max_size=60),
)
def test_whatever_finishes_or_restarts_each_draw_is_settled_once(
    parts: list[tuple[int, float]], script: list[str]
) -> None:
    order = TaskOrder(mixed(parts), seed=3)
    straight = TaskOrder(mixed(parts), seed=3)
    flying: list[int] = []
    settled: list[int] = []
    seen: dict[int, str] = {}

    def draw() -> None:
        drawn = order.draw()
        assert drawn.number not in flying
        assert seen.setdefault(drawn.number, drawn.task.task_id) == drawn.task.task_id
        flying.append(drawn.number)

    for act in script:
        if act == "draw":
            draw()
        elif act == "restart":
            saved = json.loads(json.dumps(order.state()))
            order = TaskOrder(mixed(parts), seed=3)
            order.restore(saved)
            flying = []
        elif flying:
            number = flying.pop(0 if act == "settle_first" else -1)
            if act == "give_back":
                order.give_back(number)
            else:
                order.settle(number)
                settled.append(number)
    while len(settled) < 80:
        draw()
        order.settle(flying[0])
        settled.append(flying.pop(0))
    assert len(settled) == len(set(settled))
    assert sorted(settled)[: min(seen.keys() - set(settled), default=80)] == list(
        range(min(seen.keys() - set(settled), default=80))
    )
    assert {n: straight.draw().task.task_id for n in range(max(seen) + 1)} == seen


@pytest.mark.case("F95")
def test_after_a_resume_each_prompt_is_trained_once() -> None:
    example = case("F95")
    prompts = len(example.input["prompts"])
    mixture = Mixture(strata=(stratum("p", prompts),))
    order = TaskOrder(mixture, seed=0)
    first, second = order.draw(), order.draw()
    ahead = [order.draw() for _ in range(example.input["prefetch"])]
    order.settle(first.number)
    order.settle(second.number)
    trained = [first.task.task_id, second.task.task_id]
    order.give_back(ahead[1].number)  # One failed and was retried.
    assert order.draw() == ahead[1]
    resumed = TaskOrder(mixture, seed=0)
    resumed.restore(order.state())
    while len(trained) < prompts:
        drawn = resumed.draw()
        trained.append(drawn.task.task_id)
        resumed.settle(drawn.number)
    counts = Counter(trained)
    assert sorted(counts) == sorted(task.task_id for task in mixture.strata[0].train)
    assert list(counts.values()) == example.expect["counts"]


def test_a_draw_is_settled_once_and_only_when_in_flight() -> None:
    order = TaskOrder(Mixture(strata=(stratum("a", 3),)), seed=0)
    drawn = order.draw()
    order.settle(drawn.number)
    with pytest.raises(TaskError, match="settled once"):
        order.settle(drawn.number)
    with pytest.raises(TaskError, match="not in flight"):
        order.give_back(7)


def test_the_cursor_of_other_tasks_or_another_seed_is_refused() -> None:
    saved = TaskOrder(Mixture(strata=(stratum("a", 3),)), seed=0).state()
    for other in (
        TaskOrder(Mixture(strata=(stratum("a", 4),)), seed=0),
        TaskOrder(Mixture(strata=(stratum("a", 3),)), seed=1),
    ):
        with pytest.raises(TaskError, match="resume with the tasks and the seed"):
            other.restore(saved)


def test_looking_ahead_takes_nothing() -> None:
    order = TaskOrder(Mixture(strata=(stratum("a", 5), stratum("b", 5))), seed=0)
    order.draw()
    ahead = order.peek(7)
    assert tuple(order.draw() for _ in range(7)) == ahead


def test_take_gives_the_same_sequence_and_leaves_nothing_pending() -> None:
    mixture = Mixture(strata=(stratum("a", 5), stratum("b", 2, 0.5)))
    drawing, taking = TaskOrder(mixture, seed=4), TaskOrder(mixture, seed=4)
    assert [drawing.draw().task for _ in range(20)] == [taking.take() for _ in range(20)]
    assert not [key for key in taking.state() if key.startswith("pending/")]


# -------------------------------------------------------------------------------------------------------------- mixture


def test_the_held_out_list_follows_the_weights_and_fills_up_where_a_stratum_is_small() -> None:
    mixture = Mixture(strata=(stratum("small", 3, 0.5, held_out=4), stratum("large", 3, 0.5, held_out=100)))
    listed = mixture.hold_out(20)
    assert Counter(task.source for task in listed.tasks) == {"small": 4, "large": 16}
    assert mixture.hold_out(20).sha256 == listed.sha256
    assert mixture.hold_out(20, seed=1).sha256 != listed.sha256
    assert Counter(t.source for t in mixture.hold_out(6).tasks) == {"small": 3, "large": 3}


def test_a_held_out_list_that_cannot_be_filled_names_what_is_there() -> None:
    with pytest.raises(TaskError, match=r"30 held-out tasks are wanted and 4 are there \(\{'a': 4\}\)"):
        Mixture(strata=(stratum("a", 3, held_out=4),)).hold_out(30)


def test_the_digest_of_a_held_out_list_sees_its_order() -> None:
    tasks = Mixture(strata=(stratum("a", 3, held_out=4),)).hold_out(4).tasks
    assert HeldOut(tasks=tasks).sha256 != HeldOut(tasks=tasks[::-1]).sha256


def test_a_question_held_out_in_one_stratum_may_not_train_in_another() -> None:
    one = stratum("a", 3, held_out=1)
    payload = json.loads(one.held_out[0].payload)
    same = Payload(messages=(Message(role="user", text=payload["question"]),), answer=payload["answer"], info={})
    leak = make_task(same, source="b", revision="r", split="train")
    with pytest.raises(TaskError, match="held out in a and trained in b"):
        Mixture(strata=(one, Stratum(name="b", weight=1.0, train=(leak,), held_out=())))


@pytest.mark.parametrize("weight", [0.0, -1.0, float("inf"), float("nan")])
def test_a_weight_is_positive_and_finite(weight: float) -> None:
    with pytest.raises(TaskError, match="weight"):
        stratum("a", 3, weight)


def test_strata_have_tasks_and_different_names() -> None:
    with pytest.raises(TaskError, match="no training task"):
        stratum("a", 0)
    with pytest.raises(TaskError, match="different names"):
        Mixture(strata=(stratum("a", 1), stratum("a", 2)))
