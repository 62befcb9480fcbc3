"""What setup.cfg can't say: the wheel has the files of conf/ and demo/ inside the package, and
licenses of packages that bring none; the links of its README lead to the repository; and a build
leaves nothing in the checkout.
"""

import atexit
import re
import shutil
import tempfile
from configparser import ConfigParser
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent


def readme() -> str:
    """Return README.md as a package index shows it: its links to files of the repository lead to
    the `Source` of project_urls. Without a `Source`, their text stays.
    """
    known = ConfigParser()
    known.read(HERE / "setup.cfg", encoding="utf-8")
    urls = dict(re.findall(r"^(\S+) = (\S+)$", known["metadata"]["project_urls"], re.MULTILINE))
    version = known["metadata"]["version"]

    def absolute(link: re.Match[str]) -> str:
        mark, text, path = link.groups()
        if "Source" not in urls:
            return "" if mark else text
        return f"{mark}[{text}]({urls['Source']}/{'raw' if mark else 'blob'}/v{version}/{path})"

    text = (HERE / "README.md").read_text(encoding="utf-8")
    return re.sub(r"(!?)\[([^]]*)\]\((?!https?:)([^)]*)\)", absolute, text)


scratch = tempfile.mkdtemp(prefix="winnow-build-")
atexit.register(shutil.rmtree, scratch, ignore_errors=True)
setup(
    long_description=readme(),
    packages=[*find_packages("lib"), "winnow.conf", "winnow.demo", "winnow.licenses"],
    package_dir={"": "lib", "winnow.conf": "conf", "winnow.demo": "demo"},
    options={"build": {"build_base": scratch}, "egg_info": {"egg_base": scratch}},
)
