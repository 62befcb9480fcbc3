"""Finish what a crash interrupted, undo a run, or purge what it kept. Needs no Spark."""
