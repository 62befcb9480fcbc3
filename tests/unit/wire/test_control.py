import pytest

from winnow.wire.control import ControlType, control_type, coordinator_epoch


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("00000000", ControlType.ABORT),
        ("00000001", ControlType.COMMIT),
        ("00000006", ControlType.KRAFT_VOTERS),
        ("00010001", ControlType.COMMIT),  # a higher version is read as version 0
        ("0000000100ff", ControlType.COMMIT),  # a longer key is tolerated
        ("00000007", ControlType.UNKNOWN),
        ("ffff0001", ControlType.UNKNOWN),
        ("000000", ControlType.UNKNOWN),
        ("", ControlType.UNKNOWN),
    ],
)
def test_control_type_is_read_from_the_key(key: str, kind: ControlType) -> None:
    assert control_type(bytes.fromhex(key)) is kind


def test_missing_key_has_an_unknown_type() -> None:
    assert control_type(None) is ControlType.UNKNOWN


def test_only_abort_and_commit_end_a_transaction() -> None:
    assert [kind for kind in ControlType if kind.ends_transaction] == [
        ControlType.ABORT,
        ControlType.COMMIT,
    ]


@pytest.mark.parametrize(
    ("value", "epoch"),
    [
        ("000000000007", 7),
        ("0000ffffffff", -1),
        ("000100000007ff", 7),
        ("ffff00000007", None),
        ("0000000000", None),
    ],
)
def test_coordinator_epoch_is_read_from_the_value(value: str, epoch: int | None) -> None:
    assert coordinator_epoch(bytes.fromhex(value)) == epoch


def test_missing_value_has_no_epoch() -> None:
    assert coordinator_epoch(None) is None
