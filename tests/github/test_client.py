"""The client against the fake on real HTTP: each rule with the fault that tests it. Time is the fake's."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from interlock.core.errors import (
    GitHubLimited,
    GitHubRefused,
    GitHubUnavailable,
    InterlockError,
    InvalidInput,
)
from interlock.github.cache import MemoryCache
from interlock.github.client import (
    ELSEWHERE_BYTES_MAX,
    GitHub,
    checked_url,
    from_environment,
)
from interlock.github.limits import Limits
from interlock.github.tokens import AppToken, GitHubToken, PlainToken
from interlock.github.tokens import from_environment as token_from_environment
from tests.github.fake import FakeGitHub, Repository
from tests.github.fixtures import key_pair

ISSUE = "/repos/{+repo}/issues/{number}"
COMMENTS = ISSUE + "/comments"
APP = "acme/app"


class Clients:
    """Makes clients whose sleeps move the fake's clock, and are listed."""

    def __init__(self, github: FakeGitHub) -> None:
        self.github, self.slept, self._made = github, list[float](), list[GitHub]()

    def make(self, token: GitHubToken | None = None, **options: Any) -> GitHub:
        clock = self.github.clock
        chosen = token or PlainToken(self.github.token("alice"))
        made = GitHub(chosen, api_url=self.github.api_url, clock=clock, sleep=self._sleep, **options)
        self._made.append(made)
        return made

    def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.github.clock.advance(seconds)

    def close(self) -> None:
        for made in self._made:
            made.close()


@pytest.fixture
def clients(github: FakeGitHub, repo: Repository) -> Iterator[Clients]:
    clients = Clients(github)
    repo.issue("one", by="carol")
    yield clients
    clients.close()


@pytest.fixture
def client(clients: Clients) -> GitHub:
    return clients.make()


# Reading


def test_the_end_of_a_file_elsewhere_is_read_without_the_token(github: FakeGitHub, client: GitHub) -> None:
    """The fake's storage refuses a token, as the real one does; a long file costs its end only."""
    github.files["/_files/short"] = b"0123456789"
    github.files["/_files/long"] = b"x" * (ELSEWHERE_BYTES_MAX + 1) + b"the end"
    base = f"{github.html_url}/_files"
    assert client.end_of(f"{base}/short?signature=1", 4) == b"6789"
    assert client.end_of(f"{base}/long", 7) == b"the end"
    with pytest.raises(GitHubRefused, match="did not serve"):
        client.end_of(f"{base}/none", 4)
    with pytest.raises(InvalidInput, match="https"):
        client.end_of("http://storage.example.com/x", 4)
    with pytest.raises(GitHubUnavailable):
        client.end_of("http://127.0.0.1:9/x", 4)


def test_an_unchanged_answer_costs_nothing(github: FakeGitHub, repo: Repository, client: GitHub) -> None:
    first = client.get(ISSUE, repo=APP, number=1)
    left = client.limits.remaining()
    again = client.get(ISSUE, repo=APP, number=1)
    assert (again.unchanged, again.body) == (True, first.body)
    assert github.requests[-1][2] == 304
    assert client.limits.remaining() == left
    repo.numbers[1].edit(by="carol", title="two")
    changed = client.get(ISSUE, repo=APP, number=1)
    assert (changed.unchanged, changed.body["title"]) == (False, "two")


def test_another_account_does_not_see_what_was_kept_for_the_first(
    clients: Clients, github: FakeGitHub
) -> None:
    cache = MemoryCache()
    clients.make(cache=cache).get(ISSUE, repo=APP, number=1)
    other = clients.make(PlainToken(github.token("bob")), cache=cache)
    assert other.get(ISSUE, repo=APP, number=1).unchanged is False


def test_a_cache_forgets_what_was_used_least(clients: Clients, repo: Repository) -> None:
    repo.issue("two", by="carol")
    client = clients.make(cache=MemoryCache(entries_max=1))
    for number in (1, 2, 1):
        assert client.get(ISSUE, repo=APP, number=number).unchanged is False
    assert client.get(ISSUE, repo=APP, number=1).unchanged is True


