"""Read the fields of a value that a broker has serialized, from front to back."""

from __future__ import annotations

from winnow.errors import CorruptLogError

MAX_UVARINT_SIZE = 5


class FieldReader:
    """Reads field by field; every length is checked before use. `what` names a field in errors.

    Numbers are big-endian and signed. `flexible`: the length of a string or an array is an unsigned
    varint, one more than the length itself, and tagged fields end each structure. Else it is an
    int16 or an int32, and there are no tagged fields. Raises CorruptLogError, without `where`.
    """

    __slots__ = ("_data", "_pos", "flexible")

    def __init__(self, data: bytes, *, flexible: bool = True) -> None:
        self._data = data
        self._pos = 0
        self.flexible = flexible

    @property
    def left(self) -> int:
        """Bytes that were not read yet."""
        return len(self._data) - self._pos

    def take(self, size: int, what: str) -> bytes:
        if not 0 <= size <= self.left:
            raise wrong(f"{what} of {size} bytes", f"{self.left} up to the end of the value")
        start, self._pos = self._pos, self._pos + size
        return self._data[start : self._pos]

    def number(self, size: int, what: str = "a number") -> int:
        return int.from_bytes(self.take(size, what), signed=True)

    def uvarint(self, what: str) -> int:
        value = 0
        for i in range(MAX_UVARINT_SIZE):
            if not self.left:
                raise wrong(what, "the end of the value")
            byte = self._data[self._pos]
            self._pos += 1
            value |= (byte & 0x7F) << (7 * i)
            if byte < 0x80:
                return value
        raise wrong(f"{what} of at most {MAX_UVARINT_SIZE} bytes", "more")

    def text(self, what: str = "a string") -> str | None:
        length = f"the length of {what}"
        size = self.uvarint(length) - 1 if self.flexible else self.number(2, length)
        if size == -1:
            return None
        try:
            return self.take(size, what).decode()
        except UnicodeDecodeError as error:
            raise wrong(f"{what} in UTF-8", f"{error.reason} at its byte {error.start}") from None

    def string(self, what: str = "a string") -> str:
        text = self.text(what)
        if text is None:
            raise wrong(what, "null")
        return text

    def count(self) -> int:
        """Return the length of an array: at most the number of bytes left, 0 for null."""
        found = self.uvarint("a count") - 1 if self.flexible else self.number(4, "a count")
        if found > self.left:
            raise wrong("a count that the value has room for", str(found))
        return max(found, 0)

    def numbers(self, what: str) -> tuple[int, ...]:
        """Return a flexible array of int32; null counts as empty."""
        count = self.uvarint(f"a count of {what}") - 1
        data = self.take(4 * max(count, 0), what)
        return tuple(
            int.from_bytes(data[at : at + 4], signed=True) for at in range(0, len(data), 4)
        )

    def tagged(self) -> dict[int, bytes]:
        """Return the tagged fields. Few of them matter."""
        found = {}
        for _ in range(self.uvarint("a count of tagged fields") if self.flexible else 0):
            tag = self.uvarint("a tag")
            found[tag] = self.take(self.uvarint("the size of a tagged field"), "a tagged field")
        return found

    def end(self) -> None:
        if self.left:
            raise wrong("the end of the value after its fields", f"{self.left} bytes more")


def wrong(expected: str, found: str) -> CorruptLogError:
    return CorruptLogError("a metadata record can't be read", expected=expected, found=found)
