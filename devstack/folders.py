"""Where a stack keeps its data: `.devstack/up`, kept and used by one at a time, or a folder of its own that
goes away with it.

Owns these folders and the locks inside them. A lock is the kernel's (flock), so it ends with the process that
holds it; a folder without a holder is what a killed stack has left. Never touches a folder that is locked.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
FOLDER = ".devstack"
KEPT = "up"
FRESH_PREFIX = "run-"
LOCK = "lock"


class InUse(Exception):
    """Another process uses the kept data of this checkout; the text says which."""


class DataFolder:
    """A folder that is ours until `close`; see `open_kept` and `open_fresh`."""

    def __init__(self, path: Path, lock: int, *, kept: bool) -> None:
        self.path = path
        self.kept = kept
        self._lock = lock

    def close(self) -> None:
        """Give the folder back; a fresh one is removed."""
        if not self.kept:
            shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def open_kept(root: Path) -> DataFolder:
    """The folder of `root` whose data stay. Raises `InUse`."""
    path = root / FOLDER / KEPT
    path.mkdir(parents=True, exist_ok=True)
    lock = _try_lock(path / LOCK)
    if lock is None:
        holder = (path / LOCK).read_text().strip() or "unknown"
        raise InUse(f"a stack is already up in {root} (process {holder}); stop it first")
    os.ftruncate(lock, 0)
    os.write(lock, f"{os.getpid()}\n".encode())
    return DataFolder(path, lock, kept=True)


def open_fresh(root: Path) -> DataFolder:
    """A new, empty folder of `root`."""
    with _nobody_else(root):
        path = Path(tempfile.mkdtemp(prefix=FRESH_PREFIX, dir=root / FOLDER))
        if os.geteuid() == 0:
            # mkdtemp closes the folder to others, but under root one server runs as another user.
            path.chmod(0o755)
        lock = _try_lock(path / LOCK)
        if lock is None:
            raise InUse(f"{path} is new and yet locked")
        return DataFolder(path, lock, kept=False)


def abandoned(root: Path) -> list[Path]:
    """The fresh folders of `root` whose stack has ended without removing them."""
    found = []
    with _nobody_else(root):
        for path in sorted((root / FOLDER).glob(f"{FRESH_PREFIX}*")):
            lock = _try_lock(path / LOCK)
            if lock is not None:
                os.close(lock)
                found.append(path)
    return found


@contextmanager
def _nobody_else(root: Path) -> Iterator[None]:
    """Keep others from making or looking for fresh folders, so that none is seen before it is locked."""
    (root / FOLDER).mkdir(parents=True, exist_ok=True)
    lock = os.open(root / FOLDER / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _try_lock(path: Path) -> int | None:
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock
