"""`plan` and `clean`: the pipeline, in the order of the work.

survey -> plan -> scan -> rewrite -> commit; `run` starts it, `result` is what it returns. Imports
run from the last stage to the first. `logdir` knows how files are locked, renamed and synced.
"""
