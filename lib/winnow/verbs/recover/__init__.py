"""Finish what a crash left, undo a run, or purge what it kept. Needs no Spark."""
