"""The map of the pool; the script draws it from what the API tells."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from openworld.service.pages.frame import page

router = APIRouter()


@router.get("/map")
def pool_map(request: Request) -> HTMLResponse:
    """Show the map."""
    return page(request, "map.html")
