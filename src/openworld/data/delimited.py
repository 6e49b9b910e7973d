"""Delimited text files: tables with a header, whatever their delimiter, encoding and compression."""

from __future__ import annotations

import codecs
import csv
import gzip
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from openworld.data.columns import listed
from openworld.data.errors import DataError

ENDINGS = (".csv", ".tsv")
_DELIMITERS = ",;\t|"
_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_CHUNK = 1 << 20


def ending_of(path: Path) -> str:
    """Return the file extension that says the format; for a compressed file, the one before `.gz`."""
    inner = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    return inner.suffix.lower()


def open_bytes(path: Path) -> IO[bytes]:
    """Open a file, decompressing it if its name ends in `.gz`."""
    return gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb")  # type: ignore[return-value]


def open_text(path: Path, encoding: str) -> IO[str]:
    """Open a text file, decompressing `.gz`; newlines are not translated."""
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding=encoding, newline="")
    return path.open(encoding=encoding, newline="")


def encoding_of(path: Path) -> str:
    """Return the encoding of a text file: by its byte order mark, else UTF-8, else Windows-1252.

    Raises
    ------
    DataError
        If it is not a text file.
    """
    decoder: Any = None
    try:
        with open_bytes(path) as file:
            while chunk := file.read(_CHUNK):
                if decoder is None:
                    marked = [name for mark, name in _MARKS.items() if chunk.startswith(mark)]
                    encoding = marked[0] if marked else "utf-8"
                    decoder = codecs.getincrementaldecoder(encoding)()
                decoder.decode(chunk)
            if decoder is not None:
                decoder.decode(b"", True)
    except UnicodeDecodeError as error:
        if encoding != "utf-8":
            raise DataError(f"{path}: not text in {encoding} ({error}).") from error
        return "cp1252"
    except (OSError, EOFError) as error:
        if not path.exists():
            raise
        raise DataError(f"{path}: cannot be decompressed ({error}).") from error
    return encoding if decoder is not None else "utf-8"


@dataclass(frozen=True)
class DelimitedFile:
    """A table in a text file.

    Attributes
    ----------
    path : Path
    columns : list of str
        The header.
    delimiter, encoding : str
        As detected.
    """

    path: Path
    columns: list[str]
    delimiter: str
    encoding: str

    @property
    def notes(self) -> list[str]:
        """Notes for the user about how the file is read."""
        if self.encoding != "cp1252":
            return []
        return [f"{self.path}: not UTF-8; read as Windows-1252. Save it as UTF-8 if letters look wrong."]

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the rows, each with its line number; empty lines are skipped.

        Raises
        ------
        DataError
            If a row has more or fewer values than the header.
        """
        n_columns = len(self.columns)
        with open_text(self.path, self.encoding) as file:
            reader = csv.reader(file, delimiter=self.delimiter)
            line = 1
            try:
                next(reader, None)
                line = reader.line_num + 1
                for row in reader:
                    if len(row) != n_columns and row:
                        raise DataError(
                            f"{self.path}: line {line} has {len(row)} values, the header {n_columns}. "
                            f"{listed(self.columns)} A value with a {_NAMES[self.delimiter]} in it needs "
                            "quotes."
                        )
                    if row:
                        yield line, row
                    line = reader.line_num + 1
            except csv.Error as error:
                raise DataError(f"{self.path}: line {line}: {error}.") from error


_NAMES = {",": "comma", ";": "semicolon", "\t": "tab", "|": "bar"}


def open_delimited(path: Path) -> DelimitedFile:
    """Read the header of a table and detect its encoding and delimiter."""
    encoding = encoding_of(path)
    with open_text(path, encoding) as file:
        start = file.read(_CHUNK)
    found = [(_header(start, delimiter), delimiter) for delimiter in _DELIMITERS]
    # The delimiter that gives the most columns; on a tie the first one, a comma.
    columns, delimiter = max(found, key=lambda one: len(one[0]))
    return DelimitedFile(path, [name.strip() for name in columns], delimiter, encoding)


def _header(start: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader(start.splitlines(keepends=True), delimiter=delimiter), [])
    except csv.Error:
        return []
