"""The numbers of an audit under the names of the list of metrics."""

from datetime import UTC, datetime

import pytest

from rollwright.recipes.audits.kept import audit_metrics
from rollwright.recipes.audits.of_runs import Labeled, Probed, Retold, RunAudit
from rollwright.record.metrics import METRICS, metric_named
from rollwright.statistics.verifier_audit import VerifierAudit, metamorphic_gap
from tests.cases import method_fixture

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def audit(**found):
    nothing = {"labeled": None, "disagreement": None, "flakiness": None, "retold": None, "probed": None}
    return RunAudit(
        run="made",
        success_at=1.0,
        num_unjudged=0,
        num_accepted=4,
        num_rejected=4,
        by_source={"s": (4, 4)},
        sheet=None,
        num_sampled=8,
        num_sampled_accepted=4,
        seconds=0.0,
        **{**nothing, **found},
    )


def told(**found):
    rows = audit_metrics(audit(**found), step=7, number=3, now=NOW)
    assert {(row.step, row.update, row.labels["audit"]) for row in rows} <= {(7, 0, "3")}
    for row in rows:
        entry = metric_named(row.name)
        assert entry is not None and entry.unit == row.unit and row.labels.keys() <= set(entry.labels)
    return {(row.name, *sorted(value for key, value in row.labels.items() if key != "audit")): row for row in rows}


def test_tasks_told_anew_give_the_gap_and_the_share_of_successes_that_is_lost():
    fixture = method_fixture("M122.a")
    before, after = fixture.input["R_ext"], fixture.input["R_iso"]
    retold = Retold(
        transform="renamed entities",
        kind="renaming",
        num=len(before),
        gap=metamorphic_gap(before, after, success_at=1.0),
        lost=(),
    )
    found = told(retold=(retold,))
    assert found["verifier/hack_gap", "renamed entities"].value == pytest.approx(fixture.expect["hack_gap"])
    assert found["verifier/ipt_fail", "renamed entities"].value == pytest.approx(fixture.expect["ipt_failure_rate"])


def test_labels_give_rates_of_errors_overall_and_by_source():
    fixture = method_fixture("M121.a")
    counts = VerifierAudit(**fixture.input)
    labeled = Labeled(
        num=150,
        overall=counts.errors(),
        by_source={"s": counts.errors()},
        counts={"s": counts},
        false_accepts=tuple(f"t{n}" for n in range(7)),
        false_rejects=(),
    )
    found = told(labeled=labeled)
    assert found[("verifier/fp_rate",)].value == pytest.approx(fixture.expect["FPR"], rel=1e-5)
    assert found["verifier/fn_rate", "s"].value == pytest.approx(1 - fixture.expect["TPR"], rel=1e-4)
    assert found["verifier/hack_confirmed", "labels"].value == 0.07


def test_where_no_hack_was_found_the_upper_bound_is_what_can_be_said():
    fixture = method_fixture("M123.a")
    probed = Probed(
        num=fixture.input["audited"],
        num_errors=0,
        num_tasks=1,
        num_left_out=0,
        by_kind={},
        paid=(),
        upper_bound=0.0,
    )
    found = told(probed=probed)
    assert found["verifier/hack_confirmed", "attacks"].value == 0.0
    upper = found["verifier/hack_confirmed", "attacks", "upper"].value
    assert upper == pytest.approx(fixture.expect["rule_of_three_upper95"], rel=1e-5)


def test_what_was_not_asked_for_is_not_told():
    assert told() == {}


def test_every_metric_of_an_audit_is_made():
    assert len([one for one in METRICS if one.by.endswith("audits.kept:audit_metrics")]) == 5