def test_pages_end_at_their_bound(github: FakeGitHub, repo: Repository, client: GitHub) -> None:
    for number in range(9):
        repo.issue(f"issue {number}", by="carol")

    def numbers(limit: int) -> list[int]:
        found = client.pages("/repos/{+repo}/issues", limit=limit, query={"per_page": 3}, repo=APP)
        return [issue["number"] for issue in found]

    assert numbers(100) == list(range(10, 0, -1))
    assert numbers(4) == [10, 9, 8, 7]
    assert client.counted["GET", "/repos/{repo}/issues"] == 4 + 2
    repo.run("ci.yml")
    runs = client.pages("/repos/{+repo}/actions/runs", limit=5, within="workflow_runs", repo=APP)
    assert [run["event"] for run in runs] == ["push"]


def test_a_renamed_repository_is_followed(github: FakeGitHub, repo: Repository, client: GitHub) -> None:
    client.get(ISSUE, repo=APP, number=1)
    repo.rename("app2", by="boss")
    assert client.get(ISSUE, repo=APP, number=1).moved
    written = client.send("PATCH", ISSUE, {"title": "two"}, repo=APP, number=1)
    assert (written.moved, repo.numbers[1].title) == (True, "two")


def test_a_token_is_not_sent_to_another_host(github: FakeGitHub, client: GitHub) -> None:
    github.faults.refuse(301, "Moved Permanently", headers={"location": "http://127.0.0.2:1/x"})
    with pytest.raises(GitHubRefused, match="another host") as caught:
        client.get(ISSUE, repo=APP, number=1)
    assert "127.0.0.2" in str(caught.value)
    github.faults.refuse(301, "Moved Permanently", headers={"location": "/repos/acme/app"}, times=9)
    with pytest.raises(GitHubRefused, match="in a loop"):
        client.get(ISSUE, repo=APP, number=1)


def test_logs_are_an_address(repo: Repository, client: GitHub) -> None:
    run = repo.run("ci.yml")
    answer = client.get("/repos/{+repo}/actions/runs/{run}/logs", repo=APP, run=run.id)
    assert answer.status == 302
    assert answer.location is not None


def test_the_new_api_version_is_asked_for(repo: Repository, client: GitHub) -> None:
    repo.workflow("agent.yml")
    path = "/repos/{+repo}/actions/workflows/{file}/dispatches"
    made = client.send("POST", path, {"ref": "main"}, repo=APP, file="agent.yml")
    assert (made.status, made.body["workflow_run_id"]) == (200, next(iter(repo.workflow_runs)))
    assert "assignee" not in client.get(ISSUE, repo=APP, number=1).body


# Refusals


@pytest.mark.parametrize(
    ("number", "status", "words"), [(99, 404, "Not Found"), (2, 410, "This issue was deleted")]
)
def test_a_refusal_is_one_sentence_and_a_hint(
    repo: Repository, client: GitHub, number: int, status: int, words: str
) -> None:
    repo.issue("two", by="carol").delete(by="boss")
    with pytest.raises(GitHubRefused) as caught:
        client.get(ISSUE, repo=APP, number=number)
    assert caught.value.status == status
    assert f"refused GET /repos/{{repo}}/issues/{{number}} ({status}): {words}." in caught.value.sentence
    assert caught.value.hint


def test_a_lost_race_for_a_ref_is_422(repo: Repository, client: GitHub) -> None:
    body = {"ref": "refs/interlock/x", "sha": repo.refs()["refs/heads/main"]}
    assert client.send("POST", "/repos/{+repo}/git/refs", body, repo=APP).status == 201
    with pytest.raises(GitHubRefused, match="Reference already exists") as caught:
        client.send("POST", "/repos/{+repo}/git/refs", body, repo=APP)
    assert caught.value.status == 422


# Limits


@pytest.mark.parametrize("status", [403, 429])
def test_a_pause_that_is_asked_for_is_made(
    github: FakeGitHub, clients: Clients, client: GitHub, status: int
) -> None:
    github.faults.throttle(status=status, retry_after_s=7, times=2)
    assert client.send("POST", COMMENTS, {"body": "x"}, repo=APP, number=1).status == 201
    assert clients.slept == pytest.approx([7, 7], abs=1)


