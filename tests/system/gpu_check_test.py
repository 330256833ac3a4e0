"""jobs/gpu_check.sh without a GPU: it says so; its stages work on the CPU, and find what is wrong."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import types
from unittest import mock

import system_test
from gpu_checks import GpuCheckTest, UntilSign
import cases
import gpu_check
import gpu_process
import gpu_stages
import peer_torch

SCRIPT = pathlib.Path(__file__).parents[2] / "jobs/gpu_check.sh"


class GpuCheck(GpuCheckTest):
    def check(self, *options, env=None):
        return subprocess.run([str(word) for word in [SCRIPT, "--out", self.dir, *options]], cwd=self.dir,
                              env=self.environment(env), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=300, check=False)

    def test_without_a_gpu_it_says_so_and_ends_with_77(self):
        tools = self.dir / "tools"
        tools.mkdir()
        for name in ("bash", "dirname", "python3", "env"):
            (tools / name).symlink_to(next(pathlib.Path(folder, name) for folder in os.environ["PATH"].split(":")
                                           if os.access(pathlib.Path(folder, name), os.X_OK)))
        result = self.check("--trainer", self.trainer, env={"PATH": str(tools)})
        self.assertEqual(result.returncode, 77, result.stderr)
        self.assertIn("no GPU here (nvidia-smi is not installed)", result.stderr)
        self.assertFalse((self.dir / "gpu_check.json").exists())

    def test_its_stages_pass_on_the_cpu_and_the_report_says_that_it_was_the_cpu(self):
        result = self.check("--trainer", self.trainer, "--rehearse", "--quick", "--stages",
                            "stepwise_parity,host_staged_ranks,same_bits,nccl_one_rank,cuda_graph,racecheck,kernel_bench,step_times",
                            "--models", "lenet")
        self.assertEqual(result.returncode, 0, result.stderr)
        report, stages = self.report()
        self.assertTrue(report["rehearsal"])
        self.assertIn("REHEARSAL on the CPU", (self.dir / "gpu_check.txt").read_text())
        for network in stages["stepwise_parity"]["result"]:
            self.assertEqual(network["worst"], {"loss": 0, "grad_norm": 0}, "the same program on the same processor")
            self.assertEqual([step["step"] for step in network["steps"]], [2, 3, 4])
        self.assertEqual([case["ranks"] for case in stages["host_staged_ranks"]["result"].values()], [2, 3, 4])
        self.assertEqual(stages["same_bits"]["result"], {"lenet": {way: "equal" for way in ("again", "2 ranks", "4 ranks")}})
        self.assertEqual(stages["racecheck"]["status"], "skipped")
        self.assertEqual(stages["cuda_graph"]["status"], "skipped")
        for times in "milliseconds", "autotuned_milliseconds":
            self.assertGreater(stages["step_times"]["result"]["lenet"][times], 0)
        self.assertEqual(stages["facts"]["status"], "passed")
        self.assertEqual(report["not_run"], ["unit_tests", "nccl_two_ranks_on_one_gpu", "step_bench", "memcheck"])

    def test_pieces_run_side_by_side_and_keep_their_order_in_the_report(self):
        # Each of two networks waits until both have begun.
        wrapper = self.dir / "trainer"
        wrapper.write_text(f"""#!/bin/sh
case "$*" in
    *train.checkpoint.every=1\ steps*)
        : > {self.dir}/begun-$$
        for i in $(seq 600); do [ $(ls {self.dir} | grep -c ^begun-) -lt 2 ] || break; sleep 0.1; done
        [ $(ls {self.dir} | grep -c ^begun-) -ge 2 ] || exit 3 ;;
