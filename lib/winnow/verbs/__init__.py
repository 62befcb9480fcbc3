"""Every verb except `plan`, `clean` and `recover`: one package for each verb.

They may import the pipeline (`cleaning`). The pipeline must not import them.
"""
