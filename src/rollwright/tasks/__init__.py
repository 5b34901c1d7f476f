"""What to solve: sources, splits, mixtures and the order of drawing. Knows no environment, verifier or token."""

from rollwright.tasks.arithmetic import (
    EASY,
    ERROR,
    HARD,
    SLICES,
    UNDEFINED,
    ArithmeticShares,
    arithmetic_strata,
    gold_of,
)
from rollwright.tasks.errors import ExpressionError, TaskError
from rollwright.tasks.expressions import EXPRESSIONS_REVISION, Bounds, evaluate, number_text
from rollwright.tasks.gym import GymEntry, GymGenerator, gym_entries, gym_source, gym_version
from rollwright.tasks.jsonl import jsonl_source, read_jsonl
from rollwright.tasks.mixture import HeldOut, Mixture, Stratum, stratum_of
from rollwright.tasks.order import Draw, TaskOrder
from rollwright.tasks.payload import (
    HELD_OUT,
    TRAIN,
    Json,
    Payload,
    is_held_out,
    make_task,
    payload_of,
    question_key,
    read_json,
    slice_of,
)
from rollwright.tasks.source import HELD_OUT_SHARE, SplitSizes, TaskSource, fill_splits

__all__ = [
    "EASY",
    "ERROR",
    "EXPRESSIONS_REVISION",
    "HARD",
    "HELD_OUT",
    "HELD_OUT_SHARE",
    "SLICES",
    "TRAIN",
    "UNDEFINED",
    "ArithmeticShares",
    "Bounds",
    "Draw",
    "ExpressionError",
    "GymEntry",
    "GymGenerator",
    "HeldOut",
    "Json",
    "Mixture",
    "Payload",
    "SplitSizes",
    "Stratum",
    "TaskError",
    "TaskOrder",
    "TaskSource",
    "arithmetic_strata",
    "evaluate",
    "fill_splits",
    "gold_of",
    "gym_entries",
    "gym_source",
    "gym_version",
    "is_held_out",
    "jsonl_source",
    "make_task",
    "number_text",
    "payload_of",
    "question_key",
    "read_json",
    "read_jsonl",
    "slice_of",
    "stratum_of",
]
