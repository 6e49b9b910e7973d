"""The web application, composed of its parts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.formparsers import MultiPartParser

from openworld._version import __version__
from openworld.features.extractor import load_extractor
from openworld.model_file import load
from openworld.recognition import ColdStartRecognizer, is_adjustable, parse_objective
from openworld.service.api import administration, files, history, labels, pool, recognize
from openworld.service.api.errors import add_handlers
from openworld.service.auth import COOKIE, Authenticator, Sessions, session_secret
from openworld.service.batcher import Batcher
from openworld.service.clustering_job import ClusteringJob
from openworld.service.dependencies import IdempotencyStore, ServiceState
from openworld.service.inputs import Inputs
from openworld.service.metrics import Metrics
from openworld.service.middleware import LOOPBACK_NAMES, Observation, Protection, RequestBodies
from openworld.service.notifications import Broadcast
from openworld.service.pages import page_router
from openworld.service.pages.page import problem_page
from openworld.service.settings import ServiceSettings, WorldSettings
from openworld.service.validation import Refused
from openworld.service.world import World

_ROUTERS = (
    recognize.router,
    pool.router,
    labels.labels_router,
    labels.classes_router,
    labels.operating_point_router,
    history.history_router,
    files.export_router,
    files.import_router,
    history.events_router,
    administration.session_router,
    administration.keys_router,
    administration.probes_router,
)

_SECURITY_SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "An API key; needed once one exists."},
    "header": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    "session": {"type": "apiKey", "in": "cookie", "name": COOKIE},
}


MultiPartParser.spool_max_size = 1 << 14  # larger files are kept on disk until they are read


def open_world(settings: ServiceSettings, model: Any = None) -> World:
    """Open the world that the settings describe; `model`, if given, replaces the model file in the settings.

    It may be a function that returns the first model of a new database.
    """
    if model is None and settings.model is not None:
        model = load(settings.model)
    if model is None and (settings.extractor is not None or settings.features is not None):
        model = partial(starting_model, settings)
    if hasattr(model, "get_params") and "refresh_growth" in model.get_params():
        model.set_params(refresh_growth=settings.refresh_growth)
    if hasattr(model, "get_params") and settings.objective is not None:
        if not is_adjustable(model):
            raise Refused(f"A {type(model).__name__} has no objective: its threshold is fixed.")
        model.set_objective(parse_objective(settings.objective))
    return World.open(
        settings.database,
        model,
        WorldSettings(
            n_nearest=settings.nearest,
            lease_seconds=settings.lease_seconds,
            keep_random=settings.keep_random,
            keep_below=settings.keep_below,
            learn_unknowns=settings.learn_unknowns,
            max_recognized=settings.max_recognized,
            recognized_days=settings.recognized_days,
            max_unknown=settings.max_unknown,
            unknown_days=settings.unknown_days,
            max_previews=settings.max_previews,
        ),
    )


def starting_model(settings: ServiceSettings) -> ColdStartRecognizer:
    """Return the model of a new database that starts without one: everything is unknown."""
    model = ColdStartRecognizer(refresh_growth=settings.refresh_growth)
    if settings.objective is not None:
        model.set_params(objective=parse_objective(settings.objective))
    if settings.extractor is None:
        return model.start(settings.features or 0)
    if settings.features is not None:
        raise Refused("Give either an extractor, for pictures and texts, or features, for vectors; not both.")
    extractor = load_extractor(settings.extractor)
    model.start(extractor.n_features).extractor_ = extractor.id.as_dict()
    return model


def create_app(world: World, settings: ServiceSettings, *, close_world: bool = False) -> FastAPI:
    """Return the application that serves a world; with `close_world` it closes the world at shutdown."""
    state = _state(world, settings)
    app = FastAPI(
        title="openworld",
        version=__version__,
        description="Recognition in an open world: name the known, say unknown to the rest, learn it.",
        openapi_url="/v1/openapi.json",
        docs_url=None,  # it would load scripts from another site
        redoc_url=None,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # see Metrics and Observation
        lifespan=_lifespan(close_world),
        generate_unique_id_function=lambda route: route.name,  # operation ids, names in generated clients
    )
    app.state.service = state
    app.router.routes.append(recognize.array_route)
    for router in _ROUTERS:
        app.include_router(router)
    app.include_router(page_router(), include_in_schema=False)
    add_handlers(app, problem_page)
    app.add_middleware(recognize.ArrayRequests)
    app.add_middleware(RequestBodies, service=state)
    app.add_middleware(
        Protection,
        hosts=(*LOOPBACK_NAMES, *settings.allowed_hosts) if _checks_hosts(settings) else None,
        max_body=int(settings.max_body_mb * 1e6),
    )
    app.add_middleware(Observation, metrics=state.metrics)
    setattr(app, "openapi", lambda: _openapi(app))  # noqa: B010 -- FastAPI's own way to change it
    return app


def _checks_hosts(settings: ServiceSettings) -> bool:
    return settings.is_loopback or bool(settings.allowed_hosts)


def _state(world: World, settings: ServiceSettings) -> ServiceState:
    metrics, broadcast = Metrics(world), Broadcast(world.notifications)
    sessions = Sessions(
        session_secret(settings, world.replicas), 3600 * settings.session_hours, world.replicas
    )
    return ServiceState(
        world=world,
        settings=settings,
        auth=Authenticator(world.keys, settings, sessions),
        inputs=Inputs(world, settings),
        batcher=Batcher(world, metrics.answered),
        clustering=ClusteringJob(world, settings.clustering_seconds, broadcast.send),
        broadcast=broadcast,
        metrics=metrics,
        idempotency=IdempotencyStore(world.event_log),
    )


def _lifespan(close_world: bool) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        state: ServiceState = app.state.service
        state.broadcast.start()
        if state.settings.clustering:
            state.clustering.start()
        try:
            yield
        finally:
            state.close()
            if close_world:
                state.world.close()

    return lifespan


def _openapi(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document, with the array route, the ways to authenticate, and files as binary."""
    if app.openapi_schema is None:
        schema = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes
        )
        schema["paths"][recognize.ARRAY_PATH] = recognize.array_description()
        schema["components"]["securitySchemes"] = _SECURITY_SCHEMES
        for operation in (operation for path in schema["paths"].values() for operation in path.values()):
            if "403" in operation["responses"]:  # it needs a role
                operation["security"] = [{name: []} for name in _SECURITY_SCHEMES]
        for component in schema["components"]["schemas"].values():
            for value in component.get("properties", {}).values():
                if "contentMediaType" in value.get("items", {}):  # client generators would take it for a text
                    value["items"] = {"type": "string", "format": "binary"}
        app.openapi_schema = schema
    return app.openapi_schema
