"""Renders pages: the environment of templates, times that tick, entity tags, and pages shared by viewers.

What changes with time alone, such as "3 min ago", stands between two marks that no text of a user can have.
The entity tag is made without it, so a page is unchanged as long as its facts are.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import cache
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from interlock.core.costs import told
from interlock.core.row import NamedTuple
from interlock.dashboard.charts.sparkline import sparkline
from interlock.dashboard.visit import Notice, Page, Visit
from interlock.service.manual import COMMON
from interlock.service.operations import BY_NAME

#: Around what changes with time alone.
_BEGIN, _END = "\x01", "\x02"
_TICKING = re.compile(f"{_BEGIN}[^{_END}]*{_END}")
_MARKS = str.maketrans("", "", _BEGIN + _END)
#: Stand for what each answer has for itself: the key of its forms, its notice, and the visitor's name.
_KEY, _NOTICE, _NAME = f"{_BEGIN}key{_END}", f"{_BEGIN}notice{_END}", f"{_BEGIN}name{_END}"
#: Characters that HTML does not allow, and those that mark places.
_CONTROL = dict.fromkeys([*range(9), 11, 12, *range(14, 32), 127])
#: Operations whose button asks again.
DANGEROUS = frozenset(
    {"cancel", "cancel_plan", "take_back", "revoke_token", "end_external", "remove_agent", "remove_pool"}
    | {"remove_gate"}
)
#: Where a cure that only reads leads to.
_PLACES: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "show": lambda given: item_url(given["item"]),
    "why": lambda given: item_url(given["item"]),
    "plan": lambda given: f"/plans/{quote(str(given['plan']), safe='')}",
    "plans": lambda _: "/plans",
    "items": lambda given: url("/items", **_filters(given.get("wanted") or {})),
    "lanes": lambda given: url("/lanes", **{k: v for k, v in given.items() if v is not None}),
    "agents": lambda _: "/agents",
    "workers": lambda _: "/agents",
    "pools": lambda _: "/agents",
    "budgets": lambda _: "/agents",
    "spending": lambda _: "/agents",
    "events": lambda _: "/events",
    "recap": lambda _: "/recap",
    "series": lambda _: "/series",
    "tokens": lambda _: "/settings",
    "modes": lambda _: "/settings",
    "owed_to_github": lambda _: "/effects",
}
_STATUS_KINDS = {
    "in_progress": "busy",
    "running": "busy",
    "pending": "ready",
    "completed": "good",
    "succeeded": "good",
    "failed": "bad",
    "lost": "bad",
    "timed_out": "bad",
    "waiting": "quiet",
    "deferred": "quiet",
    "cancelled": "quiet",
    "superseded": "quiet",
    "coalesced": "quiet",
    "released": "quiet",
}
#: An address that a link may have: no script, and nothing that a browser reads as another address.
_WEB = re.compile(r"https?://[^\s\\\x00-\x20\x7f-\x9f]+", re.ASCII | re.IGNORECASE)
_visit: ContextVar[Visit] = ContextVar("visit")


class Rendered(NamedTuple):
    """A page as HTML with marks, its tag and its status."""

    html: str
    tag: str
    status: int

    def text(self, key: str, notice: Notice | None, name: str) -> str:
        """The HTML of one answer, to the visitor of this name."""
        told = "" if notice is None else _notice_html(notice)
        shown = str(escape(_without_control(name)))
        return self.html.replace(_KEY, key).replace(_NAME, shown).replace(_NOTICE, told).translate(_MARKS)


def rendered(page: Page, visit: Visit, sections: Sequence[tuple[str, str, str]]) -> Rendered:
    """Render a page for a visit."""
    return _rendered(
        page.template,
        {**page.values, "title": page.title, "section": page.section, "sections": sections},
        visit,
        page.status,
    )


def rendered_plainly(template: str, values: Mapping[str, Any]) -> str:
    """Render a page for a visitor without a session."""
    return environment().get_template(template).render(**values).translate(_MARKS)


def _rendered(template: str, values: Mapping[str, Any], visit: Visit, status: int) -> Rendered:
    token = _visit.set(visit)
    try:
        html = environment().get_template(template).render(visit=visit, **values)
    finally:
        _visit.reset(token)
    digest = hashlib.sha256(_TICKING.sub("", html).encode()).hexdigest()[:32]
    return Rendered(html, f'W/"{digest}"', status)


@cache
def environment() -> Environment:
    """The environment of all templates. Texts are escaped, and a missing value is a defect."""
    made = Environment(
        loader=PackageLoader("interlock.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_without_control,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "words": lambda text: str(text).replace("_", " "),
        "sentence": _sentence,
        "imperative": _imperative,
        "count": lambda number: f"{number:,}",
        "span": span,
        "cost": lambda cost: told(cost["usd"], cost["input_tokens"], cost["output_tokens"]),
        "when": when,
        "compact": compact,
        "lower_first": lambda text: text[:1].lower() + text[1:],
    }
    made.globals |= {
        "may": _may,
        "writes": _writes,
        "dangerous": _dangerous,
        "place": place,
        "status_kind": lambda word: _STATUS_KINDS.get(word, "quiet"),
        "as_json": lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":")),
        "form_key": _marked("key"),
        "notice_place": _marked("notice"),
        "visitor_name": _marked("name"),
        "here": lambda: _visit.get().address,
        "ticking": _ticking,
        "ago_text": _ago,
        "until_text": _until,
        "now": lambda: _ticking(_visit.get().now.isoformat().replace("+00:00", "Z")),
        "lease_left": _lease_left,
        "without_blanks": lambda given: {name: each for name, each in given.items() if each is not None},
        "label_of": _label_of,
        "field_kind": _field_kind,
        "url": url,
        "item_url": item_url,
        "web_address": web_address,
        "lane_url": lambda lane: url("/lane", name=lane),
        "seconds_between": lambda begin, end: (moment_of(end) - moment_of(begin)).total_seconds(),
        "sparkline": sparkline,
    }
    made.globals["ui"] = made.get_template("macros.html").module
    return made


def _without_control(value: Any) -> Any:
    """A text without characters that HTML does not allow."""
    return value.translate(_CONTROL) if type(value) is str else value


# -- times --------------------------------------------------------------------------------------------


def moment_of(text: str) -> datetime:
    """The time that a text of an answer names."""
    return datetime.fromisoformat(text)


def when(text: str | None) -> str:
    """A time for people, in UTC."""
    return "" if text is None else f"{moment_of(text).astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def span(seconds: float | None) -> str:
    """A span in the two largest units: `3 h 5 min`."""
    if seconds is None:
        return ""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86_400
    if minutes < 60:
        return f"{minutes} min"
    if hours < 24:
        return f"{hours} h {minutes % 60} min" if minutes % 60 else f"{hours} h"
    return f"{days} d {hours % 24} h" if hours % 24 else f"{days} d"


def compact(number: float) -> str:
    """A number in few characters: `12.3k`."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:,.3g}"


