"""Model files: safetensors for the arrays, JSON for the rest. Nothing in them is ever executed.

`file.py` reads and writes them, `documents.py` turns a model into a document with arrays and back, and
what is particular to a kind of model stands in a file of its own.
"""

from openworld.model_file.documents import FORMAT_VERSION, with_text_labels
from openworld.model_file.file import digest, dumps, load, loads, read_description, save, verify
from openworld.model_file.packing import ModelFileError

__all__ = [
    "FORMAT_VERSION",
    "ModelFileError",
    "digest",
    "dumps",
    "load",
    "loads",
    "read_description",
    "save",
    "verify",
    "with_text_labels",
]
