"""An hour of a fleet: four scripted agents in a toy repository, with faults, against a plain model.

All is real: the server, the fleet, its workers, git, the agents' processes. Only the store's clock is the
test's. It stands still while agents work, and is stepped once all have settled. So an hour takes less than a
minute, no lease depends on the speed of the machine, and what the recap says of times is exact.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest

from interlock.proof.checker import History
from interlock.service.contract import ItemFilter, Service
from tests.acceptance.fleet_hour.model import Added, Model, of_recap
from tests.faults.stores import broken, read_log, statuses
from tests.fleets import FleetSite, gone, make_site, wait_until
from tests.git_fixtures import clone, git, git_identity, make_bare, seed
from tests.http.up import Up
from tests.patience import PATIENCE_S

__all__ = ["git_identity"]

HERE = Path(__file__).parent / "fleet_hour"
NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)
AGENTS = {"coder": 2, "reviewer": 1, "analyst": 1, "trainee": 1}
PLAN = "issue:acme/toy#4"


class SteppedUp(Up):
    """The server, on a clock that the test steps."""

    program = (sys.executable, str(HERE / "stepped_server.py"))


class Hour:
    """The toy repository, its server and its fleet, and what was asked of them."""

    def __init__(self, directory: Path) -> None:
        self.clock, self.journal, self.gates = (directory / name for name in ("clock", "journal", "gates"))
        self.gates.mkdir()
        self.journal.touch()
        self.step_to(0)
        bare = make_bare(directory / "srv" / "toy.git")
        seed(bare, directory / "seed", {"agents.py": (HERE / "agents.py").read_text()})
        self.origin, toy = bare, clone(str(bare), directory / "toy")
        self.server = SteppedUp(directory, STEPPED_CLOCK=str(self.clock))
        self.site: FleetSite = make_site(
            toy, {"INTERLOCK_URL": self.server.url, "XDG_CONFIG_HOME": str(directory / "config")}
        )
        self.service: Service = self.server.client()
        self.added: list[Added] = []
        self.replaced: dict[int, int] = {}
        #: The status of each item by its title, and its number of runs.
        self.expected: dict[str, tuple[str, int]] = {}

    def close(self) -> None:
        self.site.close()
        for client in self.server.clients:
            client.close()
        if self.server.process.poll() is None:
            self.server.end()

    # -- time -------------------------------------------------------------------------------------------

    def step_to(self, minute: int) -> None:
        """The clock shows so many minutes past noon."""
        new = self.clock.with_suffix(".new")
        new.write_text(str(round((NOON + timedelta(minutes=minute)).timestamp()) * 1_000_000))
        new.replace(self.clock)

    # -- work -------------------------------------------------------------------------------------------

    def add(self, agent: str, title: str, *options: str) -> int:
        """Add an item for an agent."""
        answer = self.site.il.ok("add", title, "--agent", agent, *options)
        assert answer["decision"] in ("admitted", "queued", "superseding"), answer
        item = int(answer["item"]["id"])
        self.added.append(Added(item, title, agent, int(self.clock.read_text())))
        return item

    def settle(self, expected: dict[str, tuple[str, int]]) -> None:
        """Wait until each item has this status and has had so many runs, by the store and by the journal.
        Items that are not named here must be as they were."""

        def is_so() -> bool:
            time.sleep(0.2)  # the machine is the agents'
            found = self.found()
            return all(found[title] == state for title, state in self.expected.items())

        self.expected |= expected
        try:
            wait_until(is_so, "")
        except AssertionError:
            found = self.found()
            wrong = {t: (found[t], state) for t, state in self.expected.items() if found[t] != state}
            raise AssertionError(f"(found, expected): {wrong}") from None

    def found(self) -> dict[str, tuple[str, int]]:
        """The status of each item, and its number of runs that an agent has begun."""
        runs = Counter(line["item"] for line in self.model().starts)
        return {
            item.title: (item.status, runs[item.id])
            for item in self.service.items(ItemFilter(all=True, limit=500))
        }

    def model(self) -> Model:
        return Model(self.added, self.replaced, self.journal)

    def item(self, title: str) -> int:
        (item,) = (each.item for each in self.added if each.title == title)
        return item

    def until_journal_says(self, what: str, title: str) -> None:
        item = self.item(title)

        def is_so() -> bool:
            return any(line["item"] == item for line in self.model().of(what))

        wait_until(is_so, f"{title}: {what}")

    def agents_alive(self) -> list[list[str]]:
        """The processes of agents, whichever worker started them."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                words = process.cmdline()
                if "agents.py" in words and process.cwd().startswith(str(self.site.directory.resolve())):
                    found.append(words)
        return found

    def check_recap(self) -> dict[str, Any]:
        """The recap of the hour agrees with the model of it."""
        said = self.site.il("--json", "recap", "--since", "1h", "--limit", "100")
        assert said.code == 0, said
        model = self.model().recap()
        model["needs"] |= {("question", each["item"]) for each in self.model().unanswered}
        found = of_recap(said.json)
        assert {key: (found[key], model[key]) for key in model if found[key] != model[key]} == {}
        return dict(said.json)


