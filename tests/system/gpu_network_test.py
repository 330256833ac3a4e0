"""What `trainer doctor` and `trainer bench allreduce` say of GPUs, on some that are not there."""

import json

import system_test
from gpu_program import GpuProgramTest

NAMES = "fake GPU"


class GpuNetwork(GpuProgramTest):
    def on_gpus(self, ranks, arguments, gpus, **variables):
        """A Result."""
        env = {**self.libraries, "TUTTI_FAKE_GPUS": str(gpus), "TUTTI_FAKE_NCCL_SLOT": str(1 << 24), **variables}
        return self.mpirun(ranks, arguments, env=env)

    def diagnose(self, ranks, gpus, code=0, **variables):
        result = self.on_gpus(ranks, ["doctor", "--json"], gpus, **variables)
        self.assert_exit(result, code)
        return json.loads(result.stdout)

    def problem(self, report):
        [problem] = report["problems"]
        self.assertTrue(problem["fix"])
        return problem["name"], problem["what"]

    def bench(self, ranks, gpus, *options):
        arguments = ["bench", "allreduce", "--sizes", "4K,100K", "--iterations", 2, "--json", "--out", self.dir, *options]
        result = self.on_gpus(ranks, arguments, gpus)
        self.assert_exit(result, 0)
        report = json.loads(result.stdout)
        self.assertEqual(report, json.loads((self.dir / "allreduce.json").read_text()))
        self.assertEqual([row["bytes"] for row in report["rows"]], [4096, 102400])
        return report

    def test_doctor_sums_the_memory_of_the_gpus(self):
        self.with_nccl()
        report = self.diagnose(2, 2)
        self.assertEqual(report["problems"], [])
        self.assertEqual([rank["gpu_name"] for rank in report["ranks"]], [NAMES] * 2)
        self.assertEqual(len({rank["gpu_uuid"] for rank in report["ranks"]}), 2)
        gpus = report["gpus"]
        self.assertEqual((gpus["able_ranks"], gpus["why_cpu"], gpus["failure"]), (2, "", ""))
        self.assertEqual(gpus["all_reduce"]["backend"], "nccl")
        self.assertRegex(gpus["all_reduce"]["path"], r"^NCCL \d")
        self.assertEqual((gpus["all_reduce"]["bytes"], gpus["all_reduce"]["wrong"]), (64000000, 0))
        self.assertLessEqual(gpus["all_reduce"]["largest_error"], gpus["all_reduce"]["allowed_error"])
        self.assertEqual(report["all_reduce"]["backend"], "mpi")

    def test_an_nccl_without_windows_is_healthy(self):
        self.with_nccl()
        report = self.diagnose(2, 2, TUTTI_FAKE_NO_WINDOWS="1")
        self.assertEqual((report["gpus"]["why_no_nccl"], report["gpus"]["all_reduce"]["backend"]), ("", "nccl"))

    def test_doctor_says_that_nccl_is_not_there(self):
        report = self.diagnose(2, 2, code=1)
        name, what = self.problem(report)
        self.assertEqual(name, "no-nccl")
        self.assertIn("gradients go through host memory: ", what)
        self.assertIn("through pinned host memory", report["gpus"]["all_reduce"]["path"])
        self.assertEqual(report["gpus"]["all_reduce"]["wrong"], 0)

    def test_doctor_says_that_ranks_would_share_a_gpu(self):
        report = self.diagnose(2, 1, code=1)
        self.assertEqual(report["gpus"]["able_ranks"], 2)
        name, what = self.problem(report)
        self.assertEqual(name, "gpus-not-taken")
        self.assertIn("would share the GPU", what)

    def test_doctor_of_one_rank_sums_nothing(self):
        report = self.diagnose(1, 1)
        self.assertEqual(report["gpus"]["able_ranks"], 1)
        self.assertIsNone(report["gpus"]["all_reduce"])

    def test_the_bench_sums_the_memory_of_the_gpus(self):
        self.with_nccl()
        report = self.bench(2, 2)
        self.assertRegex(report["path"], r"^NCCL \d")
        self.assertEqual(report["memory"], NAMES)
        self.assertNotIn("ratio", report["rows"][0])

    def test_the_bench_goes_the_way_it_is_told(self):
        staged = self.bench(2, 1, "--backend", "mpi")
        self.assertEqual((staged["memory"], staged["path"]), (NAMES, "shared memory, through pinned host memory"))
        host = self.bench(2, 2, "--device", "cpu")
        self.assertEqual((host["memory"], host["path"]), ("host", "shared memory"))
        self.assertIn("ratio", host["rows"][0])

    def test_the_table_says_whose_memory_it_is(self):
        result = self.on_gpus(1, ["bench", "allreduce", "--sizes", "4K", "--iterations", 1, "--out", self.dir], 1)
        self.assert_exit(result, 0)
        self.assertIn("in place, of the memory of fake GPU: 1 rank ", result.stdout)


if __name__ == "__main__":
    system_test.main()