esac
exec {self.quoted_trainer} "$@"
""")
        wrapper.chmod(0o755)
        code = self.check_until(gpu_process.Processes(), "--trainer", wrapper, "--stages", "stepwise_parity", "--jobs", "2")
        self.assertEqual(code, 0)
        self.assertEqual([one["network"] for one in self.report()[1]["stepwise_parity"]["result"]], ["mlp", "lenet"])

    def test_the_program_takes_the_settings_of_every_cuda_graph(self):
        arguments = types.SimpleNamespace(trainer=self.trainer, tests=self.dir, rehearse=True, quick=True)
        check = gpu_stages.Check(arguments, self.dir, gpu_process.Processes(), lambda *_: None)
        for name, settings in check.graph_cases().items():
            # There is no NCCL on the CPU, and not on every one bf16.
            of_cpu = [setting for setting in settings if setting not in ("distributed.backend=nccl", "train.precision=bf16")]
            self.assertEqual(len(check.losses(name, 1, "device=cpu", *of_cpu, "train.max_steps=2")), 2, name)

    def test_who_ends_the_check_ends_what_runs_beside_it(self):
        processes = gpu_process.Processes()
        check = gpu_stages.Check(types.SimpleNamespace(trainer=self.trainer, rehearse=True, quick=True), self.dir, processes,
                                 lambda *_: None)

        def work(piece):
            command = f"echo $$ > {self.dir}/pid; exec sleep 300" if piece == "long" else f"until [ -s {self.dir}/pid ]; do sleep 0.1; done"
            return processes.run(["/bin/sh", "-c", command])

        def keep(piece, _):
            if piece == "short":
                raise SystemExit(1)

        with self.assertRaises(SystemExit):
            processes.each(["long", "short"], work, keep, 2)
        self.assertFalse(pathlib.Path("/proc", (self.dir / "pid").read_text().strip()).exists())
        with self.assertRaises(gpu_process.OutOfTime):
            processes.run(["/bin/true"])

    def test_a_process_ends_with_the_time_of_the_check(self):
        done = gpu_process.Processes(minutes=0.03).run(["/bin/sh", "-c", "echo begun; exec sleep 300"])
        self.assertEqual((done.returncode, done.late, done.stdout), (None, True, "begun\n"))

    def test_a_process_that_does_not_end_when_killed_is_left_behind_and_told(self):
        processes = gpu_process.Processes()
        with mock.patch.object(gpu_process, "end_session"), mock.patch.object(gpu_process, "REAPED_WITHIN", 0.1):
            done = processes.run(["/bin/sh", "-c", f"echo $$ > {self.dir}/pid; exec sleep 300"], seconds=2)
        try:
            self.assertIsNone(done.returncode)
            self.assertIn("sh has not ended 0.1 s after SIGKILL", done.stderr)
        finally:
            os.kill(int((self.dir / "pid").read_text()), signal.SIGKILL)

    def test_a_stage_of_an_earlier_call_stays_until_there_is_something_new(self):
        old = {"date": "2001-02-03 04:05 UTC", "version": "tutti 0.0.1", "seconds": 1.0}
        kept = [{"name": "step_times", "status": "passed", "gpu": None, "result": {"lenet": {"milliseconds": 1.5}}, **old},
                {"name": "host_staged_ranks", "status": "FAILED", "reason": "a rank was lost", **old}]
        (self.dir / "gpu_check.json").write_text(json.dumps({"rehearsal": True, "stages": kept}))
        wrapper = self.dir / "trainer"
        wrapper.write_text(f"""#!/bin/sh
case "$*" in
    *"bench step"*|*distributed.backend=mpi*) : > {self.sign}; exec sleep 300 ;;
