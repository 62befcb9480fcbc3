"""The version of Winnow."""

VERSION = "0.1.0"
