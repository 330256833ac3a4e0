"""jobs/gpu_check.sh without a GPU: it says so; its stages work on the CPU, and find what is wrong."""

import json
import os
import pathlib
import subprocess

import system_test
from recipes import TrainingTest

SCRIPT = pathlib.Path(__file__).parents[2] / "jobs/gpu_check.sh"


class GpuCheck(TrainingTest):
    def check(self, *options, env=None):
        return subprocess.run([str(word) for word in [SCRIPT, "--out", self.dir, *options]], cwd=self.dir,
                              env=self.environment(env), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=300, check=False)

    def report(self):
        report = json.loads((self.dir / "gpu_check.json").read_text())
        return report, {stage["name"]: stage for stage in report["stages"]}

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
                            "facts,stepwise_parity,host_staged_ranks,nccl_one_rank,cuda_graph,racecheck,kernel_bench")
        self.assertEqual(result.returncode, 0, result.stderr)
        report, stages = self.report()
        self.assertTrue(report["rehearsal"])
        self.assertIn("REHEARSAL on the CPU", (self.dir / "gpu_check.txt").read_text())
        for network in stages["stepwise_parity"]["result"]:
            self.assertEqual(network["worst"], {"loss": 0, "grad_norm": 0}, "the same program on the same processor")
            self.assertEqual([step["step"] for step in network["steps"]], [2, 3, 4])
        self.assertEqual([case["ranks"] for case in stages["host_staged_ranks"]["result"]], [2, 3, 4])
        self.assertEqual(stages["racecheck"]["status"], "skipped")
        self.assertEqual(stages["cuda_graph"]["status"], "skipped")

    def test_a_device_that_computes_something_else_is_found(self):
        # A program whose resumed runs and whose runs on several ranks see other pixels.
        wrapper = self.dir / "trainer"
        wrapper.write_text(f"""#!/bin/sh
case "$*" in
    *run.resume=*|*distributed.backend=mpi*) exec {self.trainer} "$@" 'data.normalize={{mean: [0.3], std: [1.0]}}' ;;
esac
exec {self.trainer} "$@"
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
