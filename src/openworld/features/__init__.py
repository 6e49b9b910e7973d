"""Features of pictures and text: extractors by name, and the paper's descriptors and visual words."""

from openworld.features.dense_sift import DenseSIFT
from openworld.features.extractor import (
    Extractor,
    ExtractorId,
    WrongExtractor,
    extractor_for,
    load_extractor,
    require_same,
)
from openworld.features.hog import HOG
from openworld.features.lbp import LBP
from openworld.features.pictures import Descriptor
from openworld.features.visual_words import VisualWords

__all__ = [
    "HOG",
    "LBP",
    "DenseSIFT",
    "Descriptor",
    "Extractor",
    "ExtractorId",
    "VisualWords",
    "WrongExtractor",
    "extractor_for",
    "load_extractor",
    "require_same",
]