def test_a_pause_beyond_our_patience_is_an_error_and_nothing_is_sent_meanwhile(
    github: FakeGitHub, client: GitHub
) -> None:
    github.faults.throttle(retry_after_s=100)
    with pytest.raises(GitHubLimited, match="pause") as caught:
        client.get(ISSUE, repo=APP, number=1)
    assert 99 <= caught.value.wait_s <= 100
    asked = len(github.requests)
    with pytest.raises(GitHubLimited):
        client.get("/repos/{+repo}", repo=APP)
    assert len(github.requests) == asked
    github.clock.advance(100)
    assert client.get(ISSUE, repo=APP, number=1).status == 200


def test_a_pause_of_no_stated_length_is_a_minute_and_doubles(github: FakeGitHub, clients: Clients) -> None:
    client = clients.make(patience_s=1000)
    github.faults.throttle(retry_after_s=None, times=2)
    client.get(ISSUE, repo=APP, number=1)
    assert clients.slept == pytest.approx([60, 120], abs=1)


def test_limits_that_never_end_are_an_error(github: FakeGitHub, clients: Clients) -> None:
    client = clients.make()
    github.faults.throttle(retry_after_s=0, times=1000)
    with pytest.raises(GitHubLimited):
        client.get(ISSUE, repo=APP, number=1)
    assert len(github.requests) < 10


def test_a_used_up_allowance_says_when_it_is_back(github: FakeGitHub, client: GitHub) -> None:
    github.faults.limits.hourly["user"] = 2
    client.get(ISSUE, repo=APP, number=1)
    client.get("/repos/{+repo}", repo=APP)
    with pytest.raises(GitHubLimited, match="rate limit") as caught:
        client.get("/repos/{+repo}/labels", repo=APP)
    assert 3590 <= caught.value.wait_s <= 3600
    github.clock.advance(caught.value.wait_s + 1)
    assert client.get(ISSUE, repo=APP, number=1).unchanged


def test_a_reserve_is_kept_for_people(github: FakeGitHub, repo: Repository, client: GitHub) -> None:
    """Taking the reserve out of `Limits.wait` lets the last read go through: seen once."""
    github.faults.limits.hourly["user"] = 20
    for number in range(2, 20):
        repo.issue(f"issue {number}", by="carol")
        assert client.get(ISSUE, repo=APP, number=number).status == 200
    with pytest.raises(GitHubLimited, match="reserved for people"):
        list(client.pages("/repos/{+repo}/issues", limit=5, background=True, repo=APP))
    assert client.get(ISSUE, repo=APP, number=1).status == 200, "a person still may"


def test_a_search_has_a_limit_of_its_own(github: FakeGitHub, clients: Clients) -> None:
    github.faults.limits.searches_per_minute = 1
    client = clients.make(patience_s=100)
    for _ in range(2):
        client.get("/search/issues", query={"q": "repo:acme/app is:issue"})
        client.get(ISSUE, repo=APP, number=1)
    assert clients.slept == pytest.approx([60], abs=2)


def test_a_wrong_clock_here_changes_no_pause(github: FakeGitHub, clients: Clients) -> None:
    ahead = Limits(clock=lambda: github.clock() + 86_400)
    client = clients.make(limits=ahead)
    github.faults.limits.hourly["user"] = 1
    client.get(ISSUE, repo=APP, number=1)
    with pytest.raises(GitHubLimited) as caught:
        client.get("/repos/{+repo}", repo=APP)
    assert 3590 <= caught.value.wait_s <= 3600
    assert ahead.skew_s == pytest.approx(-86_400, abs=2)


# Faults


def test_a_write_whose_answer_was_lost_is_not_repeated(
    github: FakeGitHub, repo: Repository, client: GitHub
) -> None:
    """It is repeated, and the comment is there twice, if `_answered` does not ask `uncertain`: seen once."""
    github.faults.lose_answers(on="POST")
    with pytest.raises(GitHubUnavailable) as caught:
        client.send("POST", COMMENTS, {"body": "x"}, repo=APP, number=1)
    assert caught.value.uncertain
    assert len(repo.numbers[1].comments) == 1


