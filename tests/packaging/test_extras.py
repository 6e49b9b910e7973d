"""Each extra has what it needs: nothing outside its dependencies is imported by what it is for.

Every check runs in a process in which only the core's dependencies and those of one extra can be imported,
as if nothing else were installed. `make check-wheel` does the same with real environments.
"""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
import tomllib
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
# What each extra promises, as code.
PROMISES = {
    "": "import openworld.cli.app; from openworld import OpenWorldRecognizer, NearestNonOutlier, save, load",
    "images": """
        from openworld.features import load_extractor
        from PIL import Image
        assert load_extractor().transform([Image.new("RGB", (64, 64))]).shape == (1, 1280)
    """,
    "text": """
        from openworld.features import load_extractor
        assert len(load_extractor(kind="text").transform(["hello there"])) == 1
    """,
    "evaluate": "import openworld.evaluation.report, openworld.evaluation.figures, openworld.evaluation.run",
    "service": """
        import openworld.service.app, openworld.service.server, openworld.cli.serve
        from openworld.data.letters import load_letters
        from openworld import Client
    """,
    "scale": "import faiss, openworld.distributed; from openworld.distributed import connect",
}


def allowed_distributions(extra: str) -> set[str]:
    """Return the core's dependencies and those of an extra, with all that these need in turn."""
    found: set[str] = set()
    pending = [("openworld", frozenset({extra}))]
    seen = set()
    while pending:
        name, extras = pending.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        found.add(name)
        needed = ours(extra) if name == "openworld" else requirements(name)
        for text in needed:
            requirement = Requirement(text)
            wanted = extras or {""}
            if requirement.marker is None or any(requirement.marker.evaluate({"extra": e}) for e in wanted):
                pending.append((normalized(requirement.name), frozenset(requirement.extras)))
    return found


def ours(extra: str) -> list[str]:
    """Return what pyproject.toml says, as the installed metadata of a checkout may be older."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [*project["dependencies"], *(project["optional-dependencies"][extra] if extra else [])]


def requirements(name: str) -> list[str]:
    try:
        return requires(name) or []
    except PackageNotFoundError:
        return []


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("extra", PROMISES)
def test_an_extra_needs_nothing_else(extra: str) -> None:
    allowed = allowed_distributions(extra)
    blocked = sorted(
        module
        for module, distributions in packages_distributions().items()
        if not module.startswith("_") and not {normalized(name) for name in distributions} & allowed
    )
    assert "mypy" in blocked  # the check would see what is not there
    code = f"""
import sys
BLOCKED = frozenset({blocked!r})
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ModuleNotFoundError(f"{{name}} is not a dependency of this extra", name=name)
sys.meta_path.insert(0, Blocker())
{textwrap.dedent(PROMISES[extra])}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
