"""Does the record of a run hold together? One module a concern; what is altered is read all the same and named.

load_run ──► files ── keys ── episodes ── calls ── rewards ── ledger ── gradients ── numbers ──► findings
"""

from rollwright.evidence.checking.checks import check, check_loaded
from rollwright.evidence.checking.findings import CheckReport, Concern, Finding, Severity
from rollwright.evidence.checking.loading import LoadedRun, load_run

__all__ = ["CheckReport", "Concern", "Finding", "LoadedRun", "Severity", "check", "check_loaded", "load_run"]