def test_a_write_that_is_harmless_to_repeat_is_repeated(
    github: FakeGitHub, repo: Repository, clients: Clients, client: GitHub
) -> None:
    github.faults.lose_answers(on="POST", times=2)
    reactions = ISSUE + "/reactions"
    answer = client.send("POST", reactions, {"content": "eyes"}, again=True, repo=APP, number=1)
    assert (answer.status, len(repo.numbers[1].reactions)) == (200, 1)
    assert [round(seconds) for seconds in clients.slept] == [1, 2]
    github.faults.lose_answers(on="DELETE")
    with pytest.raises(GitHubRefused) as caught:
        client.send("DELETE", reactions + "/{id}", repo=APP, number=1, id=answer.body["id"])
    assert caught.value.status == 404, "it was taken away by the first try"


def test_faults_of_the_server_are_borne_by_reads_only(
    github: FakeGitHub, repo: Repository, client: GitHub
) -> None:
    github.faults.fail(502, times=2)
    assert client.get(ISSUE, repo=APP, number=1).status == 200
    github.faults.fail(502, on="POST")
    with pytest.raises(GitHubUnavailable, match="502") as caught:
        client.send("POST", COMMENTS, {"body": "x"}, repo=APP, number=1)
    assert caught.value.uncertain
    with github.faults.outages(), pytest.raises(GitHubUnavailable, match="503"):
        client.get(ISSUE, repo=APP, number=1)
    assert client.counted["GET", "/repos/{repo}/issues/{number}"] == 3 + 4


def test_silence_ends_in_an_error(github: FakeGitHub, clients: Clients) -> None:
    client, until = clients.make(timeout_s=0.2, patience_s=0), threading.Event()
    github.faults.hold(until=until)
    try:
        with pytest.raises(GitHubUnavailable, match="did not answer in time"):
            client.get(ISSUE, repo=APP, number=1)
    finally:
        until.set()


def test_nobody_there_is_an_error_that_says_so() -> None:
    with (
        GitHub(PlainToken("x"), api_url="http://127.0.0.1:9", patience_s=0) as client,
        pytest.raises(GitHubUnavailable, match=r"GitHub at 127.0.0.1:9 cannot be reached") as caught,
    ):
        client.send("POST", "/user")
    assert not caught.value.uncertain, "nothing was sent"


# Tokens


def test_an_app_gets_a_token_and_renews_it(github: FakeGitHub, clients: Clients) -> None:
    private, public = key_pair()
    app = github.app_named("interlock", public_key=public)
    token = AppToken(
        app_id=str(app.id),
        installation_id=str(app.installation_id),
        private_key=private,
        clock=github.clock,
    )
    client = clients.make(token)
    made = client.send("POST", COMMENTS, {"body": "x"}, repo=APP, number=1)
    assert made.body["user"]["login"] == "interlock[bot]"
    client.get(ISSUE, repo=APP, number=1)
    renewals = ("POST", "/app/installations/{installation_id}/access_tokens")
    assert client.counted[renewals] == 1
    github.clock.advance(3400)
    client.get(ISSUE, repo=APP, number=1)
    assert client.counted[renewals] == 2, "five minutes before it ends"
    github.tokens.clear()
    client.get(ISSUE, repo=APP, number=1)
    assert client.counted[renewals] == 3, "GitHub refused it"


def test_a_wrong_key_is_said_without_showing_it(github: FakeGitHub, clients: Clients) -> None:
    app = github.app_named("interlock", public_key=key_pair()[1])
    numbers = {"app_id": str(app.id), "installation_id": str(app.installation_id)}
    wrong = key_pair()[0]
    with pytest.raises(GitHubRefused, match="refused the app a token"):
        clients.make(AppToken(**numbers, private_key=wrong, clock=github.clock)).get(
            "/repos/{+repo}", repo=APP
        )
    garbage = "-----BEGIN secret"
    with pytest.raises(InvalidInput, match="private key cannot be read") as caught:
        clients.make(AppToken(**numbers, private_key=garbage, clock=github.clock)).get(
            "/repos/{+repo}", repo=APP
        )
    assert garbage not in _everything(caught.value)


