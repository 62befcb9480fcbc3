from dataclasses import replace

from tests.unit.cli.results import idle, left_alone, partition, printed, run_of
from winnow.cleaning.result import COMPACTED, RETAINED, Output, RunResult, Setting
from winnow.cli.text.table import FEW, page, summary
from winnow.scan.values import Holder


def shown(result: RunResult, *, width: int = 100) -> str:
    return printed(page(result, width), width)


def test_partitions_are_sorted_by_bytes_freed_with_totals_last() -> None:
    result = run_of(
        partition("small", bytes_after=(2 << 20) - 1024, segments_after=12),
        partition(
            "large", 11, bytes_before=1 << 30, bytes_after=1 << 29, actions=(COMPACTED, RETAINED)
        ),
        idle("idle"),
    )
    assert shown(result).splitlines() == [
        "2 of 3 partitions cleaned, at 2026-11-21T22:26:40Z",
        "partition  action               before      after  freed  segments  dirty",
        "large-11   compacted+retained  1.0 GiB  512.0 MiB   50 %   12 -> 3   0.75",
        "small-0    compacted           2.0 MiB    2.0 MiB    0 %  12 -> 12   0.75",
        "idle-0     -                   2.0 MiB    2.0 MiB    0 %  12 -> 12   0.10",
        "all 3                          1.0 GiB  516.0 MiB   50 %  36 -> 27",
    ]


def test_column_of_reasons_is_omitted_if_truncated_reasons_are_equal() -> None:
    both = (partition("a"), idle("b"))
    table = shown(run_of(*both)).splitlines()[1:4]
    assert [line.partition("0 %")[2].split("  ")[-1] for line in table[1:]] == [
        "dirty ratio 0.75 is above...",
        "dirty ratio 0.1 is not above 0.5",
    ]
    assert table[0].endswith("dirty  why")
    same = (partition("a"), partition("b"), idle("c"))
    assert "why" not in shown(run_of(*same))
    assert "..." not in shown(run_of(*same))
    short = tuple(replace(p, reason="the log is empty") for p in same)
    assert shown(run_of(*short)).count("the log is empty") == 3


def test_what_is_kept_is_not_freed() -> None:
    written = Output(base_offset=0, bytes=1 << 20, checksum=0, sources=(0,))
    result = run_of(partition("kept", kept_bytes=3 << 20, outputs=(written,)), idle("idle"))
    assert summary(result) == (
        "clean: 1 of 2 partitions, 0 B freed of 4.0 MiB, 1.0 MiB more used; "
        "3.0 MiB kept until `recover --purge`"
    )
    lines = shown(result).splitlines()
    assert [" 0 %" in line for line in lines[2:5]] == [True] * 3
    assert lines[-1] == (
        "3.0 MiB is kept and not free yet: `recover --undo 20261121T000000Z-0` restores it, "
        "`recover --purge 20261121T000000Z-0` frees it."
    )


def test_summary_says_how_to_find_unknown_savings() -> None:
    unknown = partition("orders", bytes_after=None, segments_after=None)
    assert summary(run_of(unknown, verb="plan")) == (
        "plan: 1 of 1 partition, savings of 2.0 MiB unknown (use --estimate)"
    )
    assert summary(run_of(unknown)) == "clean: 1 of 1 partition, savings of 2.0 MiB unknown"


def test_plan_shows_full_reasons_and_unknown_sizes() -> None:
    reason = (
        "dirty ratio 0.75 is above min.cleanable.dirty.ratio 0.5 "
        "(1.5 MiB dirty, 0.5 MiB clean) and nothing forbids"
    )
    result = run_of(
        partition("orders", reason=reason, bytes_after=None, segments_after=None), verb="plan"
    )
    lines = shown(result, width=80).splitlines()
    assert lines[0] == "1 of 1 partition has work to do, at 2026-11-21T22:26:40Z"
    assert lines[1] == "      By the rules of Kafka 4.4 (--kafka-version)."
    assert lines[3].split() == [
        "orders-0",
        "compacted",
        "2.0",
        "MiB",
        "?",
        "?",
        "12",
        "->",
        "?",
        "0.75",
    ]
    assert " ".join(" ".join(lines[4:6]).split()) == reason
    assert lines[-1].split() == ["all", "1", "2.0", "MiB", "?", "?", "12", "->", "?"]


