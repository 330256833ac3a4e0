"""tests/support/test_targets.py: of a build's tests those of the suites that are asked for, and each of their files once."""

import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import tap  # noqa: E402
import test_targets  # noqa: E402

TARGETS = [{"id": f"{name}@exe", "filename": [f"/b/{name}"]} for name in ("one", "two", "three")] + \
          [{"id": "module@sha", "filename": ["/b/module.so", "/b/module.map"]}]


class TestTargets(unittest.TestCase):
    TESTS = [{"suite": ["tutti:mpi"], "depends": ["one@exe"]}, {"suite": ["tutti:unit"], "depends": ["two@exe", "module@sha"]},
             {"suite": ["tutti:mpi", "tutti:slow"], "depends": ["one@exe", "three@exe"]}, {"suite": [], "depends": []}]

    def files(self, *suites):
        return [os.path.basename(file) for file in test_targets.files_of(self.TESTS, TARGETS, set(suites))]

    def test_each_file_once_and_in_the_tests_order(self):
        self.assertEqual(self.files("mpi"), ["one", "three"])
        self.assertEqual(self.files("slow", "unit"), ["two", "module.so", "module.map", "one", "three"])

    def test_nothing_of_suites_that_are_not_there(self):
        self.assertEqual(self.files("tutti", "mp"), [])


if __name__ == "__main__":
    tap.main()
