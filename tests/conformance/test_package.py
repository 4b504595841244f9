"""The image gets more than modules: what the console and the sandbox read is part of the package."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from devstack.server import plain_environ

BUILD = "from setuptools import setup; setup(script_args=['-q', 'build_py', '--build-lib', 'built'])"
FOLDERS = ("app/console/templates", "app/console/static", "devstack/sandbox/data")


def copied_into_the_image(checkout: Path) -> list[str]:
    """What the image's first stage copies from the checkout."""
    stage = (checkout / "Dockerfile").read_text(encoding="utf-8").split("\nFROM ")[1]
    names = [
        name for line in re.findall(r"^COPY (.+)$", stage, flags=re.MULTILINE) for name in line.split()[:-1]
    ]
    assert {"app", "workers", "pyproject.toml"} <= set(names)
    return names


def test_every_file_that_is_read_at_run_time_is_in_the_package(checkout: Path, tmp_path: Path) -> None:
    ignored = set((checkout / ".dockerignore").read_text(encoding="utf-8").split())
    for name in copied_into_the_image(checkout):
        assert f"!{name}" in ignored, "what is copied must not be ignored"
        if (checkout / name).is_dir():
            shutil.copytree(
                checkout / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", "*.pyc")
            )
        else:
            shutil.copy(checkout / name, tmp_path / name)
    subprocess.run([sys.executable, "-c", BUILD], cwd=tmp_path, env=plain_environ(), check=True)
    for folder in FOLDERS:
        wanted = {path.relative_to(checkout) for path in (checkout / folder).rglob("*") if path.is_file()}
        assert wanted
        assert {path for path in wanted if not (tmp_path / "built" / path).is_file()} == set()
