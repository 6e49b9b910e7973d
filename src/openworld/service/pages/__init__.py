"""The pages: the service's user interface, rendered on the server."""

from __future__ import annotations

from fastapi import APIRouter, Depends

from openworld.service.pages import (
    api_docs,
    classes,
    dashboard,
    data,
    history,
    page,
    people,
    recognized,
    try_it,
    unknowns,
    workbench,
)


def page_router() -> APIRouter:
    """Return the routes of the pages; all but login and static files need a person who may look."""
    router = APIRouter(include_in_schema=False)
    looking = (unknowns, recognized, workbench, classes, try_it, dashboard, data, history, people, api_docs)
    for module in looking:
        router.include_router(module.router, dependencies=[Depends(page.person)])
    router.include_router(page.router)
    return router
