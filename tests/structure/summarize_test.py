"""The counting of test cases. fixtures/ is what Meson 1.0.1 recorded of programs that pass, fail, skip, crash, hang,
print nothing or bail out; the XML holds stale cases of GoogleTest programs that crashed, as it does in reality."""

import contextlib
import io
import json
import pathlib
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import summarize  # noqa: E402
import tap  # noqa: E402

FIXTURES = pathlib.Path(__file__).resolve().parent / "fixtures"


def row(name, result, returncode=0, stdout="", duration=1.0):
    return {"name": name, "result": result, "returncode": returncode, "stdout": stdout, "duration": duration}


def outcomes(rows, xml=""):
    """(name, outcome, reason) of each case."""
    text = "\n".join(json.dumps(one) for one in rows)
    cases = summarize.cases_of_build(text, f"<testsuites>{xml}</testsuites>")
    return [(case.name, case.outcome, case.reason) for case in cases]


class Recorded(unittest.TestCase):
    """By Meson."""

    def setUp(self):
        cases = summarize.cases_of_build((FIXTURES / "testlog.json").read_text(),
                                         (FIXTURES / "testlog.junit.xml").read_text())
        self.found = {}
        for case in cases:
            self.found.setdefault(case.test.partition(" / ")[2], []).append((case.name, case.outcome, case.reason))

    def test_gtest_cases(self):
        why = "../g.cpp:3 Expected equality of these values: 1 2 why <x> & y"
        self.assertEqual(self.found["cases"], [
            ("Shape.passes", "passed", ""),
            ("Shape.fails", "failed", why),
            ("Shape.skips", "skipped", "no GPU here"),
            ("Shape.skips_wordless", "skipped", "no reason given (../g.cpp:5)"),
            ("Shape.DISABLED_never", "skipped", "disabled in the source"),
            ("All/P.squares/0", "passed", ""),
            ("All/P.squares/1", "passed", ""),
        ])

    def test_a_crashed_gtest_program_is_one_failure_and_its_old_cases_do_not_count(self):
        self.assertEqual(self.found["crash"], [("", "failed", "killed by signal 6")])
        self.assertEqual(self.found["hang"], [("", "failed", "killed by signal 6")])

    def test_tap_cases(self):
        self.assertEqual(self.found["tap_good"],
                         [("one", "passed", ""), ("two", "skipped", "no data set: install x")])
        self.assertEqual(self.found["tap_bad"], [("one", "passed", ""), ("two: a", "failed", "")])

    def test_tap_programs_that_end_early_fail_once_more(self):
        one = ("one", "passed", "")
        self.assertEqual(self.found["tap_crashed"], [one, ("", "failed", "exit code 139")])
        self.assertEqual(self.found["tap_hangs"], [one, ("", "failed", "timed out after 1 s")])
        self.assertEqual(self.found["tap_bail"], [one, ("", "failed", "bailed out: no mpirun")])

    def test_tap_programs_without_cases(self):
        self.assertEqual(self.found["tap_plan0"], [("", "skipped", "no hdf5")])
        self.assertEqual(self.found["tap_empty"], [("", "failed", "printed no test result")])

    def test_exit_codes(self):
        self.assertEqual(self.found["exit_0"], [("", "passed", "")])
        self.assertEqual(self.found["exit_1"], [("", "failed", "exit code 1")])
        self.assertEqual(self.found["exit_77"], [("", "skipped", "skipping as no x")])
        self.assertEqual(self.found["exit_99"], [("", "failed", "exit code 99")])
        self.assertEqual(self.found["exit_seg"], [("", "failed", "killed by signal 11")])
        self.assertEqual(self.found["exit_sleep"], [("", "failed", "timed out after 1 s")])


