"""Spark imports every package `pyspark_*` in the process that looks for data sources. That process,
too, must end without a traceback. No data source is in here: `winnow.register` adds it.
"""

from winnow.runtime.hung_up import end_quietly

end_quietly()
