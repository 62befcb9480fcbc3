"""The options of a verb in groups: a verb with thirty of them is not read from top to bottom."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from winnow.cli.line.command import ConfiguredCommand

MOST_UNGROUPED = 16
"""A verb with more options shows them in groups."""
GROUPS = MappingProxyType(
    {
        "What to clean": (
            "topics",
            "exclude",
            "only",
            "now",
            "unclean_shutdown",
            "on_corrupt",
            "estimate",
        ),
        "Settings": (
            *("server_properties", "topic_configs", "topic_sets", "sets", "kafka_version"),
            *("allow_other_broker", "config", "environment"),
        ),
        "Safety": ("dry_run", "yes", "keep_replaced", "timeout"),
        "Space and speed": (
            *("free_at_least", "max_extra_space", "keep_free", "throttle", "read_everything"),
        ),
        "Cleaning into another place": ("output", "begin_again", "work_dir", "work_space"),
        "Output": (
            *(
                "all",
                "summary",
                "detailed_exitcode",
                "log_file",
                "json",
                "quiet",
                "report",
                "result",
                "out",
                "ledger",
                "no_ledger",
                "metrics",
            ),
            *("openlineage", "profile"),
        ),
    }
)
"""Names of parameters by title, the common ones first."""


class GroupedCommand(ConfiguredCommand):
    """A verb whose help shows its options in groups."""

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - click's
        options = [one for one in self.get_params(ctx) if one.param_type_name == "option"]
        if len(options) <= MOST_UNGROUPED:
            super().format_options(ctx, formatter)
            return
        arguments = [one for one in self.get_params(ctx) if one not in options]
        rows = {str(one.name): one.get_help_record(ctx) for one in options}
        parts = {"Arguments": [one.get_help_record(ctx) for one in arguments]}
        parts |= {
            title: [rows.pop(name) for name in names if name in rows]
            for title, names in GROUPS.items()
        }
        for title, part in (parts | {"Other": list(rows.values())}).items():
            if any(part):
                with formatter.section(title):
                    formatter.write_dl([row for row in part if row is not None])
