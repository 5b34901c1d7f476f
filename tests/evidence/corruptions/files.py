"""Corruptions that leave the digests as they were, and of what stands beside the tables."""

import json
from datetime import datetime, timedelta

from tests.evidence.corruptions.copies import Copy, careful, careless

__all__: list[str] = []


@careless
def flipped_byte(copy: Copy) -> tuple[str, ...]:
    path = copy.root / "receipts/000004.parquet"
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)
    return (r"receipts/000004\.parquet",)


@careless
def missing_shard(copy: Copy) -> tuple[str, ...]:
    (copy.root / "verdicts/000003.parquet").unlink()
    return (r"verdicts/000003\.parquet",)


@careless
def empty_file(copy: Copy) -> tuple[str, ...]:
    (copy.root / "ledger/000005.parquet").write_bytes(b"")
    return (r"ledger/000005\.parquet",)


@careless
def swapped_shards(copy: Copy) -> tuple[str, ...]:
    first, second = (copy.root / f"segments/00000{number}.parquet" for number in (3, 4))
    kept = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(kept)
    return (r"segments/000003\.parquet", r"segments/000004\.parquet")


@careless
def edited_manifest(copy: Copy) -> tuple[str, ...]:
    path = copy.root / "manifest.json"
    path.write_text(path.read_text().replace('"float32"', '"bfloat16"', 1))
    return (r"manifest",)


@careless
def torn_commit(copy: Copy) -> tuple[str, ...]:
    path = copy.root / "commits/000004-step.json"
    path.write_bytes(path.read_bytes()[:700])
    return (r"000004-step\.json",)


@careless
def edited_commit(copy: Copy) -> tuple[str, ...]:
    copy.edit_json("commits/000003-step.json", lambda commit: commit.update(last_seq=70))
    return (r"00000[34]|commit [34]\b",)


@careless
def renamed_commit(copy: Copy) -> tuple[str, ...]:
    (copy.root / "commits/000005-step.json").rename(copy.root / "commits/000005-evaluation.json")
    return (r"000005",)


@careless
def changed_tokenizer(copy: Copy) -> tuple[str, ...]:
    path = copy.root / "tokenizer/tokenizer.json"
    tokenizer = json.loads(path.read_text())
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["2"], vocabulary["3"] = vocabulary["3"], vocabulary["2"]
    path.write_text(json.dumps(tokenizer))
    return (r"tokenizer",)


@careless
def changed_recipe(copy: Copy) -> tuple[str, ...]:
    path = copy.root / "recipe.toml"
    path.write_text(path.read_text().replace("learning_rate = 0.0005", "learning_rate = 0.0004"))
    return (r"recipe\.toml|learning_rate",)


@careful
def manifest_that_lets_tools_be_trained(copy: Copy) -> tuple[str, ...]:
    row = {"model": "policy", "component": "policy_gradient", "origin": "tool", "policy": None}
    copy.edit_json("manifest.json", lambda manifest: manifest["eligible"].append(row))
    return (r"manifest|eligible",)


@careful
def manifest_with_another_clip(copy: Copy) -> tuple[str, ...]:
    copy.edit_json("manifest.json", lambda manifest: manifest["algorithm"][1].update(clip_high=0.28))
    return (r"clip_high|manifest",)


@careful
def commits_that_run_backwards(copy: Copy) -> tuple[str, ...]:
    path = "commits/000004-step.json"
    before = datetime.fromisoformat(json.loads((copy.root / path).read_bytes())["committed_at"]) - timedelta(hours=2)
    copy.edit_json(path, lambda commit: commit.update(committed_at=before.isoformat()))
    return (r"00000[345]|commit [345]\b",)


@careful
def task_with_another_answer(copy: Copy) -> tuple[str, ...]:
    key = "arithmetic/8dcbc5019d389f90"
    payload = copy.row("tasks", 3, task_id=key)["payload"]
    assert '"answer":"133"' in payload
    copy.edit("tasks", 3, {"payload": payload.replace('"answer":"133"', '"answer":"132"')}, task_id=key)
    return (key,)
