// Keeps a page live: it refetches what changed, and ticks times against the clock of the store.
// Everything but liveness works without this script.

const TICK_MS = 1000;
const COALESCE_MS = 250; // the least time between two refetches
const QUIET_MS = 10_000; // renewals of leases leave no event, so the page is also refetched without one
const BACK_OFF_MS = [1000, 2000, 4000, 8000, 15_000, 30_000];
const LOAD = 4; // a refetch rests for this many times as long as the last one took

const root = document.documentElement;
const live = document.getElementById("live");
const pauseButton = document.getElementById("pause");
// The only HTML that this script uses is a page of this server, in which every text of a user is escaped.
const policy = globalThis.trustedTypes?.createPolicy("interlock", { createHTML: (html) => html });

let offset = 0; // the store's clock minus this browser's, in ms
let source = null;
let failures = 0;
let newest = -1; // the number of the newest known event
let shown = -1; // the newest event of the shown page, as far as it is known
let paused = false;
let etag = "";
let timer = 0;
let quiet = 0;
let fetching = false;
let tookMs = 0;
let lastMs = 0;

// -- times ------------------------------------------------------------------------------------------

const UNITS = [[86_400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 0, ""]];

function span(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  for (const [size, unit, below, small] of UNITS) {
    if (whole < size) continue;
    const rest = below ? Math.floor((whole % size) / below) : 0;
    return `${Math.floor(whole / size)} ${unit}${rest ? ` ${rest} ${small}` : ""}`;
  }
  return `${whole} s`;
}

function setClock(page) {
  const now = Date.parse(page.dataset.now);
  if (now) offset = now - Date.now();
}

function tick() {
  const now = Date.now() + offset;
  for (const time of document.querySelectorAll("time[data-ago], time[data-until]")) {
    const seconds = (Date.parse(time.dateTime) - now) / 1000;
    let text = seconds <= 0 ? "now" : `in ${span(seconds)}`;
    if ("ago" in time.dataset) text = seconds > -1 ? "just now" : `${span(-seconds)} ago`;
    if (time.textContent !== text) time.textContent = text;
  }
  for (const bar of document.querySelectorAll("[data-lease]")) {
    const [since, end] = [Date.parse(bar.dataset.since), Date.parse(bar.dataset.expires)];
    const part = Math.min(100, Math.max(0, (100 * (end - now)) / Math.max(1000, end - since)));
    bar.querySelector(".left")?.setAttribute("width", part.toFixed(0));
    bar.classList.toggle("low", part < 15);
  }
}

// -- the page ---------------------------------------------------------------------------------------

const keyOf = (node) => (node.nodeType === 1 ? node.dataset?.key || node.id || "" : "");

const touched = (field) => "defaultValue" in field && field.type !== "checkbox" && field.value !== field.defaultValue;

