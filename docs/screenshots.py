"""Takes the pictures of the dashboard that the documentation shows: `python -m docs.screenshots [NAME …]`.

They show the store of the tests of pages (`tests/dashboard/whole_scene.py`), in the same browser.
"""

from __future__ import annotations

import struct
import sys
import tempfile
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect, sync_playwright

from interlock.core.row import NamedTuple
from tests.browser.chromium import EXECUTABLE, PHONE, Browsing
from tests.dashboard.whole_scene import WholeScene, whole_site

FOLDER = Path(__file__).parent / "images"
#: Larger pictures make the repository heavy.
SIZE_MAX_BYTES = 150_000
_DESKTOP = {"width": 1280, "height": 740}
_TALL = {"width": 1280, "height": 1320}


#: Give each point of a picture the nearest of its most frequent colours; no two of these are alike.
_REDUCE = """async (png) => {
  const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${png}`)).blob());
  const { width, height } = image;
  const canvas = new OffscreenCanvas(width, height).getContext("2d");
  canvas.drawImage(image, 0, 0);
  const points = new Uint32Array(canvas.getImageData(0, 0, width, height).data.buffer);
  const counts = new Map();
  for (const point of points) counts.set(point, (counts.get(point) ?? 0) + 1);
  const parts = (point) => [point & 255, (point >> 8) & 255, (point >> 16) & 255];
  const away = ([r, g, b]) => ([x, y, z]) => (x - r) ** 2 + (y - g) ** 2 + (z - b) ** 2;
  const palette = [];
  for (const [point] of [...counts].sort((a, b) => b[1] - a[1])) {
    const unlike = palette.map(away(parts(point))).every((far) => far > 64);
    if (unlike && palette.length < 256) palette.push(parts(point));
  }
  const places = new Map();
  for (const point of counts.keys()) {
    const far = palette.map(away(parts(point)));
    places.set(point, far.indexOf(Math.min(...far)));
  }
  let text = "";
  for (const point of points) text += String.fromCharCode(places.get(point));
  return { width, height, palette, points: btoa(text) };
}"""


class Shot(NamedTuple):
    """A picture: the route of its page, and how it is shown."""

    route: str
    options: Mapping[str, Any] = {}
    #: The part of the page to show; what fits on the screen if empty.
    part: str = ""
    viewport: Mapping[str, int] = _DESKTOP


SHOTS: Mapping[str, Shot] = {
    "overview": Shot("/", viewport=_TALL),
    "item": Shot("/items/{item}"),
    "lane": Shot("/lane"),
    "runs": Shot("/runs"),
    "plan": Shot("/plans/{plan}"),
    "events": Shot("/events"),
    "effects": Shot("/effects"),
    "recap": Shot("/recap"),
    "tokens": Shot("/settings", part="#tokens"),
    "phone": Shot("/items/{item}", viewport=PHONE),
}


@contextmanager
def taken(names: Sequence[str]) -> Iterator[Iterator[tuple[str, bytes]]]:
    """The pictures of these names."""
    with (
        tempfile.TemporaryDirectory() as folder,
        whole_site(Path(folder) / "interlock.db") as (site, scene),
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=EXECUTABLE, args=["--no-sandbox"])
        blank = browser.new_page()

        service = site.server.service
        token = service.create_token("anna", scope="admin").id

        def each() -> Iterator[tuple[str, bytes]]:
            for name in names:
                shot = SHOTS[name]
                browsing = Browsing(browser, site, viewport=shot.viewport, **shot.options)
                scene.go_on(site)
                page = browsing.tab()
                page.goto(service.sign_in_link(caller=token).path)
                picture = _picture(page, scene, shot)
                browsing.close()
                yield name, _reduced(blank, picture)

        yield each()
        browser.close()


def _picture(page: Page, scene: WholeScene, shot: Shot) -> bytes:
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/")
    page.goto(scene.address(shot.route))
    if page.locator("[data-live]").count():
        expect(page.locator("#live")).to_have_text("Live")
    shown = page.locator(shot.part) if shot.part else page
    return shown.screenshot(animations="disabled")


def _reduced(blank: Page, picture: bytes) -> bytes:
    """The same picture with a palette, of a third of the size."""
    found = blank.evaluate(_REDUCE, b64encode(picture).decode())
    width, height, points = found["width"], found["height"], b64decode(found["points"])
    rows = b"".join(b"\0" + points[start : start + width] for start in range(0, len(points), width))
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
        (b"PLTE", bytes(part for colour in found["palette"] for part in colour)),
        (b"IDAT", zlib.compress(rows, 9)),
        (b"IEND", b""),
    )
    made = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(made)


def main(names: Sequence[str]) -> None:
    """Take pictures, and write them into `docs/images`."""
    FOLDER.mkdir(exist_ok=True)
    with taken(names or list(SHOTS)) as pictures:
        for name, picture in pictures:
            (FOLDER / f"{name}.png").write_bytes(picture)
            large = ": too large" if len(picture) > SIZE_MAX_BYTES else ""
            print(f"{name}.png has {len(picture):,} bytes{large}")


if __name__ == "__main__":
    main(sys.argv[1:])
