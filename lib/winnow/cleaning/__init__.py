"""`plan` and `clean`: list, plan, stage, commit. `clean` is the algorithm, `run` starts it, and
`result` is what it returns.

Imports run from the last stage to the first. `survey` and `scan`, below, read; `logdir` knows how
files are locked, renamed and synced.
"""
