"""The base of everything in a results file, and the version of its format."""

from pydantic import BaseModel, ConfigDict

VERSION = 3


class Record(BaseModel):
    """Base of everything in the file."""

    model_config = ConfigDict(extra="forbid")
