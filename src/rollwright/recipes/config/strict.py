"""The base of all configuration classes: closed, frozen, typed."""

from pydantic import BaseModel, ConfigDict

__all__ = ["StrictConfig"]


class StrictConfig(BaseModel):
    """Unknown keys are refused, values are frozen, and text is never taken for a number's meaning."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, validate_default=True)
