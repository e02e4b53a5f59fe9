"""The quick ``dataclass`` is the standard one for all that its users can see."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from memory_sqlite import values


def described(decorate: Callable[..., Any]) -> tuple[type[Any], type[Any]]:
    """The same two classes, made by one decorator or the other."""

    @decorate(frozen=True, slots=True)
    class Point:
        """A frozen one with slots."""

        x: int
        label: str = "p"
        tags: tuple[str, ...] = ()
        more: list[int] = values.field(default_factory=list) if decorate is values.dataclass else dataclasses.field(
            default_factory=list
        )  # fmt: skip

        @property
        def double(self) -> int:
            return self.x * 2

    @decorate
    class Loose:
        """A mutable one that completes itself."""

        name: str
        size: int = 0

        def __post_init__(self) -> None:
            self.size = self.size or len(self.name)

    return Point, Loose


BOTH = [described(dataclasses.dataclass), described(values.dataclass)]


@pytest.mark.parametrize(("point", "loose"), BOTH)
def test_a_value_is_made_compared_and_shown(point: type[Any], loose: type[Any]) -> None:
    one = point(1, tags=("a",))
    assert (one.x, one.label, one.tags, one.more, one.double) == (1, "p", ("a",), [], 2)
    assert one == point(1, "p", ("a",)) != point(2)
    assert one != (1, "p", ("a",), [])
    assert repr(one).endswith("Point(x=1, label='p', tags=('a',), more=[])")
    assert point(1).more is not point(1).more
    assert not hasattr(one, "__dict__")
    assert point.__doc__ == "A frozen one with slots."
    assert loose("abc").size == 3
    assert loose("abc", 7) == loose(size=7, name="abc")


@pytest.mark.parametrize(("point", "loose"), BOTH)
def test_wrong_arguments_are_refused(point: type[Any], loose: type[Any]) -> None:
    for wrong in (lambda: point(), lambda: point(1, 2, 3, 4, 5), lambda: loose("a", colour=1), lambda: point(1, x=2)):
        with pytest.raises(TypeError):
            wrong()


@pytest.mark.parametrize(("point", "loose"), BOTH)
def test_a_frozen_value_stays_and_hashes_and_a_mutable_one_does_not(point: type[Any], loose: type[Any]) -> None:
    one = point(1)
    for change in (lambda: setattr(one, "x", 2), lambda: delattr(one, "x")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            change()
    with pytest.raises(TypeError, match="unhashable"):
        hash(loose("a"))
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)  # because of the list in it, as with a tuple
    changeable = loose("a")
    changeable.name = "b"
    assert changeable.name == "b"


@pytest.mark.parametrize(("point", "loose"), BOTH)
def test_the_tools_of_the_standard_library_work(point: type[Any], loose: type[Any]) -> None:
    one = point(1, "q")
    assert dataclasses.is_dataclass(point)
    assert [(entry.name, entry.type) for entry in dataclasses.fields(point)][:2] == [("x", "int"), ("label", "str")]
    assert [entry.default for entry in dataclasses.fields(loose)] == [dataclasses.MISSING, 0]
    assert dataclasses.replace(one, x=5) == point(5, "q")
    assert dataclasses.asdict(one) == {"x": 1, "label": "q", "tags": (), "more": []}
    assert copy.copy(one) == copy.deepcopy(one) == one
    match one:
        case point(x, label):
            assert (x, label) == (1, "q")


@values.dataclass(frozen=True, slots=True)
class Sent:
    """A value that goes to another process."""

    text: str
    rank: int = 0


def test_a_value_goes_through_pickle_and_into_sets() -> None:
    assert pickle.loads(pickle.dumps(Sent("a", 2))) == Sent("a", 2)
    assert {Sent("a"), Sent("a", 0), Sent("b")} == {Sent("a"), Sent("b")}


def test_after_the_first_value_the_signature_is_the_written_one() -> None:
    Sent("a")
    assert list(inspect.signature(Sent).parameters) == ["text", "rank"]


def test_what_only_the_standard_library_can_do_is_refused_when_the_class_is_made() -> None:
    with pytest.raises(TypeError, match="ClassVar"):

        @values.dataclass
        class Shared:
            count: ClassVar[int] = 0

    with pytest.raises(TypeError, match="inheriting"):

        @values.dataclass
        class Child(Sent):
            more: int = 0

    with pytest.raises(TypeError, match="without a default"):

        @values.dataclass
        class Disorder:
            first: int = 0
            second: int

    with pytest.raises(ValueError, match="default_factory"):

        @values.dataclass
        class Mutable:
            names: list[str] = []  # noqa: RUF012


def test_all_fields_of_the_house_are_seen_by_to_json() -> None:
    from memory_sqlite.model import Span, to_json

    assert to_json(Span(1, 2)) == {"start": 1, "end": 2}
