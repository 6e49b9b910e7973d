"""The pages: the service's user interface, rendered on the server."""

from __future__ import annotations

from fastapi import APIRouter, Depends

from openworld.service.pages import api_docs, classes, dashboard, page, try_it, unknowns


def page_router() -> APIRouter:
    """Return the routes of the pages; all but login and static files need a person who may look."""
    router = APIRouter(include_in_schema=False)
    for module in (unknowns, classes, try_it, dashboard, api_docs):
        router.include_router(module.router, dependencies=[Depends(page.person)])
    router.include_router(page.router)
    return router
