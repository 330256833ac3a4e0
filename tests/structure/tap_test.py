"""The TAP runner: what good, failing, skipped and broken tests print."""

import io
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import tap  # noqa: E402


def run(*cases):
    """Whether all was well, and the lines that do not only explain."""
    stream = io.StringIO()
    suite = unittest.TestSuite(unittest.defaultTestLoader.loadTestsFromTestCase(case) for case in cases)
    good = tap.run(suite, stream)
    return good, stream.getvalue().splitlines()


def verdicts(lines):
    return [line for line in lines if not line.startswith("#")]


class Tap(unittest.TestCase):
    def test_passing_and_skipped_tests(self):
        class Case(unittest.TestCase):
            def test_a(self):
                pass

            def test_b(self):
                self.skipTest("no\ndata #set")

            @unittest.skip("never")
            def test_c(self):
                pass

        good, lines = run(Case)
        self.assertTrue(good)
        self.assertEqual(lines, ["1..3", "ok 1 - Case.a", "ok 2 - Case.b # SKIP no data #set",
                                 "ok 3 - Case.c # SKIP never"])

    def test_failures_and_errors_are_explained(self):
        class Case(unittest.TestCase):
            def test_a(self):
                self.assertEqual(1, 2)

            def test_b(self):
                raise RuntimeError("broken\nin two lines")

            def test_c(self):
                pass

        good, lines = run(Case)
        self.assertFalse(good)
        self.assertEqual(verdicts(lines), ["1..3", "not ok 1 - Case.a", "not ok 2 - Case.b", "ok 3 - Case.c"])
        self.assertIn("# AssertionError: 1 != 2", lines)
        self.assertIn("# in two lines", lines)

    def test_a_failing_subtest_fails_its_test_once(self):
        class Case(unittest.TestCase):
            def test_a(self):
                for number in range(4):
                    with self.subTest(number=number):
                        self.assertEqual(number % 2, 0)

        good, lines = run(Case)
        self.assertFalse(good)
        self.assertEqual(verdicts(lines), ["1..1", "not ok 1 - Case.a"])
        self.assertIn("# with (number=1)", lines)
        self.assertIn("# with (number=3)", lines)

    def test_a_failure_in_a_cleanup_counts(self):
        class Case(unittest.TestCase):
            def test_a(self):
                self.addCleanup(self.fail, "left a process behind")

            def test_b(self):
                self.addCleanup(self.fail, "left a process behind")
                self.skipTest("reason")

        good, lines = run(Case)
        self.assertFalse(good)
        self.assertEqual(verdicts(lines), ["1..2", "not ok 1 - Case.a", "not ok 2 - Case.b"])

    def test_a_class_that_cannot_be_set_up_fails_all_its_tests(self):
        class Broken(unittest.TestCase):
            @classmethod
            def setUpClass(cls):
                raise RuntimeError("no")

            def test_a(self):
                pass

            def test_b(self):
                pass

        class Fine(unittest.TestCase):
            def test_c(self):
                pass

        good, lines = run(Broken, Fine)
        self.assertFalse(good)
        self.assertEqual(verdicts(lines), ["1..3", "ok 1 - Fine.c", "not ok 2 - Broken.a", "not ok 3 - Broken.b"])

    def test_a_class_that_is_skipped_skips_all_its_tests(self):
        class Case(unittest.TestCase):
            @classmethod
            def setUpClass(cls):
                raise unittest.SkipTest("no GPU")

            def test_a(self):
                pass

        self.assertEqual(run(Case), (True, ["1..1", "ok 1 - Case.a # SKIP no GPU"]))

    def test_a_class_that_cannot_be_torn_down_is_an_error(self):
        class Case(unittest.TestCase):
            @classmethod
            def tearDownClass(cls):
                raise RuntimeError("left over")

            def test_a(self):
                pass

        good, lines = run(Case)
        self.assertFalse(good)
        self.assertIn("Bail out!", lines[-1])


if __name__ == "__main__":
    tap.main()
