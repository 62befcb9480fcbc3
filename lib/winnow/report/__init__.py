"""A run as one HTML page: values in, text out. Needs no network, neither to be made nor to be
looked at.
"""

from winnow.report.page import render
from winnow.report.write import write_report

__all__ = ["render", "write_report"]
