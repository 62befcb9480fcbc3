"""What setup.cfg can't say: the wheel has the files of conf/ and demo/ inside the package, and
licenses of packages that bring none; and a build leaves nothing in the checkout.
"""

import atexit
import shutil
import tempfile

from setuptools import find_packages, setup

scratch = tempfile.mkdtemp(prefix="winnow-build-")
atexit.register(shutil.rmtree, scratch, ignore_errors=True)
setup(
    packages=[*find_packages("lib"), "winnow.conf", "winnow.demo", "winnow.licenses"],
    package_dir={"": "lib", "winnow.conf": "conf", "winnow.demo": "demo"},
    options={"build": {"build_base": scratch}, "egg_info": {"egg_base": scratch}},
)
