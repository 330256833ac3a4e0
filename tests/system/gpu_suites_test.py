"""The stages of jobs/gpu_check.sh that run GoogleTest programs: each suite is judged on its own, also by compute-sanitizer."""

import json
import os
import types
from unittest import mock

import system_test
from gpu_checks import GpuCheckTest, UntilSign
import gpu_process
import gpu_stages


class GpuSuites(GpuCheckTest):
    def test_each_suite_of_the_unit_tests_is_judged_on_its_own(self):
        program = self.dir / "test_kernels"
        program.write_text("""#!/bin/sh
case $1 in
    --gtest_list_tests) printf 'Good.\\n  works\\nBad.\\n  fails\\nCrashing/0.  # TypeParam = float\\n  dies\\n' ;;
    --gtest_filter=Good.*) echo '[ RUN      ] Good.works' ;;
    --gtest_filter=Bad.*) printf '[ RUN      ] Bad.fails\\nfile.cpp:1: Failure\\n1 is not 2\\n[  FAILED  ] Bad.fails (0 ms)\\n'; exit 1 ;;
    *) echo '[ RUN      ] Crashing/0.dies'; kill -SEGV $$ ;;
esac
""")
        program.chmod(0o755)
        code = self.check_until(gpu_process.Processes(), "--trainer", self.trainer, "--tests", self.dir, "--part", "unit")
        self.assertEqual(code, 1)
        suites = self.report()[1]["unit_tests"]["result"]["test_kernels"]
        self.assertEqual({name: (suite["tests"], suite["failed"], suite["bad"]) for name, suite in suites.items()},
                         {"Good.": (1, [], False), "Bad.": (1, ["Bad.fails"], True), "Crashing/0.": (1, [], True)})
        self.assertIn("1 is not 2", suites["Bad."]["said"])
        self.assertIn("in Crashing/0.dies", suites["Crashing/0."]["said"])

    def test_a_suite_that_failed_stays_a_failure_when_the_time_ends_in_the_next(self):
        program = self.dir / "test_kernels"
        program.write_text("""#!/bin/sh
case $1 in
    --gtest_list_tests) printf 'Bad.\n  fails\nHanging.\n  hangs\n' ;;
    --gtest_filter=Bad.*) printf '[ RUN      ] Bad.fails\nfile.cpp:1: Failure\n1 is not 2\n[  FAILED  ] Bad.fails (0 ms)\n'; exit 1 ;;
    *) echo '[ RUN      ] Hanging.hangs'; : > time-is-over; exec sleep 300 ;;
esac
""".replace("time-is-over", str(self.sign)))
        program.chmod(0o755)
        code = self.check_until(UntilSign(self.sign), "--trainer", self.trainer, "--tests", self.dir, "--part", "unit")
        self.assertEqual(code, 1)
        report, stages = self.report()
        self.assertFalse(report["passed"])
        self.assertEqual(stages["unit_tests"]["status"], "FAILED")
        self.assertIn("--minutes are over; ", stages["unit_tests"]["reason"])
        self.assertIn("1 is not 2", stages["unit_tests"]["reason"])
        self.assertFalse(stages["unit_tests"]["result"]["test_kernels"]["Hanging."]["bad"], "it may only have been late")

    def test_suites_in_which_nothing_is_tested_fail(self):
        program = self.dir / "test_kernels"
        program.write_text("""#!/bin/sh
case $1 in
    --gtest_list_tests) printf 'Good.\n  works\n  skips\nEmpty.\nSkipped.\n  skips\n' ;;
    --gtest_filter=Good.*) printf '[ RUN      ] Good.works\n[ RUN      ] Good.skips\n[  SKIPPED ] Good.skips (0 ms)\n' ;;
    --gtest_filter=Skipped.*) printf '[ RUN      ] Skipped.skips\n[  SKIPPED ] Skipped.skips (0 ms)\n[  SKIPPED ] 1 test, listed below:\n[  SKIPPED ] Skipped.skips\n' ;;
esac
""")
        program.chmod(0o755)
        self.assertEqual(self.check_until(gpu_process.Processes(), "--trainer", self.trainer, "--tests", self.dir, "--part", "unit"), 1)
        suites = self.report()[1]["unit_tests"]["result"]["test_kernels"]
        self.assertEqual({name: (suite["tests"], suite.get("skipped", 0), suite["bad"]) for name, suite in suites.items()},
                         {"Good.": (1, 1, False), "Empty.": (0, 0, True), "Skipped.": (0, 1, True)})
        program.write_text("#!/bin/sh\n")
        self.assertEqual(self.check_until(gpu_process.Processes(), "--trainer", self.trainer, "--tests", self.dir, "--part", "unit"), 1)
        self.assertIn("lists no tests", self.report()[1]["unit_tests"]["reason"])

    def sanitized(self, jobs=1, tests=("runs",), **suites):
        """The stage memcheck of suites that are these shell commands, under a sanitizer that only starts them; and its
        remark. One after the other: the sign that time is over would end those beside it."""
        listed = "".join(f"{name}.\\n" + "".join(f"  {test}\\n" for test in tests) for name in suites)
        cases = "".join(f"    --gtest_filter={name}.*) echo '[ RUN      ] {name}.runs'; {command} ;;\n" for name, command in suites.items())
        for name, text in {"test_gpu_ops": f"case $1 in\n    --gtest_list_tests) printf '{listed}' ;;\n{cases}esac\n",
                           "compute-sanitizer": f'echo "$*" >> {self.dir}/asked\nwhile [ "${{1#--}}" != "$1" ]; do shift 2; done\nexec "$@"\n'}.items():
            (self.dir / name).write_text("#!/bin/sh\n" + text)
            (self.dir / name).chmod(0o755)

        class Hurried(UntilSign):
            """A process that says so has no more time, the check has."""

            def left(self):
                return float("inf")

        self.sign.unlink(missing_ok=True)
        remarks = []
        arguments = types.SimpleNamespace(trainer=self.trainer, tests=self.dir, rehearse=False, quick=True, jobs=jobs)
        check = gpu_stages.Check(arguments, self.dir, Hurried(self.sign), lambda _, remark="": remarks.append(remark))
        with mock.patch.dict(os.environ, {"PATH": f"{self.dir}:{os.environ['PATH']}"}):
            return check.memcheck()["test_gpu_ops"], remarks[-1]

    def test_the_sanitizer_must_have_judged(self):
        clean, slow = "echo '========= ERROR SUMMARY: 0 errors'", f": > {self.sign}; exec sleep 300"
        # What the tool says, and its code, where nothing asks for the GPU.
        host = "echo '========= Error: Target application terminated before first instrumented API call'; exit 255"
        suites, remark = self.sanitized(Clean=clean, Host=host, Slow=slow)
        self.assertEqual([suites[f"{name}."]["errors"] for name in ("Clean", "Host", "Slow")], [0, None, None])
        self.assertEqual(remark, "not judged: Host., Slow.")
        self.assertEqual([suites[f"{name}."].get("unjudged") for name in ("Clean", "Host", "Slow")],
                         [None, "it does not use the GPU", "it did not end in time"])
        # Libraries' own questions to the driver, which it may refuse, are no errors of ours.
        self.assertIn("--tool memcheck --target-processes all --error-exitcode 9 --report-api-errors no",
                      (self.dir / "asked").read_text())
        for bad in {"Slow": slow}, {"Host": host}, {"Clean": clean, "Both": f"echo '========= ERROR SUMMARY: 1 error'; {host}"}, \
                {"Clean": clean, "Silent": "true"}, {"Clean": clean, "Wrong": "echo '========= ERROR SUMMARY: 3 errors'"}:
            with self.assertRaises(gpu_process.Failed, msg=bad):
                self.sanitized(**bad)

    def test_suites_are_told_in_the_order_of_the_program_whichever_ends_first(self):
        host = "echo '========= Error: Target application terminated before first instrumented API call'; exit 255"
        ended = self.dir / "ended"
        # The first ends when the second's process is gone.
        suites, remark = self.sanitized(jobs=2, First=f"while ! [ -s {ended} ] || kill -0 $(cat {ended}) 2> {os.devnull}; do sleep 0.01; done; {host}",
                                        Second=f"echo $$ > {ended}; {host}", Third="echo '========= ERROR SUMMARY: 0 errors'")
        self.assertEqual([*suites], ["First.", "Second.", "Third."])
        self.assertEqual(remark, "not judged: First., Second.")

    def test_a_suite_in_which_the_sanitizer_failed_is_judged_test_by_test(self):
        failed = "echo '========= Internal Sanitizer Error: The Sanitizer failed'; echo '========= ERROR SUMMARY: 1 error'; exit 9"
        clean = "echo '========= ERROR SUMMARY: 0 errors'"
        for of_second, bad in (clean, False), ("echo '========= Invalid __global__ read of size 4'; " + failed, True):
            of_test = f'case $1 in *\\*|*.first) {failed} ;; *.second) {of_second} ;; esac'
            try:
                suites, remark = self.sanitized(tests=("first", "second"), Odd=of_test, Clean=clean)
            except gpu_process.Failed as failure:
                self.assertTrue(bad, failure)
                self.assertIn("Invalid __global__ read", str(failure))
                continue
            self.assertFalse(bad)
            self.assertEqual(remark, "not judged: Odd.first")
            self.assertEqual(suites["Odd."]["unjudged"], "Odd.first: compute-sanitizer failed in itself")
            self.assertEqual((suites["Odd."]["tests"], suites["Odd."]["errors"]), (2, 0))
        # Nothing else was judged.
        with self.assertRaises(gpu_process.Failed):
            self.sanitized(Odd=failed)

    def test_a_device_that_the_sanitizer_does_not_support_is_no_failure(self):
        refused = ("printf '========= COMPUTE-SANITIZER\n========= Error: Device not supported. Please refer to the documentation\n"
                   "file.cpp:1: Failure\ncudaHostAlloc failed: cudaErrorUnknown (CUDA 999)\n[  FAILED  ] Refused.runs (0 ms)\n"
                   "========= ERROR SUMMARY: 1 error\n'; exit 1")
        host = "echo '========= Error: Target application terminated before first instrumented API call'; exit 255"
        with self.assertRaisesRegex(gpu_process.Skipped, "^compute-sanitizer does not support this device$"):
            self.sanitized(Host=host, Refused=refused, Another=refused)
        # A program that says so of itself has no such excuse.
        with self.assertRaises(gpu_process.Failed):
            self.sanitized(Refused="echo 'Device not supported'; exit 1")

    def test_a_part_of_a_stage_stands_beside_its_last_verdict(self):
        suites = self.dir / "test_kernels"
        suites.write_text("""#!/bin/sh
case $1 in
    --gtest_list_tests) printf 'Good.\n  works\nHanging.\n  hangs\n' ;;
    --gtest_filter=Good.*) echo '[ RUN      ] Good.works' ;;
    *) echo '[ RUN      ] Hanging.hangs'; : > time-is-over; exec sleep 300 ;;
esac
""".replace("time-is-over", str(self.sign)))
        suites.chmod(0o755)
        before = {"name": "unit_tests", "date": "2001-02-03 04:05 UTC", "status": "FAILED", "seconds": 1.0, "reason": "Good. failed"}
        (self.dir / "gpu_check.json").write_text(json.dumps({"rehearsal": True, "stages": [before]}))
        for _ in range(2):
            code = self.check_until(UntilSign(self.sign), "--trainer", self.trainer, "--tests", self.dir, "--part", "unit")
            self.sign.unlink()
            self.assertEqual(code, 1)
            report, stages = self.report()
            self.assertEqual((report["failed"], stages["unit_tests"]["status"]), (["unit_tests"], "cut off"))
            self.assertFalse(stages["unit_tests"]["result"]["test_kernels"]["Good."]["bad"])
            self.assertEqual(stages["unit_tests"]["before"], before)
        self.assertIn("before: [of an unknown version] [on an unknown GPU] Good. failed", (self.dir / "gpu_check.txt").read_text())


if __name__ == "__main__":
    system_test.main()
