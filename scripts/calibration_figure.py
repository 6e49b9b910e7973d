"""Draw docs/images/recognition-calibration.png: decision values of known and unknown letters.

python scripts/calibration_figure.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot as plt

from openworld import OpenWorldRecognizer
from openworld.data.letters import load_letters

KNOWN = 100
OUTPUT = Path(__file__).parent.parent / "docs" / "images" / "recognition-calibration.png"


def main() -> None:
    """Fit to 100 letters in twelve typefaces; judge these and 100 other letters in the other four."""
    letters = load_letters()
    order = np.random.default_rng(0).permutation(letters.classes)
    is_known = np.isin(letters.labels, order[:KNOWN])
    is_unknown = np.isin(letters.labels, order[KNOWN : 2 * KNOWN])
    is_test = np.isin(letters.faces, np.unique(letters.faces)[::4])
    X = letters.frequencies
    model = OpenWorldRecognizer().fit(X[is_known & ~is_test], letters.labels[is_known & ~is_test])
    known, unknown = (model.judge(X[chosen & is_test]) for chosen in (is_known, is_unknown))

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    both = np.concatenate([known.decision, unknown.decision])
    bins = np.linspace(*np.quantile(both, [0.002, 0.998]), 40)
    left.hist(known.decision, bins, alpha=0.6, color="teal", label=f"{KNOWN} known letters")
    left.hist(unknown.decision, bins, alpha=0.6, color="darkorange", label="100 letters never seen")
    left.axvline(0, color="black", linewidth=1)
    left.set(xlabel="decision value: score above the threshold", ylabel="samples")
    left.legend(loc="upper right", frameon=False)
    rank = np.argsort(both)
    membership = np.concatenate([known.membership, unknown.membership])
    right.plot(both[rank], membership[rank], color="teal")
    right.axvline(0, color="black", linewidth=1)
    right.set(xlabel="decision value", ylabel="membership in the best class", xlim=bins[[0, -1]], ylim=(0, 1))
    figure.savefig(OUTPUT, dpi=110)
    named = np.mean(known.labels == letters.labels[is_known & is_test])
    print(f"named right: {named:.0%} of known letters; rejected: {np.mean(~unknown.accepted):.0%} of others")


if __name__ == "__main__":
    main()
