"""All the pages as one router."""

from __future__ import annotations

from fastapi import APIRouter, Depends

from openworld.service.pages import classes, dashboard, hints, history, people, pool_map, try_it, unknowns
from openworld.service.pages.people import person
from openworld.service.pages.static_files import router as static_files
from openworld.service.state import State


def page_router(state: State) -> APIRouter:
    """Return the routes of the pages; all but the login page are for people who may look at the service."""
    router = APIRouter(include_in_schema=False)
    for module in (unknowns, hints, classes, pool_map, try_it, dashboard, history):
        router.include_router(module.router, dependencies=[Depends(person)])
    router.include_router(people.router)
    router.include_router(static_files)
    return router