esac
exec {self.quoted_trainer} "$@"
""")
        wrapper.chmod(0o755)
        for stage in "step_times", "host_staged_ranks":
            for processes in gpu_process.Processes(minutes=0), UntilSign(self.sign):
                self.assertEqual(self.check_until(processes, "--trainer", wrapper, "--stages", stage), 1)
                report, stages = self.report()
                self.assertEqual([stages["step_times"], stages["host_staged_ranks"]], kept, f"{processes} of {stage}")
            self.sign.unlink()
            self.assertEqual((report["failed"], report["passed"], report["complete"]), (["host_staged_ranks"], False, False))
        text = (self.dir / "gpu_check.txt").read_text()
        self.assertRegex(text, r"FAILED +host_staged_ranks .*\[of tutti 0.0.1\] \[on an unknown GPU\] a rank was lost")
        self.assertNotRegex(text, r"facts .*\[of ")
        self.assertIn("incomplete, not run to the end: unit_tests, ", text)

    def test_a_skipped_stage_leaves_the_verdict_of_another_machine(self):
        for verdict in "passed", "FAILED":
            before = {"name": "cuda_graph", "date": "2001-02-03 04:05 UTC", "version": "tutti 0.0.1", "gpu": "NVIDIA H200",
                      "status": verdict, "seconds": 1.0, "result": {"of": "then"}}
            (self.dir / "gpu_check.json").write_text(json.dumps({"rehearsal": True, "stages": [before]}))
            for _ in range(2):
                code = self.check_until(gpu_process.Processes(), "--trainer", self.trainer, "--stages", "cuda_graph")
                self.assertEqual(code, int(verdict == "FAILED"))
                stage = self.report()[1]["cuda_graph"]
                skipped = stage.pop("skipped_later")
                self.assertEqual(stage, before)
                self.assertEqual((skipped["reason"], skipped["gpu"]), ("a rehearsal has no CUDA graphs", "the CPU"))
            text = (self.dir / "gpu_check.txt").read_text()
            self.assertRegex(text, verdict + r" +cuda_graph .*\[on NVIDIA H200\]\n +skipped on .*: a rehearsal has no")

    def test_the_gpu_is_what_nvidia_smi_says(self):
        tool = self.dir / "nvidia-smi"
        for said, expected in (("NVIDIA H100 80GB HBM3, 81559", ("NVIDIA H100 80GB HBM3", 81559 / 1024)),
                               ("NVIDIA H200, [N/A]", ("NVIDIA H200", None)), ("", (None, None))):
            tool.write_text(f"#!/bin/sh\necho '{said}'\n")
            tool.chmod(0o755)
            with mock.patch.dict(os.environ, {"PATH": f"{self.dir}:{os.environ['PATH']}"}):
                self.assertEqual(gpu_check.this_gpu(gpu_process.Processes()), expected)
                # A driver that hangs, and no time: no error.
                self.assertEqual(gpu_check.this_gpu(gpu_process.Processes(minutes=0)), expected)
        tool.write_text("""#!/bin/sh
[ "$1 $2" = '-i GPU-5' ] && echo 'NVIDIA H200, 143771' && exit
echo 'No devices were found, 5'; exit 6
""")
        for visible, expected in ("GPU-5,0", "NVIDIA H200"), ("", None), ("1", None):
            with mock.patch.dict(os.environ, {"PATH": f"{self.dir}:{os.environ['PATH']}", "CUDA_VISIBLE_DEVICES": visible}):
                self.assertEqual(gpu_check.this_gpu(gpu_process.Processes())[0], expected, visible)

    def test_time_that_is_too_short_for_anything_is_told(self):
        for minutes in "0", "0.01", "-1", "nan":
            result = self.check("--trainer", self.trainer, "--rehearse", "--minutes", minutes)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn(f"--minutes: {minutes} minutes are not enough to start anything", result.stderr)

    def test_what_the_libraries_refused_stands_beside_times_and_parity(self):
        wrapper = self.dir / "trainer"
        said = "GELU has a kernel of its own: the product 1 x 2 by 2 x 3 with GELU: refused"
        wrapper.write_text(f"""#!/bin/sh
case "$*" in
    *"bench step"*|*run.resume=*) printf '\r\033[2K{said}\nanother line\n{said}\n' >&2 ;;
esac
exec {self.quoted_trainer} "$@"
""")
        wrapper.chmod(0o755)
        result = self.check("--trainer", wrapper, "--rehearse", "--quick", "--stages", "stepwise_parity,step_times", "--models",
                            "lenet")
        self.assertEqual(result.returncode, 0, result.stderr)
        _, stages = self.report()
        found = [*stages["stepwise_parity"]["result"], *stages["step_times"]["result"].values()]
        self.assertEqual([one["notices"] for one in found], [[said]] * 3)
        self.assertEqual((self.dir / "gpu_check.txt").read_text().count(f" notice: {said}\n"), 3)

    def test_a_reference_that_was_cut_off_is_not_compared_with(self):
        wrapper = self.dir / "trainer"
        wrapper.write_text(f"""#!/bin/sh
{self.quoted_trainer} "$@" || exit
case "$*" in
    *run.dir=*reference*) [ -e {self.sign} ] || {{ : > {self.sign}; exit 3; }} ;;
esac
""")
        wrapper.chmod(0o755)
        arguments = types.SimpleNamespace(trainer=wrapper, tests=self.dir, rehearse=True, quick=True)
        check = gpu_stages.Check(arguments, self.dir, gpu_process.Processes(), lambda *_: None)
        with self.assertRaisesRegex(gpu_process.Failed, "ended with 3"):
            check.compare("first", 1)
        for metrics in self.dir.glob("reference*/metrics.jsonl"):
            metrics.write_text("")  # what there was until then
        self.assertLessEqual(check.compare("second", 1)["worst"], gpu_stages.LOSS_TOLERANCE)

    def bench_beside(self, processes, of_resnet18):
        """The stage step_bench of two models beside a stand-in of PyTorch that does this for the second."""
        steps = self.dir / "steps.py"
        steps.write_text(f"""import json, sys, time
