"""The service over HTTP: one handler for every use case of the table, and the few addresses beside it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext, suppress
from functools import partial
from typing import Any, TypeVar

import anyio
import structlog
from fastapi import FastAPI, Request
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from interlock.core.checking import checked_wish
from interlock.core.errors import InterlockError, InvalidInput, Repeated
from interlock.core.jsontext import parse
from interlock.core.names import WAIT_MAX_S, agent_key, check_number
from interlock.core.row import NamedTuple
from interlock.http import bodies, page, tags
from interlock.http.arguments import Reading
from interlock.http.bearers import (
    Bearer,
    Bearers,
    Unknown,
    check_scope,
    no_token,
    with_agent,
    with_name,
)
from interlock.http.commit_groups import CommitGroups
from interlock.http.connections import Refusals, has_hung_up
from interlock.http.desk import Desk, Pulse
from interlock.http.gate import Gate
from interlock.http.instruments import OTHER, Instruments
from interlock.http.problems import Problem, problem, problem_of
from interlock.http.schemas import document
from interlock.http.shared_look import SharedLook
from interlock.http.streams import Streams
from interlock.service.contract import CheckView, EventView, MetricView, to_json
from interlock.service.intake import traced
from interlock.service.local import LocalService
from interlock.service.usecases import BY_NAME, ROOT, USE_CASES, UseCase
from interlock.store.access_port import Request as Kept
from interlock.store.port import Outcome

T = TypeVar("T")

#: How many values the JSON of a body may have.
VALUES_MAX = 500_000
#: A list that may be longer is made and written by these threads, so many at once: Python computes in one.
LONG_ROWS, LONG_THREADS = 500, 2
#: A larger body is parsed in a thread, so many at once.
LARGE_BYTES, PARSE_THREADS = 16 << 10, 2
#: How many requests are carried out at once; whoever waits for work or events takes no place. A SQLite file
#: takes one writer at a time: many would only be in each other's way.
THREADS, SQLITE_THREADS, TOKEN_THREADS, WEBHOOK_THREADS, GITHUB_THREADS = 16, 4, 1, 2, 4
#: How often the history is looked at for what other processes did.
WATCH_S = 0.1
#: How often it is asked which agents have a limit.
LIMITED_S = 5.0
#: How often it is asked whether the tokens of open streams and waiting claims still let somebody in.
TOKENS_S = 2.0
#: How many claims wait at once, in all and with one token.
WAITING_MAX, WAITING_PER_TOKEN_MAX = 2_000, 1_000
#: How long the store may take for its numbers.
SCRAPE_S = 8.0
#: How long it may take to show that it is ready, and for how long that is the answer.
READY_S, READY_KEPT_S = 2.0, 1.0
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_SIGNATURE = re.compile(r"sha256=[0-9a-fA-F]{64}", re.ASCII)
_KEY = re.compile(r"[!-~]{1,200}", re.ASCII)

log = structlog.get_logger("interlock.http")
SECRET_VARIABLE = "INTERLOCK_WEBHOOK_SECRET"  # noqa: S105  (its name)


class Server:
    """What the handlers share."""

    def __init__(
        self,
        service: LocalService,
        reading: Reading,
        *,
        ready: Callable[[], Mapping[str, Any]],
        webhook: Callable[[Mapping[str, str], bytes], Mapping[str, Any]] | None,
        poll_s: float = 1.0,
        threads: int = THREADS,
    ) -> None:
        self.service, self._reading = service, reading
        self._webhook = webhook
        self.bearers = Bearers(service)
        self.pulse = Pulse()
        self.desk = Desk()
        self._poll_s = poll_s
        #: Agents that may have so many runs at once, as far as it is known who has a limit.
        self._limited: set[str] | None = None
        self._groups = CommitGroups(self._share_commit)
        self.streams = Streams(self._events_after, self._live_tokens, self.pulse, self._run)
        self.instruments = Instruments()
        self.instruments.waits(lambda: self.desk.waiting, lambda: self.streams.open)
        self._limiter = anyio.CapacityLimiter(threads)
        # New tokens are looked up apart: however many wrong ones come, they keep nobody else waiting.
        self._token_limiter = anyio.CapacityLimiter(TOKEN_THREADS)
        # So are signatures made, which takes long for a large delivery, whoever sends it.
        self._webhook_limiter = anyio.CapacityLimiter(WEBHOOK_THREADS)
        # And whoever waits for GitHub.
        self._github_limiter = anyio.CapacityLimiter(GITHUB_THREADS)
        # Apart as well: whoever looks must see something just when all other places are taken.
        self._numbers = SharedLook(self._metrics, "metrics")
        # Nobody may keep threads busy, or write often, by asking whether a server is ready.
        self._ready = SharedLook(ready, "ready", kept_s=READY_KEPT_S)
        # On SQLite it takes memory that grows with the store.
        self._checks = SharedLook(self._doctor, "doctor")
        # And long lists made.
        self._long_limiter = anyio.CapacityLimiter(LONG_THREADS)
        # And large bodies parsed.
        self._parse_limiter = anyio.CapacityLimiter(PARSE_THREADS)
        #: What ends the claims that wait, by token; and the tokens that were found to let nobody in.
        self._waiting: dict[str, list[asyncio.Event]] = {}
        self._ended: Collection[str] = ()
        self.bodies, self.deliveries = bodies.Budget(), bodies.Budget()
        self._document = document()

    def stop(self) -> None:
        """Nobody waits any longer."""
        self.pulse.stop()
        self.desk.stop()

    # A server serves whatever service it has at the time.

    def _share_commit(self, works: Sequence[Callable[[], Any]]) -> list[Outcome]:
        return self.service.together(works)

    def _events_after(self, after: int, limit: int) -> list[EventView]:
        return self.service.events(after=after, limit=limit)

    def _live_tokens(self, tokens: Collection[str]) -> set[str]:
        return self.bearers.live(tokens)

    def _metrics(self) -> list[MetricView]:
        return self.service.metrics()

    def _doctor(self) -> list[CheckView]:
        return self.service.doctor()

    async def _run(self, work: Callable[[], T]) -> T:
        return await anyio.to_thread.run_sync(work, limiter=self._limiter)

    async def _run_case(
        self,
        case: UseCase,
        given: dict[str, Any],
        bearer: Bearer,
        kept: Kept | None,
        left: Callable[[], bool],
    ) -> tuple[Any, bool]:
        """The answer as JSON values, and whether an earlier request with the same key was carried out."""
        work = partial(self._carry_out, case, given, bearer, kept, left)
        if case.name == "unwanted" or case.path.startswith("/series"):  # they ask GitHub
            return await anyio.to_thread.run_sync(work, limiter=self._github_limiter)
        if _is_long(case, given):
            return await anyio.to_thread.run_sync(work, limiter=self._long_limiter)
        if case.name == "doctor":
            return to_json(await self._checks.result()), False
        if case.name in TOGETHER and self.service.shares_commits:
            found: tuple[Any, bool] = await self._groups.run(work)
            return found
        return await self._run(work)

    # -- use cases ------------------------------------------------------------------------------------

    async def use(self, case: UseCase, request: Request) -> Response:
        """Carry out a use case for whoever asks."""
        bearer = await self._bearer(request)
        check_scope(case, bearer.scope)
        body = await self.body(request) if case.writes else b""
        read = partial(self._arguments, case, request, bearer)
        given = await self.parsed(body, read) if case.writes else read(None)
        if case.name == "show":
            shown = await self._run(partial(self.service.show, **given))
            return _answer(case, to_json(shown), tags.of_item(shown))
        kept, left = _kept(case, request, bearer, body), partial(has_hung_up, request.scope)
        gone = asyncio.Event()
        async with _watching(request, gone) if case.name == "next" else nullcontext():
            answer = await self.call(bearer, case.name, given, kept, gone, left)
        written = partial(_answer, case, answer, tags.of_answer(case, answer))
        if _is_long(case, given):
            return await anyio.to_thread.run_sync(written, limiter=self._long_limiter)
        return written()

    def _arguments(self, case: UseCase, request: Request, bearer: Bearer, value: Any) -> dict[str, Any]:
        """What a request says, `value` being its body."""
        if (expected := request.headers.get("if-match")) is not None:
            value = tags.with_expected(case, value, expected)
        value = with_agent(case, value, bearer.scope)
        query = list(request.query_params.multi_items())
        given = self._reading.arguments(case, request.path_params, query, value)
        if case.name == "add":
            given["items"] = [traced(item, request.headers.get("traceparent")) for item in given["items"]]
        return given

    async def call(
        self,
        bearer: Bearer,
        name: str,
        given: dict[str, Any],
        kept: Kept | None = None,
        gone: asyncio.Event | None = None,
        left: Callable[[], bool] = lambda: False,
    ) -> Any:
        """Carry out a use case for a bearer, as far as the scope allows it; the answer as JSON values.

        `gone` ends a claim that waits. What has not begun when its client has `left` is not begun.
        """
        case = BY_NAME[name]
        check_scope(case, bearer.scope)
        given = with_name(case, given, bearer)
        if name == "next":
            answer = await (
                self._claim(bearer, given, kept, gone)
                if gone is not None
                else self._claim_to_the_end(bearer, given, kept)
            )
        else:
            answer, _ = await self._run_case(case, given, bearer, kept, left)
        if case.writes:
            self.pulse.beat()
            if case.name not in QUIET:
                self.desk.stir(
                    self._for_whom(case, given, answer), count=len(answer) if case.name == "add" else None
                )
        return answer

    def _for_whom(self, case: UseCase, given: dict[str, Any], answer: Any) -> set[str] | None:
        """The agents that something may be ready for now, as far as an answer tells; None if for any."""
        if case.name == "add":
            named = {each["item"]["agent"] if each["item"] else "" for each in answer}
            return None if None in named else named
        if case.name == "done" and not any(
            run["promoted"] or run["follow_up"] or (run["item"] or {}).get("plan") for run in answer
        ):  # it makes room for another run of the same agent, if that has a limit
            agents = {self.bearers.owner(report.run) for report in given["reports"]}
            return agents if self._limited is None else agents & self._limited
        if case.name in ("set_agent", "pause_agent"):
            self._limited = None
        return None

    def _carry_out(
        self,
        case: UseCase,
        given: dict[str, Any],
        bearer: Bearer,
        kept: Kept | None,
        left: Callable[[], bool],
    ) -> tuple[Any, bool]:
        """In a thread: what `_run_case` gives."""
        if left():
            raise ClientDisconnect
        service = self.service
        given = self.bearers.confined(case, given, bearer.scope)
        if kept is None:
            return tags.tagged(case, getattr(service, case.name)(**given)), False
        found = service.answered(kept)
        if found is None:
            try:
                return tags.tagged(case, getattr(service.answering(kept), case.name)(**given)), False
            except Repeated:
                found = service.answered(kept)
        return self._again(case, found), True

    def _again(self, case: UseCase, found: Any) -> Any:
        """The answer to a request that was carried out before."""
        if case.name == "next":
            return to_json(self.service.claimed(found["claimed"]))
        if isinstance(found, dict) and found.keys() == {"plan"}:
            return to_json(self.service.plan(found["plan"]))
        return found

    async def _claim_to_the_end(self, bearer: Bearer, given: dict[str, Any], kept: Kept | None) -> Any:
        """The same for a caller that may be cancelled, who gets what was claimed all the same: the next
        checkpoint of anyio cancels it again."""
        gone = asyncio.Event()
        claim = asyncio.ensure_future(self._claim(bearer, given, kept, gone))
        try:
            return await asyncio.shield(claim)
        except asyncio.CancelledError:
            gone.set()
            with anyio.CancelScope(shield=True):
                return await claim

    async def _claim(
        self, bearer: Bearer, given: dict[str, Any], kept: Kept | None, gone: asyncio.Event
    ) -> Any:
        wait_s = given.pop("wait_s", 0.0)
        check_number("wait", wait_s, 0, WAIT_MAX_S)
        if wait_s and (
            self.desk.waiting >= WAITING_MAX
            or len(self._waiting.get(bearer.token, ())) >= WAITING_PER_TOKEN_MAX
        ):
            raise Problem(
                "too_many_requests", "Too many claims wait on this server.", "Ask again in a moment."
            )
        begun_s = time.monotonic()
        waited_s, tried = 0.0, False

        def over() -> bool:
            if tried:
                self.bearers.check_live(bearer)
            return gone.is_set()

        async def attempt() -> list[Any]:
            nonlocal waited_s, tried
            tried_s = time.monotonic()
            try:
                found, again = await self._run_case(BY_NAME["next"], dict(given), bearer, kept, over)
            except ClientDisconnect:
                return []
            finally:
                tried = True
            # A lease of this request began no earlier than its attempt, one of an earlier request may have.
            waited_s = 0.0 if again else tried_s - begun_s
            leases: list[Any] = found
            return leases

        agent = agent_key(given["agent"])
        kind = (agent, *(str(given.get(name)) for name in _KINDS))
        if wait_s and self.desk.has_line(kind):  # else the first attempt comes at once
            early = await self._run(partial(self._before_waiting, given, bearer, kept))
            if early is not None:
                return early
        waits = self._waiting.setdefault(bearer.token, [])
        waits.append(gone)
        try:
            found = await self.desk.wait(kind, agent, attempt, wait_s, gone)
        finally:
            waits.remove(gone)
            if not waits:
                del self._waiting[bearer.token]
        if not found and bearer.token in self._ended:
            raise no_token()
        for lease in found:
            self.bearers.remember_owner(lease["run"], lease["item"]["run_agent"] or "")
            lease["waited_s"] += int(1000 * waited_s) / 1000
        return found

    def _before_waiting(self, given: dict[str, Any], bearer: Bearer, kept: Kept | None) -> Any:
        """In a thread, for a claim that others stand before: a wish that cannot be met is refused, and a
        repeated request answered, without a wait."""
        case = BY_NAME["next"]
        wish = self.bearers.confined(case, given, bearer.scope)
        checked_wish(
            wish["agent"],
            wish.get("types", ()),
            wish.get("labels", ()),
            wish.get("limit", 1),
            wish.get("lease_s"),
            wish.get("worker"),
            external=wish.get("external", False),
        )
        found = None if kept is None else self.service.answered(kept)
        return None if found is None else self._again(case, found)

    # -- who and what ---------------------------------------------------------------------------------

    async def _bearer(self, request: Request) -> Bearer:
        return await self.identify(request, request.headers.get("authorization"))

    async def identify(self, request: Request, authorization: str | None) -> Bearer:
        """Who sends a request with such a header; `NoToken` if it lets nobody in."""
        peer = request.client.host if request.client else ""
        found = self.bearers.remembered(authorization, peer)
        if isinstance(found, Unknown):
            look = partial(self.bearers.look_up, found.text)
            bearer = await anyio.to_thread.run_sync(
                look, limiter=self._token_limiter if found.is_new else self._limiter
            )
            found = self.bearers.looked_up(found.text, bearer, peer)
        request.state.token = found.token
        return found

    async def body(self, request: Request) -> bytes:
        """The body of a request whose sender is known, within its limits."""
        limits = bodies.BODY_MAX_BYTES, bodies.BODY_S
        return await self._body(request, self.bodies, request.state.token, *limits)

    async def _body(
        self,
        request: Request,
        budget: bodies.Budget,
        caller: str,
        most: int,
        within_s: float,
    ) -> bytes:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise Problem("wrong_media_type", "The body is not JSON.", "Send Content-Type: application/json.")
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            raise Problem("wrong_media_type", "The body is compressed.", "Send it as it is.")
        request.state.body = body = bodies.Body(budget, caller)
        return await body.read(request, most, within_s)

    async def parsed(self, body: bytes, use: Callable[[Any], T]) -> T:
        """What is made of the JSON of a body; in a thread if that takes long."""
        if len(body) <= LARGE_BYTES:
            return use(_parsed(body))
        return await anyio.to_thread.run_sync(lambda: use(_parsed(body)), limiter=self._parse_limiter)

    # -- the rest -------------------------------------------------------------------------------------

    async def events(self, request: Request) -> Response:
        """History as it happens; `Last-Event-ID` or `after` says where to go on."""
        bearer = await self._bearer(request)
        text = request.headers.get("last-event-id") or request.query_params.get("after")
        return self.streams.begin(text, await self._run(self._last_seq), bearer.token)

    def _last_seq(self) -> int:
        last = self.service.events(limit=1, newest=True)
        return last[0].seq if last else 0

    async def watch(self) -> None:
        """Notice what other processes do in the store."""
        last, looked_s, asked_s, checked_s = -1, 0.0, 0.0, 0.0
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
                self.desk.stir(soon=False)
            elif time.monotonic() >= looked_s + self._poll_s:
                looked_s = time.monotonic()
                self.desk.stir(soon=False)
            if time.monotonic() >= asked_s + LIMITED_S:
                asked_s = time.monotonic()
                with suppress(InterlockError):
                    self._limited = await self._run(self._limited_agents)
            if time.monotonic() >= checked_s + TOKENS_S:
                checked_s = time.monotonic()
                with suppress(InterlockError):
                    await self._end_revoked()
            await asyncio.sleep(WATCH_S)

    async def _end_revoked(self) -> None:
        """End the streams and waiting claims of tokens that were revoked or have expired."""
        open_ = {*self.streams.tokens, *self._waiting}
        self._ended = open_ - await self._run(partial(self._live_tokens, open_)) if open_ else ()
        if self._ended:
            self.streams.end(self._ended)
            for gone in [gone for token in self._ended for gone in self._waiting.get(token, ())]:
                gone.set()

    def _limited_agents(self) -> set[str]:
        agents = self.service.agents()
        return {agent.key for agent in agents if agent.max is not None or agent.pool is not None}

    async def webhook(self, request: Request) -> Response:
        """A delivery of GitHub: kept before it is answered."""
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
                "The delivery has no signature with SHA-256.",
                "Give the webhook a secret; SHA-1 is not accepted.",
            )
        peer = request.client.host if request.client else ""
        body = await self._body(request, self.deliveries, peer, MOST, bodies.DELIVERY_S)
        work = partial(keep, request.headers, body)
        return await anyio.to_thread.run_sync(work, limiter=self._webhook_limiter)

    async def metrics(self, request: Request) -> Response:
        """What the store and this server count; if the store is away, what the server counts."""
        await self._bearer(request)
        found = None
        with suppress(InterlockError, TimeoutError):
            async with asyncio.timeout(SCRAPE_S):
                found = await self._numbers.result()
        text, kind = self.instruments.text(found, request.headers.get("accept", ""))
        return Response(text, headers={"Content-Type": kind})

    async def _checked_ready(self) -> Mapping[str, Any]:
        """Whether the server can serve; anybody may ask, so it says nothing about where the store is."""
        try:
            async with asyncio.timeout(READY_S):
                return await self._ready.result()
        except TimeoutError:
            silent = {"ok": False, "detail": f"The store has not answered within {READY_S:g} s."}
            return {"ready": False, "checks": {"store": silent}}

    async def readyz(self) -> Response:
        found = await self._checked_ready()
        return JSONResponse(found, 200 if found["ready"] and not self.pulse.stopping else 503)

    async def front(self) -> Response:
        return HTMLResponse(page.front(await self._checked_ready()), headers=page.HEADERS)

    def openapi(self) -> Response:
        return JSONResponse(self._document)


#: What waiting claims have in common that stand in one line.
_KINDS = ("types", "labels", "item")
#: Use cases that make nothing ready.
QUIET = {"next", "renew", "inbox", "unwanted", "sender_of", "item_of", "act_as", "pass_fence", "plan_batch"}
QUIET |= {"see_worker", "leave_worker", "create_token", "revoke_token", "next_notice", "end_notice"}
#: Small use cases that come often: they share a commit where a store is written by one at a time.
TOGETHER = {"add", "next", "renew", "done", "fail", "release", "msg", "inbox", "see_worker"}


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


def _is_long(case: UseCase, given: Mapping[str, Any]) -> bool:
    """Whether a list is asked for that may be long."""
    if case.writes:
        return False
    return max((each for each in map(_rows, given.items())), default=0) > LONG_ROWS


def _rows(argument: tuple[str, Any]) -> int:
    name, value = argument
    rows: int = value if name == "limit" else getattr(value, "limit", 0)
    return rows


def _parsed(body: bytes) -> Any:
    try:
        return parse(body or b"{}", values_max=VALUES_MAX)
    except ValueError as error:
        raise InvalidInput(f"The body is not valid JSON: {error}.", "Send one JSON object.") from None


def _kept(case: UseCase, request: Request, bearer: Bearer, body: bytes) -> Kept | None:
    """The request as it may be repeated, if it has a key."""
    key = request.headers.get("idempotency-key")
    if key is None or not case.kept:
        return None
    if not _KEY.fullmatch(key):
        raise InvalidInput("The Idempotency-Key is not valid.", "Use 1 to 200 printable characters.")
    expected = request.headers.get("if-match", "")
    head = f"{request.method} {request.url.path}\n{expected}".encode()
    asked = hashlib.sha256(head + body).hexdigest()
    return Kept(hashlib.sha256(f"{bearer.token} {key}".encode()).hexdigest(), asked)


def _answer(case: UseCase, value: Any, tag: str | None = None) -> Response:
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
    headers = {"ETag": tag} if tag is not None else None
    return Response(json.dumps(body), media_type="application/json", headers=headers)


class Annex(NamedTuple):
    """Another shell at an address of its own: an application that lets in whom it identifies."""

    path: str
    app: ASGIApp
    #: It runs while this is open.
    running: Callable[[], AbstractAsyncContextManager[None]]


def application(
    server: Server,
    *,
    started: Callable[[], None],
    stopped: Callable[[], None],
    annexes: Sequence[Annex] = (),
    hosts: Collection[str] | None = None,
) -> FastAPI:
    """The application; `started` and `stopped` are called once it runs, and when it ends.

    `hosts` are the names that requests may be for; None is any.
    """

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        asyncio.get_running_loop().set_exception_handler(
            Refusals(lambda why: log.warning("not_accepted", error=why))
        )
        started()
        watch = asyncio.create_task(server.watch())
        async with AsyncExitStack() as running:
            for annex in annexes:
                await running.enter_async_context(annex.running())
            yield
            server.stop()
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
    for case in sorted(USE_CASES, key=lambda case: case.name not in TOGETHER):  # they are tried in order
        app.add_route(ROOT + case.path, _handler(server, case), methods=[case.method])
    app.add_route(f"{ROOT}/events/stream", _wrapped(server.events), methods=["GET"])
    app.add_route("/webhooks/github", _wrapped(server.webhook), methods=["POST"])
    app.add_route("/metrics", _wrapped(server.metrics), methods=["GET"])
    app.add_route("/healthz", _wrapped(_healthy), methods=["GET"])
    app.add_route("/readyz", _wrapped(lambda _: server.readyz()), methods=["GET"])
    app.add_route("/openapi.json", _wrapped(_plainly(server.openapi)), methods=["GET"])
    docs = _plainly(lambda: HTMLResponse(page.api(), headers=page.HEADERS))
    app.add_route("/docs", _wrapped(docs), methods=["GET"])
    app.add_route("/", _wrapped(lambda _: server.front()), methods=["GET"])
    app.router.routes += [Route(annex.path, _Annexed(annex.app)) for annex in annexes]
    app.add_exception_handler(HTTPException, _unknown)
    app.add_middleware(Gate, hosts=hosts, logged=_logged)
    app.state.instruments = server.instruments
    app.state.routes = {route.endpoint: route.path for route in app.routes if isinstance(route, Route)}
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

    async def handled(request: Request) -> Response:
        return await _logged(request, lambda _: _guarded(request, handle))

    return handled


async def _guarded(request: Request, handle: Handler) -> Response:
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
    finally:
        if (body := getattr(request.state, "body", None)) is not None:
            body.release()


async def _unknown(request: Request, error: Exception) -> Response:
    async def answer(_: Request) -> Response:
        if getattr(error, "status_code", 404) != 405:
            return problem("not_found", "There is nothing at this address.", "See /docs.")
        answer = problem("wrong_method", "This address does not take that method.", "See /docs.")
        answer.headers["Allow"] = ", ".join(sorted(_methods(request)))
        return answer

    return await _logged(request, answer)


def _methods(request: Request) -> set[str]:
    """What an address takes, by all its routes."""
    routes = [each for each in request.app.routes if isinstance(each, Route)]
    here = [each for each in routes if each.matches(request.scope)[0] is not Match.NONE]
    return {method for each in here for method in each.methods or ()}


class _Annexed:
    """An annex whose requests have an id and a line in the log, and whose mistakes become problems."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def pass_on(request: Request) -> Response:
            status = 0

            async def heard(message: Message) -> None:
                nonlocal status
                if message["type"] == "http.response.start":
                    status = message["status"]
                    headers = MutableHeaders(raw=message.setdefault("headers", []))
                    headers["X-Request-Id"] = request.state.id
                    headers.setdefault("Cache-Control", "no-store")
                await send(message)

            async def handle(_: Request) -> Response:
                await self._app(scope, receive, heard)
                return Response(status_code=status)

            answer = await _guarded(request, handle)
            if not status:
                await answer(scope, receive, heard)
            return answer

        await _logged(Request(scope, receive), pass_on)


async def _logged(request: Request, call: Callable[[Request], Awaitable[Response]]) -> Response:
    """Each request has an id, and one line in the log. No token, no body and no query is in it."""
    given = request.headers.get("x-request-id", "")
    request.state.id = given if _ID.fullmatch(given) else secrets.token_hex(8)
    begun_s = time.monotonic()
    response = await call(request)
    took_s = time.monotonic() - begun_s
    known = request.app.state
    route = known.routes.get(request.scope.get("endpoint"), OTHER)
    known.instruments.observe(route, response.status_code, took_s)
    response.headers["X-Request-Id"] = request.state.id
    response.headers.setdefault("Cache-Control", "no-store")
    log.info(
        "request",
        request=request.state.id,
        method=request.method[:20],
        path=request.scope["path"][:200],
        status=response.status_code,
        token=getattr(request.state, "token", None),
        took_ms=round(1000 * took_s, 1),
    )
    return response
