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
from rollwright.tasks.computations import COMPUTATION_LEVELS, computation_strata
from rollwright.tasks.errors import ExpressionError, TaskError
from rollwright.tasks.expressions import EXPRESSIONS_REVISION, Bounds, evaluate, number_text
from rollwright.tasks.goals import State, goal_of, layout_of, start_of, state_key, unmet_conditions
from rollwright.tasks.gym import GymEntry, GymGenerator, gym_entries, gym_source, gym_version
from rollwright.tasks.houses import AGENT, HAND, OPEN, SHUT, HouseSize, house_source
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
    "AGENT",
    "COMPUTATION_LEVELS",
    "EASY",
    "ERROR",
    "EXPRESSIONS_REVISION",
    "HAND",
    "HARD",
    "HELD_OUT",
    "HELD_OUT_SHARE",
    "OPEN",
    "SHUT",
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
    "HouseSize",
    "Json",
    "Mixture",
    "Payload",
    "SplitSizes",
    "State",
    "Stratum",
    "TaskError",
    "TaskOrder",
    "TaskSource",
    "arithmetic_strata",
    "computation_strata",
    "evaluate",
    "fill_splits",
    "goal_of",
    "gold_of",
    "gym_entries",
    "gym_source",
    "gym_version",
    "house_source",
    "is_held_out",
    "jsonl_source",
    "layout_of",
    "make_task",
    "number_text",
    "payload_of",
    "question_key",
    "read_json",
    "read_jsonl",
    "slice_of",
    "start_of",
    "state_key",
    "stratum_of",
    "unmet_conditions",
]
