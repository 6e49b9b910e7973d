"""Installs the built wheel in new environments, with each extra alone, and tries what the extra is for.

    python scripts/check_wheel.py dist

An extra that forgets a dependency fails here, as nothing else is installed beside it.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

PICTURES = """
    from pathlib import Path
    import numpy as np
    from PIL import Image
    for label in ("dark", "light"):
        Path("photos", label).mkdir(parents=True)
        for i in range(6):
            low = 0 if label == "dark" else 128
            pixels = np.random.default_rng(i).integers(low, low + 128, (64, 64, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(f"photos/{label}/{i}.png")
"""
TEXTS = """
    from pathlib import Path
    rows = [f"will it rain on day {i},weather\\nplay song number {i},music" for i in range(6)]
    Path("questions.csv").write_text("\\n".join(["text,label", *rows]))
"""
VECTORS = """
    from sklearn.datasets import load_iris
    import numpy as np
    X, y = load_iris(return_X_y=True)
    np.savez("iris.npz", X=X, y=np.array(["a", "b", "c"])[y])
"""
DIGITS = """
    from sklearn.datasets import load_digits
    import numpy as np
    X, y = load_digits(return_X_y=True)
    np.savez("digits.npz", X=X, y=y)
"""
# For each extra: code that makes data, and commands that must succeed.
CHECKS: dict[str, tuple[str, list[str]]] = {
    "": (VECTORS, ["fit iris.npz -o iris.ow", "recognize iris.ow iris.npz -o a.csv", "inspect iris.ow"]),
    "images": (PICTURES, ["fit photos -o p.ow", "recognize p.ow photos --sheet sheet.html -o a.csv"]),
    "text": (TEXTS, ["fit questions.csv -o q.ow", "recognize q.ow questions.csv -o a.csv"]),
    "evaluate": (DIGITS, ["evaluate paper-50 --data digits.npz --recognizer NCM --output report"]),
    "service": (VECTORS, ["fit iris.npz -o iris.ow", "demo --in-terminal"]),
    "scale": (VECTORS, ["fit iris.npz -o iris.ow --dask local"]),
}


def check(wheel: Path, extra: str) -> None:
    """Install the wheel with one extra and run its commands in an empty folder."""
    data, commands = CHECKS[extra]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python = folder / "venv" / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        requirement = f"openworld[{extra}] @ {wheel.resolve().as_uri()}" if extra else str(wheel.resolve())
        subprocess.run([python, "-m", "pip", "install", "--quiet", requirement], check=True)
        (folder / "work").mkdir()
        subprocess.run([python, "-c", textwrap.dedent(data)], check=True, cwd=folder / "work")
        for command in commands:
            print(f"[{extra or 'core'}] openworld {command}", flush=True)
            subprocess.run(
                [folder / "venv" / "bin" / "openworld", *command.split()],
                check=True,
                cwd=folder / "work",
                stdout=subprocess.DEVNULL,
            )


def main() -> None:
    """Check the one wheel in the folder, with every extra or those named."""
    (wheel,) = Path(sys.argv[1]).glob("*.whl")
    for extra in sys.argv[2:] or CHECKS:
        check(wheel, extra)
    print("The wheel works with each extra alone.")


if __name__ == "__main__":
    main()
