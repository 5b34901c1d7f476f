"""Games with exact gradients: what the objective gives, averaged over all pairs of episodes, is the closed form."""

import asyncio
import itertools
import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

from rollwright.algorithms import center_within_group, rloo
from rollwright.environments import (
    FINAL_STATE,
    BanditGame,
    ChainGame,
    GameRules,
    TextGameEnvironment,
    bandit_gradient,
    chain_gradient,
)
from rollwright.record import Action, Message
from rollwright.tasks import Payload, make_task, payload_of
from tests.algorithms.pieces import Batch, credit_inputs, gradient_of, lay_out, update_of


def task_of(layout):
    payload = Payload(
        messages=(Message(role="user", text="go"),), answer="-", info={"layout": layout, "goal": {"none": 0}}
    )
    return make_task(payload, source="fixture", revision="1", split="train")


BANDIT = task_of({"arms": {"a": 1.0, "b": 0.25, "c": -0.5}})
CHAIN = task_of({"length": 2})
ARMS, ACTIONS = ("a", "b", "c"), ("on", "off")


@dataclass(frozen=True)
class Episode:
    """Which logit each choice belongs to, what was chosen, and the return."""

    states: tuple[int, ...]
    choices: tuple[int, ...]
    total: float


def play(game, task, actions):
    """The return of a fixed policy, through the environment."""

    async def scenario():
        environment = TextGameEnvironment(game, rules=GameRules(turns=8))
        async with environment.open(task, seed=0) as episode:
            await episode.begin()
            taken = 0
            for turn, action in enumerate(actions):
                taken += 1
                if (await episode.step(Action(actor="agent", turn=turn, text=action, calls=()))).end:
                    break
            return taken, json.loads((await episode.artifacts())[FINAL_STATE].decode())["return"]

    return asyncio.run(scenario())


def bandit_episodes():
    return [Episode((0,), (arm,), play(BanditGame(), BANDIT, [name])[1]) for arm, name in enumerate(ARMS)]


def chain_episodes():
    found = {}
    for choices in itertools.product((0, 1), repeat=2):
        taken, total = play(ChainGame(), CHAIN, [ACTIONS[choice] for choice in choices])
        found[choices[:taken]] = Episode(tuple(range(taken)), choices[:taken], total)
    return list(found.values())


def expected_gradient(objective, episodes, table):
    """Average over all pairs of attempts, each with its chance, of the gradient of the objective, as ascent.

    Args:
        objective: whose loss is differentiated.
        episodes: all that there are.
        table: (states, choices) logits.
    """
    logits = torch.tensor(table, dtype=torch.float64, requires_grad=True)
    scores = logits.log_softmax(-1)
    total = torch.zeros_like(logits)
    for pair in itertools.product(episodes, repeat=2):
        chosen = torch.cat([scores[list(one.states), list(one.choices)] for one in pair])
        chance = float(chosen.detach().sum().exp())
        lengths = [len(one.states) for one in pair]
        inputs = credit_inputs([one.total for one in pair], lengths=lengths)
        fixed = chosen.detach()
        streams = {name: fixed for name in ("behavior", "proximal", "current")}
        batch = Batch(inputs=inputs, logprobs=streams)
        _, by_token = gradient_of(objective, batch, [lay_out(update_of(objective, batch), [0, 1])])
        (by_logit,) = torch.autograd.grad(chosen, logits, -by_token, retain_graph=True)
        total += chance * by_logit
    return total.numpy()


@pytest.mark.row("S475")
def test_leave_one_out_of_a_bandit_is_the_closed_form_on_average():
    table = [[0.3, -0.2, 0.7]]
    exact = bandit_gradient(table[0], [1.0, 0.25, -0.5])
    assert exact.sum() == pytest.approx(0.0, abs=1e-15)
    np.testing.assert_allclose(expected_gradient(rloo(), bandit_episodes(), table)[0], exact, atol=1e-7)


@pytest.mark.row("S475")
def test_leave_one_out_of_a_chain_of_two_actions_is_the_closed_form_on_average():
    table = [[0.4, 0.0], [-0.3, 0.0]]
    exact = chain_gradient([row[0] - row[1] for row in table])
    found = expected_gradient(rloo(), chain_episodes(), table)
    np.testing.assert_allclose(found[:, 0], exact, atol=1e-7)
    np.testing.assert_allclose(found[:, 1], -exact, atol=1e-7)


@pytest.mark.row("S475")
def test_centering_by_a_mean_that_holds_the_attempt_itself_is_short_by_its_share():
    table = [[0.3, -0.2, 0.7]]
    exact = bandit_gradient(table[0], [1.0, 0.25, -0.5])
    found = expected_gradient(replace(rloo(), credit=center_within_group), bandit_episodes(), table)[0]
    np.testing.assert_allclose(found, exact / 2, atol=1e-7)  # 1 - 1/G for pairs.


def test_closed_forms_agree_with_differences():
    logits, rewards, eps = np.array([0.3, -0.2, 0.7]), np.array([1.0, 0.25, -0.5]), 1e-6

    def bandit(x):
        chances = np.exp(x) / np.exp(x).sum()
        return chances @ rewards

    def chain(x):
        return np.prod(1 / (1 + np.exp(-x)))

    for function, exact in ((bandit, bandit_gradient(logits, rewards)), (chain, chain_gradient(list(logits)))):
        found = [(function(logits + eps * e) - function(logits - eps * e)) / (2 * eps) for e in np.eye(3)]
        np.testing.assert_allclose(found, exact, atol=1e-9)


def test_the_games_end_where_they_say_and_pay_what_the_task_says():
    assert [play(BanditGame(), BANDIT, [arm]) for arm in ARMS] == [(1, 1.0), (1, 0.25), (1, -0.5)]
    assert play(ChainGame(), CHAIN, ["on", "on", "on"]) == (2, 1.0)
    assert play(ChainGame(), CHAIN, ["on", "off", "on"]) == (2, 0.0)
    assert payload_of(CHAIN).info["layout"] == {"length": 2}