@pytest.fixture
def hour(tmp_path: Path) -> Iterator[Hour]:
    made = Hour(tmp_path)
    yield made
    made.close()


def fleet_file(hour: Hour) -> str:
    workers = (
        f"[workers.{agent}]\n"
        f'command = ["{sys.executable}", "agents.py", "{agent}"]\n'
        f'max = {most}\nlease = "4h"\nworktree = {str(agent == "coder").lower()}\n'
        for agent, most in AGENTS.items()
    )
    environment = {"JOURNAL": hour.journal, "STEPPED_CLOCK": hour.clock, "GATES": hour.gates}
    lines = (f'{name} = "{value}"\n' for name, value in environment.items())
    return "".join(("[environment]\n", *lines, *workers))


@pytest.mark.slow
def test_the_recap_of_an_hour_with_faults_agrees_with_a_plain_model(hour: Hour) -> None:
    site, il, service = hour.site, hour.site.il, hour.service
    il.ok("budget", "set", "agent:analyst", "--usd", "1.00")
    (hour.gates / "used-up").touch()
    coder, lane = "coder", "--lane"
    hour.add(coder, "Fix the login", lane, "issue:acme/toy#1")
    hour.add(coder, "Fix the search", lane, "issue:acme/toy#1")
    hour.add(coder, "Fix the flaky test", lane, "issue:acme/toy#2")
    hour.add(coder, "Import the invoices")
    hour.add(coder, "Build for an hour", lane, "issue:acme/toy#3")
    hour.add("reviewer", "Review the login")
    first = hour.add("reviewer", "Review the plan", lane, PLAN, "--policy", "supersede")
    hour.add("trainee", "Choose a branch", lane, "issue:acme/toy#5")
    hour.add("trainee", "Write it down", lane, "issue:acme/toy#5")
    weeks = [f"Analyse week {n}" for n in range(1, 6)]
    for week in weeks:
        hour.add("analyst", week)

    # 12:02. All begin. The reviewer's provider has no more for it until 12:22, the trainee asks, and the
    # analyst's budget is used up by its third item.
    hour.step_to(2)
    site.write(fleet_file(hour))
    site.up()
    hour.settle(
        {
            "Fix the login": ("completed", 1),
            "Fix the search": ("completed", 1),
            "Fix the flaky test": ("waiting", 1),
            "Import the invoices": ("waiting", 1),
            "Build for an hour": ("in_progress", 1),
            "Review the login": ("waiting", 1),
            "Review the plan": ("pending", 0),
            "Choose a branch": ("in_progress", 1),
            "Write it down": ("deferred", 0),
            **dict.fromkeys(weeks[:3], ("completed", 1)),
            **dict.fromkeys(weeks[3:], ("pending", 0)),
        }
    )
    hour.until_journal_says("asked", "Choose a branch")
    hour.until_journal_says("waits", "Build for an hour")
    hour.replaced[first] = hour.add("reviewer", "Review the new plan", lane, PLAN, "--policy", "supersede")
    hour.settle({"Review the plan": ("superseded", 0), "Review the new plan": ("pending", 0)})
    why = il.ok("why", hour.item(weeks[3]))["why"]
    assert "the budget of agent analyst is used up ($1.20 of $1.00 per day)" in why
    before = {each["worker"]: each["pid"] for each in site.status()["workers"]}

    # 12:05. The fleet's supervisor is killed. Its workers go on, and the next one adopts them.
    site.supervisors[-1].kill()
    site.supervisors[-1].wait(PATIENCE_S)
    hour.step_to(5)
    hour.add(coder, "Fix the footer", lane, "issue:acme/toy#1")
    hour.settle(
        {
            "Fix the footer": ("completed", 1),
            "Fix the flaky test": ("completed", 2),
            "Import the invoices": ("waiting", 2),
        }
    )
    site.up()
    adopted = site.status()["workers"]
    assert {each["worker"]: each["pid"] for each in adopted} == before
    assert {each["restarts"] for each in adopted} == {0}

    # 12:10. The server is killed, and a run ends while it is away.
    hour.step_to(10)
    hour.settle({"Import the invoices": ("failed", 3)})
    hour.server.kill()
    (hour.gates / "Build-for-an-hour").touch()
    hour.until_journal_says("end", "Build for an hour")
    hour.server.start()
    hour.settle({"Build for an hour": ("completed", 1)})

    # 12:21 is a minute before the limit ends, 12:23 a minute after it.
    hour.step_to(21)
    hour.settle({})
    hour.step_to(23)
    hour.settle({"Review the login": ("completed", 2), "Review the new plan": ("completed", 1)})

    # 12:30. A person answers.
    hour.step_to(30)
    assert hour.check_recap()["needs_counts"] == {"question": 1, "dead_letter": 1}
    il.ok("msg", hour.item("Choose a branch"), "main")
    hour.settle({"Choose a branch": ("completed", 1), "Write it down": ("completed", 1)})
    assert [line["answers"] for line in hour.model().of("answered")] == [["main"]]

    # 12:40. The budget is raised.
    hour.step_to(40)
    hour.settle({})
    il.ok("budget", "set", "agent:analyst", "--usd", "5.00")
    hour.settle(dict.fromkeys(weeks[3:], ("completed", 1)))

    # 12:50. The fleet goes down while an agent works.
    hour.step_to(50)
    hour.add(coder, "Build for ever", lane, "issue:acme/toy#6")
    hour.settle({"Build for ever": ("in_progress", 1)})
    hour.until_journal_says("waits", "Build for ever")
    hour.step_to(55)
    site.down()
    hour.settle({"Build for ever": ("pending", 1)})
    hour.step_to(59)
    assert hour.check_recap()["needs_counts"] == {"dead_letter": 1}

    # Nothing is left running.
    model = hour.model()
    assert site.processes() == []
    assert hour.agents_alive() == []
    assert [each.lane for each in service.lanes() if each.holder is not None and each.holder.run] == []
    assert service.workers() == []
    wait_until(lambda: gone(site.supervisors[-1].pid), "its supervisor has ended")

    # No item was worked on twice at once, none finished twice, and nothing ran before its time.
    assert (model.overlaps(), model.twice()) == ([], [])
    (limit,) = model.of("limit")
    assert model.early(limit) == []
    spent = [each for each in service.spending() if each.scope == "agent"]
    assert {s.name: (s.usd, s.input_tokens, s.output_tokens) for s in spent} == model.costs()
    pushed = [line["item"] for line in model.of("pushed")]
    branches = git(hour.origin, "for-each-ref", "--format=%(refname:short)", "refs/heads/agent").split()
    assert sorted(branches) == sorted(f"agent/item-{item}" for item in pushed)

    # The history keeps all promises.
    assert not broken(service.doctor())
    hour.server.end()
    url = f"sqlite:///{hour.server.directory / 'store.db'}"
    history = History(read_log(url))
    history.check_inputs([each.item for each in hour.added])
    history.check_acknowledged([(line["run"], line["item"]) for line in model.ended("done")])
    history.check_store(statuses(url))
    history.check_times()
    assert history.violations == []
    assert history.kinds["clock.stepped"] == 0
