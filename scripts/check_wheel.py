"""Installs the built wheel in new environments, with each extra alone, and tries what the extra is for.

    python scripts/check_wheel.py dist                   every extra, newest dependencies
    python scripts/check_wheel.py dist --oldest          every extra, oldest dependencies of pyproject.toml
    python scripts/check_wheel.py dist images text       these extras only

An extra that forgets a dependency fails here, because nothing else is installed beside it. With the extra
`all`, mypy and pyright also check a small program that uses the installed package.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import tomllib
import urllib.request
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent

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
CORE = ["fit iris.npz -o iris.ow", "recognize iris.ow iris.npz -o a.csv", "inspect iris.ow"]
IMAGES = ["fit photos -o p.ow", "recognize p.ow photos --sheet sheet.html -o a.csv"]
TEXT = ["fit questions.csv -o q.ow", "recognize q.ow questions.csv -o a.csv"]
EVALUATE = ["evaluate paper-50 --data digits.npz --recognizer NCM --output report"]
SERVICE = ["demo --in-terminal", "demo --port 0 --json"]
SCALE = ["fit iris.npz -o iris.ow --dask local"]
# For each extra: code that makes data, and commands that must succeed.
CHECKS: dict[str, tuple[str, list[str]]] = {
    "": (VECTORS, [*CORE, "demo"]),  # without a page
    "images": (PICTURES, IMAGES),
    "text": (TEXTS, TEXT),
    "evaluate": (DIGITS, EVALUATE),
    "service": ("", SERVICE),
    "scale": (VECTORS, SCALE),
    "all": (PICTURES + TEXTS + VECTORS, [*CORE, *IMAGES, *TEXT, *SERVICE, *SCALE]),
}
TYPED_PROGRAM = """
    import numpy as np
    from openworld import Client, Judgement, OpenWorldRecognizer, load, save

    model = OpenWorldRecognizer().fit(np.eye(4), ["a", "a", "b", "b"])
    judgement: Judgement = model.judge(np.eye(4))
    save(model, "model.ow")
    print(load("model.ow").predict(np.eye(4)), judgement.labels)
    with Client("http://127.0.0.1:8000") as client:
        print(client.recognize(np.eye(4)))
"""


def check(wheel: Path, extra: str, *, oldest: bool) -> None:
    """Install the wheel with one extra and run its commands in an empty folder."""
    data, commands = CHECKS[extra]
    with tempfile.TemporaryDirectory() as name:
        environment, work = Path(name, "venv"), Path(name, "work")
        work.mkdir()
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        python, openworld = environment / "bin" / "python", environment / "bin" / "openworld"
        requirement = f"openworld[{extra}] @ {wheel.resolve().as_uri()}" if extra else str(wheel.resolve())
        constraints = work / "constraints.txt"
        constraints.write_text("\n".join(lower_bounds()) if oldest else "", encoding="utf-8")
        install = [python, "-m", "pip", "install", "--quiet", "--constraint", constraints, requirement]
        subprocess.run(install, check=True)
        subprocess.run([python, "-c", textwrap.dedent(data)], check=True, cwd=work)
        for command in commands:
            print(f"[{extra or 'core'}] openworld {command}", flush=True)
            run = answers if command.startswith("demo --port") else succeeds
            run([str(openworld), *command.split()], work)
        if extra == "all":
            check_types(python, work)


def lower_bounds() -> list[str]:
    """Return each dependency of pyproject.toml, pinned to the oldest version that it allows."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    texts = [
        *project["dependencies"],
        *(text for extra in extras for text in extras[extra] if extra != "all"),
    ]
    return sorted({f"{r.name}=={s.version}" for r in map(Requirement, texts) for s in r.specifier})


def succeeds(command: list[str], folder: Path) -> None:
    """Run a command that ends by itself."""
    subprocess.run(command, check=True, cwd=folder, stdout=subprocess.DEVNULL)


def answers(command: list[str], folder: Path) -> None:
    """Start a service that prints its address as JSON, ask it for its page, and stop it."""
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address = json.loads(server.stdout.readline())["address"]
            with urllib.request.urlopen(address) as page:
                assert b"<html" in page.read()
        finally:
            server.terminate()


def check_types(python: Path, folder: Path) -> None:
    """Check a program that uses the installed package, as mypy and pyright of this environment see it."""
    (folder / "program.py").write_text(textwrap.dedent(TYPED_PROGRAM), encoding="utf-8")
    for checker in (["mypy", "--strict", "--python-executable"], ["pyright", "--pythonpath"]):
        print(f"[types] {checker[0]}", flush=True)
        subprocess.run([sys.executable, "-m", *checker, python, "program.py"], check=True, cwd=folder)


def main() -> None:
    """Check the one wheel in the folder, with every extra or those named."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("extras", nargs="*", help="the extras to check; default: the core and all extras")
    parser.add_argument("--oldest", action="store_true")
    given = parser.parse_intermixed_args()
    os.environ.pop("PYTHONPATH", None)  # it would hide the installed package
    if unknown := set(given.extras) - set(CHECKS):
        parser.error(f"there are no extras named {', '.join(sorted(unknown))}")
    (wheel,) = given.folder.glob("*.whl")
    for extra in given.extras or CHECKS:
        check(wheel, extra, oldest=given.oldest)
    print("The wheel works with each extra alone.")


if __name__ == "__main__":
    main()
