"""Turns into another program that is killed when the process that started it ends, however it ends.

Run as `python -I -S die_with_parent.py PARENT_PID OWNER PROGRAM ARGUMENT...`, where OWNER is `UID:GID` or `-`
for the present user. It imports nothing of this project, since it runs before any path is set up, and never
returns: either the program has taken its place or it exits with a status above 125.

The wish is the kernel's `PR_SET_PDEATHSIG` (prctl(2)). Only Linux has it; elsewhere the program runs without.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
PARENT_GONE = 126
CANNOT_RUN = 127


def _become(owner: str) -> None:
    uid, gid = (int(part) for part in owner.split(":"))
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)


def _die_with_parent() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def main(argv: list[str]) -> int:
    """Change the owner, ask for the signal, run the program."""
    parent, owner, program, *arguments = argv
    try:
        if owner != "-":
            _become(owner)
        # A change of user clears the wish, so it comes after; a parent that ended before sends no signal.
        if sys.platform == "linux":
            _die_with_parent()
        if os.getppid() != int(parent):
            return PARENT_GONE
        os.execv(program, [program, *arguments])  # noqa: S606 - replacing this process is the purpose
    except OSError as exc:
        sys.stderr.write(f"cannot run {program}: {exc}\n")
    return CANNOT_RUN


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
