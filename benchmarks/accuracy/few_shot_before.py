"""Few-shot results of an earlier commit's `OpenWorldRecognizer`, with today's splits, samples and measures.

    git worktree add ../before 9028951
    PYTHONPATH=../before/src python benchmarks/accuracy/few_shot_before.py OUTPUT.csv DATA ...

The module `openworld.evaluation.few_shot` is today's; all else, the recognizer too, is the earlier commit's.
"""

from __future__ import annotations

import csv
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from threadpoolctl import threadpool_limits

from openworld.evaluation import recognizers, split
from openworld.evaluation.datasets import load

FEW_SHOT = Path(__file__).parents[2] / "src/openworld/evaluation/few_shot.py"
ORDERS, SEED = 3, 100


def main() -> None:
    recognizers.make_recognizer = lambda name: recognizers.RECOGNIZERS[name]()
    recognizers.check_names = lambda names: None
    split.require_classes = lambda dataset, available: None
    spec = spec_from_file_location("few_shot", FEW_SHOT)
    assert spec is not None
    assert spec.loader is not None
    few_shot = sys.modules["few_shot"] = module_from_spec(spec)
    spec.loader.exec_module(few_shot)
    experiment = few_shot.FewShotExperiment(recognizers=("openworld",), orders=ORDERS, seed=SEED)
    with Path(sys.argv[1]).open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, few_shot.COLUMNS, lineterminator="\n")
        table.writeheader()
        for data in sys.argv[2:]:
            dataset = load(data)
            for order in range(ORDERS):
                with threadpool_limits(1):
                    table.writerows(few_shot.measure_order(experiment, dataset, order))
                file.flush()
                print(data, order, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
