"""Structured logs: one line for each record, in JSON or for people."""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

import structlog
import structlog.tracebacks

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def set_up_logging(level: str, form: str) -> None:
    """Send the records of structlog, and of libraries that use `logging`, to the error stream."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if form == "json":
        # Without the values of variables: there may be a password among them.
        tracebacks = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
        ends: list[Any] = [
            structlog.processors.ExceptionRenderer(tracebacks),
            structlog.processors.JSONRenderer(),
        ]
    else:
        colors = sys.stderr.isatty() and "NO_COLOR" not in os.environ
        plain = structlog.dev.plain_traceback
        ends = [structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=plain)]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *ends],
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(_LEVELS[level])
    logging.getLogger("alembic").setLevel(logging.WARNING)
