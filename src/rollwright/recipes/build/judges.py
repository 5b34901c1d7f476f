"""From the configuration of a judge or a reward model to a verifier; what needs torch is imported inside."""

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Protocol, assert_never, cast

import numpy as np

from rollwright.recipes.build.named import make_named
from rollwright.recipes.config.judges import (
    EquivalenceJudgeConfig,
    GradeJudgeConfig,
    JudgeConfig,
    PairwiseJudgeConfig,
    RewardModelConfig,
    RubricJudgeConfig,
)
from rollwright.recipes.errors import RecipeError
from rollwright.record import Engine, Message, Sampling, Verifier, WeightsManifest, digest, ids
from rollwright.rendering import Renderer, load_renderer
from rollwright.rollout.engine_judge import EngineJudge
from rollwright.tasks import read_json
from rollwright.verifiers import AnswerRule
from rollwright.verifiers.judging.asking import Asker, AskLimits
from rollwright.verifiers.judging.calibration import (
    CalibrationLimits,
    calibrate,
    read_calibration,
    refuse_drifted,
    refuse_miscalibrated,
)
from rollwright.verifiers.judging.client import JudgeClient
from rollwright.verifiers.judging.grade_judge import EquivalenceJudge, GradeJudge
from rollwright.verifiers.judging.marks import Scale
from rollwright.verifiers.judging.pairwise import CircularJudge, PairJudge
from rollwright.verifiers.judging.prompting import Shown
from rollwright.verifiers.judging.rubric import rubric_from_json, rubric_of_task
from rollwright.verifiers.judging.rubric_book import is_book, read_book
from rollwright.verifiers.judging.rubric_judge import RubricJudge, fixed_rubric
from rollwright.verifiers.judging.server import JudgePrice, server_judge
from rollwright.verifiers.reward_model import RewardModelVerifier

if TYPE_CHECKING:
    from rollwright.learner.scalar_model import ScalarModel

__all__ = ["AnyJudgeConfig", "Closing", "RenderedScorer", "build_judge"]

AnyJudgeConfig = GradeJudgeConfig | EquivalenceJudgeConfig | RubricJudgeConfig | PairwiseJudgeConfig | RewardModelConfig
_CLIENT: Mapping[str, type | UnionType] = {"revision": str, "complete": cast("type", Callable)}
"""What a judge from outside must have."""


class Closing(Protocol):
    """Something that ends what it started."""

    def close(self) -> None:
        """End it; once."""
        ...


def build_judge(config: AnyJudgeConfig, rule: AnswerRule, closers: list[Closing]) -> Verifier:
    """A verifier whose grades come from a model.

    Args:
        config: which, and who judges.
        rule: how the answer stands in the last turn.
        closers: what is opened for it is added here.

    Raises:
        RecipeError: for files that are not there, or a client that is none.
        JudgeRefusedError: where the judge disagrees with its labels, or has drifted.
    """
    if isinstance(config, RewardModelConfig):
        shown = Shown(rule=rule, max_characters=config.max_characters)
        return RewardModelVerifier(
            scorer=_scorer(Path(config.model)), center=config.center, scale=config.scale, shown=shown
        )
    asker = Asker(
        _client(config, closers),
        AskLimits(attempts=config.attempts, timeout_s=config.timeout_s, concurrency=config.concurrency),
    )
    verifier = _judge(config, asker, rule)
    if config.calibration:
        _calibrate(config, verifier)
    return verifier


def _judge(config: JudgeConfig, asker: Asker, rule: AnswerRule) -> Verifier:
    match config:
        case GradeJudgeConfig():
            judge = GradeJudge(
                asker=asker,
                scale=Scale(low=config.low, high=config.high),
                shown=Shown(part=config.shown, rule=rule, max_characters=config.max_characters),
                reference=config.reference,
            )
            return replace(judge, instructions=config.instructions) if config.instructions else judge
        case EquivalenceJudgeConfig():
            shown = Shown(rule=rule, max_characters=config.max_characters)
            return EquivalenceJudge(asker=asker, shown=shown, tolerance=config.tolerance)
        case RubricJudgeConfig():
            return _rubric_judge(config, asker, rule)
        case PairwiseJudgeConfig():
            shown = Shown(rule=rule, max_characters=config.max_characters)
            judge = PairJudge(asker=asker, max_characters=config.max_characters)
            return CircularJudge(judge=judge, orders=config.orders, shown=shown)
        case _:
            raise AssertionError(f"no judge of {type(config).__name__}")


