"""Send samples to a running service, and give the unknown ones a name.

    openworld serve animals.ow
    python examples/service_client.py http://127.0.0.1:8000 samples.npy okapi

If the service needs a key, set OPENWORLD_KEY.
"""

from __future__ import annotations

import os
import sys

import numpy as np

from openworld import Client


def main(address: str, path: str, label: str) -> None:
    samples = np.load(path)
    with Client(address, key=os.environ.get("OPENWORLD_KEY")) as client:
        found = client.recognize(samples)
        unknown = [answer["sample_id"] for answer in found["answers"] if answer["unknown"]]
        print(f"{len(samples) - len(unknown)} recognized, {len(unknown)} unknown")
        if not unknown:
            return
        event = client.label(unknown, label)
        print(f"Learned {label!r} from {event['samples']} samples: version {event['model_version']}")
        again = client.recognize(samples, remember=False)["answers"]
        n_recognized = sum(answer["label"] == label for answer in again)
        print(f"{n_recognized} are now recognized as {label!r}")


if __name__ == "__main__":
    main(*sys.argv[1:])
