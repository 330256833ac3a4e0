"""distributed.verify_every: ranks that hold the same weights train on, a rank with a wrong bit ends the run by name."""

import re

import system_test
from recipes import TrainingTest

CONVOLUTIONS = ("[{conv2d: {out: 4, kernel: 3, padding: 1}}, {batch_norm2d: {}}, relu, flatten, {linear: {out: 4}}]")
STEPS = {"train__max_steps": 12, "train__log_every": 1, "train__batch_size": 4}


class VerifyEvery(TrainingTest):
    def train(self, ranks, run, options=(), env=None, **overrides):
        return self.mpirun(ranks, self.settings(self.data(), run, **{**STEPS, **overrides}), options=options, env=env)

    def data(self):
        path = self.dir / "data.h5"
        return path if path.exists() else self.small_data(240)

    def test_ranks_that_agree_train_to_the_same_weights_as_without_it(self):
        layers = {"model__name": "null", "model__hidden": "null", "model__layers": CONVOLUTIONS}
        for number, (ranks, settings) in enumerate((
                (2, {}), (3, {"distributed__strategy": "zero1", "optim__name": "adam", "optim__lr": 0.01,
                     "optim__momentum": 0}),
                (4, {"distributed__strategy": "ddp", "distributed__across_steps": "true"}), (1, {}), (2, layers))):
            self.assert_exit(self.train(ranks, f"with{number}", distributed__verify_every=1, **settings), 0)
            self.assert_exit(self.train(ranks, f"without{number}", **settings), 0)
            self.assertEqual(self.losses(f"with{number}"), self.losses(f"without{number}"))
            self.assertEqual(self.sha256(f"with{number}"), self.sha256(f"without{number}"))

    def test_a_rank_with_a_wrong_bit_ends_the_run_on_every_rank(self):
        library = self.preloadable("TUTTI_FAULTY_BROADCAST")
        self.assert_exit(self.train(1, "before", model__hidden="[256]"), 0)
        fault = {"LD_PRELOAD": library, "FAULTY_RANK": "2", "FAULTY_BYTES": str(64 * 256 * 4)}
        options = [word for name in fault for word in ("-x", f"{name}={fault[name]}")]
        for name, every in (("all", 5), ("none", 0)):
            result = self.train(3, name, options, model__hidden="[256]", model__init_from=self.latest("before"),
                                distributed__strategy="ddp", distributed__verify_every=every)
            if every == 0:  # that is what it is for
                self.assert_exit(result, 0)
                continue
            self.assert_exit(result, 1)
            self.assertRegex(result.stderr, r"step 5: the ranks do not hold the same weights .*: rank 2 on \S+ "
                                            r"\(first in fc2\.bias\) differs from the 2 other ranks")
            self.assertIn("no check of this run came before", result.stderr)
            self.assertEqual(len(re.findall("do not hold the same weights", result.stderr)), 1, result.stderr)
            self.assertEqual(len(self.losses(name)), 5)
            self.assertEqual(list((self.dir / name / "checkpoints").glob("step-*.h5")), [])

    def test_looking_for_unused_parameters_changes_nothing(self):
        for value in ("true", "false"):
            self.assert_exit(self.train(2, value, distributed__find_unused_parameters=value), 0)
        self.assertEqual(self.sha256("true"), self.sha256("false"))


if __name__ == "__main__":
    system_test.main()
