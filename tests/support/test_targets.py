"""The files that a Meson build must make before it can test: python3 tests/support/test_targets.py BUILD SUITE...

One line each, as ninja names them in BUILD. (`meson test` makes them itself, but only together with running the tests.)
"""

import json
import os
import subprocess
import sys


def introspected(build, what):
    done = subprocess.run(["meson", "introspect", build, what], stdout=subprocess.PIPE, encoding="utf-8", check=True)
    return json.loads(done.stdout)


def files_of(tests, targets, suites):
    """Of what both introspections say: the targets' files that tests of these suites need, each once."""
    needed = dict.fromkeys(depends for test in tests if {suite.split(":")[-1] for suite in test["suite"]} & suites
                           for depends in test["depends"])
    files = {target["id"]: target["filename"] for target in targets}
    return [file for target in needed for file in files[target]]


def main():
    build, suites = os.path.abspath(sys.argv[1]), set(sys.argv[2:])
    for file in files_of(introspected(build, "--tests"), introspected(build, "--targets"), suites):
        print(os.path.relpath(file, build))


if __name__ == "__main__":
    main()
