"""The side of the package `verifiers` that runs in a process of its own: rebuild a run, and score it by its task."""

import asyncio
from collections.abc import Callable, Mapping
from typing import cast

from rollwright.tasks import Json, VerifiersPackage, VerifiersTrace, open_verifiers

__all__ = ["open_rubric"]


def open_rubric(settings: Mapping[str, Json]) -> Callable[[Mapping[str, Json]], Json]:
    """The function that scores the record of a run (`conversation.json`); loads the environment.

    Args:
        settings: `taskset`, `arguments`, `environment` and `settings` of `open_verifiers`.
    """
    package = open_verifiers(
        str(settings["taskset"]),
        cast("Mapping[str, Json]", settings["arguments"]),
        environment=str(settings["environment"]),
        settings=cast("Mapping[str, Json]", settings["settings"]),
    )

    def answer(record: Mapping[str, Json]) -> Json:
        return asyncio.run(_scored(package, record))

    return answer


async def _scored(package: VerifiersPackage, record: Mapping[str, Json]) -> Json:
    vf, env = package.vf, package.env
    task = package.task(record["data"])
    trace = _rebuilt(package, task, record)
    await task.score(trace, None)
    episode = vf.Episode(env=vf.EnvInfo(id=env.config.env_id), task=trace.task, traces=[trace], ok=True)
    await env.finalize(task, episode)
    missing = [name for name, reward in trace.rewards.items() if reward is None]
    if missing:
        raise ValueError(f"no score came of {', '.join(missing)}")
    return {
        "reward": float(trace.reward),
        "rewards": {name: float(reward.score) for name, reward in trace.rewards.items()},
        "metrics": {name: float(value) for name, value in trace.metrics.items() if value is not None},
    }


def _rebuilt(package: VerifiersPackage, task: VerifiersTrace, record: Mapping[str, Json]) -> VerifiersTrace:
    """The trace as it stood when the run was over."""
    trace = package.trace(task, record["state"])
    for node in cast("list[Mapping[str, Json]]", record["nodes"]):
        parent = len(trace.nodes) - 1 if trace.nodes else None
        made = {"parent": parent, "message": node["message"], "sampled": node["sampled"]}
        trace.nodes.append(package.vf.MessageNode.model_validate(made))
    trace.info = dict(cast("Mapping[str, Json]", record["info"]))
    trace.metrics.update(cast("Mapping[str, float]", record["metrics"]))
    for name, reward in cast("Mapping[str, Mapping[str, float]]", record["rewards"]).items():
        trace.record_reward(name, reward["score"], reward["weight"])
    trace.stop_condition = record["stop_condition"]
    trace.is_completed = trace.ok = True
    return trace
