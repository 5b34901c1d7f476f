"""Items on what is drawn: log-probabilities of the distribution that was sampled from, and draws that follow it."""

import numpy as np

from rollwright.engines.conformance.bench import Bench, expect
from rollwright.engines.conformance.subject import Inapplicable
from rollwright.record import Ids, Sampling, ScoreRequest, ids

__all__ = [
    "concurrent",
    "draws",
    "greedy",
    "min_p",
    "sampled",
    "scores",
    "seeds",
    "temperature",
    "top_k",
    "top_p",
    "turns",
]

_NUM_DRAWS = 192
_MOST_DEVIATIONS = 4.5
"""Of a mean from what it should be, in standard errors: chance alone passes it once in 150,000 times."""


async def greedy(bench: Bench) -> str:
    """At temperature 0 the most probable token is taken, with log-probability 0, each time."""
    request = bench.request(bench.subject.prompts[0], sampling=Sampling(temperature=0.0))
    first = await bench.draw(request)
    again = await bench.draw(bench.request(request.token_ids, sampling=request.sampling))
    expect(bool(np.all(first.logprobs == 0)), f"greedy log-probabilities are {first.logprobs.tolist()}; each is 0")
    start, context = len(request.token_ids), first.context
    full = bench.subject.reference(bench.version, context)[start - 1 :].astype(np.float64)
    behind = full.max(axis=1) - full[np.arange(len(full)), context[start:]]
    worst = int(behind.argmax())
    expect(
        float(behind[worst]) <= bench.subject.tolerance,
        f"token {worst} is {behind[worst]:.3g} nats less probable than the reference's best",
    )
    expect(first.token_ids.tolist() == again.token_ids.tolist(), "two greedy turns behind one prompt differ")
    return f"{len(first.token_ids)} tokens are the reference's best"


async def sampled(bench: Bench) -> str:
    """At temperature 1."""
    return await _agreement(bench, Sampling())


async def temperature(bench: Bench) -> str:
    """Below and above 1."""
    return await _agreement(bench, Sampling(temperature=0.6), Sampling(temperature=1.5))


async def top_p(bench: Bench) -> str:
    """The smallest set that holds a share."""
    return await _agreement(bench, Sampling(top_p=0.8), Sampling(top_p=0.5, temperature=1.3))


async def top_k(bench: Bench) -> str:
    """The most probable tokens."""
    return await _agreement(bench, Sampling(top_k=5), Sampling(top_k=3, temperature=1.3, top_p=0.9))


async def min_p(bench: Bench) -> str:
    """Tokens not much less probable than the best."""
    return await _agreement(bench, Sampling(min_p=0.1), Sampling(min_p=0.2, temperature=1.3))


async def _agreement(bench: Bench, *samplings: Sampling) -> str:
    count = 0
    for sampling in samplings:
        for prompt in bench.subject.prompts[:3]:
            turn = await bench.draw(bench.request(prompt, sampling=sampling))
            bench.agree(turn)
            count += len(turn.token_ids)
    return f"{count} log-probabilities agree with the reference"


async def draws(bench: Bench) -> str:
    """What is drawn follows the distribution that its log-probability is of."""
    prompt = bench.subject.prompts[1]
    for sampling in (Sampling(), Sampling(temperature=0.7, top_k=8)):
        requests = [bench.request(prompt, sampling=sampling, max_tokens=1) for _ in range(_NUM_DRAWS)]
        tokens = [int(turn.token_ids[0]) for turn in await bench.draw_all(requests)]
        logs = bench.distribution(prompt, sampling)
        chances = np.exp(logs)
        inside = chances > 0
        expect(bool(inside[tokens].all()), f"a token was drawn that {sampling} does not leave")
        mean = float((chances[inside] * logs[inside]).sum())
        spread = float(np.sqrt((chances[inside] * (logs[inside] - mean) ** 2).sum() / len(tokens)))
        off = abs(float(logs[tokens].mean()) - mean)
        expect(
            off <= _MOST_DEVIATIONS * spread + bench.subject.tolerance,
            f"{len(tokens)} draws under {sampling} have a mean log-probability {off:.3g} nats from what their "
            f"distribution gives, {off / max(spread, 1e-12):.1f} standard errors",
        )
    return f"{_NUM_DRAWS} draws behind one prompt follow their distribution, at two samplings"


