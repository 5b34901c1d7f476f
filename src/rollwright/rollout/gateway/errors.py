"""What a request is refused with; each dialect says it in its API's own shape."""

__all__ = ["ApiError", "ended", "too_long"]


class ApiError(Exception):
    """A request that gets no answer: its HTTP status and a sentence."""

    def __init__(self, status: int, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        """The field at fault, as a path."""
        self.code = code


def ended(name: str, reason: str) -> ApiError:
    """410, which no client tries again: the episode is over."""
    return ApiError(410, f"Episode {name} has ended ({reason}); it takes no more requests.", code="episode_ended")


def too_long(num_tokens: int, most: int) -> ApiError:
    """400, in the words that agents look for when they shorten what they send."""
    return ApiError(
        400,
        f"This model's maximum context length is {most} tokens. However, your messages resulted in {num_tokens} "
        "tokens. Please reduce the length of the messages.",
        param="messages",
        code="context_length_exceeded",
    )
