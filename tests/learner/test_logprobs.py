import math
import weakref

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from rollwright.learner.logprobs import KEPT_NUMBERS, predictors_of, score_tokens, squared_masses
from tests.cases import case


def given_logits(logits: list[float], target: int, temperature: float = 1.0):
    """Scores of one token under these logits: the hidden state is 1 and the head holds the logits."""
    head = torch.tensor(logits)[:, None].requires_grad_()
    scores = score_tokens(torch.ones(1, 1), head, torch.tensor([target]), torch.tensor([temperature]))
    return scores, head


def plain(hidden, head, targets, temperature, bias):
    table = ((hidden @ head.t() + bias) / temperature[:, None]).log_softmax(1)
    return table.gather(1, targets[:, None])[:, 0], -(table.exp() * table).sum(1)


@pytest.mark.parametrize("num_tokens", [1, 50, 700])
def test_scores_and_gradients_equal_the_plain_ones(num_tokens):
    vocab = 5000  # three chunks of 700 tokens
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(num_tokens, 16, generator=generator).requires_grad_()
    head = torch.randn(vocab, 16, generator=generator).requires_grad_()
    bias = torch.randn(vocab, generator=generator).requires_grad_()
    targets = torch.randint(0, vocab, (num_tokens,), generator=generator)
    temperature = torch.rand(num_tokens, generator=generator) + 0.5
    first, second = torch.randn(2, num_tokens, generator=generator)

    def gradients(logprobs, entropy):
        return torch.autograd.grad(logprobs @ first + entropy @ second, (hidden, head, bias))

    scores = score_tokens(hidden, head, targets, temperature, bias)
    expected = plain(hidden, head, targets, temperature, bias)
    assert torch.allclose(scores.logprobs, expected[0], rtol=1e-6, atol=1e-5)
    assert torch.allclose(scores.entropy, expected[1], rtol=1e-6, atol=1e-5)
    for ours, theirs in zip(gradients(scores.logprobs, scores.entropy), gradients(*expected), strict=True):
        assert float((ours - theirs).abs().max()) <= 1e-5 * float(theirs.abs().max())