class Cases(unittest.TestCase):
    def test_a_gtest_program_that_leaves_in_the_middle_with_success_failed(self):
        stdout = "[==========] Running 2 tests from 1 test suite.\n[ RUN      ] A.exits\n"
        self.assertEqual(outcomes([row("t", "OK", stdout=stdout)]),
                         [("", "failed", "ended with success before GoogleTest had reported")])

    def test_a_gtest_program_that_fails_outside_its_cases_is_one_more_failure(self):
        xml = '<testsuite name="p.t.A"><testcase name="a" status="run" classname="A"/></testsuite>'
        self.assertEqual(outcomes([row("t", "FAIL", 1)], xml), [("A.a", "passed", ""), ("", "failed", "exit code 1")])

    def test_a_gtest_program_that_timed_out_is_one_failure(self):
        xml = '<testsuite name="p.t.A"><testcase name="a" status="run" classname="A"/></testsuite>'
        self.assertEqual(outcomes([row("t", "TIMEOUT", -15, duration=30.2)], xml),
                         [("", "failed", "timed out after 30 s")])

    def test_expected_failures_pass_and_unexpected_passes_fail(self):
        self.assertEqual(outcomes([row("t", "EXPECTEDFAIL", 1)]), [("", "passed", "")])
        self.assertEqual(outcomes([row("t", "UNEXPECTEDPASS")]),
                         [("", "failed", "passed, but was expected to fail")])

    def test_suites_find_the_test_with_the_longest_name(self):
        xml = ('<testsuite name="p.a.b.C"><testcase name="x" classname="C"/></testsuite>'
               '<testsuite name="p.a.D"><testcase name="y" classname="D"/></testsuite>')
        self.assertEqual(outcomes([row("a", "OK"), row("a.b", "OK")], xml),
                         [("D.y", "passed", ""), ("C.x", "passed", "")])

    def test_terminal_escapes_in_the_xml_do_no_harm(self):
        xml = '<testsuite name="p.t"><testcase name="1 - x"/><system-out>\x1b[31mred\x1b[0m</system-out></testsuite>'
        self.assertEqual(outcomes([row("t", "OK")], xml), [("x", "passed", "")])

    def test_a_skip_without_a_word_says_so(self):
        self.assertEqual(outcomes([row("t", "SKIP", 77)]), [("", "skipped", "no reason given")])


class Summary(unittest.TestCase):
    def run_main(self, *folders):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            status = summarize.main(folders)
        return status, output.getvalue().splitlines()

    def build(self, root, name, rows):
        logs = pathlib.Path(root, name, "meson-logs")
        logs.mkdir(parents=True)
        (logs / "testlog.json").write_text("".join(json.dumps(one) + "\n" for one in rows))
        (logs / "testlog.junit.xml").write_text("<testsuites/>")
        return str(pathlib.Path(root, name))

    def test_builds_are_added_up_and_the_last_line_is_the_count(self):
        with tempfile.TemporaryDirectory(prefix="tutti-") as root:
            first = self.build(root, "one", [row("p:s / a", "OK"), row("p:s / b", "SKIP", 77, "no GPU\n")])
            second = self.build(root, "two", [row("p:s / a", "OK")])
            self.assertEqual(self.run_main(first, second),
                             (0, ["skipped:", f"  {first}: s / b: no GPU", "", "2 passed, 0 failed, 1 skipped"]))

    def test_a_failure_names_its_log_and_fails_the_summary(self):
        with tempfile.TemporaryDirectory(prefix="tutti-") as root:
            build = self.build(root, "one", [row("p:s / a", "FAIL", 1)])
            self.assertEqual(self.run_main(build),
                             (1, ["failed:", f"  {build}: s / a: exit code 1 (log: {build}/meson-logs/testlog.txt)",
                                  "", "0 passed, 1 failed, 0 skipped"]))

    def test_what_a_failed_tap_case_said_is_below_it(self):
        stdout = "1..3\nok 1 - a\n# a note\nnot ok 2 - b\n# Traceback\n#\n#   line 3\nnot ok 3 - c\n" + "# x\n" * 50
        cases = '<testcase name="1 - a"/>' + "".join(f'<testcase name="{name}"><failure/></testcase>' for name in ("2 - b", "3 - c"))
        with tempfile.TemporaryDirectory(prefix="tutti-") as root:
            build = self.build(root, "one", [row("p:s / t", "FAIL", 1, stdout)])
            pathlib.Path(build, "meson-logs/testlog.junit.xml").write_text(
                f'<testsuites><testsuite name="p.p:s / t">{cases}</testsuite></testsuites>')
            status, lines = self.run_main(build)
        place = f"(log: {build}/meson-logs/testlog.txt)"
        self.assertEqual((status, lines), (1, ["failed:", f"  {build}: s / t: b {place}", "    Traceback", "", "      line 3",
                                               f"  {build}: s / t: c {place}", *["    x"] * 40,
                                               "", "1 passed, 2 failed, 0 skipped"]))

    def test_a_build_without_results_is_a_failure(self):
        with tempfile.TemporaryDirectory(prefix="tutti-") as root:
            empty = self.build(root, "empty", [])
            for folder in (empty, str(pathlib.Path(root, "missing"))):
                with self.subTest(folder=folder):
                    status, lines = self.run_main(folder)
                    self.assertEqual(status, 1)
                    self.assertEqual(lines[-1], "0 passed, 1 failed, 0 skipped")

    def test_the_recorded_build_as_a_whole(self):
        with tempfile.TemporaryDirectory(prefix="tutti-") as root:
            shutil.copytree(FIXTURES, pathlib.Path(root, "b", "meson-logs"))
            status, lines = self.run_main(str(pathlib.Path(root, "b")))
        self.assertEqual((status, lines[-1]), (1, "9 passed, 12 failed, 6 skipped"))


if __name__ == "__main__":
    tap.main()
