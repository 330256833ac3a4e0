"""Where srun stays behind its tasks, a system test starts them again."""

import pathlib
import sys
import types
import unittest

for folder in "support", "system":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / folder))
import slurm_test  # noqa: E402
import tap  # noqa: E402


class SrunThatStays(unittest.TestCase):
    def attempts(self, *said):
        """How often the tasks are started where each start ends with a time-out that says this, and the next with a result."""
        started, ended = [], []

        def run():
            started.append(1)
            if len(started) <= len(said):
                raise AssertionError(said[len(started) - 1])
            return "result"

        cluster = types.SimpleNamespace(slurm=ended.append, _srun_stays=slurm_test.SlurmTest._srun_stays)
        self.assertEqual(slurm_test.SlurmTest.until_srun_ends(cluster, run), "result")
        self.assertEqual(len(ended), len(started) - 1)
        return len(started)

    def test_is_ended_and_started_again(self):
        stays = "srun: First task exited 60s ago\nsrun: StepId=23.0 task 0: exited\nsrun: StepId=24.0 tasks 0-1: exited"
        self.assertEqual((self.attempts(), self.attempts(stays), self.attempts(stays, stays)), (1, 2, 3))
        with self.assertRaises(AssertionError):
            self.attempts(stays, stays, stays)

    def test_whose_task_runs_is_an_error(self):
        for said in "srun: First task exited 60s ago\nsrun: StepId=24.0 task 0: exited\nsrun: StepId=24.0 task 1: running", "hangs":
            with self.assertRaises(AssertionError):
                self.attempts(said)


if __name__ == "__main__":
    tap.main()
