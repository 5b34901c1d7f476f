"""What a manifest says of the graders that are models: which, told what, decoded how, held to which labeled cases."""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from rollwright.evidence import UNKNOWN, JudgeSection
from rollwright.recipes.build.judges import AnyJudgeConfig
from rollwright.recipes.build.machine import package_sha256
from rollwright.recipes.config.judges import GradeJudgeConfig, JudgeConfig, RubricJudgeConfig
from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.record import Verifier, digest
from rollwright.rollout.engine_judge import EngineJudge
from rollwright.verifiers import Composition
from rollwright.verifiers.judging.asking import Asker
from rollwright.verifiers.judging.client import JudgeClient
from rollwright.verifiers.judging.grade_judge import EquivalenceJudge, GradeJudge
from rollwright.verifiers.judging.group_grader import GroupGrader
from rollwright.verifiers.judging.pairwise import CircularJudge
from rollwright.verifiers.judging.rubric_judge import ExtractionJudge, RubricJudge
from rollwright.verifiers.judging.safety import SafetyJudge
from rollwright.verifiers.judging.server import ServerJudge
from rollwright.verifiers.reward_model import RewardModelVerifier

__all__ = ["judge_sections"]

_Judge = EquivalenceJudge | ExtractionJudge | GradeJudge | GroupGrader | RubricJudge | SafetyJudge


def judge_sections(recipe: RecipeConfig, composition: Composition) -> tuple[JudgeSection, ...]:
    """One a learned grader, those of a world included, in the order of the parts."""
    configured = iter([part for part in recipe.verifier.parts if isinstance(part, AnyJudgeConfig)])
    own = sum(isinstance(part, AnyJudgeConfig) for part in recipe.verifier.parts)
    found: list[JudgeSection] = []
    learned = [part.verifier for part in composition.parts if _is_learned(part.verifier)]
    for verifier in learned:
        # Where a world brings judges besides, only the order could tell whose settings are whose.
        config = next(configured) if own == len(learned) else None
        found += _sections(verifier, config)
    return tuple(found)


def _is_learned(verifier: Verifier) -> bool:
    return isinstance(verifier, _Judge | CircularJudge | RewardModelVerifier)


def _sections(verifier: Verifier, config: AnyJudgeConfig | None) -> Iterator[JudgeSection]:
    match verifier:
        case RewardModelVerifier():
            yield JudgeSection(
                verifier=verifier.name,
                model_revision=verifier.scorer.revision,
                prompt_sha256=None,
                decoding={},
                calibration_sha256=None,
            )
        case CircularJudge():
            yield _section(verifier.name, verifier.judge.asker, config)
        case _ if isinstance(verifier, _Judge):
            yield _section(verifier.name, verifier.asker, config)
        case _:
            raise AssertionError(f"{verifier.name} is no learned grader")


def _section(name: str, asker: Asker, config: AnyJudgeConfig | None) -> JudgeSection:
    return JudgeSection(
        verifier=name,
        model_revision=_model_of(asker.client),
        prompt_sha256=_prompt_sha256(config),
        decoding=_decoding(asker.client),
        calibration_sha256=_calibration_sha256(config),
    )


def _model_of(client: JudgeClient) -> str:
    """A server says no more of its weights than their name."""
    return f"{client.model}, {client.revision}" if isinstance(client, ServerJudge | EngineJudge) else client.revision


def _decoding(client: JudgeClient) -> Mapping[str, float | str]:
    match client:
        case ServerJudge():
            return {
                "temperature": client.temperature,
                "max_tokens": float(client.max_tokens),
                "seed": float(client.seed),
            }
        case EngineJudge():
            sampling = client.sampling
            return {
                "temperature": sampling.temperature,
                "top_p": sampling.top_p,
                "top_k": float(sampling.top_k),
                "min_p": sampling.min_p,
                "max_tokens": float(client.max_tokens),
            }
        case _:
            return {"decoding": UNKNOWN}


def _prompt_sha256(config: AnyJudgeConfig | None) -> str:
    """Of the words that a person wrote, and of the code that puts them before the judge."""
    written = ""
    match config:
        case GradeJudgeConfig():
            written = config.instructions
        case RubricJudgeConfig() if config.rubric:
            written = Path(config.rubric).read_text(encoding="utf-8")
        case _:
            pass
    return digest([package_sha256("verifiers/judging"), written])


def _calibration_sha256(config: AnyJudgeConfig | None) -> str | None:
    if not isinstance(config, JudgeConfig) or not config.calibration:
        return None
    return hashlib.sha256(Path(config.calibration).read_bytes()).hexdigest()
