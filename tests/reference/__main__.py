"""Write the generated reference: `.venv/bin/python -m tests.reference` in the project's
directory.
"""

from tests.reference.sections import pages

if __name__ == "__main__":
    for page, text in pages():
        page.write_text(text, encoding="utf-8")
