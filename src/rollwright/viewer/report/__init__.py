"""Reports on runs, from their folders alone: figures with their protocols, and claims with their evidence.

It refuses to know how a run is made, and says nothing that its folders do not carry.
"""

from rollwright.viewer.report.claims import Claim, ClaimError
from rollwright.viewer.report.saying import claims_of
from rollwright.viewer.report.writing import ReportFiles, build_document, read_runs, write_report

__all__ = ["Claim", "ClaimError", "ReportFiles", "build_document", "claims_of", "read_runs", "write_report"]
