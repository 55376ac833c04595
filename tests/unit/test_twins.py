"""Statements of one name on SQLite and on PostgreSQL do the same, as far as a comparison of texts can tell.

Both texts are brought into one form: placeholders, types, casts, JSON operators, locks, hints to a planner
and other words of a dialect are taken out. What remains is equal, or `twins.toml` says why it is not, with
the words that only one of the two has: a condition that is added on one side is noticed there too.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.store import statements

SQL = {name: Path(statements.__file__).parent / name / "sql" for name in ("sqlite", "postgres")}
LISTED = tomllib.loads((Path(__file__).parent / "twins.toml").read_text("utf-8"))
#: Migrations of the two are numbered apart, and `tests/migration` compares the schemas that they make.
NAMES = {
    backend: {
        file.relative_to(folder).with_suffix("").as_posix()
        for file in folder.rglob("*.sql")
        if file.parent.name != "migrations"
    }
    for backend, folder in SQL.items()
}
TWINS = sorted(NAMES["sqlite"] & NAMES["postgres"])

Rule = tuple[str, str | Callable[[re.Match[str]], str]]
_TRUTHS = r"\b((?:\w+\.)?(?:blocked|doomed|followed|gated|gate_open|open))"
RULES: list[Rule] = [
    (r"--[^\n]*", " "),
    (r"\s+", " "),
    (r"\( ", "("),
    (r" \)", ")"),
    # Placeholders, schema and types.
    (r"%\((\w+)\)s", r":\1"),
    (r"\binterlock\.", ""),
    (r"(?<!\w)\(([^()]+)\)::\w+(\[\])?", r"\1"),
    (r"::\w+(\[\])?", ""),
    (r"\bcast\(round\(([^()]*)\) as \w+\)", r"\1"),
    (r"\bcast\(([^()]*) as \w+\)", r"\1"),
    (_TRUTHS + " = 1", r"\1"),
    (_TRUTHS + " = 0", r"not \1"),
    (r" <> '(\[\]|\{\})'", " <> ()"),
    # The time of the store, and the question whether this program may write.
    (r"coalesce\(:now_us, clock_us\(\)\)", ":now_us"),
    (r"\(select (:\w+)\)", r"\1"),
    (r"\bexpect\(\{schema\}\) and ", ""),
    (r" and expect\(\{schema\}\)", ""),
    (r" where (expect\(\{schema\}\)|true)(?=[ )]|$)", ""),
    (r" from \(select :now_us as now_us\) as clock", ""),
    (r"(?<![:.\w])(clock\.)?now_us\b", ":now_us"),
    # Lists.
    (r" = any ?\((:\w+)\)", r" in \1"),
    (r" = any ?(:\w+)", r" in \1"),
    (r" <> all ?\((:\w+)\)", r" not in \1"),
    (r" in \(select value from json_each\((:\w+)\)\)", r" in \1"),
    (r" = any ?\(array\((.*?)\)\)(?= returning|$)", r" in (\1)"),
    (r"\(select json_group_array\(\w+\) from \(([^()]*)\)\)", r"array(\1)"),
    (r"\b(group_concat|string_agg)\(", "joined("),
    (r"\b(?:r\.value|value|r) ->> ", "row ->> "),
    (r"\b(?:json_each|jsonb_array_elements)\(:rows\)( as)? r\b|\bjson_each\(:rows\)", "each(:rows)"),
    (r"\bjson_extract\(((?:\w+\.)?\w+), '\$\.(\w+)'\)", r"\1 ->> '\2'"),
    # Rows that are found by their keys or by where they are.
    (
        r"(\([\w, ]+\)|\b\w+) in \(select ([\w, ]+) from",
        lambda found: "key in (select key from" if found[1].strip("()") == found[2] else found[0],
    ),
    # Locks, hints to a planner, and orders of what is only counted.
    (r" for (no key )?update( of \w+)?( skip locked)?", ""),
    (r" as materialized \(", " as ("),
    (r" offset 0\b", ""),
    (r" limit \(select 9223372036854775807\)", ""),
    (r" (not indexed|indexed by \w+)", ""),
    (r' collate (nocase|"c")', ""),
    (r"(order by|where) \+", r"\1 "),
    (r"\bselect from\b", "select 1 from"),
    (r"(count\(\*\) from \(select 1 from (?:[^()]|\([^()]*\))*?) order by [^()]*?( limit)", r"\1\2"),
    (r"\bcross join\b", "join"),
    (r" between (\S+) and \1(?!\w)", r" = \1"),
    # The run of an item is there while it is in progress: the partial indexes name the one or the other.
    (r"\b(\w+\.)?run is not null", r"\1status = 'in_progress'"),
    # Names of derived tables, and of the table that is written.
    (r"\) as (?!\()\w+", ")"),
    (r"^ ?(insert into \w+) as \w+ ", r"\1 "),
    (r"^ ?update (\w+) as \w+ ", r"update \1 "),
    # Words of the dialects.
    (r"\bvalues \((.*?)\)(?= on conflict| returning|$)", r"select \1"),
    (r"\binsert or ignore (into .*?)( returning|$)", r"insert \1 on conflict do nothing\2"),
    (r"on conflict \([\w, ]+\) do", "on conflict do"),
    (r" returning [\w., *]+$", ""),
    (r" is not distinct from ", " is "),
    (r"\bgreatest\(", "max("),
    (r"\bleast\(", "min("),
    (r"\bifnull\(", "coalesce("),
    (r"\b(?:instr|strpos)\(", "position("),
    (r"\biif\(([^,()]+), ([^,()]+), ([^,()]+)\)", r"case when \1 then \2 else \3 end"),
    (r"\bsubstr\((.+?), 1, length\((:\w+)\)\) = \2", r"starts_with(\1, \2)"),
]


def one_form(text: str) -> str:
    """What a statement says, without what only its database needs."""
    text = text.lower()
    written = re.search(r"^\W*(?:insert into|update) (?:interlock\.)?(\w+)(?: as (\w+))?", _bare(text))
    for pattern, said in RULES:
        text = re.sub(pattern, said, text)
    if written:
        text = re.sub(rf"(?<!\w)({'|'.join(filter(None, written.groups()))})\.", "", text)
    text = re.sub(r"\s*([(),])\s*", r"\1 ", text)
    return re.sub(r"\s+", " ", text).strip(" ;")


def _bare(text: str) -> str:
    return re.sub(r"--[^\n]*\n", "", text)


def words(text: str) -> set[str]:
    """The names, parameters, numbers and literals in a text, but for letters that stand for a table."""
    return {word for word in re.findall(r":?\w+", text) if len(word) > 1} - set(LISTED["grammar"].split())


def one_form_of(backend: str, name: str) -> str:
    return one_form((SQL[backend] / f"{name}.sql").read_text("utf-8"))


def drift(name: str, sqlite: str, postgres: str) -> str:
    """What is wrong with two twins; empty if they are alike, or differ as they are listed to."""
    listed = LISTED["differ"].get(name)
    if listed is None:
        return "" if sqlite == postgres else f"they differ:\n  {sqlite}\n  {postgres}"
    if sqlite == postgres:
        return "they are alike now: take them off the list"
    left, right = words(sqlite) - words(postgres), words(postgres) - words(sqlite)
    if (left, right) != (set(listed["sqlite"].split()), set(listed["postgres"].split())):
        found = f'sqlite = "{said(left)}"\npostgres = "{said(right)}"'
        return f"they differ in other words than are listed:\n{found}"
    return ""


def said(found: set[str]) -> str:
    return " ".join(sorted(found))


@pytest.mark.parametrize("name", TWINS)
def test_twins_say_the_same_or_are_listed_with_a_reason(name: str) -> None:
    found = drift(name, one_form_of("sqlite", name), one_form_of("postgres", name))
    assert not found, f"{name}.sql: {found}"


@pytest.mark.parametrize("backend", SQL)
def test_a_statement_that_one_database_alone_has_is_listed_with_a_reason(backend: str) -> None:
    other = "postgres" if backend == "sqlite" else "sqlite"
    listed = [name for each in LISTED["only"][backend] for name in each["names"]]
    assert sorted(listed) == sorted(NAMES[backend] - NAMES[other])
    assert all(each["why"] for each in LISTED["only"][backend])


def test_only_twins_are_listed_as_different() -> None:
    assert LISTED["differ"].keys() <= set(TWINS)
    assert {each["why"] for each in LISTED["differ"].values()} == LISTED["why"].keys()


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("github/pending_orders", "done_us IS NULL AND due_us IS NOT NULL", "due_us IS NOT NULL"),
        ("outbox/dead", "ORDER BY dead_us", "ORDER BY place"),
        ("paused_projects", "ORDER BY project", ""),
        ("stopping", "'cancelled'", "'running'"),
        ("renew", "run_bits", "run"),
    ],
)
def test_a_condition_that_changes_on_one_side_alone_is_noticed(name: str, old: str, new: str) -> None:
    """The last two are listed as different: a word that they do not differ in is noticed."""
    text = (SQL["sqlite"] / f"{name}.sql").read_text("utf-8")
    assert old in text
    assert drift(name, one_form(text.replace(old, new)), one_form_of("postgres", name))
