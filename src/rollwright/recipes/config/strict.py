"""The base of all configuration classes: closed, frozen, typed."""

from collections.abc import Mapping
from typing import Any, cast

from pydantic import BaseModel, ConfigDict, model_validator

from rollwright.recipes.config.shapes import choices_of, is_list, sections_of
from rollwright.recipes.flat import Plain

__all__ = ["StrictConfig"]


class StrictConfig(BaseModel):
    """Unknown keys are refused, values are frozen, and nothing is taken for what it is not: no text for a number."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, validate_default=True)

    @model_validator(mode="before")
    @classmethod
    def _as_written(cls, values: Any) -> Any:  # noqa: ANN401 - pydantic hands over what the person wrote
        """TOML has lists and no tuples, 1e3 is a whole number, and `objective = "dapo"` is short for its kind."""
        if not isinstance(values, Mapping):
            return values
        written = cast("Mapping[str, Plain]", values)
        return {key: cls._meant(key, value) for key, value in written.items()}

    @classmethod
    def _meant(cls, key: str, value: Plain) -> Plain:
        annotation = cls.model_fields[key].annotation if key in cls.model_fields else None
        if isinstance(value, list) and is_list(annotation):
            return tuple(value)
        if isinstance(value, float) and value.is_integer() and int in choices_of(annotation):
            return int(value)
        if isinstance(value, str) and len(sections_of(annotation)) > 1 and not is_list(annotation):
            return {"kind": value}
        return value
