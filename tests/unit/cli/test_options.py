from pathlib import Path

import pytest

from winnow.cli.inputs import check_log_dirs, parse_settings
from winnow.cli.line.units import parse_duration, parse_now, parse_rate, parse_size
from winnow.cli.options import CommandLine
from winnow.errors import UsageError
from winnow.policy.config import TopicConfig


@pytest.mark.parametrize(
    ("text", "now"),
    [
        ("1795300000000", 1_795_300_000_000),
        ("0", 0),
        ("2026-11-21T22:26:40Z", 1_795_300_000_000),
        ("2026-11-21T23:26:40.125+01:00", 1_795_300_000_125),
        ("2026-11-21 22:26:40", 1_795_300_000_000),
        ("2026-11-21", 1_795_219_200_000),
    ],
)
def test_now_is_ms_or_iso_8601_in_utc_by_default(text: str, now: int) -> None:
    assert parse_now(text) == now


@pytest.mark.parametrize(
    "text", ["", "now", "-1", "2026-13-01", "1969-12-31", "1795300000000000000", "²"]
)
def test_malformed_now_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--now"):
        parse_now(text)


def test_settings_combine_all_their_options(tmp_path: Path) -> None:
    configs = tmp_path / "configs.txt"
    configs.write_text("orders cleanup.policy=compact\n", encoding="utf-8")
    properties = tmp_path / "server.properties"
    properties.write_text(
        "log.dirs=/kafka\nlog.retention.ms=5\nlog.segment.bytes=1048576\n", encoding="utf-8"
    )
    settings = parse_settings(
        CommandLine(
            log_dirs=["/kafka"],
            topic_configs=str(configs),
            server_properties=[str(properties)],
            sets=["log.retention.ms=7"],
            topic_sets=["ord*:delete.retention.ms=9"],
        )
    )
    config = settings.resolve("orders")
    assert isinstance(config, TopicConfig)
    assert config.cleanup_compact
    assert (config.retention_ms, config.segment_bytes, config.delete_retention_ms) == (
        7,
        1_048_576,
        9,
    )


@pytest.mark.parametrize(
    "request_",
    [
        CommandLine(log_dirs=[], sets=["log.retention.ms"]),
        CommandLine(log_dirs=[], sets=["no.such.key=1"]),
        CommandLine(log_dirs=[], sets=["retention.ms=1000"]),
        CommandLine(log_dirs=[], topic_sets=["retention.ms=1"]),
        CommandLine(log_dirs=[], topic_configs="/no/such/file"),
        CommandLine(log_dirs=[], server_properties=["/no/such/file"]),
    ],
)
def test_malformed_setting_is_a_usage_error(request_: CommandLine) -> None:
    with pytest.raises(UsageError):
        parse_settings(request_)


def test_settings_file_that_is_not_text_is_named(tmp_path: Path) -> None:
    file = tmp_path / "configs"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="--topic-configs") as caught:
        parse_settings(CommandLine(log_dirs=[], topic_configs=str(file)))
    assert str(file) in str(caught.value)


def test_missing_log_directory_is_refused_at_once_unless_there_are_others(tmp_path: Path) -> None:
    check_log_dirs([str(tmp_path), str(tmp_path / "nope")])
    with pytest.raises(UsageError, match="no such directory"):
        check_log_dirs([str(tmp_path / "nope"), str(tmp_path / "no")])


def test_file_instead_of_a_log_directory_is_refused_at_once_as_a_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("log.dirs=/data/kafka\n")
    with pytest.raises(UsageError, match="not a Kafka log directory but a file") as caught:
        check_log_dirs([str(file)])
    assert "It has log.dirs=/data/kafka" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("15m", 900), ("2h", 7200), ("1.5h", 5400), ("0.5s", 0.5)]
)
def test_duration_is_in_seconds_minutes_or_hours(text: str, seconds: float) -> None:
    assert parse_duration(text, option="--timeout") == seconds


@pytest.mark.parametrize(
    "text", ["", "90", "s", "-1s", "0s", "1d", "1h30m", "1e3s", "nans", "\u0661s"]
)
def test_malformed_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"--timeout.*90s, 15m or 2h"):
        parse_duration(text, option="--timeout")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("1_000_000B", 1_000_000),
        ("20G", 20 * 2**30),
        ("4K", 4096),
        ("1.5T", 3 * 2**39),
        ("1KiB", 1024),
        ("512MiB", 512 * 2**20),
        ("10GiB", 10 * 2**30),
        ("1.5TiB", 3 * 2**39),
        ("0.1KiB", 102),
    ],
)
def test_size_has_a_unit(text: str, size: int) -> None:
    assert parse_size(text, option="--max-extra-space") == size


@pytest.mark.parametrize(
    "text",
    [
        "",
        "MiB",
        "1.5",
        "20",
        "1.55B",
        "20iB",
        "-1",
        "1 GiB",
        "1GB",
        "1gib",
        "_1",
        "1__0",
        "1e9",
        "\u0661",
        "1.5_0MiB",
        "9" * 25,
    ],
)
def test_malformed_size_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"--free-at-least.*512MiB, 20G or 4096B"):
        parse_size(text, option="--free-at-least")


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("50MiB", 50 * 2**20),
        ("1.5GiB/s", 3 * 2**29),
        ("1_000B", 1000),
        ("1B/s", 1),
        ("8KiB/s", 8192),
    ],
)
def test_rate_is_a_size_per_second(text: str, rate: int) -> None:
    assert parse_rate(text, option="--throttle") == rate
    assert parse_size(text.removesuffix("/s"), option="--size") == rate


@pytest.mark.parametrize(
    "text", ["", "/s", "MiB", "50MB", "-1MiB", "1.5", "1__0", "50MiB/m", "nan", "\u0661MiB"]
)
def test_malformed_rate_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"--throttle.*512MiB, 20G"):
        parse_rate(text, option="--throttle")


@pytest.mark.parametrize("text", ["0", "0MiB/s"])
def test_rate_of_zero_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--throttle is zero"):
        parse_rate(text, option="--throttle")


def test_server_properties_are_read_in_kafkas_encoding(tmp_path: Path) -> None:
    """Java's Properties.load takes Latin-1. Windows puts a mark before UTF-8."""
    file = tmp_path / "server.properties"
    text = b"# f\xfcr alle\r\nlog.dirs=/data/caf\xe9\r\nlog.retention.ms=5\r\nnode.id=3\r\n"
    for data in (text, b"\xef\xbb\xbf" + text[len("# f\xfcr alle\r\n") :]):
        file.write_bytes(data)
        (server,) = parse_settings(CommandLine(server_properties=[str(file)])).servers
        assert (server.node_id, server.log_dirs) == (3, ("/data/caf\u00e9",))
        assert ("log.retention.ms", 5) in [
            (entry.key, entry.value) for entry in server.entries.values()
        ]
