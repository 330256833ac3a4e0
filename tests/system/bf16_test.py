"""train.precision bf16 through the program."""

import system_test
from recipes import TrainingTest

LENET = ["model.name=lenet", "optim.lr=0.01", "optim.momentum=0.9", "train.epochs=1", "train.batch_size=8",
         "train.log_every=1"]


class Bf16(TrainingTest):
    def settings(self, data, run="run", **overrides):
        given = [f"data.train={data}", f"run.dir={self.dir / run}"]
        return given + LENET + [f"{key.replace('__', '.')}={value}" for key, value in overrides.items()]

    def trained(self, data, precision, **overrides):
        run = precision
        result = self.run_trainer(self.settings(data, run, train__precision=precision, **overrides))
        self.skip_where_bf16_is_not(result)
        self.assert_exit(result, 0)
        return run, result

    def test_training_follows_fp32_and_says_what_it_is(self):
        data = self.small_data(320, side=12)
        fp32, _ = self.trained(data, "fp32", train__max_steps=20)
        bf16, result = self.trained(data, "bf16", train__max_steps=20)
        self.assertIn("products in bf16", result.stdout + result.stderr)
        expected, losses = self.losses(fp32), self.losses(bf16)
        self.assertEqual(len(losses), 20)
        self.assertNotEqual(losses, expected)
        # The weights drift apart with the steps, too: the first loss is nearly fp32's, the later ones are near.
        self.assertAlmostEqual(losses[0] / expected[0], 1, delta=0.01)
        for number, (loss, wanted) in enumerate(zip(losses, expected, strict=True), 1):
            self.assertAlmostEqual(loss, wanted, delta=0.05 * max(1, wanted), msg=f"step {number}")

    def test_a_run_on_several_ranks_is_evaluated_predicted_and_inspected_in_bf16(self):
        data, val = self.small_data(64), self.small_data(30, "val.h5")
        self.trained(data, "bf16", train__max_steps=1)
        given = self.settings(data, "ranks", data__val=val, train__precision="bf16")
        self.assert_exit(self.mpirun(2, given), 0)
        for arguments in (["eval", "--run", self.dir / "ranks"],
                          ["predict", "--run", self.dir / "ranks", "-o", self.dir / "p.csv"]):
            result = self.run_trainer(arguments)
            self.assert_exit(result, 0)
            self.assertIn("products in bf16", result.stdout + result.stderr)
        (self.dir / "c.yaml").write_text(f"data: {{train: {data}}}\nmodel: {{name: lenet}}\ntrain: {{precision: bf16}}\n")
        result = self.run_trainer(["inspect", "-c", "c.yaml"])
        self.assert_exit(result, 0)
        self.assertIn("products in bf16", result.stdout)

    def test_a_resumed_run_has_the_same_weights(self):
        data = self.small_data(64)
        self.trained(data, "bf16", train__epochs=2)
        given = self.settings(data, "resumed", train__precision="bf16")
        self.assert_exit(self.run_trainer([*given, "train.epochs=1"]), 0)
        self.assert_exit(self.run_trainer([*given, "train.epochs=2"]), 0)
        self.assertEqual(self.sha256("resumed"), self.sha256("bf16"))

    def test_a_processor_that_cannot_is_told_what_to_set(self):
        data = self.small_data(64)
        self.trained(data, "bf16", train__max_steps=1)
        result = self.run_trainer(self.settings(data, "old", train__precision="bf16"),
                                  env={"ONEDNN_MAX_CPU_ISA": "AVX2"})
        self.assert_exit(result, 2)
        self.assertIn("AVX-512", result.stderr)
        self.assertIn("set train.precision: fp32", result.stderr)


if __name__ == "__main__":
    system_test.main()