class Largest(TorchDispatchMode):
    """Remembers the most numbers that any new tensor held."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (list, tuple)) else [result]:
            if isinstance(tensor, torch.Tensor):
                self.numbers = max(self.numbers, tensor.numel())
        return result


@pytest.mark.case("F122")
def test_tokens_times_vocabulary_never_stand_at_once_forward_or_backward():
    num_tokens, vocab = 4096, 2048
    hidden, head = torch.randn(num_tokens, 8).requires_grad_(), torch.randn(vocab, 8).requires_grad_()
    targets, temperature = torch.randint(0, vocab, (num_tokens,)), torch.ones(num_tokens)
    with Largest() as largest:
        scores = score_tokens(hidden, head, targets, temperature)
        (scores.logprobs.sum() + scores.entropy.sum()).backward()
    assert largest.numbers <= num_tokens * vocab // 8
    expected = plain(hidden.detach(), head.detach(), targets, temperature, torch.zeros(vocab))
    assert float((scores.logprobs.detach() - expected[0]).abs().max()) < 1e-5


class Alive(TorchDispatchMode):
    """Remembers the most bytes of new tensors that were alive at once."""

    def __init__(self) -> None:
        super().__init__()
        self.alive = self.most = 0
        self.known: set[int] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, (list, tuple)) else [result]:
            if isinstance(tensor, torch.Tensor):
                self._meet(tensor.untyped_storage())
        return result

    def _meet(self, storage: torch.UntypedStorage) -> None:
        if storage.data_ptr() not in self.known:
            self.known.add(storage.data_ptr())
            self.alive += storage.nbytes()
            self.most = max(self.most, self.alive)
            weakref.finalize(storage, self._gone, storage.data_ptr(), storage.nbytes())

    def _gone(self, pointer: int, num_bytes: int) -> None:
        self.known.discard(pointer)
        self.alive -= num_bytes


@pytest.mark.parametrize("is_trained", [False, True])
def test_a_wide_vocabulary_takes_less_than_15_percent_of_tokens_times_vocabulary(is_trained):
    num_tokens, vocab = 8192, 12_000
    hidden, head = torch.randn(num_tokens, 8).requires_grad_(), torch.randn(vocab, 8).requires_grad_()
    targets, temperature = torch.randint(0, vocab, (num_tokens,)), torch.ones(num_tokens)
    with torch.set_grad_enabled(is_trained), Alive() as alive:
        scores = score_tokens(hidden, head, targets, temperature)
        if is_trained:
            (scores.logprobs.sum() + scores.entropy.sum()).backward()
    gradients = hidden.nbytes + head.nbytes if is_trained else 0
    chunks = 2 * 256 * vocab * 4
    assert chunks <= alive.most <= 0.15 * num_tokens * vocab * 4 + gradients


def test_chunks_that_are_kept_and_chunks_made_anew_give_the_same_scores_and_gradients():
    num_tokens, vocab = 1024, 5000
    half = num_tokens // 2
    assert half * vocab <= KEPT_NUMBERS < num_tokens * vocab
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(num_tokens, 16, generator=generator).requires_grad_()
    head = torch.randn(vocab, 16, generator=generator).requires_grad_()
    targets = torch.randint(0, vocab, (num_tokens,), generator=generator)
    temperature = torch.rand(num_tokens, generator=generator) + 1

    def scored(*parts: slice) -> tuple[torch.Tensor, ...]:
        scores = [score_tokens(hidden[part], head, targets[part], temperature[part]) for part in parts]
        logprobs, entropy = torch.cat([one.logprobs for one in scores]), torch.cat([one.entropy for one in scores])
        return logprobs, entropy, *torch.autograd.grad(logprobs.square().sum() + entropy.square().sum(), (hidden, head))

    *anew, of_head = scored(slice(0, num_tokens))
    *kept, of_head_in_halves = scored(slice(0, half), slice(half, num_tokens))
    assert all(torch.equal(*pair) for pair in zip(anew, kept, strict=True))
    assert float((of_head - of_head_in_halves).norm()) <= 1e-6 * float(of_head.norm())


def test_scores_are_the_same_to_the_last_bit_with_and_without_a_gradient():
    hidden, head = torch.randn(300, 16).requires_grad_(), torch.randn(700, 16).requires_grad_()
    targets, temperature = torch.randint(0, 700, (300,)), torch.full((300,), 0.7)
    trained = score_tokens(hidden, head, targets, temperature)
    with torch.no_grad():
        scored = score_tokens(hidden, head, targets, temperature)
    assert torch.equal(trained.logprobs, scored.logprobs)
    assert torch.equal(trained.entropy, scored.entropy)


def test_a_head_that_is_not_trained_gets_no_gradient_and_the_states_get_the_same_one():
    hidden, head = torch.randn(30, 16).requires_grad_(), torch.randn(70, 16)
    targets, temperature = torch.randint(0, 70, (30,)), torch.ones(30)
    (frozen,) = torch.autograd.grad(score_tokens(hidden, head, targets, temperature).logprobs.sum(), hidden)
    head.requires_grad_()
    (trained,) = torch.autograd.grad(score_tokens(hidden, head, targets, temperature).logprobs.sum(), hidden)
    assert torch.equal(frozen, trained)


@pytest.mark.case("F53")
def test_a_token_of_probability_zero_leaves_entropy_and_gradient_finite():
    expected = case("F53").expect
    scores, head = given_logits([0.0, 0.0, -math.inf], target=0)
    assert scores.entropy.item() == pytest.approx(expected["entropy"], abs=1e-6)
    scores.entropy.sum().backward()
    assert head.grad is not None
    assert head.grad[:, 0].tolist() == pytest.approx(expected["gradient"], abs=1e-7)

    scores, head = given_logits([0.0, 0.0, -math.inf], target=0)
    scores.logprobs.sum().backward()
    assert head.grad is not None
    assert head.grad[:, 0].tolist() == pytest.approx([0.5, -0.5, 0.0])


@pytest.mark.case("F98")
def test_temperature_divides_logits_before_they_are_normalised():
    given, expected = case("F98").input, case("F98").expect
    logprobs = [given_logits(given["logits"], t, given["temperature"])[0].logprobs.item() for t in range(3)]
    assert logprobs == pytest.approx(expected["logprobs"], abs=1e-6)
    assert sum(map(math.exp, logprobs)) == pytest.approx(expected["sum_of_probs"], abs=1e-6)


@pytest.mark.case("F100")
def test_logits_are_float32_also_where_the_model_computes_in_bf16():
    given, expected = case("F100").input, case("F100").expect
    # A bf16 state of 1 and an fp32 head make logits that bf16 could not hold.
    head = torch.tensor(given["logits"])[:, None]
    hidden = torch.ones(1, 1, dtype=torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        scores = score_tokens(hidden, head, torch.tensor([0]), torch.ones(1))
    assert scores.logprobs.dtype == torch.float32
    assert scores.logprobs.item() == pytest.approx(expected["logprob_fp32"], abs=1e-6)
    assert scores.logprobs.item() <= 0


def test_a_certain_token_never_has_a_logprob_above_zero():
    scores, _ = given_logits([60.0] + [-60.0] * 4000, target=0)
    assert scores.logprobs.item() <= 0


def test_no_tokens_give_empty_scores_on_the_graph():
    hidden = torch.randn(0, 4).requires_grad_()
    head = torch.randn(7, 4).requires_grad_()
    scores = score_tokens(hidden, head, torch.zeros(0, dtype=torch.int64), torch.ones(0))
    (scores.logprobs.sum() + scores.entropy.sum()).backward()
    assert head.grad is not None
    assert head.grad.abs().max() == 0


def test_the_state_before_a_token_scores_it():
    assert predictors_of(torch.tensor([1, 4])).tolist() == [0, 3]


@pytest.mark.parametrize("num_tokens", [0, 1, 700])
def test_squared_masses_equal_the_plain_ones_and_are_made_in_chunks(num_tokens):
    vocab = 5000
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(num_tokens, 16, generator=generator, requires_grad=True)
    head, bias = torch.randn(vocab, 16, generator=generator), torch.randn(vocab, generator=generator)
    temperature = torch.rand(num_tokens, generator=generator) + 0.5
    with Largest() as largest:
        masses = squared_masses(hidden, head, temperature, bias)
    plain_masses = ((hidden @ head.t() + bias) / temperature[:, None]).double().softmax(1).square().sum(1)
    assert torch.allclose(masses.double(), plain_masses, rtol=1e-5, atol=0)
    assert not masses.requires_grad
    assert largest.numbers <= 256 * vocab < max(700, num_tokens) * vocab


@pytest.mark.parametrize(("logits", "due"), [([0.0] * 4, 0.25), ([80.0, 0.0, -80.0], 1.0), ([0.0, -math.inf], 1.0)])
def test_squared_masses_lie_between_uniform_and_certain(logits, due):
    masses = squared_masses(torch.ones(1, 1), torch.tensor(logits)[:, None], torch.ones(1))
    assert masses.tolist() == pytest.approx([due])
