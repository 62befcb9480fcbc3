"""`plan` and `clean`: the pipeline, in the order of the work.

survey -> plan -> scan -> rewrite -> commit; `run` starts it, `result` is what it returns. Imports run
from the last stage to the first. How a file is locked, renamed or synced stays in `logdir`.
"""
