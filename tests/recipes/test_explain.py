"""An objective explained, by recipe and by name: formulas with numbers, what is left out, where values come from."""

import pytest

from rollwright.recipes.errors import RecipeError
from rollwright.recipes.explain import explain, labels_of, objective_names
from rollwright.recipes.resolve import preset_names

NAMED = [name for name in objective_names() if name != "composed"]


def parts_of(found):
    return {part.place: part for part in found.description.walk()}


@pytest.mark.parametrize("name", NAMED)
def test_every_objective_explains_itself(name):
    found = explain(name)
    parts = parts_of(found)
    assert set(parts) >= {"credit", "ratio", "keep", "correction", "surrogate", "weights"}
    assert all(part.formula for part in parts.values())
    known = [part for part in found.description.parts if part.name != "?"]
    assert all(part.name.startswith("rollwright.") for part in known)
    unknown = [one for part in parts.values() for one in part.undisclosed if one.value == "?"]
    assert bool(unknown) == bool(found.left_out), "what is shown as ? is named as left out"


@pytest.mark.parametrize("name", preset_names())
def test_every_recipe_explains_its_objective(name):
    found = explain(name)
    assert found.title.startswith(f"recipe {name}, objective ")
    assert found.left_out == ()
    values = {one.key: one for one in found.values}
    assert values["objective.kind"].value == found.description.name
    assert values["rollout.truncation"].label is not None
    assert all(one.origin for one in found.values)


def test_numbers_are_those_that_were_set():
    found = explain("grpo", ["objective.surrogate.clip_high=0.5", "objective.kl_coefficient=0.03"])
    parts = parts_of(found)
    assert "1.5" in parts["surrogate"].formula
    assert parts["kl"].formula.startswith("0.03·(")
    assert set(found.description.needs) == {"proximal", "reference"}


def test_the_truncation_rule_of_a_recipe_is_part_of_its_credit():
    parts = parts_of(explain("arithmetic-tool", ["rollout.truncation=exclude"]))
    assert parts["credit"].name.endswith(":exclude_truncated")
    assert parts["credit.credit"].method == "M05"


def test_settings_may_choose_another_objective_and_its_keys():
    found = explain("gspo", ["objective=grpo", "objective.credit=pass_at_k", "objective.credit.k=4"])
    assert found.description.name == "grpo"
    assert parts_of(found)["credit"].method == "M32"


def test_another_case_is_the_nearest_spelling():
    with pytest.raises(RecipeError, match="did you mean gspo?"):
        explain("GSPO")


def test_a_balance_of_sources_is_weighed_by_its_largest():
    found = explain("dapo", ["objective.source_targets={easy=0.25, hard=0.5}"])
    assert sum(found.masses["policy_gradient"]) == pytest.approx(0.5)


def test_a_denominator_is_weighed_by_hand():
    found = explain("dapo")
    assert found.masses == {"policy_gradient": pytest.approx((2 / 14, 8 / 14, 4 / 14))}
    found = explain("grpo", ["objective.denominator=fixed_length", "rollout.max_episode_tokens=100"])
    assert found.masses == {"policy_gradient": pytest.approx((2 / 300, 8 / 300, 4 / 300))}
    assert "100" in parts_of(found)["weights"].formula
    sizes = {one.key: (one.value, one.origin) for one in found.values}
    assert sizes["rollout.max_episode_tokens"] == (100, "command line")
    assert sizes["rollout.group_size"] == (8, "default")


class TestLeftOut:
    def test_an_undisclosed_number_is_shown_as_unknown(self):
        found = explain("cispo")
        (high,) = parts_of(found)["surrogate"].undisclosed
        assert (high.name, high.value) == ("high", "?")
        assert "?" in parts_of(found)["surrogate"].formula
        (key,) = found.left_out
        assert key.startswith("objective.surrogate.")

    def test_a_chosen_one_is_shown_with_who_kept_it(self):
        (key,) = explain("cispo").left_out
        found = explain("cispo", [f"{key}=5"])
        (high,) = parts_of(found)["surrogate"].undisclosed
        assert (high.name, high.value) == ("high", "5")
        assert found.left_out == ()

    def test_an_open_denominator_is_shown_as_unknown(self):
        found = explain("gigpo")
        assert parts_of(found)["weights"].formula == "?"
        assert found.left_out == ("objective.denominator",)
        assert found.masses == {}
        assert explain("gigpo", ["objective.denominator=token_mean"]).left_out == ()

    def test_stand_ins_are_not_shown(self):
        for name in ("mai_thinking", "mimo", "maspo", "compaction_rl"):
            found = explain(name)
            assert found.left_out
            unknown = [one for part in parts_of(found).values() for one in part.undisclosed]
            assert {one.value for one in unknown} <= {"?", "0.05", "1.5"}, name


def test_what_no_stage_feeds_is_said():
    assert "critic" in (explain("ppo").unfed or "")
    assert explain("grpo").unfed is None


@pytest.mark.parametrize(
    ("name", "settings", "says"),
    [
        ("grpoo", [], "did you mean grpo?"),
        ("arithmetic", [], "did you mean arithmetic-tool?"),
        ("absent.toml", [], "no file absent.toml"),
        ("gspo", ["objective.credit=gae"], "takes one advantage a row"),
        ("gspo", ["objective.ratio=token"], "takes one ratio a row"),
        ("cispo", ["objective.ratio=bypass", "objective.correction=decoupled"], "staleness would be corrected twice"),
        ("grpo", ["objective.clip_low=1"], "unknown key objective.clip_low"),
        ("grpo", ["objective.surrogate.clip_low=2"], "objective.surrogate.clip_low takes a number above 0 and below 1"),
        ("grpo", ["objective=5"], "objective takes a section of kind"),
        ("grpo", ["rollout.group_size=1"], "a group of at least 2"),
        ("composed", [], "objective.credit is missing"),
    ],
)
def test_what_is_asked_wrongly_is_a_sentence(name, settings, says):
    with pytest.raises(RecipeError) as refused:
        explain(name, settings)
    assert says in str(refused.value)


def test_a_composition_of_ones_own_explains_itself():
    chosen = ["objective.credit=leave_one_out", "objective.ratio=none", "objective.surrogate=policy_gradient"]
    parts = parts_of(explain("composed", chosen))
    assert (parts["credit"].method, parts["surrogate"].method) == ("M03", "M48")


@pytest.mark.parametrize(
    ("source", "labels"),
    [
        ("arXiv:2402.03300 (GRPO)", ("D",)),
        ("arXiv:2505.23585 (OPO); public: verl", ("D", "C")),
        ("public code: verl (token, C = 2), TRL (sequence mask, 3)", ("C",)),
        ("MAI-Thinking-1; how the two are composed is our reading", ("D", "I")),
        ("ours", ("I",)),
        ("Rogan and Gladen 1978", ("D",)),
        ("", ()),
    ],
)
def test_a_source_has_its_labels(source, labels):
    assert labels_of(source) == labels