// Make a node like another one. What stays keeps its focus, selection, scroll position and typed text.
function morph(old, next) {
  if (old.nodeType !== next.nodeType || old.nodeName !== next.nodeName || keyOf(old) !== keyOf(next)) {
    old.replaceWith(next);
    return;
  }
  if (old.nodeType !== 1) {
    if (old.nodeValue !== next.nodeValue) old.nodeValue = next.nodeValue;
    return;
  }
  if (old.isEqualNode(next)) return;
  if (old.nodeName === "FORM" && [...old.elements].some(touched)) return; // it stays as it was when it was typed into
  for (const { name } of [...old.attributes]) {
    if (!next.hasAttribute(name) && !(name === "open" && old.nodeName === "DETAILS")) old.removeAttribute(name);
  }
  for (const { name, value } of next.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  morphChildren(old, next);
}

function morphChildren(old, next) {
  const keyed = new Map();
  for (const child of old.children) if (keyOf(child)) keyed.set(keyOf(child), child);
  let at = old.firstChild;
  for (const wanted of [...next.childNodes]) {
    const same = keyed.get(keyOf(wanted));
    if (same && same !== at) old.insertBefore(same, at);
    else if (same) at = at.nextSibling;
    else if (at && !keyOf(at) && !keyOf(wanted) && at.nodeName === wanted.nodeName) {
      const here = at;
      at = at.nextSibling;
      morph(here, wanted);
      continue;
    } else {
      old.insertBefore(wanted, at);
      continue;
    }
    keyed.delete(keyOf(wanted));
    morph(same, wanted);
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}

function replaceSections(html) {
  const page = new DOMParser().parseFromString(policy ? policy.createHTML(html) : html, "text/html");
  const fresh = new Map([...page.querySelectorAll("[data-live]")].map((each) => [each.dataset.live, each]));
  for (const section of document.querySelectorAll("[data-live]")) {
    const next = fresh.get(section.dataset.live);
    if (next) morph(section, next);
  }
  if (page.title) document.title = page.title;
  setClock(page.documentElement);
  tick();
}

async function refetch() {
  if (fetching || document.hidden || paused) return;
  fetching = true;
  const begun = performance.now();
  const seen = newest;
  try {
    const headers = { "X-Fragments": "1", "X-Newest": String(Math.max(0, seen)), ...(etag && { "If-None-Match": etag }) };
    const answer = await fetch(root.dataset.address, { headers, redirect: "error", signal: AbortSignal.timeout(20_000) });
    if (answer.status === 401) {
      stop();
      say("cut", "Signed out");
      return;
    }
    if (answer.status === 200) {
      const html = await answer.text();
      if (!paused) {
        etag = answer.headers.get("ETag") ?? "";
        replaceSections(html);
      }
    }
    if (answer.status === 200 || answer.status === 304) shown = Math.max(shown, seen);
  } catch {
    // The stream notices a server that is gone.
  } finally {
    fetching = false;
    lastMs = performance.now();
    tookMs = lastMs - begun;
    if (newest > shown && source) schedule();
  }
}

// Refetch soon: at most every 250 ms, and less often where a page takes long.
function schedule() {
  if (timer || paused || document.hidden) return;
  const rest = Math.max(COALESCE_MS, LOAD * tookMs) - (performance.now() - lastMs);
  timer = setTimeout(() => {
    timer = 0;
    refetch();
  }, Math.max(0, rest));
}

// -- the stream -------------------------------------------------------------------------------------

function say(state, text) {
  live.hidden = false;
  root.dataset.stream = state; // what a page says of now is unknown while the stream is cut
  if (live.dataset.state === state && live.textContent === text) return;
  live.dataset.state = state;
  live.textContent = text;
}

function showPause() {
  const missed = Math.max(0, newest - shown);
  pauseButton.textContent = paused ? `Resume${missed ? ` · ${missed} new events` : ""}` : "Pause";
  pauseButton.setAttribute("aria-pressed", String(paused));
}

function heard(seq) {
  const first = shown < 0;
  newest = seq;
  if (first) shown = seq; // the page may be older than the stream: it is refetched once
  if (paused) showPause();
  else if (first || seq !== shown) schedule();
}

function connect() {
  stop();
  if (document.hidden) return;
  source = new EventSource(`/v1/events/stream?every_ms=${COALESCE_MS}`);
  source.addEventListener("newest", (event) => {
    failures = 0;
    say(paused ? "paused" : "live", paused ? "Paused" : "Live");
    heard(Number(event.data));
  });
  source.onerror = () => {
    stop();
    say("cut", "Not live");
    const wait = BACK_OFF_MS[Math.min(failures, BACK_OFF_MS.length - 1)];
    failures += 1;
    shown = Math.min(shown, newest - 1); // whatever happened meanwhile is fetched again
    source = { close: clearTimeout.bind(null, setTimeout(connect, wait * (0.75 + Math.random() / 2))) };
  };
  quiet = setInterval(() => {
    if (performance.now() - lastMs >= QUIET_MS) schedule();
  }, QUIET_MS / 4);
}

function stop() {
  source?.close();
  source = null;
  clearInterval(quiet);
  clearTimeout(timer);
  timer = 0;
}

function togglePause() {
  paused = !paused;
  showPause();
  if (live.dataset.state !== "cut") say(paused ? "paused" : "live", paused ? "Paused" : "Live");
  if (!paused) schedule();
}

root.dataset.script = ""; // shows what needs a script
addEventListener("keydown", ({ key, target }) => {
  const form = key === "Escape" && target.closest("details.confirm[open]");
  if (!form) return;
  form.open = false;
  form.querySelector("summary").focus();
});
addEventListener("change", ({ target }) => {
  for (const each of target.dataset.all ? document.getElementsByName(target.dataset.all) : []) each.checked = target.checked;
});

// On a phone the navigation scrolls sideways.
document.querySelector(".top [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
setClock(root);
tick();
setInterval(() => !document.hidden && !paused && tick(), TICK_MS);
if (live && document.querySelector("[data-live]")) {
  pauseButton.hidden = false;
  pauseButton.addEventListener("click", togglePause);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) stop();
    else {
      connect();
      schedule();
    }
  });
  addEventListener("online", connect);
  addEventListener("pagehide", stop);
  addEventListener("pageshow", (event) => event.persisted && connect());
  connect();
}