async def seeds(bench: Bench) -> str:
    """Other seeds give other turns, and so does another place in the same episode."""
    prompt, sampling = bench.subject.prompts[2], Sampling(temperature=1.5)
    turns = await bench.draw_all([bench.request(prompt, sampling=sampling) for _ in range(8)])
    different = {tuple(turn.token_ids.tolist()) for turn in turns}
    expect(len(different) > 1, "eight seeds gave the same turn")
    if not bench.engine.capabilities.is_deterministic:
        return f"8 seeds gave {len(different)} different turns"
    request = turns[0].request
    again = await bench.draw(bench.request(prompt, sampling=sampling, seed=request.seed))
    same = again.token_ids.tolist() == turns[0].token_ids.tolist()
    expect(same, "one seed gave two turns, though the engine says that it is deterministic")
    return f"8 seeds gave {len(different)} different turns, and one seed gave its turn twice"


async def turns(bench: Bench) -> str:
    """A session that goes on behind what was drawn and what came from outside."""
    first = await bench.draw(bench.request(bench.subject.prompts[0]), keep=True)
    bench.agree(first)
    context = ids([*first.context.tolist(), *bench.subject.prompts[1][:3].tolist()])
    asked = bench.request(context, session=first.request.session, seed=first.request.seed)
    second = await bench.draw(asked)
    bench.agree(second)
    return "a second turn agrees with the reference too"


async def concurrent(bench: Bench) -> str:
    """Many requests at once, of other lengths and samplings, more than there are slots."""
    number = min(2 * bench.engine.capabilities.num_slots + 1, 64)
    samplings = (Sampling(), Sampling(temperature=0.7), Sampling(top_k=4), Sampling(top_p=0.9))
    prompts = bench.subject.prompts
    requests = [
        bench.request(prompts[n % len(prompts)], sampling=samplings[n % 4], max_tokens=1 + n % bench.subject.new_tokens)
        for n in range(number)
    ]
    for turn in await bench.draw_all(requests):
        length = len(turn.token_ids)
        expect(length == turn.request.max_tokens, f"{turn.request.request_id}: {length} tokens came of those asked for")
        bench.agree(turn)
    return f"{number} requests at once agree with the reference"


async def scores(bench: Bench) -> str:
    """Given tokens are scored as the reference does, with the most probable ones beside them."""
    context: Ids = max(bench.subject.prompts, key=len)
    asked = ScoreRequest(
        policy=bench.subject.policy, token_ids=context, score_from=1, sampling=Sampling(), tensors={}, top_k=4
    )
    try:
        found = await bench.engine.score(asked)
    except NotImplementedError as error:
        raise Inapplicable(str(error)) from error
    full = bench.subject.reference(bench.version, context).astype(np.float64)
    due = full[np.arange(len(full)), context[1:]]
    expect(len(found.logprobs) == len(due), f"{len(found.logprobs)} scores came for {len(due)} tokens")
    gap = float(np.abs(found.logprobs - due).max())
    expect(gap <= bench.subject.tolerance, f"a score is {gap:.3g} nats from the reference")
    expect(found.policy_version == bench.version, f"scores say version {found.policy_version}, {bench.version} serves")
    if "topk_ids" not in found.tensors:
        return f"{len(due)} scores agree with the reference; the most probable tokens are not named"
    best = np.take_along_axis(full, found.tensors["topk_ids"].astype(np.int64), axis=1)
    gap = float(np.abs(best - found.tensors["topk_logprobs"].astype(np.float64)).max())
    expect(gap <= bench.subject.tolerance, f"the score of a most probable token is {gap:.3g} nats from the reference")
    return f"{len(due)} scores agree with the reference"
