"""`plan` and `clean`: the pipeline, in the order of the work.

survey -> plan -> scan -> rewrite -> commit; `run` starts it, `result` is what it returns. `survey`
and `scan` are rooms of their own, below. Imports run from the last stage to the first. `logdir`
knows how files are locked, renamed and synced.
"""
