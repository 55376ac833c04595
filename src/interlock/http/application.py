"""The service over HTTP: one handler for every use case of the table, and the few addresses beside it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

import anyio
import structlog
from fastapi import FastAPI, Request
from fastapi.sse import KEEPALIVE_COMMENT, EventSourceResponse, format_sse_event
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import HTMLResponse, JSONResponse, Response

from interlock.core.errors import InterlockError, InvalidInput, Repeated, TooLarge
from interlock.core.jsontext import parse
from interlock.core.names import WAIT_MAX_S, agent_key, check_number
from interlock.http import page
from interlock.http.arguments import Reading
from interlock.http.bearers import Bearer, Bearers, check_scope
from interlock.http.desk import Desk, Pulse, wait_until
from interlock.http.problems import Problem, problem, problem_of
from interlock.http.schemas import document
from interlock.service.contract import to_json
from interlock.service.local import LocalService
from interlock.service.usecases import BY_NAME, ROOT, USE_CASES, UseCase
from interlock.store.access_port import Request as Kept

T = TypeVar("T")

BODY_MAX_BYTES = 16 << 20
#: A body that takes longer to come is not waited for.
BODY_S = 30.0
#: How many requests are carried out at once; whoever waits for work or events takes no place. A SQLite file
#: takes one writer at a time: many would only be in each other's way.
THREADS, SQLITE_THREADS = 32, 4
#: How often the history is looked at for what other processes did.
WATCH_S = 0.1
#: An event stream says something at least this often, so that nobody in between closes it.
KEEPALIVE_S = 15.0
STREAMS_MAX = 200
WAITING_MAX = 2_000
_EVENTS_AT_ONCE = 500
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_KEY = re.compile(r"[!-~]{1,200}", re.ASCII)

log = structlog.get_logger("interlock.http")


class Server:
    """What the handlers share."""

    def __init__(
        self,
        service: LocalService,
        reading: Reading,
        *,
        ready: Callable[[], Mapping[str, Any]],
        webhook: Callable[[Mapping[str, str], bytes], Mapping[str, Any]],
        poll_s: float = 1.0,
        threads: int = THREADS,
    ) -> None:
        self.service, self._reading = service, reading
        self._ready, self._webhook = ready, webhook
        self.bearers = Bearers(service)
        self.pulse = Pulse()
        self.desk = Desk(self.pulse, poll_s)
        self._limiter = anyio.CapacityLimiter(threads)
        self._streams = 0
        self._document = document()

    async def _run(self, work: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(work, limiter=self._limiter)

    # -- use cases ------------------------------------------------------------------------------------

    async def use(self, case: UseCase, request: Request) -> Response:
        """Carry out a use case for whoever asks."""
        bearer = await self._bearer(request)
        check_scope(case, bearer.scope)
        body = await self._body(request) if case.writes else b""
        value = _parsed(body) if case.writes else None
        query = list(request.query_params.multi_items())
        given = self._reading.arguments(case, request.path_params, query, value)
        kept = _kept(case, request, bearer, body)
        if case.name == "next":
            answer = await self._claim(request, bearer, given, kept)
        else:
            answer = await self._run(partial(self._carry_out, case, given, bearer, kept))
        if case.writes:
            self.pulse.beat()
        return _answer(case, answer)

    def _carry_out(self, case: UseCase, given: dict[str, Any], bearer: Bearer, kept: Kept | None) -> Any:
        """In a thread: the answer as JSON values."""
        service = self.service
        given = self.bearers.confined(case, given, bearer.scope)
        if kept is None:
            return to_json(getattr(service, case.name)(**given))
        found = service.answered(kept)
        if found is None:
            try:
                return to_json(getattr(service.answering(kept), case.name)(**given))
            except Repeated:
                found = service.answered(kept)
        return self._again(case, found)

    def _again(self, case: UseCase, found: Any) -> Any:
        """The answer to a request that was carried out before."""
        if case.name == "next":
            return to_json(self.service.claimed(found["claimed"]))
        if isinstance(found, dict) and found.keys() == {"plan"}:
            return to_json(self.service.plan(found["plan"]))
        return found

    async def _claim(self, request: Request, bearer: Bearer, given: dict[str, Any], kept: Kept | None) -> Any:
        wait_s = given.pop("wait_s", 0.0)
        check_number("wait", wait_s, 0, WAIT_MAX_S)
        if wait_s and self.desk.waiting >= WAITING_MAX:
            raise Problem(
                "too_many_requests", "Too many claims wait on this server.", "Ask again in a moment."
            )
        begun_s = time.monotonic()

        tried_s = begun_s

        async def attempt() -> list[Any]:
            nonlocal tried_s
            tried_s = time.monotonic()
            found: list[Any] = await self._run(
                partial(self._carry_out, BY_NAME["next"], dict(given), bearer, kept)
            )
            return found

        kind = json.dumps([agent_key(given["agent"]), *(str(given.get(n)) for n in _KINDS)])
        gone = asyncio.Event()
        async with _watching(request, gone):
            found = await self.desk.wait(kind, attempt, wait_s, gone)
        for lease in found:
            self.bearers.remember_owner(lease["run"], lease["item"]["run_agent"] or "")
            lease["waited_s"] += int(1000 * (tried_s - begun_s)) / 1000  # the lease began no earlier
        return found

    # -- who and what ---------------------------------------------------------------------------------

    async def _bearer(self, request: Request) -> Bearer:
        peer = request.client.host if request.client else ""
        found = self.bearers.remembered(request.headers.get("authorization"), peer)
        if isinstance(found, str):
            found = await self._run(partial(self.bearers.look_up, found, peer))
        request.state.token = found.token
        return found

    async def _body(self, request: Request, most: int = BODY_MAX_BYTES) -> bytes:
        """The body, within its limits."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise Problem("wrong_media_type", "The body is not JSON.", "Send Content-Type: application/json.")
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            raise Problem("wrong_media_type", "The body is compressed.", "Send it as it is.")
        length = request.headers.get("content-length", "0")
        if length.isdigit() and int(length) > most:
            raise _too_large(most)
        parts, size = [], 0
        try:
            async with asyncio.timeout(BODY_S):
                async for part in request.stream():
                    size += len(part)
                    if size > most:
                        raise _too_large(most)
                    parts.append(part)
        except TimeoutError:
            raise Problem(
                "too_slow", f"The body took longer than {BODY_S:g} s.", "Send it at once."
            ) from None
        return b"".join(parts)

    # -- the rest -------------------------------------------------------------------------------------

    async def events(self, request: Request) -> Response:
        """History as it happens; `Last-Event-ID` or `after` says where to go on."""
        await self._bearer(request)
        text = request.headers.get("last-event-id") or request.query_params.get("after")
        if text is not None and not (text.isascii() and text.isdigit() and len(text) <= 18):
            raise InvalidInput("The number of the last event is not a number.", "Use that of an event.")
        if self._streams >= STREAMS_MAX:
            raise Problem(
                "too_many_requests", "Too many streams are open.", "Close some, or ask again later."
            )
        after = await self._run(self._last_seq) if text is None else int(text)
        return EventSourceResponse(self._stream(after))

    async def _stream(self, after: int) -> AsyncIterator[bytes]:
        self._streams += 1
        try:
            yield KEEPALIVE_COMMENT  # the headers go out at once
            said_s = time.monotonic()
            while not self.pulse.stopping:
                beat = self.pulse.next
                found = await self._run(partial(self.service.events, after=after, limit=_EVENTS_AT_ONCE))
                for event in found:
                    after = event.seq
                    data = json.dumps(to_json(event))
                    yield format_sse_event(data_str=data, event=event.kind, id=str(event.seq))
                if found:
                    said_s = time.monotonic()
                    continue
                await wait_until(beat, max(0.0, said_s + KEEPALIVE_S - time.monotonic()))
                if time.monotonic() >= said_s + KEEPALIVE_S:
                    yield KEEPALIVE_COMMENT
                    said_s = time.monotonic()
        finally:
            self._streams -= 1

    def _last_seq(self) -> int:
        last = self.service.events(limit=1, newest=True)
        return last[0].seq if last else 0

    async def watch(self) -> None:
        """Notice what other processes do in the store."""
        last = -1
        while not self.pulse.stopping:
            try:
                now = await self._run(self._last_seq)
            except InterlockError:  # the store may be away for a while
                now = last
            except Exception:  # else whoever waits would hear of nothing more
                log.exception("defect", where="watch")
                now = last
            if now != last:
                last = now
                self.pulse.beat()
            await asyncio.sleep(WATCH_S)

    async def webhook(self, request: Request) -> Response:
        """A delivery of GitHub: kept before it is answered."""
        from interlock.github.delivery import BODY_MAX_BYTES as MOST  # noqa: PLC0415

        body = await self._body(request, MOST)
        answer = await self._run(lambda: self._webhook(request.headers, body))
        return JSONResponse(answer, 202)

    async def readyz(self) -> Response:
        found = await self._run(self._ready)
        return JSONResponse(found, 200 if found["ready"] and not self.pulse.stopping else 503)

    async def front(self) -> Response:
        return HTMLResponse(page.front(await self._run(self._ready)), headers=page.HEADERS)

    def openapi(self) -> Response:
        return JSONResponse(self._document)