def _ticking(text: str) -> Markup:
    return _marked(_without_control(text))


def _marked(text: str) -> Markup:
    return Markup(f"{_BEGIN}{escape(text)}{_END}")  # noqa: S704  (the text is escaped; a format takes thrice as long)


def _ago(text: str) -> Markup:
    past_s = (_visit.get().now - moment_of(text)).total_seconds()
    return _ticking("just now" if past_s < 60 else f"{span(past_s)} ago")


def _until(text: str) -> Markup:
    left_s = (moment_of(text) - _visit.get().now).total_seconds()
    return _ticking("now" if left_s <= 0 else "in under 1 min" if left_s < 60 else f"in {span(left_s)}")


def _lease_left(since: str, expires_at: str) -> Markup:
    """The part of a lease that is left, in percent."""
    begin, end = moment_of(since), moment_of(expires_at)
    whole_s = max(1.0, (end - begin).total_seconds())
    left_s = (end - _visit.get().now).total_seconds()
    return _ticking(f"{min(100.0, max(0.0, 100 * left_s / whole_s)):.0f}")


# -- places and actions -------------------------------------------------------------------------------


def url(path: str, **query: Any) -> str:
    """An address with a query. Values of None or empty texts are left out."""
    given = {name: value for name, value in query.items() if value not in (None, "", (), [])}
    return f"{path}?{urlencode(given, doseq=True)}" if given else path


def item_url(item: Any) -> str:
    """The address of an item's page."""
    return f"/items/{quote(str(item), safe='')}"


def web_address(text: str | None) -> bool:
    """Whether a text is an address of the web. Only such texts become links."""
    return text is not None and _WEB.fullmatch(text) is not None


def place(cure: Mapping[str, Any]) -> str | None:
    """Where a cure that only reads leads to; None if no page shows it."""
    found = _PLACES.get(cure["operation"])
    try:
        return None if found is None else found(cure["arguments"])
    except KeyError:
        return None


def _filters(wanted: Mapping[str, Any]) -> dict[str, Any]:
    return {"status" if name == "statuses" else name: value for name, value in wanted.items()}


def _may(operation: str) -> bool:
    """Whether a page may have a button for an operation."""
    return not BY_NAME[operation].for_workers and _visit.get().may(operation)


def _writes(operation: str) -> bool:
    """Whether a form may carry it out."""
    found = BY_NAME.get(operation)
    return found is not None and found.writes and not found.for_workers


def _dangerous(operation: str, arguments: Mapping[str, Any]) -> bool:
    return operation in DANGEROUS or arguments.get("force") is True


def _sentence(text: str) -> str:
    """A clause with a capital."""
    return text[:1].upper() + text[1:]


def _imperative(effect: str) -> str:
    """The effect of a cure as the label of a button: "retries it now" becomes "Retry it now"."""
    verb, _, rest = effect.partition(" ")
    verb = f"{verb[:-3]}y" if verb.endswith("ies") else verb.removesuffix("s")
    return _sentence(f"{verb} {rest}".rstrip())


def _label_of(operation: str, field: str) -> str:
    """What to write above a blank."""
    found = BY_NAME.get(operation)
    words = "" if found is None else found.manual.parameters.get(field) or COMMON.get(field, "")
    return words.rstrip(".") or _sentence(field.replace("_", " "))


def _field_kind(operation: str, field: str) -> str:
    """How a blank is filled in: `textarea`, `number` or `text`."""
    if field in ("text", "answer", "payload"):
        return "textarea"
    found = BY_NAME.get(operation)
    kind = next((p.kind for p in found.parameters if p.name == field), str) if found is not None else str
    return "number" if "int" in str(kind) or "float" in str(kind) else "text"


def _notice_html(notice: Notice) -> str:
    return str(
        Markup('<p class="notice {}" role="status" dir="auto">{}</p>').format(
            notice.kind if notice.kind in ("good", "warn", "bad") else "good", _without_control(notice.text)
        )
    )
