"""From a model to a document with arrays, and back: what all recognizers have in common."""

from __future__ import annotations

from typing import Any

import numpy as np

from openworld._version import __version__
from openworld.model_file import class_mean_models, open_world_models
from openworld.model_file.packing import (
    Arrays,
    Document,
    ModelFileError,
    pack_examples,
    pack_labels,
    require,
    require_floats,
    require_whole,
    unpack_examples,
    unpack_label,
    unpack_labels,
)
from openworld.recognition import (
    ColdStartRecognizer,
    NearestClassMean,
    NearestNonOutlier,
    OpenWorldRecognizer,
    SoftmaxThreshold,
)
from openworld.recognition.validation import as_array, check_unknown_label, default_unknown_label

FORMAT_VERSION = 3
READABLE_VERSIONS = (1, 2, 3)

_KINDS = (NearestNonOutlier, NearestClassMean, SoftmaxThreshold, OpenWorldRecognizer, ColdStartRecognizer)
_RECOGNIZERS: dict[str, Any] = {kind.__name__: kind for kind in _KINDS}


def _particular(kind: type) -> Any:
    return open_world_models if issubclass(kind, OpenWorldRecognizer) else class_mean_models


def describe(model: Any, exact: bool = True) -> tuple[Document, Arrays]:
    """Return the document and the arrays of a fitted recognizer, to the last bit or in less room."""
    name = type(model).__name__
    if _RECOGNIZERS.get(name) is not type(model):
        raise ModelFileError(f"Cannot save a {name}; these can be saved: {', '.join(_RECOGNIZERS)}.")
    if not hasattr(model, "statistics_"):
        raise ModelFileError(f"This {name} is not fitted yet: there is nothing to save.")
    particular, arrays = _particular(type(model)).describe(model, exact)
    document: Document = {
        "format_version": FORMAT_VERSION,
        "openworld_version": __version__,
        "recognizer": name,
        "classes": pack_labels(model.statistics_.labels),
        "unknown_label": pack_labels([model.unknown_label_]),
        "n_features": model.n_features_in_,
        "feature_names": list(map(str, getattr(model, "feature_names_in_", []))) or None,
        **particular,
    }
    document["parameters"]["unknown_label"] = pack_labels([model.unknown_label])
    if (extractor := getattr(model, "extractor_", None)) is not None:
        document["extractor"] = _sound_extractor(extractor)
    if (check := getattr(model, "self_check_", None)) is not None:
        document["self_check"] = str(check)
    if found := getattr(model, "examples_", None):
        document["examples"], packed = pack_examples(found, set(map(str, model.statistics_.labels)))
        arrays |= packed
    arrays["counts"] = model.statistics_.counts
    return document, {key: np.ascontiguousarray(array) for key, array in arrays.items()}


def restore(document: Document, arrays: Arrays) -> Any:
    """Return the recognizer that was described, or raise where the parts do not fit together."""
    kind = _RECOGNIZERS[document["recognizer"]]
    n_features = require_whole(document["n_features"], "features", 1)
    labels = unpack_labels(document["classes"])
    require(len(set(labels)) == len(labels), "classes")
    require(as_array(labels).tolist() == labels, "classes")  # numpy drops NUL at the end of a text
    counts = require_floats(arrays["counts"], (len(labels),), "counts", most=2.0**53)
    require(bool(np.all(counts > 0)), "counts")
    parameters = dict(document["parameters"])
    parameters["unknown_label"] = unpack_label(parameters["unknown_label"])
    unknown_label = unpack_label(document["unknown_label"])
    check_unknown_label(unknown_label, as_array(labels or [unknown_label])[: len(labels)])
    model = _particular(kind).restore(kind, {**document, "parameters": parameters}, arrays, labels)
    model.unknown_label_, model.n_features_in_ = unknown_label, n_features
    if not any(isinstance(array, np.memmap) for array in arrays.values()):  # it would be read whole
        _check_predicts(model, document)
    names = document["feature_names"]
    if names is not None:
        require(isinstance(names, list) and len(names) == n_features, "feature names")
        model.feature_names_in_ = np.array(list(map(str, names)), dtype=object)
    if (extractor := document.get("extractor")) is not None:  # models of plain vectors have none
        model.extractor_ = _sound_extractor(extractor)
    if (check := document.get("self_check")) is not None:
        require(isinstance(check, str), "self-check")
        model.self_check_ = check
    if "examples" in document:
        model.examples_ = unpack_examples(document["examples"], arrays["examples"])
    return model


def with_text_labels(model: Any) -> Any:
    """Return a copy of a recognizer whose labels are texts: class 7 becomes "7". Nothing else changes."""
    document, arrays = describe(model)
    labels = model.statistics_.labels
    texts = list(map(_as_text, labels))
    document["classes"] = pack_labels(texts)
    document["unknown_label"] = pack_labels([default_unknown_label(texts)])
    document["parameters"]["unknown_label"] = None
    if "classes" in document["metric"]:
        document["metric"]["classes"] = pack_labels(list(map(_as_text, model.metric_.classes_.tolist())))
    if document.get("state") is not None:  # "10" is before "9"
        before, after = (np.argsort(as_array(names), kind="stable") for names in (labels, texts))
        order = np.argsort(before)[after]
        arrays |= {name: arrays[name][order] for name in open_world_models.SORTED_BY_LABEL}
    return restore(document, arrays)


def _as_text(label: Any) -> str:
    return label.decode() if isinstance(label, bytes) else str(label)


def _check_predicts(model: Any, document: Document) -> None:
    """Raise unless a model that knows enough predicts: what is wrong shows now, and not while it serves."""
    if not len(model.statistics_) or ("state" in document and document["state"] is None):
        return
    with np.errstate(all="ignore"):
        decisions = model.decision_function(np.zeros((1, model.n_features_in_), dtype=np.float32))
    require(bool(np.all(np.isfinite(decisions))), "predictions")


def _sound_extractor(extractor: Any) -> dict[str, str]:
    """Return the id of the extractor a model was learned with, which is a dict of texts."""
    sound = isinstance(extractor, dict) and bool(extractor)
    require(sound and all(isinstance(text, str) for pair in extractor.items() for text in pair), "extractor")
    return dict(extractor)
