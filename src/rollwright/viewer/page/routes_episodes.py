"""Pages of episodes: the table, and one of them with its tokens."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from rollwright.viewer.page.episode import read_episode, read_tokens
from rollwright.viewer.page.episode_list import ORDERS, PURPOSES, REASONS, filter_of, list_episodes
from rollwright.viewer.page.site import Site
from rollwright.viewer.page.token_html import token_html
from rollwright.viewer.page.token_tones import CHANNELS, paint
from rollwright.viewer.page.tokens import TokenReader

__all__ = ["episode_routes"]


def episode_routes(site: Site) -> APIRouter:
    """`/r/RUN/episodes` and `/r/RUN/episode/ID`."""
    router = APIRouter(prefix="/r/{slug}")
    _add_table(router, site)
    _add_episode(router, site)
    return router


def _add_table(router: APIRouter, site: Site) -> None:
    @router.get("/episodes")
    def episodes(slug: str, request: Request) -> Response:
        run = site.shelf.run(slug)
        look = run.look()
        wanted = filter_of(request.query_params)
        return site.render(
            "episodes.html",
            run=run,
            look=look,
            here="episodes",
            wanted=wanted,
            table=list_episodes(look, wanted),
            purposes=PURPOSES,
            reasons=REASONS,
            orders=tuple(ORDERS),
        )


def _add_episode(router: APIRouter, site: Site) -> None:
    readers: dict[str, TokenReader] = {}

    @router.get("/episode/{name}")
    def episode(slug: str, name: str, color: str = "", receipt: str = "", at: int = 0, token: int = 0) -> Response:
        run = site.shelf.run(slug)
        look = run.look()
        reader = readers.setdefault(slug, TokenReader(look.path / "tokenizer"))
        found = read_episode(look, name)
        choice = found.choice(receipt or None)
        channel = color if color in CHANNELS else ("advantage" if choice is not None else "logprob")
        window = read_tokens(look, found, choice, (at, token))
        numbers = tuple(window.tokens)
        painted = paint([window.tokens[n] for n in numbers], channel)
        ids = {n: [t.token_id for t in window.tokens[n]] for n in numbers}
        return site.render(
            "episode.html",
            run=run,
            look=look,
            here="episodes",
            episode=found,
            head=found.head,
            choice=choice,
            channels=CHANNELS,
            channel=channel,
            window=window,
            keys=painted.keys,
            spans={
                n: token_html(window.tokens[n], tones, reader.pieces(ids[n]), reader.controls(ids[n]))
                for n, tones in zip(numbers, painted.tones, strict=True)
            },
            reader=reader,
        )
