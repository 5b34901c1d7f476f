"""What can go wrong with a run folder, each in a sentence that says what to do."""

__all__ = [
    "DiskFullError",
    "EvidenceError",
    "FolderExistsError",
    "NotARunError",
    "QueryError",
    "RunLockedError",
    "SchemaVersionError",
    "ShardError",
]


class EvidenceError(ValueError):
    """A run folder cannot be read or written as asked."""


class NotARunError(EvidenceError):
    """There is no run at this path."""


class FolderExistsError(EvidenceError):
    """A run cannot be created where something else already stands."""


class RunLockedError(EvidenceError):
    """Another process writes this run folder."""


class SchemaVersionError(EvidenceError):
    """The folder was written in another schema."""


class ShardError(EvidenceError):
    """A committed file is missing, truncated or altered."""


class QueryError(EvidenceError):
    """A query is not one question."""


class DiskFullError(EvidenceError):
    """The disk has no room; nothing that was committed is lost."""
