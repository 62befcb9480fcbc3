"""Write the generated reference: `.venv/bin/python -m tests.reference` in the project's
directory.
"""

import sys

sys.path.insert(0, "lib")

from tests.reference.sections import pages

for page, text in pages():
    page.write_text(text, encoding="utf-8")
