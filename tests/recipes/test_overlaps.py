"""What a run looks for in its own tasks before its first step, and neighbors by a local encoder."""

import json

import pytest

from rollwright.recipes.build.tasks import build_mixture
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.overlaps import OverlapOrder, audit_tasks, look_for_overlap, texts_of_tasks
from rollwright.recipes.resolve import resolve
from rollwright.record import Message
from rollwright.tasks import Mixture, Payload, Stratum, make_task
from rollwright.tasks.contamination import AUDIT_RULES, OverlapRules

LONG = "seven ships left the harbor of the old town before the storm and only four came back in spring"


def task(text, split, *, system=None):
    messages = [Message(role="user", text=text)]
    if system is not None:
        messages.insert(0, Message(role="system", text=system))
    payload = Payload(messages=tuple(messages), answer="4", info={})
    return make_task(payload, source="made", revision="1", split=split)


def test_a_leaked_task_is_counted_with_its_interval_and_named():
    train = (task(f"{LONG}. How many?", "train"), task("What is 2+3?", "train"))
    held_out = (task(f"It is said that {LONG}.", "held_out"), task("What is 2-3?", "held_out"))
    event = audit_tasks(Mixture(strata=(Stratum(name="made", weight=1.0, train=train, held_out=held_out),)))
    assert (event.kind, event.step) == ("contamination", 0)
    assert event.fields["metric"] == "data/contamination" and float(event.fields["value"]) == 0.5
    assert float(event.fields["low"]) < 0.5 < float(event.fields["high"])
    assert event.fields["words"] == "1/1" and event.fields["revision"] == AUDIT_RULES.revision
    assert json.loads(event.fields["pairs"]) == [["words", train[0].task_id, held_out[0].task_id]]
    assert event.text.startswith("1 of 2 held-out tasks")


def test_the_tasks_of_the_default_recipe_do_not_leak():
    event = audit_tasks(build_mixture(resolve("arithmetic-tool").recipe.tasks, seed=0))
    assert float(event.fields["value"]) == 0.0 and event.fields["num_held_out"] == "400"


def test_a_system_message_that_all_tasks_share_is_no_part_of_a_task():
    shared = texts_of_tasks([task("a b", "train", system="Be brief."), task("c d", "train", system="Be brief.")])
    assert [one.text for one in shared] == ["a b", "c d"]
    other = texts_of_tasks([task("a b", "train", system="Be brief."), task("c d", "train", system="Be kind.")])
    assert [one.text for one in other] == ["Be brief.\na b", "Be kind.\nc d"]


@pytest.fixture
def encoder(tmp_path):
    """A tiny encoder of random weights, as transformers stores one."""
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    words = ["[PAD]", "[UNK]", *"one two three four five six seven eight".split()]
    tokenizer = Tokenizer(WordLevel({word: n for n, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]")
    config = transformers.BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    folder = tmp_path / "encoder"
    transformers.BertModel(config).save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


def test_the_nearest_by_an_encoder_is_the_same_text_whatever_it_is_padded_with(tmp_path, encoder):
    texts = ["one two three", "four five six seven eight one two", "eight"]
    for name, rows in (("a", texts), ("b", [texts[2], texts[0]])):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in rows))
    order = OverlapOrder(
        first=str(tmp_path / "a.jsonl"), second=str(tmp_path / "b.jsonl"), rules=OverlapRules(), embedding_model=encoder
    )
    found = look_for_overlap(order).neighbors
    assert found is not None and len(found) == 2
    assert all(first.text == second.text and cosine == pytest.approx(1.0, abs=1e-5) for first, second, cosine in found)


def test_a_folder_that_is_no_encoder_is_a_sentence(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "one"}\n')
    order = OverlapOrder(
        first=str(tmp_path / "a.jsonl"),
        second=str(tmp_path / "a.jsonl"),
        rules=OverlapRules(),
        embedding_model=tmp_path,
    )
    with pytest.raises(ValueError, match="no encoder can be loaded from"):
        look_for_overlap(order)


def test_an_empty_source_is_refused(tmp_path):
    (tmp_path / "a.jsonl").write_text("\n")
    (tmp_path / "b.jsonl").write_text('{"text": "one"}\n')
    order = OverlapOrder(first=str(tmp_path / "a.jsonl"), second=str(tmp_path / "b.jsonl"), rules=OverlapRules())
    with pytest.raises(RecipeError, match="holds no task"):
        look_for_overlap(order)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", b'{"problem": "\xff\xfe"}\n'),
        ("a.jsonl", b'{"problem": ' + b"[" * 100_000),
        ("a.parquet", b"PAR1 and no more"),
    ],
)
def test_a_file_that_is_not_what_its_name_says_is_a_sentence(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    path = str(tmp_path / name)
    with pytest.raises(RecipeError, match="is no"):
        look_for_overlap(OverlapOrder(first=path, second=path, rules=OverlapRules()))
