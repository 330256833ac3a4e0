"""The stage of jobs/gpu_check.sh that narrows down a failure of compute-sanitizer, here one that only starts programs."""

import os
import types
from unittest import mock

import system_test
from gpu_checks import GpuCheckTest, UntilSign
import gpu_check
import gpu_narrowing
import gpu_process
import gpu_stages

CLEAN = "echo '========= ERROR SUMMARY: 0 errors'"
FAILED = "echo '========= Internal Sanitizer Error: The Sanitizer failed'; " \
         "echo '========= RACECHECK SUMMARY: 1 hazard displayed'; exit 9"
RACE = "echo '========= Error: Race reported between Write access at void cudnn::kernel()+0x10'; " \
       "echo '=========     and Read access at {}+0x20 [8 hazards]'; echo '========= RACECHECK SUMMARY: 1 hazard'; exit 9"
READ = "echo '========= Uninitialized __global__ memory read of size 4 bytes'; echo '=========     at {}+0x70'; " \
       "echo '=========         Host Frame: tutti::cuda::multiply() [0x1]'; echo '========= ERROR SUMMARY: 1 error'; exit 9"


class GpuNarrowing(GpuCheckTest):
    def narrowed(self, suites=("Odd.",), **cases):
        """The stage of a program with the suites Odd. (first, second) and Other. (only), where a case "TOOL KERNELS,FILTER",
        without the space and as the shell compares them, is a shell command, and all others are clean."""
        of_tools = "".join(f"    {case}) {command} ;;\n" for case, command in cases.items())
        program = f"""#!/bin/sh
[ $1 != --gtest_list_tests ] || {{ printf 'Odd.\\n  first\\n  second\\nOther.\\n  only\\n'; exit; }}
echo "${{TOOL-none}} ${{KERNELS-}}${{CUDA_LAUNCH_BLOCKING+ blocking}} ${{1#*=}}" >> {self.dir}/ran
echo '[ RUN      ] Odd.one'
case ${{TOOL-none}}${{KERNELS-}},${{1#*=}} in
{of_tools}    none*) ;;
    *) {CLEAN} ;;
esac
"""
        sanitizer = """#!/bin/sh
TOOL=$2; [ "$7" != --kernel-name ] || KERNELS=$8; export TOOL KERNELS
while [ "${1#--}" != "$1" ]; do shift 2; done
exec "$@"
"""
        for name, text in ("test_gpu_ops", program), ("compute-sanitizer", sanitizer):
            (self.dir / name).write_text(text)
            (self.dir / name).chmod(0o755)
        (self.dir / "ran").unlink(missing_ok=True)
        self.notes = []
        arguments = types.SimpleNamespace(trainer=self.trainer, tests=self.dir, rehearse=False, quick=True, jobs=1,
                                          suites=suites)
        check = gpu_stages.Check(arguments, self.dir, self.processes, lambda result, _="": self.notes.append(result))
        with mock.patch.dict(os.environ, {"PATH": f"{self.dir}:{os.environ['PATH']}"}):
            return check.sanitizer_narrowed()

    def setUp(self):
        super().setUp()
        self.processes = gpu_process.Processes()

    def ran(self):
        return (self.dir / "ran").read_text().splitlines()

    def test_a_test_in_which_racecheck_failed_is_looked_at_in_every_other_way(self):
        found = self.narrowed(**{"racecheckkns=5tutti,Odd.second": FAILED})
        self.assertEqual(self.ran(), [
            "racecheck kns=5tutti Odd.first", "racecheck kns=5tutti Odd.second", "racecheck kns=5tutti Odd.*",
            "racecheck kns=5tutti blocking Odd.second", "racecheck kns=no_kernel_has_this_name Odd.second",
            "none  blocking Odd.second", "synccheck kns=5tutti Odd.second", "initcheck  Odd.second", "racecheck  Odd.second"])
        self.assertEqual([*found["racecheck"]], ["Odd.first", "Odd.second", "Odd.*"])
        self.assertEqual({way: pieces["Odd.second"].get("unjudged") for way, pieces in found.items()},
                         {"racecheck": "compute-sanitizer failed in itself",
                          "racecheck, a launch at a time": "compute-sanitizer failed in itself", "racecheck of no kernel": None,
                          "no tool, a launch at a time": None, "synccheck": None, "initcheck": None,
                          "racecheck of all kernels": None})
        stage = {"name": "sanitizer_narrowed", "status": "passed", "version": "1", "gpu": None, "seconds": 1.0, "result": found}
        text = gpu_check.as_text({"rehearsal": False, "version": "1", "gpu": None, "passed": True, "failed": [], "not_run": [],
                                  "stages": [stage]})
        self.assertIn("  racecheck: 2 clean; not judged: Odd.second\n", text)
        self.assertIn("  racecheck of no kernel: 1 clean\n", text)

    def test_where_it_fails_in_none_the_other_tools_see_all_of_the_suites_that_are_asked_for(self):
        self.narrowed(suites=("Odd.", "Other."))
        tests = ("Odd.first", "Odd.second", "Other.only")
        self.assertEqual(self.ran()[5:], [f"{way} {test}" for way in ("synccheck kns=5tutti", "initcheck ", "racecheck ")
                                          for test in tests])
        with self.assertRaisesRegex(gpu_process.Failed, "test_gpu_ops has no suite Gone., but Odd., Other."):
            self.narrowed(suites=("Gone.",))

    def test_only_what_is_found_in_our_kernels_is_a_failure(self):
        found = self.narrowed(**{"initcheck*,Odd.first": READ.format("void cudnn::kernel<float>()")})
        self.assertEqual({key: found["initcheck"]["Odd.first"][key] for key in ("bad", "errors", "of_libraries")},
                         {"bad": False, "errors": 1, "of_libraries": True})
        self.assertIn("  initcheck: 1 clean; found something in a library: Odd.first", gpu_narrowing.summary_lines(found))
        found = self.narrowed(**{"racecheck,Odd.first": RACE.format("void cudnn::kernel()")})
        self.assertTrue(found["racecheck of all kernels"]["Odd.first"]["of_libraries"])
        for case, command in {"racecheck,Odd.first": RACE.format("void tutti::cuda::(anonymous namespace)::add()"),
                              "initcheck*,Odd.first": READ.format("void tutti::cuda::(anonymous namespace)::add()"),
                              "none*,Odd.first|racecheckkns=5*,Odd.first": "echo '[  FAILED  ] Odd.first (0 ms)'; exit 1",
                              "initcheck*,Odd.*": "echo '[  FAILED  ] Odd.first (0 ms)'; " + READ.format("void kernel()"),
                              "synccheck*": "echo '========= Barrier error detected. Missing wait.'; " + FAILED}.items():
            with self.assertRaisesRegex(gpu_process.Failed, "Odd.first", msg=case):
                self.narrowed(**{case: command})
        self.assertIn("  synccheck: 0 clean; found something: Odd.first, Odd.second",
                      gpu_narrowing.summary_lines(self.notes[-1]))

    def test_what_was_found_stays_when_the_time_ends(self):
        self.processes = UntilSign(self.sign)
        with self.assertRaises(gpu_process.OutOfTime):
            self.narrowed(**{"racecheckkns=5tutti,Odd.second": f": > {self.sign}; exec sleep 300"})
        self.assertEqual(self.notes[-1]["racecheck"]["Odd.first"]["errors"], 0)
        # In the last piece of all, too.
        self.sign.unlink()
        with self.assertRaises(gpu_process.OutOfTime):
            self.narrowed(**{"racecheck,Odd.second": f": > {self.sign}; exec sleep 300"})

    def test_a_report_is_complete_without_it(self):
        def wanted(*options):
            return gpu_check.parse(["--trainer", str(self.trainer), *options]).wanted

        self.assertNotIn("sanitizer_narrowed", wanted())
        self.assertEqual(wanted("--part", "narrow"), ["facts", "sanitizer_narrowed"])
        self.assertEqual(gpu_check.parse(["--trainer", str(self.trainer), "--suites", "Odd,Other."]).suites, ["Odd.", "Other."])
        code = self.check_until(gpu_process.Processes(), "--trainer", self.trainer, "--stages", "nccl_one_rank")
        self.assertEqual((code, "sanitizer_narrowed" in self.report()[0]["not_run"]), (0, False))
        self.check_until(gpu_process.Processes(), "--trainer", self.trainer, "--part", "narrow")
        self.assertEqual(self.report()[1]["sanitizer_narrowed"]["reason"], "a rehearsal has no GPU")


if __name__ == "__main__":
    system_test.main()
