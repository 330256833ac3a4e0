"""trainer bench allreduce, alone and under mpirun."""

import json
import shutil
import signal
import subprocess

import system_test

SMALL = ["--sizes", "4K:64K:4", "--iterations", 5, "--warmup", 1]


class BenchAllreduce(system_test.SystemTest):
    def test_table_and_json_at_every_number_of_ranks(self):
        for ranks in (1, 2, 3, 4):
            out = self.dir / f"out{ranks}"
            result = self.mpirun(ranks, ["bench", "allreduce", *SMALL, "--out", out])
            self.assert_exit(result, 0)
            lines = [line.split() for line in result.stdout.splitlines() if line and not line.startswith("#")]
            self.assertEqual([int(line[0]) for line in lines], [4096, 16384, 65536])

            report = json.loads((out / "allreduce.json").read_text())
            self.assertEqual(report["world_size"], ranks)
            self.assertEqual([row["bytes"] for row in report["rows"]], [4096, 16384, 65536])
            for row in report["rows"]:
                time = row["seconds"]
                self.assertTrue(0 < time["min"] <= time["median"] <= time["max"], row)
                self.assertAlmostEqual(row["algorithm_bandwidth"], row["bytes"] / time["median"])
                self.assertAlmostEqual(row["bus_bandwidth"], row["algorithm_bandwidth"] * 2 * (ranks - 1) / ranks)
                self.assertTrue(row["verified"])
            pieces = report["fit"]["pieces"]
            self.assertEqual(bool(pieces), ranks > 1)
            if ranks > 1:
                self.assertEqual(pieces[0]["from_bytes"], 0)
                self.assertEqual(len(report["fit"]["residuals"]), 3)
                self.assertIn("fit:", result.stdout)
                self.assertEqual(report["path"], "shared memory")
            else:
                self.assertIn("nothing is exchanged", result.stdout)
            self.assertEqual([path.name for path in out.iterdir()], ["allreduce.json"])

    def test_ranks_that_cannot_map_each_others_memory_exchange_directly(self):
        """As containers of their own on one host: process numbers of rank 0 mean nothing to rank 1."""
        apart = ["unshare", "--pid", "--fork", "--mount-proc"]
        probe = [*apart, "true"]
        if shutil.which("unshare") is None or subprocess.run(probe, capture_output=True, check=False).returncode != 0:
            self.skipTest("unshare --pid is not possible here")
        program = self.dir / "apart.sh"
        program.write_text(f'#!/bin/sh\n[ "${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}" = 1 ] || exec {self.quoted_trainer} "$@"\n'
                           f'exec {" ".join(apart)} {self.quoted_trainer} "$@"\n')
        program.chmod(0o755)
        self.trainer = program
        self.assert_exit(self.mpirun(2, ["bench", "allreduce", *SMALL]), 0)
        report = json.loads((self.dir / "allreduce.json").read_text())
        self.assertEqual(report["path"], "direct exchange")
        self.assertTrue(all(row["verified"] for row in report["rows"]))

    def test_json_on_standard_output_and_without_mpirun(self):
        result = self.run_trainer(["bench", "allreduce", "--sizes", "4,5,1K", "--iterations", 2, "--json"])
        self.assert_exit(result, 0)
        self.assertEqual([row["bytes"] for row in json.loads(result.stdout)["rows"]], [4, 8, 1024])
        self.assertEqual(json.loads(result.stdout), json.loads((self.dir / "allreduce.json").read_text()))

    def test_says_that_one_size_does_not_tell_latency_from_bandwidth(self):
        for sizes, one in (("4K,4K", True), ("4K,8K", False)):
            result = self.mpirun(2, ["bench", "allreduce", "--sizes", sizes, "--iterations", 2])
            self.assert_exit(result, 0)
            self.assertEqual("one size does not tell them apart" in result.stdout, one, sizes)

    def test_the_help_says_what_of_a_size_is_measured(self):
        self.assertIn("rounded up to whole f32", " ".join(self.run_trainer(["bench", "allreduce", "--help"]).stdout.split()))

    def test_bad_arguments_are_named_with_the_remedy(self):
        (self.dir / "file").write_text("")
        for arguments, words in [
            (["allreduce", "--iteration", 3], ["--iteration", "did you mean --iterations?"]),
            (["allreduce", "--sizes", "8K:4K"], ['"8K:4K"', "FROM:TO"]),
            (["allreduce", "--sizes", "4X"], ['"4X"', "K, M, G or T"]),
            (["allreduce", "--sizes", "0,4K"], ["--sizes", "0 bytes"]),
            (["allreduce", "--iterations", 0], ["--iterations"]),
            (["allreduce", "--timeout", "-3"], ["--timeout: -3 is not a number of at least 0"]),
            (["allreduce", "--timeout", "x"], ["--timeout: x is not a number"]),
            (["allreduce", "--backend", "nccl", "--device", "cpu"], ["--backend is nccl, which joins GPUs", "--device is cpu"]),
            (["allreduce", "--backend", "2"], ["--backend: use one of auto, nccl, mpi, gloo, not 2"]),
            (["allreduce", "--out", self.dir / "file"], ["file", "--out"]),
            (["allreduce", "more"], ["more"]),
            (["allredcue"], ["allredcue", "did you mean allreduce?"]),
            (["allreduce", "--sizes", "4000000000G"], ["memory", "smaller"]),
        ]:
            result = self.run_trainer(["bench", *arguments])
            self.assert_exit(result, 2)
            for word in words:
                self.assertIn(word, result.stderr, arguments)
        for group in "bench", "pack":
            result = self.run_trainer([group])
            self.assert_exit(result, 2)
            self.assertRegex(result.stderr, rf"^error: trainer {group}: .* is not said; name one of .*; trainer {group} --help tells")
        self.assertEqual([path.name for path in self.dir.glob("*allreduce*")], [])

    def test_a_backend_may_be_written_in_capitals(self):
        result = self.run_trainer(["bench", "allreduce", "--backend", "MPI", "--sizes", "4K", "--iterations", 1, "--json"])
        self.assert_exit(result, 0)
        self.assertIn("--backend auto|nccl|mpi|gloo", self.run_trainer(["bench", "allreduce", "--help"]).stdout)

    def test_a_buffer_that_all_ranks_of_the_host_cannot_have_is_refused_before_any_takes_it(self):
        with open("/proc/meminfo", encoding="utf-8") as file:
            kib = {line.split(":")[0]: int(line.split()[1]) for line in file}
        # Each alone could be promised that much.
        size = (kib["MemTotal"] + kib["SwapTotal"]) * 1024 * 3 // 4
        result = self.mpirun(2, ["bench", "allreduce", "--sizes", size])
        self.assert_exit(result, 2)
        self.assertRegex(result.stderr, r"error: a buffer of .* for each of the 2 ranks on \S+ needs .* of memory, where "
                                        r".* can be had; measure smaller sizes, below ")
        self.assertEqual(result.stdout, "")
        self.assertEqual(list(self.dir.glob("*allreduce*")), [])

    def test_bad_arguments_end_every_rank(self):
        result = self.mpirun(2, ["bench", "allreduce", "--sizes", "4K:"], per_rank_exit_codes=True)
        self.assertEqual(result.exit_codes, [2, 2])

    def test_an_interrupted_measurement_leaves_the_old_report_and_no_other_file(self):
        report = self.dir / "allreduce.json"
        report.write_text("old")
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.start(["bench", "allreduce", "--sizes", "4K,1M", "--iterations", 1000000]) as job:
                job.wait_until(lambda: "bytes" in job.stdout())
                job.signal(number)
                result = job.wait(timeout=60)
            self.assert_exit(result, 1)
            self.assertIn("interrupted", result.stderr)
            self.assertEqual(report.read_text(), "old")
            self.assertEqual([path.name for path in self.dir.glob("*allreduce*")], ["allreduce.json"])

    def test_an_interrupted_rank_ends_all(self):
        with self.start_mpirun(2, ["bench", "allreduce", "--sizes", "4K,1M", "--iterations", 1000000],
                               per_rank_exit_codes=True) as job:
            job.wait_until(lambda: "bytes" in job.stdout())
            job.signal_rank(1, signal.SIGINT)
            result = job.wait(timeout=60)
        self.assertEqual(result.exit_codes, [1, 1])
        self.assertEqual([path.name for path in self.dir.glob("*allreduce*")], [])


if __name__ == "__main__":
    system_test.main()
