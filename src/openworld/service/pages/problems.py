"""Errors as pages, for people who open an address in a browser."""

from __future__ import annotations

from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from openworld.service.pages.page import render

_TITLES = {404: "There is no such page", 403: "Not allowed", 503: "Not available at the moment"}


def problem_page(request: Request, error: HTTPException) -> Response | None:
    """Return an error as a page where a browser asks for one; None where a program asks."""
    for_page = "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/v1/")
    if not for_page or error.status_code < 400:
        return None
    message = str(error.detail)
    if error.status_code == 404 and message == "Not Found":
        message = (
            f"Nothing is at {request.url.path}. Perhaps the address was mistyped, or the page has moved."
        )
    title = _TITLES.get(error.status_code, "This did not work")
    return render("problem.html", error.status_code, title=title, message=message)
