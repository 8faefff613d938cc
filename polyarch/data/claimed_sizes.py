"""Whether the arrays of an .npz file can be as large as they claim: memory is allocated before they are read."""

import math
import os
import resource
from typing import IO, Any
from zipfile import ZipFile

import numpy as np

from polyarch.errors import DataError

DEFLATE = 1100
"""More than this many bytes cannot come out of one byte that zip has compressed; exactly it is 1,032."""
HEADER = 100_000
"""Bytes of a header and of small arrays, for which no ratio holds."""


def check_claims(archive: ZipFile) -> None:
    """Refuses arrays that claim more bytes than their entry of the archive has, or than there is memory.

    An entry that claims more than its compressed bytes can hold counts as these. What cannot be read is left to numpy.
    """
    total = 0
    for entry in archive.infolist():
        if not entry.filename.endswith(".npy"):
            continue
        with archive.open(entry) as file:
            claimed = _claimed(file)
        most = min(entry.file_size, DEFLATE * entry.compress_size + HEADER)
        if claimed > most:
            raise ValueError(f"{entry.filename} claims {claimed:,} bytes and has at most {most:,}")
        total += claimed
    most = memory_limit()
    if total > most:
        raise DataError(
            f"Expected arrays that fit into memory, {most / 1e9:,.1f} GB, in {archive.filename or 'the file'}. "
            f"Found {total / 1e9:,.1f} GB."
        )


def memory_limit() -> int:
    """The bytes that this process may allocate, or that the machine has."""
    soft, _ = resource.getrlimit(resource.RLIMIT_DATA)
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return physical if soft == resource.RLIM_INFINITY else min(soft, physical)


def _claimed(file: IO[Any]) -> int:
    """The bytes of the header and of the array that it describes."""
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        return 0
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(file)
    return file.tell() + int(math.prod(shape)) * dtype.itemsize
