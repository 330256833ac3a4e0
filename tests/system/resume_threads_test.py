"""A run that goes on with other threads says that its last bits may be others."""

import os

import system_test
from recipes import TrainingTest

OTHER_THREADS = "warning: the ranks compute with other threads than before"


class ResumeThreads(TrainingTest):
    def go_on(self, steps, cores, **settings):
        result = self.bound(cores, self.settings(self.data, train__max_steps=steps, **settings))
        self.assert_exit(result, 0)
        return result.stderr

    def setUp(self):
        super().setUp()
        self.data = self.small_data(64)
        if len(os.sched_getaffinity(0)) < 2:
            self.skipTest("needs two cores")

    def test_threads_that_changed_are_named(self):
        self.assertNotIn(OTHER_THREADS, self.go_on(1, 1))
        self.assertNotIn(OTHER_THREADS, self.go_on(2, 1))
        self.assertIn(f"{OTHER_THREADS} (rank 0: 1 -> 2): what follows agrees", self.go_on(3, 2))
        # Where nothing is left to do, and where nothing of the earlier run is used.
        self.assertNotIn(OTHER_THREADS, self.go_on(3, 1))
        self.assertNotIn(OTHER_THREADS, self.go_on(3, 1, run__resume="never"))

    def test_deterministic_runs_have_the_same_bits_anyway(self):
        settings = {"run__deterministic": "true", "run__virtual_shards": 4}
        for steps, cores in (1, 1), (2, 2):
            self.assertNotIn(OTHER_THREADS, self.go_on(steps, cores, **settings))


if __name__ == "__main__":
    system_test.main()
