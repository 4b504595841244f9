"""The children of tests find their modules loaded."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.forks import FORKS, PRELOADED


def test_every_module_that_forks_children_is_loaded_before(checkout: Path) -> None:
    files = (each for each in (checkout / "tests").rglob("*.py") if each.name != "forks.py")
    using = [each for each in files if "FORKS.Process(" in each.read_text()]
    names = {".".join(each.relative_to(checkout).with_suffix("").parts) for each in using}
    assert {name for name in names if not name.rpartition(".")[2].startswith("test_")} <= set(PRELOADED)


def _missing(modules: tuple[str, ...]) -> None:
    sys.exit(len([each for each in modules if each not in sys.modules]))


def test_a_child_has_them(checkout: Path) -> None:
    child = FORKS.Process(target=_missing, args=(PRELOADED,))
    child.start()
    child.join()
    assert child.exitcode == 0