def test_plan_without_sizes_is_sorted_by_dirty_bytes() -> None:
    result = run_of(
        partition("little", dirty_ratio=0.1, bytes_after=None),
        partition("much", dirty_ratio=0.9, bytes_after=None),
        verb="plan",
    )
    text = shown(result)
    assert text.index("much-0") < text.index("little-0")


def test_skipped_partitions_are_grouped_by_reason() -> None:
    result = run_of(
        partition("orders"),
        left_alone("t", 0),
        left_alone("t", 1),
        left_alone("torn", error="CRC wrong"),
    )
    assert shown(result).partition("\n\n")[2].splitlines() == [
        "Left alone: 3 partitions",
        "  t-0, t-1",
        "      holds transactional batches",
        "  torn-0",
        "      holds transactional batches: CRC wrong",
    ]


def test_reason_of_many_partitions_is_shown_once_with_a_count() -> None:
    result = run_of(*(left_alone("t", number) for number in range(2_000)))
    assert shown(result).partition("\n\n")[2].splitlines() == [
        "Left alone: 2,000 partitions",
        "  2,000 partitions: t-0, t-1, t-2, t-3, t-4, t-5, t-6, t-7 and 1,992 more",
        "      holds transactional batches",
    ]


def test_many_idle_partitions_share_a_line() -> None:
    lines = shown(
        run_of(partition("orders"), *(idle("idle", number) for number in range(FEW + 1)))
    ).splitlines()
    assert lines[-1] == "9 partitions need no work."
    assert lines[-2].startswith("all 10 ")
    assert not any(line.startswith("idle-") for line in lines)


def test_unknown_sizes_are_question_marks() -> None:
    unread = left_alone("unread", error="can't be listed")
    result = run_of(
        partition("a"),
        partition("b", bytes_before=None, bytes_after=None, segments_before=None),
        unread,
    )
    row = next(line for line in shown(result).splitlines() if line.startswith("b-0"))
    assert row.split()[2:6] == ["?", "?", "?", "?"]


def test_holders_of_internal_topics_are_listed() -> None:
    first = Holder(
        name="billing",
        records_before=1_200_000,
        bytes_before=3 << 20,
        records_after=3,
        bytes_after=1 << 10,
    )
    previewed = Holder(
        name="tx-1", records_before=9, bytes_before=900, records_after=None, bytes_after=None
    )
    result = run_of(
        partition("orders"),
        partition("__consumer_offsets", 17, holders=(first,), holders_total=1234),
        partition("__transaction_state", 3, holders=(previewed,), holders_total=1),
        partition("__share_group_state", 0, holders=(previewed,)),
    )
    text = shown(result)
    assert text.partition("Who fills Kafka's own topics\n")[2].splitlines() == [
        "  __consumer_offsets-17, the largest 1 of 1,234 groups",
        "      billing  1,200,000 -> 3 records, 3.0 MiB -> 1.0 KiB",
        "  __share_group_state-0, the largest 1 of many groups",
        "      tx-1  9 records, 900 B",
        "  __transaction_state-3, all transactional ids",
        "      tx-1  9 records, 900 B",
    ]
    assert "Who fills" not in shown(run_of(partition("orders")))


def test_no_matching_partition_is_reported() -> None:
    assert shown(run_of()) == "No partition matches the command.\n"


def test_markup_in_reasons_is_shown_as_text() -> None:
    assert "[red]12[/red]" in shown(run_of(left_alone("t", error="[red]12[/red]")))


def test_narrow_terminal_keeps_the_sizes() -> None:
    text = shown(run_of(partition("a-topic-with-a-long-name-that-nobody-will-shorten")), width=60)
    assert "2.0 MiB    1.0 MiB" in text or "2.0 MiB  1.0 MiB" in text


