import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import openworld


@pytest.mark.parametrize("name", openworld.__all__)
def test_every_public_name_can_be_imported(name):
    found = getattr(openworld, name)
    assert found is not None
    if name != "__version__":
        assert found.__name__ == {"OpenWorldError": "MinOpenWorldError"}.get(name, name)  # deprecated
        assert inspect.getdoc(found)
        assert found.__module__.startswith("openworld.")


def test_names_are_sorted_and_unique():
    names = openworld.__all__
    assert len(set(names)) == len(names)
    assert dir(openworld) == sorted(names)


def test_star_import_brings_exactly_the_public_names():
    namespace = {}
    exec("from openworld import *", namespace)
    del namespace["__builtins__"]
    assert sorted(namespace) == sorted(openworld.__all__)


def test_type_checkers_see_the_same_names():
    """The names imported for type checkers alone are those that are imported when used."""
    tree = ast.parse(Path(openworld.__file__).read_text(encoding="utf-8"))
    blocks = [node for node in tree.body if isinstance(node, ast.If)]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    names = {alias.name for node in imports for alias in node.names}
    assert names == set(openworld.__all__) - {"__version__"}
    for node in imports:
        for alias in node.names:
            found = getattr(openworld, alias.name)
            assert getattr(sys.modules[node.module], alias.name) is found


def test_there_are_no_other_names():
    with pytest.raises(AttributeError, match="module 'openworld' has no attribute 'NoSuchName'"):
        _ = openworld.NoSuchName
    with pytest.raises(ImportError, match="NoSuchName"):
        exec("from openworld import NoSuchName")


def test_every_subpackage_exports_what_it_says():
    for name in ("openworld.recognition", "openworld.index", "openworld.theory"):
        module = __import__(name, fromlist=["*"])
        assert len(set(module.__all__)) == len(module.__all__)
        for public in module.__all__:
            assert hasattr(module, public)


def run(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_importing_openworld_imports_nothing_heavy():
    heavy = {"numpy", "scipy", "sklearn", "safetensors", "typer", "rich", "matplotlib", "pandas"}
    loaded = set(run("import openworld, sys; openworld.__version__; dir(openworld); print(*sys.modules)"))
    assert "openworld" in loaded
    assert not loaded & heavy
    assert "openworld.recognition" not in loaded


def test_the_recognizers_need_no_more_than_numpy_scipy_and_scikit_learn():
    loaded = set(run("import sys; from openworld import NearestNonOutlier; print(*sys.modules)"))
    assert "sklearn" in loaded
    assert not loaded & {"safetensors", "typer", "rich", "matplotlib", "torch", "openworld.model_file"}