if sys.argv[sys.argv.index("--model") + 1] == "resnet18":
    {of_resnet18}
print(json.dumps({{"torch": "0", "device": "none", "parameters": 421642}}), flush=True)
for line in sys.stdin:
    print(json.dumps([0.25] * int(line)), flush=True)
""")
        python = self.dir / "python"
        python.write_text(f'#!/bin/sh\nshift 2\nexec "{sys.executable}" -B "{steps}" "$@"\n')
        python.chmod(0o755)
        code = self.check_until(processes, "--trainer", self.trainer, "--stages", "step_bench", "--models", "lenet,resnet18",
                                "--python", python)
        stage = self.report()[1]["step_bench"]
        self.assertEqual(stage["result"]["results"]["lenet"]["eager"], [250.0])
        return code, stage

    def test_a_finished_model_stays_in_the_report_when_the_next_one_fails_or_the_time_ends(self):
        code, stage = self.bench_beside(gpu_process.Processes(), 'sys.exit("no memory")')
        self.assertEqual((code, stage["status"]), (0, "passed"), "PyTorch's own failure stands in the table")
        self.assertIn("no memory", stage["result"]["results"]["resnet18"]["eager"])
        code, stage = self.bench_beside(gpu_process.Processes(), "pass")
        self.assertEqual((code, stage["status"]), (1, "FAILED"))
        self.assertIn("parameters here, 421642 in PyTorch", stage["reason"])
        code, stage = self.bench_beside(UntilSign(self.sign), f"open({str(self.sign)!r}, 'w'); time.sleep(300)")
        self.assertEqual((stage["status"], stage["reason"]), ("cut off", "--minutes are over"))

    def test_variants_of_pytorch_keep_their_times_when_ours_fails_beside_another(self):
        def beside(arguments, model, folder, variants, result, keep):
            if variants == ["compile"]:
                raise peer_torch.Failed("ours ended with 9")
            result["ours"].append(2.0)
            for variant in variants:
                result[variant], result["beside"][variant] = [3.0], [2.0]
            keep()

        arguments = types.SimpleNamespace(batch=None, memory=79.6, variants=["eager", "compile", "max-autotune"])
        result, kept = {}, []
        with mock.patch.object(peer_torch, "measure_beside", beside):
            peer_torch.measure(arguments, "vit_b16", self.dir, result, lambda: kept.append(json.dumps(result)))
        self.assertEqual(len(kept), 2)
        self.assertEqual([result[variant] for variant in arguments.variants], [[3.0], "ours ended with 9", [3.0]])
        self.assertEqual(result["failure"], "ours ended with 9", "of the whole")
        result["facts"] = {"device": "NVIDIA H200"}
        self.assertIn("| 3.00 (× 1.50) | ours ended with 9 | 3.00 (× 1.50) |", peer_torch.table({"vit_b16": result}, arguments.variants))

    def test_aims_and_batches_are_those_of_the_machine(self):
        self.assertEqual(cases.aim_text("vit_b16", "ours", "NVIDIA H200", 256), " (aim 50 ms)")
        self.assertEqual(cases.aim_text("lenet", "eager", "NVIDIA H100 80GB HBM3", 64),
                         " (aim x 3, on one H200; this is NVIDIA H100 80GB HBM3)")
        self.assertIn("with 256 samples; these are 128", cases.aim_text("resnet50", "ours", "NVIDIA H200", 128))
        self.assertEqual(cases.aim_text("lenet", "ours", "NVIDIA H200", 64), "")
        self.assertIn("on one H200; this is NVIDIA GH200", cases.aim_text("vit_b16", "ours", "NVIDIA GH200 144G HBM3e", 256))
        for name, case in cases.CASES.items():
            self.assertEqual(cases.batch_for(name, 79.6), case.batch, "an H100")
            self.assertEqual(cases.batch_for(name), case.batch)
            self.assertLessEqual(2 * case.memory * cases.batch_for(name, 24) / case.batch, 24, "a smaller one")
        self.assertFalse(cases.fit_together("vit_b16", 256, 4, 79.6), "PyTorch's three and ours at once on an H100")
        self.assertFalse(cases.fit_together("vit_b16", 256, 4, 139.8), "136 of the 140 GiB of an H200")
        self.assertTrue(cases.fit_together("resnet50", 256, 4, 139.8), "120 of them")

    def test_the_report_of_an_h100_says_it_beside_times_and_ratios(self):
        h100 = "NVIDIA H100 80GB HBM3"
        common = {"date": "2001-02-03 04:05 UTC", "version": "tutti 0.0.1", "gpu": h100, "status": "passed", "seconds": 1.0}
        bench = {"lenet": {"batch": 64, "ours": [1.0, 2.0], "eager": [4.0, 6.0], "compile": "did not compile",
                           "beside": {"eager": [1.0, 2.0]}, "facts": {"device": h100}}}
        text = gpu_check.as_text({"rehearsal": False, "version": "tutti 0.0.1", "gpu": h100, "passed": True, "failed": [],
                                  "not_run": [], "stages": [
            {"name": "step_times", **common, "result": {"resnet50": {"milliseconds": 40.0, "batch": 256}}},
            {"name": "step_bench", **common, "result": {"results": bench}}]})
        self.assertIn(f"40.00 ms a step of 256 (aim 32 ms, on one H200; this is {h100})", text)
        self.assertIn(f"PyTorch eager: 5.00 ms, x 3.50 of ours (aim x 3, on one H200; this is {h100})", text)
        self.assertNotIn("did not compile", text)

    def test_it_ends_in_time_with_what_it_has_and_goes_on_with_that(self):
        self.assertEqual(self.check_until(gpu_process.Processes(), "--trainer", self.trainer, "--stages", "nccl_one_rank"), 0)
        # Ranks that do not end from the first on, with processes of their own.
        wrapper = self.dir / "trainer"
        wrapper.write_text(f"""#!/bin/sh