#: What waiting claims have in common that stand in one line.
_KINDS = ("types", "labels", "limit", "lease_s", "worker", "item", "external")


@asynccontextmanager
async def _watching(request: Request, gone: asyncio.Event) -> AsyncIterator[None]:
    """Notice that a client went away while it waited."""

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        gone.set()

    task = asyncio.create_task(watch())
    try:
        yield
    finally:
        task.cancel()


def _parsed(body: bytes) -> Any:
    try:
        return parse(body or b"{}")
    except ValueError as error:
        raise InvalidInput(f"The body is not valid JSON: {error}.", "Send one JSON object.") from None


def _too_large(most: int) -> TooLarge:
    return TooLarge(f"The body has more than {most:,} bytes.", "Send less at once.")


def _kept(case: UseCase, request: Request, bearer: Bearer, body: bytes) -> Kept | None:
    """The request as it may be repeated, if it has a key."""
    key = request.headers.get("idempotency-key")
    if key is None or not case.kept:
        return None
    if not _KEY.fullmatch(key):
        raise InvalidInput("The Idempotency-Key is not valid.", "Use 1 to 200 printable characters.")
    asked = hashlib.sha256(f"{request.method} {request.url.path}\n".encode() + body).hexdigest()
    return Kept(hashlib.sha256(f"{bearer.token} {key}".encode()).hexdigest(), asked)


