"""What the commands on a database share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

DatabaseOption = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="sqlite:///FILE or postgresql://USER@HOST/NAME. Default: the variable OPENWORLD_DATABASE, or "
        "sqlite:///openworld.db.",
    ),
]


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn errors of the database, or of an event, into one line."""
    from sqlalchemy.exc import SQLAlchemyError

    from openworld.service.validation import Conflict, NotFound
    from openworld.store import StorageError

    try:
        yield
    except SQLAlchemyError as error:
        reason = str(getattr(error, "orig", None) or error).splitlines()[0]
        raise ValueError(f"The database cannot be used: {reason}") from error
    except (Conflict, NotFound, StorageError) as error:
        raise ValueError(error.args[0]) from error
