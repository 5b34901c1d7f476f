"""An environment with a run of its own for the package `verifiers`: the engine plays the user, turn by turn."""

import verifiers.v1 as vf

__all__ = ["GuessEnv", "GuessTaskset"]


class GuessData(vf.TaskData):
    secret: int


class GuessTask(vf.Task[GuessData]):
    @vf.metric
    async def turns(self, trace) -> float:
        return float(trace.num_turns)


class GuessTaskset(vf.Taskset[GuessTask, vf.TasksetConfig]):
    INFINITE = True

    def load(self):
        number = 0
        while True:
            data = GuessData(prompt=None, name=f"guess {number}", secret=number % 10)  # pyright: ignore[reportCallIssue] - pydantic has the defaults
            yield GuessTask(data, self.config.task)
            number += 1


class GuessConfig(vf.EnvConfig):
    player: vf.AgentConfig = vf.AgentConfig()
    tries: int = 3


class GuessEnv(vf.Env[GuessConfig]):
    async def run(self, task, agents):
        said, earned = "Guess a digit.", 0.0
        async with agents.player.interaction(task) as talk:
            for left in range(self.config.tries, 0, -1):
                segment = await talk.turn(said)
                if segment.terminated:
                    break
                if str(task.data.secret) in segment.last_reply:
                    earned = left / self.config.tries
                    break
                said = "No. Again."
        talk.trace.record_reward("guessed", earned)
        talk.trace.record_reward("digits", float(sum(map(str.isdigit, segment.last_reply))), 0.125)  # pyright: ignore[reportPossiblyUnboundVariable] - there is a try at least

    async def finalize(self, task, episode):
        (trace,) = episode.traces
        trace.record_metric("earned", trace.reward)
