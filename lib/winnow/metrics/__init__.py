"""Report a run to a monitoring system as gauges, and to a data catalog as lineage events."""

from winnow.metrics.gauges import Gauge, gauges_of, gauges_of_end, gauges_of_start
from winnow.metrics.lineage import Lineage
from winnow.metrics.prometheus import check_target, tell_prometheus

__all__ = [
    "Gauge",
    "Lineage",
    "check_target",
    "gauges_of",
    "gauges_of_end",
    "gauges_of_start",
    "tell_prometheus",
]