def _answer(case: UseCase, value: Any) -> Response:
    """A good answer; a problem where nothing of what was asked for was done."""
    body = {case.field: value} if case.field else value if value is not None else {}
    if case.field == "runs" and case.writes and value and all(run["refusal"] for run in value):
        refusal = value[0]["refusal"]
        return problem(refusal["code"], refusal["message"], refusal["hint"], more=body)
    if case.name == "add" and value and all(each["decision"] == "rejected" for each in value):
        holder = value[0]["holder"]
        who = f"Somebody has the lane already ({value[0]['reason']})."
        return problem("held", who, "Use another policy to wait.", more={**body, "holder": holder})
    if case.name == "ask" and value["refusal"]:
        refusal = value["refusal"]
        return problem(refusal["code"], refusal["message"], refusal["hint"], more={"run": value})
    return Response(json.dumps(body), media_type="application/json")


def application(server: Server, *, started: Callable[[], None], stopped: Callable[[], None]) -> FastAPI:
    """The application; `started` and `stopped` are called once it runs, and when it ends."""

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        started()
        watch = asyncio.create_task(server.watch())
        yield
        server.pulse.stop()
        await watch
        await anyio.to_thread.run_sync(stopped)

    app = FastAPI(
        title="Interlock",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        lifespan=life,
        redirect_slashes=False,
    )
    for case in USE_CASES:
        app.add_route(ROOT + case.path, _handler(server, case), methods=[case.method])
    app.add_route(f"{ROOT}/events/stream", _wrapped(server.events), methods=["GET"])
    app.add_route("/webhooks/github", _wrapped(server.webhook), methods=["POST"])
    app.add_route("/healthz", _wrapped(_healthy), methods=["GET"])
    app.add_route("/readyz", _wrapped(lambda _: server.readyz()), methods=["GET"])
    app.add_route("/openapi.json", _wrapped(_plainly(server.openapi)), methods=["GET"])
    docs = _plainly(lambda: HTMLResponse(page.api(), headers=page.HEADERS))
    app.add_route("/docs", _wrapped(docs), methods=["GET"])
    app.add_route("/", _wrapped(lambda _: server.front()), methods=["GET"])
    app.add_exception_handler(HTTPException, _unknown)
    return app


Handler = Callable[[Request], Awaitable[Response]]


def _handler(server: Server, case: UseCase) -> Handler:
    return _wrapped(partial(server.use, case))


def _plainly(work: Callable[[], Response]) -> Handler:
    async def handle(_: Request) -> Response:
        return work()

    return handle


async def _healthy(_: Request) -> Response:
    return JSONResponse({"ok": True})


def _wrapped(handle: Handler) -> Handler:
    """A handler whose mistakes become problems, and whose requests have an id and a line in the log."""

    async def guarded(request: Request) -> Response:
        try:
            return await handle(request)
        except InterlockError as error:
            return problem_of(error)
        except ClientDisconnect:
            return Response(status_code=400)
        except Exception as error:
            log.exception("defect", request=request.state.id, error=type(error).__name__)
            return problem(
                "internal",
                "The server has met a defect.",
                f"Please report it; its log has the request {request.state.id}.",
            )

    async def handled(request: Request) -> Response:
        return await _logged(request, guarded)

    return handled


async def _unknown(_: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    if status == 405:
        return problem("wrong_method", "This address does not take that method.", "See /docs.")
    return problem("not_found", "There is nothing at this address.", "See /docs.")


async def _logged(request: Request, call: Callable[[Request], Awaitable[Response]]) -> Response:
    """Each request has an id, and one line in the log. No token, no body and no query is in it."""
    given = request.headers.get("x-request-id", "")
    request.state.id = given if _ID.fullmatch(given) else secrets.token_hex(8)
    begun_s = time.monotonic()
    response = await call(request)
    response.headers["X-Request-Id"] = request.state.id
    response.headers.setdefault("Cache-Control", "no-store")
    log.info(
        "request",
        request=request.state.id,
        method=request.method,
        path=request.url.path[:200],
        status=response.status_code,
        token=getattr(request.state, "token", None),
        took_ms=round(1000 * (time.monotonic() - begun_s), 1),
    )
    return response