def _rubric_judge(config: RubricJudgeConfig, asker: Asker, rule: AnswerRule) -> RubricJudge:
    shown = Shown(part=config.shown, rule=rule, max_characters=config.max_characters)
    if not config.rubric:
        return RubricJudge(asker=asker, rubric_of=rubric_of_task, rubrics_revision="task", shown=shown)
    try:
        text = _text_of(config.rubric, "verifier.parts.rubric.rubric")
        given = read_json(text)
        if is_book(given):
            book = read_book(text)
            return RubricJudge(asker=asker, rubric_of=book.rubric_of, rubrics_revision=book.version, shown=shown)
        rubric = rubric_from_json(given)
    except ValueError as error:
        raise RecipeError(f"{config.rubric} holds no rubric: {error}") from error
    return RubricJudge(asker=asker, rubric_of=fixed_rubric(rubric), rubrics_revision=rubric.revision, shown=shown)


def _client(config: JudgeConfig, closers: list[Closing]) -> JudgeClient:
    if config.backend != "server" and (config.url or config.key_file):
        raise RecipeError(f"url and key_file are for backend 'server'; this judge has backend {config.backend!r}.")
    match config.backend:
        case "server":
            has_price = config.prompt_price > 0 or config.completion_price > 0
            return server_judge(
                config.url,
                config.model,
                max_tokens=config.max_tokens,
                temperature=config.temperature,
                key=_text_of(config.key_file, "key_file").strip() if config.key_file else "",
                price=JudgePrice(prompt=config.prompt_price, completion=config.completion_price) if has_price else None,
            )
        case "folder":
            return _engine_client(config, closers)
        case "custom":
            return cast("JudgeClient", make_named(config.model, {}, needs=_CLIENT))
        case _:
            assert_never(config.backend)


def _engine_client(config: JudgeConfig, closers: list[Closing]) -> JudgeClient:
    folder = _folder_of(config.model)
    from rollwright.engines.embedded.opening import EmbeddedSettings, load_engine

    settings = EmbeddedSettings(num_slots=config.concurrency, max_context_tokens=config.max_context_tokens)
    engine = load_engine(folder, settings, _no_weights)
    closers.append(_ClosingEngine(engine))
    return EngineJudge(
        engine=engine,
        renderer=load_renderer(folder),
        model=_digest_of(folder),
        sampling=Sampling(temperature=config.temperature),
        max_tokens=config.max_tokens,
        deadline_s=config.timeout_s,
    )


class _ClosingEngine:
    """Ends an engine from outside of its event loops."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def close(self) -> None:
        asyncio.run(self._engine.close())


class RenderedScorer:
    """A `ScalarScorer`: the conversation by the model's own template, scored in a thread, one row at a time."""

    def __init__(self, model: "ScalarModel", renderer: Renderer) -> None:
        """Store both."""
        self._model = model
        self._renderer = renderer

    @property
    def revision(self) -> str:
        """A digest of weights and template."""
        return digest([self._model.revision, self._renderer.revision({})])[:16]

    async def score(self, messages: Sequence[Message]) -> float:
        """The raw score of a conversation that ends with the answer."""
        opened = self._renderer.open(messages[:-1], {})
        answer = self._renderer.encode_turn(messages[-1].text)
        row = ids(np.concatenate([*(piece.token_ids for piece in opened.pieces), answer]))
        (score,) = await asyncio.to_thread(self._model.score, [row])
        return score


def _scorer(folder: Path) -> RenderedScorer:
    from rollwright.learner.scalar_model import load_scalar_model

    checked = _folder_of(str(folder))
    return RenderedScorer(load_scalar_model(checked), load_renderer(checked))


def _calibrate(config: JudgeConfig, verifier: Verifier) -> None:
    """Ask about the labeled cases; refuse a judge that errs or has drifted; keep the first record."""
    path = Path(config.calibration)
    _text_of(config.calibration, "calibration")
    limits = CalibrationLimits(min_share=config.min_agreement, max_drift=config.max_drift)
    report = asyncio.run(calibrate(verifier, read_calibration(path)))
    refuse_miscalibrated(report, limits)
    if not config.calibration_record:
        return
    record = Path(config.calibration_record)
    if record.exists():
        refuse_drifted(report, record.read_text(encoding="utf-8"), limits)
    else:
        record.write_text(report.to_json(), encoding="utf-8")


def _text_of(path: str, what: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"{what} is {path!r}, which cannot be read: {error}") from error


def _folder_of(path: str) -> Path:
    folder = Path(path)
    if not (folder / "config.json").is_file():
        raise RecipeError(f"model is {path!r}, which holds no model; give a folder that transformers wrote.")
    return folder


def _digest_of(folder: Path) -> str:
    whole = hashlib.sha256()
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            whole.update(hashlib.file_digest(file, "sha256").digest())
    return whole.hexdigest()[:16]


def _no_weights(manifest: WeightsManifest) -> Mapping[str, object]:
    raise AssertionError(f"a judge is never given new weights, and was offered version {manifest.version}")