def test_plan_shows_each_given_setting_and_its_source() -> None:
    default = Setting(
        "segment.bytes",
        "1073741824",
        "Kafka's default, server.properties not given",
        is_default=True,
    )
    own = Setting("cleanup.policy", "compact", "__cluster_metadata-0 offset 7", is_default=False)
    internal = Setting(
        "internal.segment.bytes", "9", "__cluster_metadata-0 offset 8", is_default=False
    )
    result = run_of(
        partition("t", 0, settings=(own, default, internal)),
        partition("t", 1, settings=(own, default, internal)),
        partition("s", 0, settings=(default,)),
        verb="plan",
    )
    lines = shown(result).splitlines()
    assert lines[lines.index("Settings, and where they come from") + 1 :] == [
        "  s",
        "  t",
        "      cleanup.policy=compact  __cluster_metadata-0 offset 7",
        "  everything else",
        "      Kafka's default, server.properties not given",
    ]
    assert "Settings" not in shown(run_of(partition("t"), verb="plan"))


def test_plan_shows_the_extra_space_it_needs() -> None:
    result = run_of(partition("t"), verb="plan")
    assert "Extra space needed: up to 3.0 MiB." in shown(
        replace(result, peak_extra_bytes=3 * 2**20)
    )
    assert "Extra space" not in shown(replace(result, partitions=(idle("t"),), peak_extra_bytes=0))


def test_long_names_are_cut_in_the_middle_to_fit_80_columns() -> None:
    name = "payments.orders.eu-west-1.customer-facing.materialised-view.v7"
    both = (COMPACTED, RETAINED)
    result = run_of(partition(name, 12, actions=both), partition("short", actions=both))
    lines = shown(result, width=80).splitlines()
    assert max(map(len, lines)) <= 80
    (row,) = [line for line in lines if line.startswith("payments")]
    cut = row.split()[0]
    assert cut.endswith("view.v7-12")
    assert "…" in cut
    assert name not in row


def test_shortened_names_are_different_if_the_names_are() -> None:
    form = "_app-control-center-7-6-0-1-KSTREAM-{}-000000000{}-store-consumption-rekey"
    names = [form.format(*one) for one in (("OUTERTHIS", 5), ("OUTEROTHER", 6), ("JOIN", 7))]
    names += ["x" * 100 + end + "y" * 100 for end in ("a", "b", "aa")]
    for width in (40, 60, 80, 100):
        lines = shown(run_of(*map(partition, names)), width=width).splitlines()
        rows = [line.split()[0] for line in lines if " compacted " in line]
        assert len(set(rows)) == len(names), lines
    lines = shown(run_of(*map(partition, names[:3])), width=80).splitlines()
    assert max(map(len, lines)) <= 80


def test_whole_names_are_not_shortened() -> None:
    long = partition("t" * 249)
    for page_ in (
        page(run_of(long), 80, whole_names=True),
        page(run_of(long), 80, everything=True),
    ):
        assert long.name in printed(page_, 80)


def test_reasons_that_differ_in_names_and_numbers_are_shown_once() -> None:
    many = [
        left_alone(f"t{n:03}", n, error=f"the policy of topic t{n:03} is unknown: see line {n}")
        for n in range(300)
    ]
    few = shown(run_of(*many)).partition("\n\n")[2].splitlines()
    assert few[0] == "Left alone: 300 partitions"
    assert few[1].startswith("  300 partitions: t000-0, t001-1, ")
    assert few[1].endswith("t007-7 and 292 more")
    assert " ".join(" ".join(few[2:]).split()).endswith(
        "the policy of topic t000 is unknown: see line 0 (and 299 more like this; --all shows each)"
    )
    every = printed(page(run_of(*many), 100, everything=True))
    assert all(f"topic t{n:03} is unknown: see line {n}\n" in every for n in range(300))


def test_more_than_twenty_partitions_share_their_reasons() -> None:
    result = run_of(
        *(
            partition("t", number, reason=f"dirty ratio 0.{number} is above x 0.5 ({number} B)")
            for number in range(1, 31)
        ),
        *(left_alone(f"l{number}", error="why " + number * "x") for number in range(12)),
    )
    lines = shown(result, width=80).splitlines()
    assert "10 more partitions have a line with --all." in lines
    assert "       30  dirty ratio N is above x N (S3.4)" in lines
    assert "  4 more reasons; --all shows each." in lines
    every = printed(page(result, 80, everything=True), width=80)
    assert every.count("t-") == 30
    assert "more" not in every
