"""Parts of a reward that judge answers, programs and form, as a person writes them."""

from typing import Annotated, Literal

from pydantic import Field

from rollwright.recipes.config.strict import StrictConfig

__all__ = [
    "ChoiceVerifierConfig",
    "FunctionVerifierConfig",
    "GateConfig",
    "JsonSchemaVerifierConfig",
    "LanguageVerifierConfig",
    "MoreVerifierConfig",
    "SectionsVerifierConfig",
    "SetVerifierConfig",
    "TagsVerifierConfig",
    "TextMatchVerifierConfig",
    "UnitTestsVerifierConfig",
    "UnitsVerifierConfig",
    "WeightedPart",
]


class WeightedPart(StrictConfig):
    """What every part has."""

    weight: float = 1.0
    """Of this part in the reward; the raw value is kept beside it."""


class GateConfig(WeightedPart):
    """A part on form."""

    role: Literal["gate", "shaping"] = "gate"
    """`gate`: at 0 nothing is paid. `shaping`: added with its weight, which may not exceed the outcome's."""


class UnitsVerifierConfig(WeightedPart):
    """The answer is the gold amount, in the same or an equivalent unit."""

    kind: Literal["units"] = "units"
    tolerance: float = Field(default=1e-6, ge=0, lt=1)
    """Relative, where either side is a decimal."""


class SetVerifierConfig(WeightedPart):
    """The answer holds exactly the gold items."""

    kind: Literal["set"] = "set"
    order: Literal["ignored", "kept"] = "ignored"
    duplicates: Literal["ignored", "counted"] = "ignored"


class ChoiceVerifierConfig(WeightedPart):
    """The answer names the gold option, by letter or text; several letters are none."""

    kind: Literal["choice"] = "choice"


class TextMatchVerifierConfig(WeightedPart):
    """The answer is one of the right short texts: exact match after the SQuAD rule, or token F1."""

    kind: Literal["text_match"] = "text_match"
    metric: Literal["exact_match", "f1"] = "exact_match"
    answer_tag: str = ""
    """`answer`: the answer is what `<answer>` and `</answer>` hold."""


class JsonSchemaVerifierConfig(WeightedPart):
    """The final text is one JSON value that the task's schema allows."""

    kind: Literal["json_schema"] = "json_schema"


class UnitTestsVerifierConfig(WeightedPart):
    """The program in the final text passes the task's tests, in a sandbox."""

    kind: Literal["unit_tests"] = "unit_tests"
    scoring: Literal["all", "fraction"] = "all"
    repeats: int = Field(default=1, ge=1, le=100)
    """How often the tests run; one passes that passes every time."""
    suite_s: float = Field(default=120.0, gt=0, le=100_000)
    """Of all tests of one program together; a task may set the limits of one test."""
    isolation: Literal["namespaces", "process"] = "namespaces"
    """`process` is no wall: for programs that you trust."""


class TagsVerifierConfig(GateConfig):
    """The last turn is made of these tags, each once, in order and filled."""

    kind: Literal["tags"] = "tags"
    tags: tuple[str, ...] = ("think", "answer")
    outside: Literal["blank", "any"] = "blank"
    """What may stand outside of them."""


class SectionsVerifierConfig(GateConfig):
    """The last turn has these headings, each once, in order and with text below."""

    kind: Literal["sections"] = "sections"
    sections: tuple[str, ...] = ("Answer",)


class LanguageVerifierConfig(GateConfig):
    """What the policy writes, reasoning included, is in one language."""

    kind: Literal["language"] = "language"
    language: str = "en"
    """A code such as en, de or zh; a task may state its own as `info.language`."""
    least_share: float = Field(default=0.9, gt=0, le=1)
    pays: Literal["threshold", "share"] = "threshold"


class FunctionVerifierConfig(WeightedPart):
    """A reward function of another system, bound by the names of its parameters."""

    kind: Literal["function"] = "function"
    path: str
    """`package.module:name` of a plain or async function in the form of TRL, veRL or verifiers."""
    text: Literal["auto", "text", "messages"] = "auto"
    """How prompts and completions are passed; `auto`: messages to a function by name, else text."""
    scope: Literal["trajectory", "group"] = "trajectory"
    """`group`: a batch function sees all attempts at a task at once."""


MoreVerifierConfig = Annotated[
    UnitsVerifierConfig
    | SetVerifierConfig
    | ChoiceVerifierConfig
    | TextMatchVerifierConfig
    | JsonSchemaVerifierConfig
    | UnitTestsVerifierConfig
    | TagsVerifierConfig
    | SectionsVerifierConfig
    | LanguageVerifierConfig
    | FunctionVerifierConfig,
    Field(discriminator="kind"),
]
