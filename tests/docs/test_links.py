"""Every link leads somewhere, and every page can be found."""

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from docs.generate import ROOT, pages
from tests.docs.pages import WRITTEN, anchors, links, name_of

#: Where a link may lead out of the repository. Any other host is a mistake, or nobody's business.
HOSTS = {
    "keepachangelog.com",
    "semver.org",
    "www.standardwebhooks.com",
    # The public documentation of agents that are run under a lease.
    "code.claude.com",
    "developers.openai.com",
    "docs.github.com",
    "geminicli.com",
    # The same of clients that take in tools, and of their protocol.
    "code.visualstudio.com",
    "cursor.com",
    "modelcontextprotocol.io",
}
EXAMPLES = {"example.com", "localhost", "127.0.0.1", "host", "user"}
#: Resources of the Model Context Protocol have addresses of their own.
OURS = ("interlock://",)


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_every_link_leads_somewhere(page: Path):
    for link in links(page):
        if "://" in link:
            assert urlsplit(link).hostname in HOSTS, link
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{name_of(page)} links to {link}, which is not there"
        # The pages are also built as a site, which has nothing else of the repository.
        home = ROOT / "docs" if page.is_relative_to(ROOT / "docs") else ROOT
        assert target.is_relative_to(home), f"{name_of(page)} links out of {home.name}: {link}"
        if anchor:
            assert anchor in anchors(target), f"{name_of(page)} links to {link}, which has no such heading"


@pytest.mark.parametrize("page", WRITTEN, ids=name_of)
def test_no_address_leads_to_an_unknown_host(page: Path):
    text = page.read_text("utf-8")
    for ours in OURS:
        text = text.replace(ours, "")
    for host in re.findall(r"\b\w[\w+.-]*://(?:[^\s@/`\"']*@)?([\w.-]+)", text):
        example = host in EXAMPLES or host.endswith(".example.com")
        assert example or host in HOSTS, f"{name_of(page)} names {host}"


def test_every_page_can_be_reached_from_the_readme():
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached or not page.exists():
            continue
        reached.add(page)
        paths = (link.partition("#")[0] for link in links(page) if "://" not in link)
        waiting += [(page.parent / path).resolve() for path in paths if path.endswith(".md")]
    assert set(pages()) <= reached, "link the page from docs/README.md"
