"""A record is what a frozen dataclass with keywords would be, without its cost."""

import copy
import dataclasses
import inspect
import pickle

import pytest

from interlock.core.record import MutableRecord, Record, as_dict, fresh, replace


class Place(Record):
    name: str
    row: int = 1

    @property
    def label(self) -> str:
        return f"{self.name}{self.row}"


class Seat(Place):
    number: int


class Guests(MutableRecord):
    names: list[str] = fresh(list)
    count: int = 0


def test_parts_are_given_by_name_and_defaults_fill_the_rest() -> None:
    place = Place(name="a")
    assert (place.name, place.row, place.label) == ("a", 1, "a1")
    assert repr(place) == "Place(name='a', row=1)"
    assert Seat.PARTS == ("name", "row", "number")


def test_a_missing_part_and_an_unknown_one_are_refused() -> None:
    for parts in ({}, {"name": "a", "colour": "red"}):
        with pytest.raises(TypeError, match=r"Place misses or does not know: (name|colour)$"):
            Place(**parts)  # type: ignore[arg-type]


def test_records_are_compared_by_class_and_parts() -> None:
    assert Place(name="a") == Place(name="a", row=1)
    assert Place(name="a") != Place(name="b")
    assert Place(name="a") != Seat(name="a", number=1)
    assert len({Place(name="a"), Place(name="a", row=1)}) == 1


def test_a_record_never_changes_and_a_mutable_one_has_no_hash() -> None:
    place = Place(name="a")
    with pytest.raises(AttributeError, match="never changes"):
        place.name = "b"  # type: ignore[misc]
    with pytest.raises(AttributeError, match="never changes"):
        del place.name
    guests = Guests()
    guests.names.append("ann")
    guests.count += 1
    assert (guests, Guests()) == (Guests(names=["ann"], count=1), Guests(names=[], count=0))
    with pytest.raises(TypeError):
        hash(guests)


def test_replace_gives_another_one() -> None:
    seat = Seat(name="a", number=1)
    assert replace(seat, row=2) == Seat(name="a", row=2, number=1)
    assert as_dict(seat) == {"name": "a", "row": 1, "number": 1}
    assert copy.deepcopy(seat) == pickle.loads(pickle.dumps(seat)) == seat


def test_the_standard_library_takes_it_for_a_dataclass() -> None:
    seat = Seat(name="a", number=1)
    assert dataclasses.is_dataclass(seat)
    assert [field.name for field in dataclasses.fields(seat)] == ["name", "row", "number"]
    assert dataclasses.replace(seat, row=2) == replace(seat, row=2)
    assert dataclasses.asdict(Guests()) == {"names": [], "count": 0}
    assert list(inspect.signature(Seat).parameters) == ["name", "row", "number"]
