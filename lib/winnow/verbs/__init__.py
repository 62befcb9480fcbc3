"""Every verb except `plan` and `clean`: one package for each verb.

They may import the pipeline (`clean`). The pipeline must not import them.
"""
