"""Handles a request: identifies its caller, reads it, carries it out, and answers it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

import anyio
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from interlock.core.errors import InterlockError, InvalidInput, NoToken
from interlock.core.row import NamedTuple
from interlock.core.scopes import check_scope
from interlock.http import bodies, tags
from interlock.http.arguments import RequestReader
from interlock.http.bearers import Bearer, UnknownToken, with_agent, with_name
from interlock.http.claims import ClaimRequests
from interlock.http.connections import has_hung_up
from interlock.http.doctor_rounds import DoctorReport
from interlock.http.execution import THREADS, OperationCall, OperationRunner
from interlock.http.instruments import Instruments
from interlock.http.problems import Problem, status_of
from interlock.http.responses import response
from interlock.http.schemas import document
from interlock.http.single_flight import SingleFlight
from interlock.http.store_signal import StoreSignal
from interlock.http.store_watch import StoreWatch
from interlock.http.streams import Streams, interval_of
from interlock.service.contract import to_json
from interlock.service.local import LocalService
from interlock.service.operations import BY_NAME, Operation
from interlock.store.access import RepeatableRequest

T = TypeVar("T")

#: The most look-ups of new tokens, and the most signatures of deliveries, at once.
TOKEN_THREADS, WEBHOOK_THREADS = 1, 2
#: A larger body is parsed in a thread. `PARSE_THREADS` is the most at once.
LARGE_BYTES, PARSE_THREADS = 16 << 10, 2
#: The time-out for the store's metrics.
SCRAPE_S = 8.0
#: The time-out of a readiness check, and how long its result is reused.
READY_S, READY_KEPT_S = 2.0, 1.0
_SIGNATURE = re.compile(r"sha256=[0-9a-fA-F]{64}", re.ASCII)
_KEY = re.compile(r"[!-~]{1,200}", re.ASCII)

SECRET_VARIABLE = "INTERLOCK_WEBHOOK_SECRET"  # noqa: S105  (its name)


class ServerHealth(NamedTuple):
    """The state of a server, for people."""

    #: Why it is not ready, a sentence each; empty if it is.
    troubles: Sequence[str]
    #: The invariants that the doctor found broken, as JSON values, and when it last checked.
    findings: Sequence[Mapping[str, Any]]
    checked_at: str | None


class Server:
    """The parts of a server, and its handlers."""

    def __init__(
        self,
        service: LocalService,
        reading: RequestReader,
        *,
        ready: Callable[[], Mapping[str, Any]],
        webhook: Callable[[Mapping[str, str], bytes], Mapping[str, Any]] | None,
        poll_s: float = 1.0,
        threads: int = THREADS,
        findings: Callable[[], DoctorReport] = DoctorReport,
    ) -> None:
        self._reading, self._webhook, self._findings = reading, webhook, findings
        self.execution = execution = OperationRunner(service, threads)
        self.signals = StoreSignal()
        self.claims = ClaimRequests(execution)
        self.streams = Streams(
            execution.events_after, execution.live_tokens, self.signals, execution.in_thread
        )
        self.watch = StoreWatch(execution, self.signals, self.claims, self.streams, poll_s)
        self.instruments = Instruments()
        self.instruments.waits(lambda: self.claims.lines.waiting, lambda: self.streams.open)
        # New tokens have their own thread, so that a flood of invalid ones delays no other caller.
        self._token_limiter = anyio.CapacityLimiter(TOKEN_THREADS)
        # Signatures, which take long for a large delivery, and large bodies have their own threads too.
        self._webhook_limiter = anyio.CapacityLimiter(WEBHOOK_THREADS)
        self._parse_limiter = anyio.CapacityLimiter(PARSE_THREADS)
        # Metrics are needed most when all threads are taken.
        self._numbers = SingleFlight(execution.metrics, "metrics")
        # Requests without a token must not occupy threads, or write often.
        self._ready = SingleFlight(ready, "ready", kept_s=READY_KEPT_S)
        self.bodies, self.deliveries = bodies.Budget(), bodies.Budget()
        self._document = document()

    @property
    def service(self) -> LocalService:
        """The current service."""
        return self.execution.service

    def stop(self) -> None:
        """End all waits."""
        self.signals.stop()
        self.claims.stop()

    # -- operations -----------------------------------------------------------------------------------

    async def operate(self, operation: Operation, request: Request) -> Response:
        """Carry out an operation for the caller of a request."""
        bearer = await self._bearer(request)
        check_scope(operation.needs, bearer.scope)
        body = await self.body(request) if operation.writes else b""
        read = partial(self._arguments, operation, request, bearer)
        given = await self.parsed(body, read) if operation.writes else read(None)
        repeatable, left = _repeatable(operation, request, bearer, body), partial(has_hung_up, request.scope)
        call = OperationCall(operation, bearer, with_name(operation, given, bearer), repeatable, left)
        if not operation.waits:
            answer, _ = await self.execution.run(call)
        elif call.given.get("wait_s"):
            async with _disconnect(request) as gone:
                answer = await self.claims.claim(call, gone)
        else:
            answer = await self.claims.claim_now(call)
        self._tell(call, answer)
        return await self.execution.written(call, partial(response, operation, answer))

    async def call(self, bearer: Bearer, name: str, given: dict[str, Any]) -> Any:
        """Carry out an operation for a bearer, within the scope; gives the answer as JSON values.

        A caller that is cancelled while a claim waits still gets the claimed leases.
        """
        operation = BY_NAME[name]
        check_scope(operation.needs, bearer.scope)
        call = OperationCall(operation, bearer, with_name(operation, given, bearer))
        if operation.waits:
            answer: Any = await self.claims.claim_to_the_end(call)
        else:
            with anyio.CancelScope(shield=given.get("next") is not None):  # so does one that claims as well
                answer, _ = await self.execution.run(call)
        self._tell(call, answer)
        return answer

    def _tell(self, call: OperationCall, answer: Any) -> None:
        """Notify event streams and waiting claims of an operation."""
        if call.operation.writes:
            if call.operation.more is not None and isinstance(answer, dict):
                self.claims.remember_owners(answer["leases"])
            self.signals.signal()
            self.claims.wake(call.operation, call.given, answer)

    def _arguments(
        self, operation: Operation, request: Request, bearer: Bearer, value: Any
    ) -> dict[str, Any]:
        """The arguments of a request. `value` is its body."""
        if (expected := request.headers.get("if-match")) is not None:
            value = tags.with_expected(operation, value, expected)
        value = with_agent(operation, value, bearer.scope)
        query = list(request.query_params.multi_items())
        trace = request.headers.get("traceparent")
        return self._reading.arguments(operation, request.path_params, query, value, trace)

    # -- callers and bodies ---------------------------------------------------------------------------

    async def _bearer(self, request: Request) -> Bearer:
        return await self.identify(request, request.headers.get("authorization"))

    async def identify(self, request: Request, authorization: str | None) -> Bearer:
        """The caller of a request, by its header. Raises `NoToken` if the token is invalid."""
        peer = request.client.host if request.client else ""
        return await self._known(request, self.execution.bearers.remembered(authorization, peer), peer)

    async def _known(self, request: Request, found: Bearer | UnknownToken, peer: str) -> Bearer:
        bearers = self.execution.bearers
        if isinstance(found, UnknownToken):
            limiter = self._token_limiter if found.is_new else self.execution.limiter
            bearer = await anyio.to_thread.run_sync(partial(bearers.look_up, found), limiter=limiter)
            found = bearers.looked_up(found, bearer, peer)
        request.state.token = found.token
        return found

    async def body(self, request: Request) -> bytes:
        """The body of an authenticated request, within its limits."""
        limits = bodies.BODY_MAX_BYTES, bodies.BODY_S
        return await bodies.read_json(request, self.bodies, request.state.token, *limits)

    async def parsed(self, body: bytes, use: Callable[[Any], T]) -> T:
        """Parse the JSON of a body and use it; in a thread if that takes long."""
        if len(body) <= LARGE_BYTES:
            return use(bodies.parsed(body))
        return await anyio.to_thread.run_sync(lambda: use(bodies.parsed(body)), limiter=self._parse_limiter)

    # -- sessions of people ---------------------------------------------------------------------------

    async def session_bearer(self, request: Request, session: str) -> Bearer:
        """The bearer of a session. Raises `NoToken` if it has ended."""
        peer = request.client.host if request.client else ""
        return await self._known(request, self.execution.bearers.remembered_session(session, peer), peer)

    async def use_link(self, request: Request, link: str) -> str:
        """Begin a session with a one-time link; gives its secret. Raises `NoToken` if the link is invalid."""
        peer = request.client.host if request.client else ""
        bearers, service = self.execution.bearers, self.service
        bearers.within_wrong_rate(peer)
        try:
            session, token, _ = await anyio.to_thread.run_sync(
                partial(service.use_link, link), limiter=self._token_limiter
            )
        except NoToken:
            bearers.within_wrong_rate(peer, take=True)
            raise
        request.state.token = token.id
        return session

    async def begin_session(self, bearer: Bearer) -> str:
        """Begin a session of a bearer; gives its secret."""
        return await self.execution.in_thread(partial(self.service.begin_session, bearer.token))

    async def end_session(self, session: str) -> None:
        """End a session, here at once and on other servers within seconds."""
        self.execution.bearers.forget_session(session)
        await self.execution.in_thread(partial(self.service.end_session, session))

    @property
    def session_cookie(self) -> str:
        """The name of the cookie of sessions. Servers on other ports of a host get it too, so it names the
        store."""
        return f"interlock-{self.execution.store_name}"

    def status_of(self, error: InterlockError) -> int:
        """The status of HTTP of an error."""
        return status_of(error.code)

    async def demo(self) -> Mapping[str, Any] | None:
        """The demo fleet of the store; None if the store is away."""
        try:
            found: Mapping[str, Any] = to_json(await self.execution.in_thread(self.service.demo))
        except InterlockError:
            return None
        return found

    async def health(self) -> ServerHealth:
        """Whether this server is ready, and what the doctor found lately."""
        checks = (await self._checked_ready())["checks"]
        troubles = [str(check["detail"]) for check in checks.values() if not check["ok"]]
        findings, checked_at = self._findings()
        return ServerHealth(troubles, to_json(findings), None if checked_at is None else to_json(checked_at))

    async def now(self) -> datetime:
        """The store's time."""
        now_us = await self.execution.in_thread(self.service.store.now_us)
        return datetime.fromtimestamp(now_us / 1e6, UTC)

    async def act(
        self, bearer: Bearer, name: str, values: Mapping[str, Any], texts: Mapping[str, str], key: str
    ) -> Any:
        """Carry out an operation with the arguments of a form, once for each key; gives the answer as JSON
        values."""
        operation = BY_NAME.get(name)
        if operation is None or not operation.writes:
            raise InvalidInput(f"There is no action {name[:80]!r}.", "Reload the page.")
        check_scope(operation.needs, bearer.scope)
        if operation.for_workers:  # a claim by a form would start a run without a worker
            raise InvalidInput(f"No page offers {name}: only workers call it.", "Reload the page.")
        body = with_agent(operation, dict(values), bearer.scope)
        if operation.takes("author"):
            body.setdefault("author", bearer.name)
        given = with_name(operation, self._reading.of_form(operation, body, texts), bearer)
        kept = None
        if operation.kept and key:
            content = json.dumps([name, values, texts], sort_keys=True).encode()
            keyed = f"{bearer.token} form {key} {name}".encode() + hashlib.sha256(content).digest()
            kept = RepeatableRequest(hashlib.sha256(keyed).hexdigest(), hashlib.sha256(content).hexdigest())
        call = OperationCall(operation, bearer, given, kept)
        answer, _ = await self.execution.run(call)
        self._tell(call, answer)
        return answer

    async def form(self, request: Request) -> dict[str, list[str]]:
        """The fields of a form, within its limits."""
        return await bodies.read_form(request, self.bodies, getattr(request.state, "token", None) or "")

    # -- addresses outside the API --------------------------------------------------------------------

    async def events(self, request: Request) -> Response:
        """A live stream of the history. `Last-Event-ID` or `after` is the position to continue from."""
        if (every := request.query_params.get("every_ms")) is not None:
            bearer = await self._viewer(request)
            return self.streams.begin_light(interval_of(every), bearer.token)
        bearer = await self._bearer(request)
        text = request.headers.get("last-event-id") or request.query_params.get("after")
        last = await self.execution.in_thread(self.execution.last_event)
        return self.streams.begin(text, last, bearer.token)

    async def _viewer(self, request: Request) -> Bearer:
        """The caller of a light stream, also by the cookie of a session: a browser's stream sends no token.
        Such a stream is not ended with its session, so it has no events, only their number."""
        if request.headers.get("authorization") is None:
            session = request.cookies.get(self.session_cookie)
            if session and request.headers.get("sec-fetch-site", "same-origin") == "same-origin":
                return await self.session_bearer(request, session)
        return await self._bearer(request)

    async def webhook(self, request: Request) -> Response:
        """A delivery of GitHub. It is stored before it is answered."""
        try:
            answer = await self._keep_delivery(request)
        except InterlockError:
            self.instruments.webhook("refused")
            raise
        self.instruments.webhook("new" if answer.get("new", True) else "repeated")
        return JSONResponse(answer, 202)

    async def _keep_delivery(self, request: Request) -> Mapping[str, Any]:
        from interlock.github.delivery import BODY_MAX_BYTES as MOST  # noqa: PLC0415

        if (keep := self._webhook) is None:
            raise Problem("not_allowed", "This server takes no webhooks.", f"Set {SECRET_VARIABLE}.")
        if not _SIGNATURE.fullmatch(request.headers.get("x-hub-signature-256", "").strip()):
            raise Problem(
                "bad_signature",
                "The delivery has no SHA-256 signature.",
                "Give the webhook a secret; SHA-1 is not accepted.",
            )
        peer = request.client.host if request.client else ""
        body = await bodies.read_json(request, self.deliveries, peer, MOST, bodies.DELIVERY_S)
        work = partial(keep, request.headers, body)
        return await anyio.to_thread.run_sync(work, limiter=self._webhook_limiter)

    async def metrics(self, request: Request) -> Response:
        """The metrics of the store and this server; if the store is unreachable, only those of the server."""
        await self._bearer(request)
        found = None
        with suppress(InterlockError, TimeoutError):
            async with asyncio.timeout(SCRAPE_S):
                found = await self._numbers.result()
        text, kind = self.instruments.text(found, request.headers.get("accept", ""))
        return Response(text, headers={"Content-Type": kind})

    async def _checked_ready(self) -> Mapping[str, Any]:
        """Whether the server is ready. No token is needed, so the answer does not reveal the store's
        location."""
        try:
            async with asyncio.timeout(READY_S):
                return await self._ready.result()
        except TimeoutError:
            silent = {"ok": False, "detail": f"The store did not answer within {READY_S:g} s."}
            return {"ready": False, "checks": {"store": silent}}

    async def readyz(self) -> Response:
        found = await self._checked_ready()
        return JSONResponse(found, 200 if found["ready"] and not self.signals.stopping else 503)

    def openapi(self) -> Response:
        return JSONResponse(self._document)


@asynccontextmanager
async def _disconnect(request: Request) -> AsyncIterator[asyncio.Event]:
    """An event that is set when the client disconnects."""
    gone = asyncio.Event()

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        gone.set()

    task = asyncio.create_task(watch())
    try:
        yield gone
    finally:
        task.cancel()


def _repeatable(
    operation: Operation, request: Request, bearer: Bearer, body: bytes
) -> RepeatableRequest | None:
    """The request as it may be repeated, if it has a key."""
    key = request.headers.get("idempotency-key")
    if key is None or not operation.kept:
        return None
    if not _KEY.fullmatch(key):
        raise InvalidInput("The Idempotency-Key is not valid.", "Use 1 to 200 printable characters.")
    expected = request.headers.get("if-match", "")
    head = f"{request.method} {request.scope['path']}\n{expected}".encode()
    asked = hashlib.sha256(head + body).hexdigest()
    return RepeatableRequest(hashlib.sha256(f"{bearer.token} {key}".encode()).hexdigest(), asked)
