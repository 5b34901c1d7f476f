"""The only reader and writer of a run folder: manifest, committed tables, checkpoints; queries, check and hash.

It refuses to know how anything in it was made. It works where torch is not installed.
"""

from rollwright.evidence.checking import CheckReport, Finding, LoadedRun, check, check_loaded, load_run
from rollwright.evidence.checkpoints import Checkpoint, CheckpointChoice, RefusedCheckpoint, verify_checkpoint
from rollwright.evidence.commits import Commit, CommitKind
from rollwright.evidence.differences import differences_text, manifest_differences
from rollwright.evidence.drafting import CommitRows
from rollwright.evidence.errors import (
    DiskFullError,
    EvidenceError,
    FolderExistsError,
    NotARunError,
    QueryError,
    RunLockedError,
    SchemaVersionError,
    ShardError,
)
from rollwright.evidence.evaluated import EvaluatedAttempt, StoredEvaluation, note_protocol, stored_evaluations
from rollwright.evidence.events import Event
from rollwright.evidence.hashing import content_hash, table_hashes
from rollwright.evidence.locking import writer_of
from rollwright.evidence.manifest import (
    SCHEMA_VERSION,
    UNKNOWN,
    AlgorithmSection,
    ConfigValue,
    DataSection,
    Difference,
    Effect,
    EnvironmentSection,
    EvaluationSection,
    JudgeSection,
    MachineSection,
    Manifest,
    ModelSection,
    PromptSource,
    Retention,
    RewardSection,
    RunSection,
    SegmentSection,
)
from rollwright.evidence.metric_log import MetricLine
from rollwright.evidence.reading import StoredRun, read_groups
from rollwright.evidence.run_folder import GROUPS_PER_COMMIT, RunFolder
from rollwright.evidence.views import QUERIES, QueryResult, connect, query, query_text

__all__ = [
    "GROUPS_PER_COMMIT",
    "QUERIES",
    "SCHEMA_VERSION",
    "UNKNOWN",
    "AlgorithmSection",
    "CheckReport",
    "Checkpoint",
    "CheckpointChoice",
    "Commit",
    "CommitKind",
    "CommitRows",
    "ConfigValue",
    "DataSection",
    "Difference",
    "DiskFullError",
    "Effect",
    "EnvironmentSection",
    "EvaluatedAttempt",
    "EvaluationSection",
    "Event",
    "EvidenceError",
    "Finding",
    "FolderExistsError",
    "JudgeSection",
    "LoadedRun",
    "MachineSection",
    "Manifest",
    "MetricLine",
    "ModelSection",
    "NotARunError",
    "PromptSource",
    "QueryError",
    "QueryResult",
    "RefusedCheckpoint",
    "Retention",
    "RewardSection",
    "RunFolder",
    "RunLockedError",
    "RunSection",
    "SchemaVersionError",
    "SegmentSection",
    "ShardError",
    "StoredEvaluation",
    "StoredRun",
    "check",
    "check_loaded",
    "connect",
    "content_hash",
    "differences_text",
    "load_run",
    "manifest_differences",
    "note_protocol",
    "query",
    "query_text",
    "read_groups",
    "stored_evaluations",
    "table_hashes",
    "verify_checkpoint",
    "writer_of",
]
