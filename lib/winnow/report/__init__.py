"""Render a run as one HTML page: values in, text out. Neither making nor viewing it needs a
network.
"""

from winnow.report.write import render, write_report

__all__ = ["render", "write_report"]
