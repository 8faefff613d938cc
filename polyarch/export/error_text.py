"""Errors of other libraries, shortened to quote them in one sentence."""

from pydantic import ValidationError


def one_line(error: BaseException) -> str:
    """The message without line breaks and full stop, at most 300 characters; the type if there is no message."""
    text = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return text if len(text) <= 300 else f"{text[:300]} ..."


def first_problem(error: ValidationError) -> tuple[str, str]:
    """The place of the first invalid value, such as ``members.0.weight``, and what is wrong with it."""
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    return ".".join(map(str, first["loc"])) or "the content", first["msg"]
