"""`polyarch copy`."""

from pathlib import Path
from typing import Annotated

import typer

from polyarch.cli.options import console
from polyarch.errors import InvalidInput
from polyarch.remote import download, is_url, upload


def copy(
    source: Annotated[str, typer.Argument(help="Folder of a run or of an artifact, or its URL.")],
    target: Annotated[str, typer.Argument(help="A URL such as s3://bucket/name, or a new folder.")],
) -> None:
    """Copy the results and artifacts of a run to object storage, or back."""
    if is_url(source) == is_url(target):
        raise InvalidInput(f"Expected a folder and a URL to copy between. Got {source} and {target}.")
    if is_url(target):
        upload(Path(source), target)
    else:
        download(source, Path(target))
    console.print(f"Copied to {target}", markup=False, soft_wrap=True)
