"""A training step asks for no memory: what it needs was made before. Counted by a preloaded malloc, as the difference of
a longer and a shorter run of the same."""

import system_test
from recipes import TrainingTest

SHORT, LONG = 20, 60  # steps; both in the first epoch
MODELS = (["model.name=mlp"], ["model.name=lenet", "train.accumulate=2"],
          ["model.name=vit", "model.depth=2", "train.batch_size=4"],
          ["model.name=mlp", "optim.name=adamw", "optim.momentum=0", "train.ema={decay: 0.9}", "optim.clip_norm=1"])


class StepMemory(TrainingTest):
    def setUp(self):
        super().setUp()
        self.counter = self.preloadable("TUTTI_COUNT_ALLOCATIONS")

    def counts(self, data, steps, settings):
        """Calls of malloc and the like for a page of memory or more, and page faults."""
        report = self.dir / "allocations"
        report.unlink(missing_ok=True)
        arguments = ["train", f"data.train={data}", "data.workers=0", "train.batch_size=8", "train.log_every=100000",
                     f"train.max_steps={steps}", "run.dir=run", "run.resume=never", "device=cpu", *settings]
        environment = {"LD_PRELOAD": str(self.counter), "TUTTI_ALLOCATIONS": str(report)}
        self.assert_exit(self.run_trainer(arguments, env=environment), 0)
        _, large, faults = (int(number) for number in report.read_text().split())
        return large, faults

    def test_no_step_asks_for_a_page_of_memory(self):
        data = self.pack(*self.synthetic_idx(2 * LONG * 8))
        for settings in MODELS:
            with self.subTest(settings=settings):
                large, faults = self.counts(data, SHORT, settings)
                large_of_more_steps, faults_of_more_steps = self.counts(data, LONG, settings)
                # A look at the cores every half a second may read a file.
                self.assertLess(large_of_more_steps - large, (LONG - SHORT) // 4)
                # The samples come from a mapped file. New memory of a batch alone would be six pages a step.
                self.assertLess(faults_of_more_steps - faults, 2 * (LONG - SHORT))


if __name__ == "__main__":
    system_test.main()
