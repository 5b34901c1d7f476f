"""Prompts of a step beside each other and beside the held-out ones."""

from rollwright.record import Group, Message
from rollwright.runtime.prompt_metrics import PromptWatch, prompt_clusters
from rollwright.tasks import Payload, make_task

LONG = "A farmer has seventeen sheep and buys twelve more at the market, then sells nine of them on the way home."


def task(text, split="train"):
    return make_task(
        Payload(messages=(Message(role="user", text=text),), answer="1", info={}), source="s", revision="r", split=split
    )


def groups(*texts):
    return [Group(group_id=n, task=task(text), size=1, members=()) for n, text in enumerate(texts)]


def counted(watch, *texts):
    return {(n.name, n.labels.get("kind")): n.value for n in watch.see(groups(*texts))}


def test_an_equal_prompt_is_a_leak_and_a_like_one_is_none():
    watch = PromptWatch([task("What is 5+9?", "held_out")])
    assert counted(watch, "What is 5-9?", "What is 15+9?")["data/contamination", "exact"] == 0
    assert counted(watch, "What is 5+9?", "What is 1+1?")["data/contamination", "exact"] == 1


def test_a_run_of_words_that_a_held_out_task_holds_is_a_leak():
    watch = PromptWatch([task(LONG, "held_out"), task("What is 1+1?", "held_out")])
    found = counted(watch, f"Tell me. {LONG} How many are left?", "What is 2+2?")
    assert found["data/contamination", "words"] == 1
    assert found["data/contamination", "exact"] == 0


def test_without_held_out_tasks_nothing_is_said_of_them():
    assert counted(PromptWatch(()), "What is 5+9?").keys() == {("data/unique_prompt_clusters", None)}


def test_a_prompt_that_is_asked_twice_counts_once():
    assert counted(PromptWatch(()), LONG, LONG, "What is 5+9?")["data/unique_prompt_clusters", None] == 2


def test_prompts_that_share_most_of_their_characters_are_one_cluster():
    assert prompt_clusters([LONG, LONG.replace("nine", "ten"), "Name the capital of France.", ""]) == 3
    assert prompt_clusters([]) == 0
