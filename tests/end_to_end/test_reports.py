"""What a step reports is what the run wrote of the whole step, not of one of its parts."""

import pytest

from rollwright.evidence import query
from tests.end_to_end.conftest import Recorded

OF_ALL = """SELECT step, value FROM metrics WHERE name = '{name}' AND labels['stat'] {stat}
  AND cardinality(map_keys(labels)) = {labels} AND value IS NOT NULL ORDER BY step, "update" """


def written(recorded: Recorded, name: str, stat: str | None) -> dict[int, object]:
    """Step to the last value of a metric over all its tokens."""
    condition = "IS NULL" if stat is None else f"= '{stat}'"
    sql = OF_ALL.format(name=name, stat=condition, labels=1 if stat is None else 2)
    return {int(str(step)): value for step, value in query(recorded.path, sql).rows}


def test_the_live_line_shows_the_numbers_of_all_tokens(recorded: Recorded) -> None:
    entropies = written(recorded, "entropy/full", None)
    mismatches = written(recorded, "mismatch/logp_abs", "max")
    assert recorded.heard.steps
    for report in recorded.heard.steps:
        assert report.entropy == pytest.approx(entropies[report.step])
        if report.step in mismatches:
            assert report.mismatch == pytest.approx(mismatches[report.step])
