"""What a monitoring system and a catalog of data are told of a run: gauges, and events of lineage."""

from winnow.metrics.gauges import Gauge, gauges_of
from winnow.metrics.lineage import Lineage
from winnow.metrics.prometheus import check_target, tell_prometheus

__all__ = ["Gauge", "Lineage", "check_target", "gauges_of", "tell_prometheus"]
