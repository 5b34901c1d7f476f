"""A taskset as its authors write it for the package `verifiers`: rows, a toolset with state, rewards and a metric."""

import verifiers.v1 as vf

__all__ = ["WordsTaskset"]


class WordsData(vf.TaskData):
    answer: str


class WordsState(vf.State):
    counted: int = 0


class Shelf(vf.Toolset[vf.ToolsetConfig, WordsState]):
    @vf.tool
    def count_letters(self, word: str) -> int:
        """How many letters a word has."""
        if not word.isalpha():
            raise ValueError(f"{word!r} is no word")
        self.state.counted += 1
        return len(word)


class WordsTask(vf.Task[WordsData, WordsState]):
    @classmethod
    def toolsets(cls, config):  # pyright: ignore[reportIncompatibleMethodOverride] - as its authors write it
        return [Shelf(vf.ToolsetConfig())]

    async def setup(self, trace, runtime):
        trace.info["opened"] = self.data.answer

    async def finalize(self, trace, runtime):
        trace.info["closed"] = trace.num_turns

    @vf.stop
    async def counted_enough(self, trace: vf.Trace) -> bool:
        return trace.state.counted >= 3  # pyright: ignore[reportAttributeAccessIssue] - the state is WordsState

    @vf.reward(weight=1.0)
    async def exact(self, trace) -> float:
        return float(trace.last_reply == self.data.answer)

    @vf.reward(weight=0.25)
    async def counted(self, task, trace) -> float:
        assert task.answer == trace.info["opened"]
        return float(trace.state.counted > 0)

    @vf.metric
    async def letters(self, trace) -> float:
        return float(len(trace.last_reply))


class WordsConfig(vf.TasksetConfig):
    words: int = 40


class WordsTaskset(vf.Taskset[WordsTask, WordsConfig]):  # pyright: ignore[reportInvalidTypeArguments] - as its authors write it
    def load(self):
        for number in range(self.config.words):
            word = "".join("abcdefghij"[int(digit)] for digit in str(1000 + 37 * number))
            data = WordsData(prompt=f"reverse {word}", system_prompt="One word.", answer=word[::-1])  # pyright: ignore[reportCallIssue] - pydantic has the defaults
            yield WordsTask(data, self.config.task)
