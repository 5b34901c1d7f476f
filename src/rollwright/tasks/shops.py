"""Shopping tasks: a small catalogue of invented goods, and an instruction that fits exactly one of them."""

from collections.abc import Iterator
from random import Random

from rollwright.record import Message, digest, seed_of
from rollwright.tasks.payload import Json, Payload
from rollwright.tasks.source import SplitSizes, TaskSource, fill_splits

__all__ = ["shop_source"]

_KINDS = ("lamp", "chair", "mug", "rug", "clock")
_COLORS = ("red", "blue", "green", "white")
_BUILDER = 1


def shop_source(sizes: SplitSizes, *, seed: int = 0) -> TaskSource:
    """Shops of three kinds of goods, three of each, split by shop and instruction.

    Args:
        sizes: distinct tasks wanted.
        seed: of the drawing.
    """
    return fill_splits(_shops(seed), sizes, name="web_site", revision=f"shops:{digest([_BUILDER, seed])[:16]}")


def _shops(seed: int) -> Iterator[Payload]:
    chance = Random(seed_of(seed, "shops"))
    while True:
        kinds = chance.sample(_KINDS, 3)
        items = [item for kind in kinds for item in _items(kind, chance)]
        wanted = chance.choice(kinds)
        cheapest, second = sorted((item for item in items if item["kind"] == wanted), key=_price)[:2]
        color = chance.choice(_colors(cheapest))
        layout: dict[str, Json] = {"kinds": kinds, "items": items}
        number = int(digest([layout])[:8], 16) % 1_000_000
        asked = f"buy a {color} {wanted} below {chance.randint(_price(cheapest) + 1, _price(second))}"
        yield Payload(
            messages=(Message(role="user", text=f"shop {number}\n{asked}"),),
            answer=asked,
            info={
                "layout": layout,
                "start": {"page": "home", "color": "", "bought": ""},
                "goal": {"bought": str(cheapest["name"]), "color": color},
            },
        )


def _items(kind: str, chance: Random) -> Iterator[dict[str, Json]]:
    prices = sorted(chance.sample(range(5, 60, 5), 3))
    names = [f"{kind}-{letter}" for letter in "abc"]
    chance.shuffle(names)
    for name, price in sorted(zip(names, prices, strict=True)):
        colors: list[Json] = list(sorted(chance.sample(_COLORS, 2)))
        yield {"name": name, "kind": kind, "price": price, "colors": colors}


def _price(item: dict[str, Json]) -> int:
    price = item["price"]
    assert isinstance(price, int), "prices are drawn as whole numbers"
    return price


def _colors(item: dict[str, Json]) -> list[str]:
    colors = item["colors"]
    assert isinstance(colors, list), "colors are drawn as a list"
    return [str(color) for color in colors]
