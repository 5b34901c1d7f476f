"""Gates and alarms as a person writes them: what is refused, with what sentence, and what ships."""

import re
from pathlib import Path

import pytest

from rollwright.evaluation.gates_declared import EvaluationSubject, gates_of, rl_steps_of
from rollwright.recipes.build.alarms import build_alarms
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.resolve import Resolved, preset_names, preset_text, recipe_toml, resolve, resolve_text
from rollwright.record.metrics import metric_named
from tests.evaluation.gated_runs import gated_manifest

GATE = 'name="g", bound="at_least", limit=0.5, source="by hand"'


def with_gate(text: str) -> Resolved:
    return resolve("arithmetic-tool", [f"gates=[{{{text}}}]", "alarms=[]"])


def with_alarm(text: str) -> Resolved:
    return resolve("arithmetic-tool", [f"alarms=[{{{text}}}]", "gates=[]"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f'{GATE}, kind="metric", metric="entropy/ful"', "not in the list of metrics"),
        (f'{GATE}, kind="metric", metric="heldout/success"', "runs write it as"),
        (f'{GATE}, kind="metric", metric="reward"', "kind 'evaluation'"),
        (f'{GATE}, kind="metric", metric="value/loss"', "nothing writes yet"),
        (f'{GATE}, kind="metric", metric="entropy/full", labels={{state="x"}}', "no label 'state'"),
        (f'{GATE}, kind="metric", metric="entropy/full", window=7', "leave window out"),
        (f'{GATE}, kind="metric", metric="entropy/full", over="max", since="start"', "leave since out"),
        (f'{GATE}, kind="evaluation", measure="succes"', "an evaluation measures success"),
        (f'{GATE}, kind="evaluation", protocol="greedy"', "this run measures held-out; name it in evaluation.protocol"),
        ('name="g", kind="metric", metric="entropy/full", bound="at_least", limit=0.5', "source"),
        ('name="g", kind="metric", metric="entropy/full", bound="above", limit=0.5, source="x"', "bound"),
    ],
)
def test_a_gate_that_cannot_be_judged_is_refused_before_the_run(text: str, said: str):
    with pytest.raises(RecipeError, match=said):
        with_gate(text)


@pytest.mark.parametrize(
    ("gates", "said"),
    [
        ('kind="evaluation", bound="at_least", limit=1.5', "never at least 1.5"),
        ('kind="paired", bound="at_most", limit=-1.5', "never at most -1.5"),
        ('kind="audit", verifier="v", bound="at_most", limit=-0.1', "never at most -0.1"),
        ('kind="evaluation", measure="pass_at_k", labels={k="4096"}, bound="at_least", limit=0.1', "samples a task"),
    ],
)
def test_a_gate_that_can_never_pass_is_refused_before_the_run(gates: str, said: str):
    with pytest.raises(RecipeError, match=said):
        with_gate(f'name="g", source="by hand", {gates}')


def test_two_gates_that_no_number_passes_are_refused_by_name():
    both = [
        f'{{name="{name}", kind="metric", metric="entropy/full", bound="{bound}", limit={limit}, source="x"}}'
        for name, bound, limit in (("low", "at_least", 0.5), ("high", "at_most", 0.4))
    ]
    with pytest.raises(RecipeError, match="'low' and 'high' ask one number"):
        resolve("arithmetic-tool", [f"gates=[{', '.join(both)}]", "alarms=[]"])


@pytest.mark.parametrize("name", [r"a\nb", r"a\u0007", " a", "x" * 81])
def test_a_name_that_does_not_stand_on_one_line_is_refused(name: str):
    with pytest.raises(RecipeError, match="name"):
        with_gate(f'name="{name}", kind="metric", metric="entropy/full", bound="at_least", limit=0.5, source="x"')


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('kind="mismatch"', "limit is missing"),
        ('kind="kl", limit=0.1', "source is missing"),
        ('kind="hacking_gap", limit=0.1, source="x"', "name that part"),
        ('kind="length", rule="threshold", first=9, limit=9.0', "leave it out"),
        ('kind="metric", name="a", metric="nothing", bound="at_most", limit=1.0, source="x"', "list of metrics"),
        ('kind="length", minus_labels={stat="max"}', "minus, which is not given"),
        ('kind="length", action="stop"', "action"),
    ],
)
def test_an_alarm_that_could_never_rise_is_refused_before_the_run(text: str, said: str):
    with pytest.raises(RecipeError, match=said):
        with_alarm(text)


def test_two_limits_of_one_name_are_refused():
    with pytest.raises(RecipeError, match="two gates or alarms are named 'length'"):
        resolve("arithmetic-tool", ['alarms=[{kind="length"}, {kind="length"}]'])


def test_the_named_alarms_warn_unless_the_recipe_says_pause():
    resolved = resolve("arithmetic-tool", ['alarms=[{kind="length"}, {kind="entropy_collapse"}]'])
    assert {rule.action for rule in build_alarms(resolved.recipe)} == {"warn"}


def test_alarms_go_with_the_stage_that_they_watch():
    alone = resolve("arithmetic-tool", ['stages=[{kind="supervised", name="warm_start", steps=20}]'])
    assert alone.recipe.alarms == ()
    with pytest.raises(RecipeError, match="nothing reads alarms"):
        resolve("arithmetic-tool", ['stages=[{kind="supervised", name="w", steps=20}]', 'alarms=[{kind="length"}]'])


@pytest.mark.parametrize("name", preset_names())
def test_what_ships_has_gates_and_alarms_with_where_their_limits_come_from(name: str):
    resolved = resolve(name)
    assert resolved.recipe.gates
    assert resolved.recipe.alarms
    assert all(one.source and one.label in "DCIU" for one in (*resolved.recipe.gates, *resolved.recipe.alarms))
    for rule in build_alarms(resolved.recipe):
        assert all(metric_named(metric) is not None for metric in rule.names)
    again = resolve_text(recipe_toml(resolved.recipe), origin="run r")
    assert again.recipe == resolved.recipe


def test_the_manifest_gives_back_the_gates_that_were_written():
    resolved = with_gate(f'{GATE}, kind="evaluation", labels={{slice="hard"}}, by="low"')
    tree = resolved.recipe.model_dump(mode="json", exclude_none=True)
    made = gated_manifest(tree["gates"], stages=tree["stages"], steps=tree["run"]["steps"])
    (gate,) = gates_of(made)
    assert gate.subject == EvaluationSubject(
        kind="evaluation", measure="success", labels={"slice": "hard"}, protocol="", by="low"
    )
    assert (gate.bound.side, gate.bound.limit, gate.source) == ("at_least", 0.5, "by hand")
    assert (rl_steps_of(made).first, rl_steps_of(made).last) == (341, 380)


def test_what_the_page_on_gates_shows_is_a_recipe():
    page = (Path(__file__).parents[2] / "docs/how-to/gate-a-run.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    bare = preset_text("arithmetic-tool").partition("[[gates]]")[0]
    resolved = resolve_text(bare + "\n".join(shown), origin="file gate-a-run.md")
    assert [gate.kind for gate in resolved.recipe.gates] == ["evaluation", "paired", "metric", "audit"]
    assert [alarm.kind for alarm in resolved.recipe.alarms] == ["entropy_collapse", "hacking_gap"]
