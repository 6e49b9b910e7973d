"""EfficientNet-Lite as an ONNX graph, built from its weights.

Tan and Le, "EfficientNet" (ICML 2019), in the variant for small devices: no squeeze-and-excitation, ReLU6
instead of swish. Batch normalization is folded into the convolution before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from onnx import ModelProto

N_FEATURES = 1280
_EPSILON = 1e-3  # of batch normalization, as in the network the weights were converted from


_STRIDES = (1, 2, 2, 2, 1, 2, 1)  # of the first block of each stage; all others have 1


class _Graph:
    """Nodes and constants of a graph under construction, and the weights it is built from."""

    def __init__(self, weights: Mapping[str, NDArray[Any]]) -> None:
        self.weights = weights
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, name: str, value: NDArray[Any]) -> str:
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(value, name))
        return name

    def node(self, operation: str, *inputs: str, **attributes: Any) -> str:
        from onnx import helper

        output = f"{operation}{len(self.nodes)}"
        self.nodes.append(helper.make_node(operation, list(inputs), [output], **attributes))
        return output

    def convolution(self, x: str, conv: str, norm: str, *, stride: int = 1, depthwise: bool = False) -> str:
        """Add a convolution with its batch normalization folded in."""
        kernel = self.weights[f"{conv}.weight"].astype(np.float64)
        scale, shift, mean, variance = (
            self.weights[f"{norm}.{part}"].astype(np.float64)
            for part in ("weight", "bias", "running_mean", "running_var")
        )
        scale = scale / np.sqrt(variance + _EPSILON)
        side = kernel.shape[2]
        return self.node(
            "Conv",
            x,
            self.constant(f"{conv}.weight", (kernel * scale[:, None, None, None]).astype(np.float32)),
            self.constant(f"{conv}.bias", (shift - mean * scale).astype(np.float32)),
            kernel_shape=[side, side],
            strides=[stride, stride],
            auto_pad="SAME_UPPER",  # TensorFlow's "same", for any side of the input
            group=len(kernel) if depthwise else 1,
        )

    def relu6(self, x: str) -> str:
        return self.node("Clip", x, "0", "6")

    def block(self, x: str, name: str, *, stride: int, again: bool) -> str:
        """Add an inverted bottleneck; with `again`, the second or a later of its stage, also its input."""
        start = x
        if f"{name}._expand_conv.weight" in self.weights:
            x = self.relu6(self.convolution(x, f"{name}._expand_conv", f"{name}._bn0"))
        x = self.convolution(x, f"{name}._depthwise_conv", f"{name}._bn1", stride=stride, depthwise=True)
        x = self.convolution(self.relu6(x), f"{name}._project_conv", f"{name}._bn2")
        return self.node("Add", x, start) if again else x


def build_graph(weights: Mapping[str, NDArray[Any]], blocks: Sequence[int]) -> ModelProto:
    """Return the network from uint8 pictures (n, side, side, 3) to features (n, 1280), for any side.

    Parameters
    ----------
    weights : mapping of names to arrays
    blocks : sequence of 7 int
        Number of blocks in each stage.
    """
    from onnx import TensorProto, checker, helper

    graph = _Graph(weights)
    graph.constant("0", np.array(0, np.float32))
    graph.constant("6", np.array(6, np.float32))
    x = graph.node("Transpose", graph.node("Cast", "pictures", to=TensorProto.FLOAT), perm=[0, 3, 1, 2])
    x = graph.node("Sub", x, graph.constant("127", np.array(127, np.float32)))
    x = graph.node("Div", x, graph.constant("128", np.array(128, np.float32)))
    x = graph.relu6(graph.convolution(x, "_conv_stem", "_bn0", stride=2))
    strides = [(stride, i > 0) for stride, count in zip(_STRIDES, blocks, strict=True) for i in range(count)]
    for i, (stride, again) in enumerate(strides):
        x = graph.block(x, f"_blocks.{i}", stride=1 if again else stride, again=again)
    x = graph.relu6(graph.convolution(x, "_conv_head", "_bn1"))
    x = graph.node("Flatten", graph.node("GlobalAveragePool", x))
    graph.nodes[-1].output[0] = "features"
    model = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "EfficientNet-Lite",
            [helper.make_tensor_value_info("pictures", TensorProto.UINT8, ["n", "side", "side", 3])],
            [helper.make_tensor_value_info("features", TensorProto.FLOAT, ["n", N_FEATURES])],
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,  # read by every onnxruntime this package allows
    )
    checker.check_model(model)
    return model
