"""On which devices a recipe's engine and learner are; what torch cannot use here is refused before anything is made."""

from typing import TYPE_CHECKING

from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.recipes.errors import RecipeError
from rollwright.runtime.weights import WeightShelf

if TYPE_CHECKING:
    from rollwright.learner.placement import SeenDevices

__all__ = ["is_bit_for_bit", "make_shelf", "refuse_absent_devices", "refuse_devices", "same_device"]


def refuse_absent_devices(recipe: RecipeConfig) -> None:
    """Refuse a recipe that asks for a device which torch cannot use on this machine.

    Raises:
        RecipeError: with what torch sees, and what to set.
    """
    if recipe.engine.device == recipe.learner.device == "cpu":
        return
    from rollwright.learner.placement import seen_devices

    refuse_devices(recipe, seen_devices())


def refuse_devices(recipe: RecipeConfig, seen: "SeenDevices") -> None:
    """The same for a machine that was looked at already."""
    from rollwright.learner.placement import why_not_device

    engine, learner = recipe.engine, recipe.learner
    for key, device, dtype in (
        ("engine.device", engine.device, engine.dtype),
        ("learner.device", learner.device, learner.dtype),
    ):
        why = why_not_device(device, dtype, seen)
        if why is None and key == "learner.device" and device != "cpu" and not seen.has_triton:
            why = "the package triton, by which the learner's attention is compiled there, is not installed; install it"
        if why is not None:
            raise RecipeError(
                f"{key} is {device!r}, and {why}, or set {key}=cpu (a stored run: in its recipe.toml, and resume it "
                "with --new-segment)."
            )


def same_device(one: str, other: str) -> bool:
    """Whether two names are of one device: `cuda` is `cuda:0`."""
    return one.replace("cuda:0", "cuda") == other.replace("cuda:0", "cuda")


def is_bit_for_bit(recipe: RecipeConfig) -> bool:
    """Whether the run promises the same bits each time: the engine's deterministic mode, in turns, all on a CPU."""
    return recipe.engine.is_deterministic and recipe.runtime.max_lag == 0 and recipe.learner.device == "cpu"


def make_shelf(recipe: RecipeConfig) -> WeightShelf:
    """Where published weights lie.

    They lie on the engine's device, copied there once, where the learner is on another; as copies, too, where an
    engine that is made again may be asked for something while the learner trains; else they are the learner's own.
    """
    if not same_device(recipe.engine.device, recipe.learner.device):
        from rollwright.learner.placement import copied_to

        return WeightShelf(copied_to(recipe.engine.device))
    runtime = recipe.runtime
    if runtime.max_lag or runtime.oversample:
        from rollwright.learner.state import copied_weights

        return WeightShelf(copied_weights)
    return WeightShelf()
