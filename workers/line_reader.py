"""Lines of a stream that may be endless or have no line ends at all, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO


def lines_of(stream: BinaryIO, *, bytes_max: int) -> Iterator[str]:
    """Yield each line without its end, as soon as it is there. What is no UTF-8 becomes a replacement mark.

    Of a line longer than `bytes_max` only the first `bytes_max + 1` bytes are given and the rest is skipped,
    so a limit on the result still sees that it was too long.
    """
    while line := stream.readline(bytes_max + 1):
        yield line.rstrip(b"\r\n").decode("utf-8", errors="replace")
        while len(line) > bytes_max and not line.endswith(b"\n"):
            line = stream.readline(bytes_max + 1)
