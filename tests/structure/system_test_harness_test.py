"""The harness of the system tests, tried on a shell script in the place of the program."""

import os
import pathlib
import signal
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import system_test  # noqa: E402
import tap  # noqa: E402

_PROGRAM = """#!/bin/sh
case $1 in
echo) shift; echo "$*"; echo "to stderr" >&2; exit 7 ;;
rank) exit $((OMPI_COMM_WORLD_RANK + 3)) ;;
late) [ "$OMPI_COMM_WORLD_RANK" = 0 ] && exit 5
    until [ -e "$RECORD/exit-0" ]; do sleep 0.05; done; exit 6 ;;
usr1) trap 'exit 75' USR1; touch "ready-$OMPI_COMM_WORLD_RANK"; while :; do sleep 0.05; done ;;
hang) touch "ready-${OMPI_COMM_WORLD_RANK:-0}"; sleep 1000 ;;
env) env ;;
esac
"""


def is_alive(pid):
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


class Harness(system_test.SystemTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tutti-", dir="/tmp")
        cls.addClassCleanup(folder.cleanup)
        program = pathlib.Path(folder.name) / "program"
        program.write_text(_PROGRAM)
        program.chmod(0o755)
        os.environ["TUTTI_TRAINER"] = str(program)

    def until_ready(self, job, ranks):
        job.wait_until(lambda: all((self.dir / f"ready-{rank}").exists() for rank in range(ranks)))

    def test_run_returns_exit_code_and_both_outputs(self):
        result = self.run_trainer(["echo", "two words", "x"])
        self.assertEqual(result, (7, "two words x\n", "to stderr\n", []))

    def test_each_rank_has_its_exit_code(self):
        for ranks in (1, 2, 3, 4):
            with self.subTest(ranks=ranks):
                result = self.mpirun(ranks, ["rank"])
                self.assertEqual(result.exit_codes, [3 + rank for rank in range(ranks)])

    def test_a_rank_that_ends_early_does_not_end_the_others(self):
        self.assertEqual(self.mpirun(3, ["late"]).exit_codes, [5, 6, 6])

    def test_without_recording_the_exit_code_is_mpiruns(self):
        result = self.mpirun(2, ["rank"], per_rank_exit_codes=False)
        self.assertIn(result.exit_code, (3, 4))
        self.assertEqual(result.exit_codes, [])

    def test_a_signal_to_mpirun_reaches_all_ranks(self):
        with self.start_mpirun(2, ["usr1"]) as job:
            self.until_ready(job, 2)
            job.signal(signal.SIGUSR1)
            self.assertEqual(job.wait(30).exit_codes, [75, 75])

    def test_a_killed_rank_is_recorded(self):
        with self.start_mpirun(2, ["usr1"]) as job:
            self.until_ready(job, 2)
            job.signal_rank(1, signal.SIGKILL)
            job.signal_rank(0, signal.SIGUSR1)
            self.assertEqual(job.wait(30).exit_codes, [75, 137])

    def test_a_timeout_fails_and_leaves_no_process(self):
        for ranks in (0, 2):
            with self.subTest(ranks=ranks):
                job = self.start_mpirun(ranks, ["hang"]) if ranks else self.start(["hang"])
                self.until_ready(job, max(ranks, 1))
                pids = [job.process.pid] + [job.rank_pid(rank) for rank in range(ranks)]
                self.assertTrue(all(is_alive(pid) for pid in pids))
                with self.assertRaisesRegex(AssertionError, "timed out after 0 s"):
                    job.wait(timeout=0)
                self.assertEqual([pid for pid in pids if is_alive(pid)], [])

    def test_leaving_the_context_ends_the_job(self):
        with self.start_mpirun(2, ["hang"]) as job:
            pids = [job.rank_pid(rank) for rank in (0, 1)]
        self.assertEqual([pid for pid in pids if is_alive(pid)], [])

    def test_waiting_for_an_event_fails_when_the_job_ends_before(self):
        with self.start(["echo"]) as job, self.assertRaisesRegex(AssertionError, "ended with 7 too early"):
            job.wait_until(lambda: False)

    def test_an_unexpected_exit_code_shows_the_output(self):
        with self.assertRaisesRegex(AssertionError, r"exit code \[7\], expected 0\n--- stdout\nhello"):
            self.assert_exit(self.run_trainer(["echo", "hello"]), 0)

    def test_no_variable_of_a_surrounding_launcher_gets_through(self):
        foreign = {"SLURM_NTASKS": "4", "OMPI_COMM_WORLD_RANK": "9", "RANK": "1", "OMP_NUM_THREADS": "3"}
        os.environ.update(foreign)
        try:
            output = self.run_trainer(["env"], env={"OMP_NUM_THREADS": "2"}).stdout
        finally:
            for name in foreign:
                del os.environ[name]
        variables = dict(line.split("=", 1) for line in output.splitlines() if "=" in line)
        self.assertEqual({"SLURM_NTASKS", "OMPI_COMM_WORLD_RANK", "RANK"} & set(variables), set())
        self.assertEqual(variables["OMP_NUM_THREADS"], "2")
        self.assertEqual(pathlib.Path(variables["TMPDIR"]).parents[1], self.dir)

    def test_the_folder_of_a_test_is_removed(self):
        inner = Harness("test_run_returns_exit_code_and_both_outputs")
        result = unittest.TestResult()
        inner.run(result)
        self.assertTrue(result.wasSuccessful(), result.errors)
        self.assertFalse(inner.dir.exists())

    def test_synthetic_images_are_valid_idx(self):
        images, labels = self.synthetic_idx(12, classes=3, side=8)
        self.assertEqual(images.read_bytes()[:16].hex(), "000008030000000c0000000800000008")
        self.assertEqual(images.stat().st_size, 16 + 12 * 64)
        self.assertEqual(labels.read_bytes()[8:], bytes([0, 1, 2] * 4))

    def test_fashion_mnist_is_cut_to_the_first_samples(self):
        images, labels = self.fashion_mnist(5, "test")
        self.assertEqual(images.read_bytes()[:16].hex(), "00000803000000050000001c0000001c")
        self.assertEqual(images.stat().st_size, 16 + 5 * 784)
        self.assertEqual(labels.read_bytes()[8:], bytes([9, 2, 1, 1, 6]))


if __name__ == "__main__":
    tap.main()
