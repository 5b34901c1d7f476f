"""Trees and patches that mean to be paid without a repair."""

import asyncio
import json
from collections.abc import Iterator, Mapping

import pytest

from rollwright.record import Submission, Task
from rollwright.sandboxes import SandboxLimits, SandboxProfile, open_sandboxes
from rollwright.tasks import Repository, SplitSizes, repository_of, repository_strata
from rollwright.verifiers import REPOSITORY_PRELOADED, REPOSITORY_TREE, RepositoryVerifier
from tests.verifiers.hostile.attacks import Attack, Earned, read_attacks, text_of, verified

ATTACKS = read_attacks("repository.jsonl")
LIMITS = SandboxLimits(wall_s=20.0, cpu_s=1.0)
WITHIN_S = 30.0
TASK: Task = repository_strata(SplitSizes(train=1, held_out=1), seed=0)[0].train[0]


@pytest.fixture(scope="module")
def verifier() -> Iterator[RepositoryVerifier]:
    pool = open_sandboxes(SandboxProfile(limits=LIMITS, preload=REPOSITORY_PRELOADED), num_warm=1)
    yield RepositoryVerifier(pool=pool)
    pool.close()


def tree_of(attack: Attack, repository: Repository) -> bytes:
    """The task's files, with what the attack writes, `None` for what it deletes."""
    fix = repository.fix
    fixed = repository.files[fix.path].replace(fix.old, fix.new)
    files: dict[str, str] = dict(repository.files)
    for path, given in attack.row["files"].items():
        name = path.replace("{fix}", fix.path).replace("{package}", repository.package)
        match path, given:
            case "*", _:
                files.clear()
            case "{many}", int():
                files |= {f"f{number}.txt": "" for number in range(given)}
            case _, None:
                files.pop(name, None)
            case _:
                text = fixed if given == "{fixed}" else text_of(given)
                files[name] = text.replace("{package}", repository.package)
    return json.dumps({"files": files, "left_out": []}).encode()


def artifacts_of(attack: Attack) -> Mapping[str, bytes]:
    if attack.kind == "files":
        return {REPOSITORY_TREE: tree_of(attack, repository_of(TASK))}
    return {name: text_of(raw).encode(errors="surrogateescape") for name, raw in attack.row["artifacts"].items()}


def complaints(verifier: RepositoryVerifier, attack: Attack) -> list[str]:
    submission = Submission(
        trajectory_id=attack.id,
        task=TASK,
        terminal_reason="model_end",
        passages=(),
        artifacts=artifacts_of(attack),
    )
    earned: list[Earned] = asyncio.run(verified(verifier, [attack], submission))
    return [said for one in earned if (said := one.complaint(within_s=WITHIN_S))]


@pytest.mark.parametrize("attack", [a for a in ATTACKS if not a.is_slow], ids=lambda attack: attack.id)
def test_a_tree_is_paid_for_a_repair_alone(verifier: RepositoryVerifier, attack: Attack) -> None:
    assert complaints(verifier, attack) == []


@pytest.mark.slow
@pytest.mark.parametrize("attack", [a for a in ATTACKS if a.is_slow], ids=lambda attack: attack.id)
def test_a_tree_that_uses_up_its_limits_ends_in_a_number(verifier: RepositoryVerifier, attack: Attack) -> None:
    assert complaints(verifier, attack) == []