case "$*" in
    *distributed.backend=mpi*)
        sleep 300 & echo $! >> {self.dir}/sleeping
        [ $(wc -l < {self.dir}/sleeping) -lt 2 ] || : > {self.sign}
        wait ;;
esac
exec {self.quoted_trainer} "$@"
""")
        wrapper.chmod(0o755)
        self.assertEqual(self.check_until(UntilSign(self.sign), "--trainer", wrapper, "--part", "ranks", "--jobs", "1"), 0)
        report, stages = self.report()
        self.assertEqual((stages["host_staged_ranks"]["status"], stages["host_staged_ranks"]["reason"]),
                         ("cut off", "--minutes are over"))
        self.assertEqual(stages["nccl_one_rank"]["status"], "skipped", "of the report that was there")
        self.assertIn("host_staged_ranks", report["not_run"])
        sleeping = (self.dir / "sleeping").read_text().split()
        self.assertEqual(len(sleeping), 2)
        for pid in sleeping:
            self.assertFalse(pathlib.Path("/proc", pid, "cmdline").exists()
                             and b"sleep" in pathlib.Path("/proc", pid, "cmdline").read_bytes(), pid)

    def test_a_device_that_computes_something_else_is_found(self):
        # A program whose resumed runs and whose runs on several ranks see other pixels.
        wrapper = self.dir / "trainer"
        wrapper.write_text(f"""#!/bin/sh
case "$*" in
    *run.resume=*|*distributed.backend=mpi*) exec {self.quoted_trainer} "$@" 'data.normalize={{mean: [0.3], std: [1.0]}}' ;;
esac
exec {self.quoted_trainer} "$@"
""")
        wrapper.chmod(0o755)
        result = self.check("--trainer", wrapper, "--rehearse", "--quick", "--stages",
                            "stepwise_parity,host_staged_ranks")
        self.assertEqual(result.returncode, 1, result.stderr)
        report, stages = self.report()
        self.assertFalse(report["passed"])
        self.assertEqual(stages["stepwise_parity"]["status"], "FAILED")
        self.assertIn('"network": "lenet"', stages["stepwise_parity"]["reason"])
        self.assertEqual(stages["host_staged_ranks"]["status"], "FAILED")
        self.assertIn("the losses differ", stages["host_staged_ranks"]["reason"])


if __name__ == "__main__":
    system_test.main()
