"""A peer that is lost between the steps of a run: the others say where."""

import os
import signal
import time

import system_test
from recipes import TrainingTest


class LostPlace(TrainingTest):
    def test_in_an_evaluation(self):
        # Three steps per epoch, and an evaluation that takes many times as long as they do.
        data, val = self.small_data(48), self.small_data(8000, "val.h5")
        settings = self.settings(data, data__val=val, train__log_every=1, train__epochs=1000, model__hidden="[2000, 2000]",
                                 train__checkpoint__every="never")
        with self.start_mpirun(2, settings) as job:
            job.wait_for_metrics(self.dir / "run", 3)
            job.signal_rank(1, signal.SIGKILL)
            result = job.wait(60)
        self.assertEqual(result.exit_codes, [5, 137], result.stderr)
        self.assertRegex(result.stderr, r"error: in the evaluation after step 3 \(epoch 1\): .*rank 0 on .* has ended")
        self.assertEqual(result.stderr.count("(epoch 1)"), 1, result.stderr)

    def test_at_a_checkpoint(self):
        settings = self.settings(self.small_data(48), model__hidden="[3000, 3000]", train__checkpoint__every="2 steps")
        folder = self.dir / "run/checkpoints"
        with self.start_mpirun(2, settings) as job:
            pid = job.rank_pid(0)
            part = f"step-00000002.h5.*-{pid}.tmp"
            deadline = time.monotonic() + 60
            while not list(folder.glob(part)):  # 37 MB of weights are hashed and written, then synced
                self.assertLess(time.monotonic(), deadline, job.said())
            os.kill(pid, signal.SIGSTOP)
            self.assertTrue(list(folder.glob(part)), "rank 0 is stopped in the middle of writing")
            os.kill(pid, signal.SIGKILL)
            result = job.wait(60)
        self.assertEqual(result.exit_codes, [137, 5], result.stderr)
        self.assertRegex(result.stderr, r"error: at the checkpoint of step 2 \(epoch 1\): saving the checkpoint: .*rank 1 on .* has ended")


if __name__ == "__main__":
    system_test.main()
