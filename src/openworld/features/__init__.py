"""The paper's features: dense SIFT, HOG and LBP of pictures, and visual words made of them."""

from openworld.features.dense_sift import DenseSIFT
from openworld.features.hog import HOG
from openworld.features.lbp import LBP
from openworld.features.pictures import Descriptor
from openworld.features.visual_words import VisualWords

__all__ = ["HOG", "LBP", "DenseSIFT", "Descriptor", "VisualWords"]
