# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
# ---
# %% [markdown]
# # Reproduce the paper's Figures 3 and 4
#
# The experiment of Bendale & Boult: learn a metric on some starting classes, add classes without touching the
# metric, and test with unknown classes among the samples. On the command line it is
# `openworld evaluate paper-50 --data letters --output report/` (Figure 3) and `paper-200` (Figure 4). Here it runs
# with fewer classes, on the built-in letters, in a minute. Needs `openworld[evaluate]`.

# %%
import tempfile
from pathlib import Path

from openworld.evaluation.experiment import Experiment
from openworld.evaluation.run import run_experiment

experiment = Experiment(
    name="small", data=("letters",), recognizers=("NCM", "NNO", "openworld"),
    n_starting=20, step=20, n_known=60, unknown=(40,), orders=2,
)  # fmt: skip
folder = Path(tempfile.mkdtemp())
run_experiment(experiment, folder, workers=0)

# %% [markdown]
# Pooled accuracy: right decisions over known and unknown test samples together, where *unknown* is right for a
# sample of an unknown class. This is what the paper plots.

# %%
import csv
from collections import defaultdict

values = defaultdict(list)
with (folder / "results.csv").open() as file:
    for row in csv.DictReader(file):
        if row["measure"] == "pooled_accuracy":
            values[row["recognizer"], int(row["K"]), int(row["U"])].append(float(row["value"]))
print(f"{'recognizer':12}{'K':>4}{'U':>4}  pooled accuracy")
for (name, n_known, n_unknown), found in sorted(values.items()):
    print(f"{name:12}{n_known:4}{n_unknown:4}  {sum(found) / len(found):.3f}")

# %% [markdown]
# What to see, as in the paper: NCM, which never answers unknown, loses exactly the share of unknown samples;
# NNO loses less. What differs from the paper, and why, is told point by point in
# [the paper's experiments](../results.md).
