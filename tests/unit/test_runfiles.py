"""Which store a run is of, told from the URL."""

from pathlib import Path

import pytest

from interlock.worker.rundirectory import Home


def store(url: str) -> str:
    return Home(Path("/x"), url).store


@pytest.mark.parametrize(
    "url",
    [
        "postgres://db.example.com/app",
        "postgresql://db.example.com:5432/app",
        "postgres://ada:secret@DB.example.com:5432/app",
        "postgresql://db.example.com/app?sslmode=require&application_name=x",
    ],
)
def test_one_database_is_one_store_however_its_url_is_spelled(url):
    assert store(url) == store("postgresql://db.example.com/app")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://db.example.com:5433/app",
        "postgresql://db.example.com:15432/app",
        "postgresql://db.example.com/App",
        "postgresql://other.example.com/app",
        "postgresql://db.example.com/app?options=-csearch_path%3Dx",
        "postgresql:///app?host=/run/postgresql",
    ],
)
def test_another_database_is_another_store(url):
    assert store(url) != store("postgresql://db.example.com/app")


def test_other_urls_are_taken_as_they_are_but_for_who_logs_in():
    assert store("git+https://ada:token@x/app.git") == store("git+https://x/app.git")
    assert store("sqlite:///a.db") != store("sqlite:///A.db")