def test_a_wrong_clock_is_named_where_it_keeps_an_app_out(github: FakeGitHub, clients: Clients) -> None:
    private, public = key_pair()
    app = github.app_named("interlock", public_key=public)
    numbers = {"app_id": str(app.id), "installation_id": str(app.installation_id)}
    late = AppToken(**numbers, private_key=private, clock=lambda: github.clock() + 7200)
    client = clients.make(late, limits=Limits(clock=lambda: github.clock() + 7200))
    with pytest.raises(GitHubRefused, match=r"The clock here is 7,\d+ s off") as caught:
        client.get("/repos/{+repo}", repo=APP)
    assert caught.value.status == 401


def test_the_environment_names_the_token(tmp_path: Any) -> None:
    def kind(**environ: str) -> str | None:
        token = token_from_environment(environ, clock=lambda: 0)
        return None if token is None else token.kind

    assert kind() is None
    assert kind(GITHUB_TOKEN="x") == "user"
    assert kind(GITHUB_TOKEN="x", GITHUB_ACTIONS="true") == "actions"
    assert kind(GITHUB_TOKEN="x", GITHUB_ACTIONS="true", INTERLOCK_GITHUB_TOKEN="y") == "user"
    key = tmp_path / "app.pem"
    key.write_text("secret")
    app = {"INTERLOCK_GITHUB_APP_ID": "1", "INTERLOCK_GITHUB_APP_KEY_FILE": str(key)}
    assert kind(**app, INTERLOCK_GITHUB_APP_INSTALLATION="2") == "app"
    with pytest.raises(InvalidInput, match="needs its private key"):
        kind(**app)
    with pytest.raises(InvalidInput, match="No such file"):
        kind(INTERLOCK_GITHUB_APP_ID="1", INTERLOCK_GITHUB_APP_KEY_FILE=str(tmp_path / "none"))
    with pytest.raises(InvalidInput, match="No GitHub token"):
        from_environment({})
    with from_environment({"GITHUB_TOKEN": "x", "GITHUB_API_URL": "https://git.example.org/api/v3/"}) as made:
        assert repr(made) == "GitHub('https://git.example.org/api/v3', PlainToken(kind='user'))"


def test_a_token_never_travels_in_clear_text() -> None:
    for url in ("http://git.example.org", "ftp://x", "git.example.org", "https://me:secret@git.example.org"):
        with pytest.raises(InvalidInput, match="not an https URL") as caught:
            checked_url(url)
        assert "secret" not in str(caught.value)


def test_a_secret_is_in_no_text(github: FakeGitHub, repo: Repository, clients: Clients) -> None:
    secret = github.token("alice")
    client = clients.make(PlainToken(secret), patience_s=0, timeout_s=5)
    texts = [repr(client), repr(client.limits), repr(PlainToken(secret))]
    for fault in (
        lambda: github.faults.refuse(401, f"Bad credentials {secret}"),
        lambda: github.faults.refuse(403, f"no, {secret}"),
        lambda: github.faults.fail(500),
        github.faults.drop,
        lambda: github.faults.throttle(retry_after_s=99),
    ):
        fault()
        with pytest.raises(InterlockError) as caught:
            client.get(ISSUE, repo=APP, number=1)
        texts.append(_everything(caught.value))
    for bad in (f"{secret}\n", f"{secret} x", f"{secret}é"):
        with pytest.raises(InvalidInput) as wrong:
            PlainToken(bad)
        texts.append(_everything(wrong.value))
    assert not [text for text in texts if secret in text]


def _everything(error: BaseException | None) -> str:
    """An error's text and those of its causes, as a traceback shows them."""
    told = ""
    while error is not None:
        told += f"{error!r} {error} {getattr(error, 'hint', '')}\n"
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return told
