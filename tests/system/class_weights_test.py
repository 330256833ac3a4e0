"""train.class_weights: what samples of a class count in the training loss."""

import random
import struct

import system_test
from recipes import TrainingTest

SIDE, CLASSES = 4, 3


class ClassWeights(TrainingTest):
    def setUp(self):
        super().setUp()
        numbers = random.Random(7)
        self.images = [numbers.randbytes(SIDE * SIDE) for _ in range(12)]
        # 6, 4 and 2 samples.
        self.labels = [0, 0, 0, 1, 1, 2] * 2
        self.data = self.file("data.h5", range(12))

    def file(self, name, samples):
        """The labels' greatest one says how many classes there are."""
        samples = list(samples)
        images = struct.pack(">IIII", 0x803, len(samples), SIDE, SIDE) + b"".join(self.images[i] for i in samples)
        labels = struct.pack(">II", 0x801, len(samples)) + bytes(self.labels[i] for i in samples)
        return self.pack(*self._write_idx(name, images, labels), name=name)

    def train(self, run, data=None, ranks=1, **settings):
        given = {"train__batch_size": 12 // ranks, "train__epochs": 20, "train__log_every": 1, "data__shuffle": "false",
                 "train__precision": "fp64", **settings}
        command = self.settings(data or self.data, run, **given)
        result = self.mpirun(ranks, command) if ranks > 1 else self.run_trainer(command)
        self.assert_exit(result, 0)
        return result.stderr

    def test_a_class_of_the_validation_data_alone_is_one_of_the_model(self):
        two = self.file("two.h5", [i for i in range(12) if self.labels[i] < 2])
        settings = self.settings(two, "run", data__val=self.data, train__batch_size=10, train__confusion="true")
        result = self.run_trainer(settings)
        self.assert_exit(result, 4)
        self.assertIn("has 3 classes, data.train", result.stderr)
        self.assertIn("pack both with the same --class-names, or set model.classes to 3", result.stderr)
        self.assert_exit(self.run_trainer([*settings, "model.classes=3"]), 0)
        self.assertEqual([sum(row) for row in self.metrics("run", "eval")[-1]["confusion"]], [6, 4, 2])

    def assert_same_losses(self, one, other):
        self.assertEqual(len(self.losses(one)), 20)
        for mine, theirs in zip(self.losses(one), self.losses(other), strict=True):
            self.assertAlmostEqual(mine, theirs, delta=1e-12)

    def test_a_weight_of_three_is_the_sample_three_times(self):
        again = self.file("again.h5", [i for i in range(12) if self.labels[i] == 2])
        self.train("weighted", train__class_weights="[1,1,3]")
        self.train("copied", f"[{self.data},{again},{again}]", train__batch_size=16)
        self.assert_same_losses("weighted", "copied")
        self.train("plain")
        self.assertGreater(abs(self.losses("plain")[0] - self.losses("weighted")[0]), 1e-3)

    def test_a_weight_of_zero_is_the_class_left_out(self):
        two = self.file("two.h5", [i for i in range(12) if self.labels[i] < 2])
        self.train("weighted", train__class_weights="[1,1,0]")
        self.train("without", two, train__batch_size=10, model__classes=3)
        self.assert_same_losses("weighted", "without")
        result = self.run_trainer(self.settings(two, "none", train__class_weights="[0,0,1]", model__classes=3))
        self.assert_exit(result, 2)
        self.assertIn("train.class_weights is 0 for every class that has samples in data.train", result.stderr)
        self.assertFalse((self.dir / "none").exists())

    def test_a_batch_that_is_left_out_changes_nothing(self):
        """PyTorch's mean over it is not a number. On two ranks one of them has such samples alone in each update."""
        alternating = self.file("alternating.h5", [0, 5] * 4)
        only = self.file("only.h5", [0] * 4)
        weights = {"train__class_weights": "[1,0,0]", "model__classes": 3, "train__epochs": 1, "train__batch_size": 1,
                   "optim__momentum": 0}
        self.train("one", alternating, optim__lr=0.1, **weights)
        self.assertEqual(self.losses("one")[1::2], [0] * 4)
        # The others count twice, so that all eight have the mean 1.
        self.train("only", only, optim__lr=0.2, **weights)
        for mine, theirs in zip(self.losses("one")[::2], self.losses("only"), strict=True):
            self.assertAlmostEqual(mine, 2 * theirs, delta=1e-12)
        self.train("two", alternating, ranks=2, optim__lr=0.2, **weights)
        for mine, theirs in zip(self.losses("two"), self.losses("only"), strict=True):
            self.assertAlmostEqual(mine, theirs, delta=1e-12)

    def test_equal_weights_are_none_with_smoothing_too(self):
        self.train("equal", train__class_weights="[5,5,5]", train__label_smoothing=0.1)
        self.train("none", train__label_smoothing=0.1)
        self.assert_same_losses("equal", "none")

    def test_only_ratios_count_and_balanced_is_one_over_the_samples_of_a_class(self):
        said = self.train("balanced", train__class_weights="balanced")
        self.assertIn("class weights: 0.667, 1, 2\n", said)
        self.train("listed", train__class_weights="[2,3,6]")
        self.assert_same_losses("balanced", "listed")
        # Evaluations go without.
        val = self.file("val.h5", range(12))
        for name, weights in (("with", "balanced"), ("without", "null")):
            self.train(name, data__val=val, train__class_weights=weights, optim__lr=1e-300)
        evaluated = [self.metrics(name, "eval")[-1]["loss"] for name in ("with", "without")]
        self.assertEqual(*evaluated)
        self.assertEqual(evaluated[1], self.losses("without")[-1])

    def test_the_number_of_ranks_does_not_matter(self):
        for ranks in (1, 2, 4):
            self.train(f"on-{ranks}", ranks=ranks, train__class_weights="balanced")
            self.assert_same_losses("on-1", f"on-{ranks}")
        for ranks in (1, 2):
            self.train(f"same-{ranks}", ranks=ranks, train__class_weights="balanced", train__precision="fp32",
                       run__deterministic="true", run__virtual_shards=2)
        self.assertEqual(self.sha256(self.latest("same-1")), self.sha256(self.latest("same-2")))

    def test_a_resumed_run_has_them_too(self):
        self.train("whole", train__class_weights="balanced")
        self.train("parts", train__class_weights="balanced", train__max_steps=7)
        self.train("parts", train__class_weights="balanced")
        self.assertEqual(self.sha256(self.latest("whole")), self.sha256(self.latest("parts")))

    def test_what_cannot_be_meant_is_refused_on_every_rank(self):
        for weights, words in (
                ("[1,2]", "train.class_weights has 2 numbers, but the model has 3 classes: give one for each class, in "
                          "the order of the labels, or balanced"),
                ("[1,-1,1]", "train.class_weights[1]: -1 is not a number of at least 0"),
                ("[0,0,0]", "train.class_weights: all weights are 0: give a class that is to be learned a weight above 0"),
                ("[]", "train.class_weights: the list is empty: give a weight for each class"),
                ("balance", "train.class_weights: balance is not one of balanced, null")):
            for ranks in (1, 2):
                command = self.settings(self.data, "refused", train__class_weights=weights, train__batch_size=4)
                result = self.mpirun(ranks, command) if ranks > 1 else self.run_trainer(command)
                self.assert_exit(result, 2)
                self.assertIn(words.replace(": give", "; give"), result.stderr)
        self.assertFalse((self.dir / "refused").exists())


if __name__ == "__main__":
    system_test.main()
