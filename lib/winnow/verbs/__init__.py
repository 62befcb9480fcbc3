"""What every verb does except `plan`, `clean` and `recover`, and some options: `compare` is
`verify --compare`, and `output` is `clean --output`.

They may import the pipeline (`cleaning`). The pipeline must not import them.
"""
