"""What data are normalised by that do not say it: what the model was trained with."""

import json

import system_test
from recipes import TrainingTest, write_safetensors


class Normalised(TrainingTest):
    def evaluated(self, *words, ranks=1):
        """The loss that eval prints, and its messages."""
        command = ["eval", "--json", *words]
        result = self.mpirun(ranks, command) if ranks > 1 else self.run_trainer(command)
        self.assert_exit(result, 0)
        return json.loads(result.stdout)["loss"], result.stderr

    def test_data_that_do_not_say_how_they_are_normalised_are_as_those_of_training(self):
        images = self.synthetic_idx(64, classes=4, side=8)
        data = self.pack(*images, options=["--mean", "0.3", "--std", "0.2"])
        plain = self.pack(*images, name="plain.h5")
        said = f"{plain}: without mean and std, so normalised as the training data were: mean 0.3, std 0.2"
        trained = self.run_trainer(self.settings(data, data__val=plain))
        self.assert_exit(trained, 0)
        self.assertIn(f"data.val {said}\n", trained.stderr)
        self.assertIn("trained   with mean 0.3, std 0.2\n", self.run_trainer(["inspect", self.dir / "run"]).stdout)
        run = ["--run", self.dir / "run", "--data"]
        expected, messages = self.evaluated(*run, data)
        self.assertNotIn("mean", messages)
        self.assertEqual(self.metrics("run", "eval")[-1]["loss"], expected)
        # Without the training data, too, and by weights without a run.
        data = data.rename(self.dir / "moved.h5")
        for ranks in (1, 2):
            loss, messages = self.evaluated(*run, plain, ranks=ranks)
            self.assertAlmostEqual(loss, expected, delta=1e-6)
            self.assertEqual(messages.count(said), 1)
        for name in ("w.safetensors", "w.h5"):
            self.assert_exit(self.run_trainer(["export", self.dir / "run", "-o", self.dir / name]), 0)
            weights = ["-c", self.dir / "run/config.yaml", "--checkpoint", self.dir / name, "--data"]
            self.assertEqual(self.evaluated(*weights, plain, "data.train=null", "model.classes=4")[0], expected)
        for name, file in (("a.h5", data), ("b.h5", plain)):
            self.assert_exit(self.run_trainer(["predict", *run, file, "-o", self.dir / name]), 0)
        self.assertEqual(self.sha256("a.h5"), self.sha256("b.h5"))
        # Settings and the file itself come first.
        for ranks in (2, 1):
            none, messages = self.evaluated(*run, plain, "data.normalize={mean: [0], std: [1]}", ranks=ranks)
            other = (f"warning: {plain}: data.normalize is mean 0, std 1, but the model was trained with mean 0.3, std 0.2; "
                     "set it to that\n")
            self.assertEqual(messages.count(other), 1, messages)
        self.assertGreater(abs(none - expected), 1e-3)
        other = self.pack(*images, name="other.h5", options=["--mean", "0", "--std", "1"])
        loss, messages = self.evaluated(*run, other)
        self.assertEqual(loss, none)
        self.assertIn(f"warning: {other}: its own mean 0, std 1 are used, but the model was trained with mean 0.3, std 0.2; "
                      "set data.normalize to that, or pack", messages)

    def test_fine_tuning_on_data_that_are_normalised_otherwise_is_warned_of(self):
        images = self.synthetic_idx(64, classes=4, side=8)
        data = self.pack(*images, options=["--mean", "0.3", "--std", "0.2"])
        plain = self.pack(*images, name="plain.h5")
        self.assert_exit(self.run_trainer(self.settings(data)), 0)
        weights = self.dir / "w.safetensors"
        self.assert_exit(self.run_trainer(["export", self.dir / "run", "-o", weights]), 0)
        for number, source in enumerate((self.dir / "run", weights)):
            for name, file, settings, said in (
                    ("plain", plain, {}, "it is read without mean and std, but the model was trained with mean 0.3, std 0.2; set data.normalize"),
                    ("set", plain, {"data__normalize": "{mean: [0.5], std: [0.2]}"},
                     "data.normalize is mean 0.5, std 0.2, but the model was trained with mean 0.3, std 0.2; set it to that"),
                    ("right", plain, {"data__normalize": "{mean: [0.3], std: [0.2]}"}, ""), ("same", data, {}, "")):
                result = self.begin(file, f"{name}{number}", 2, model__init_from=source, **settings)
                self.assert_exit(result, 0)
                warned = f"warning: {file}, with the weights of model.init_from: "
                self.assertEqual(result.stderr.count(warned + said), 1 if said else 0, result.stderr)

    def test_images_of_which_nobody_says_how_they_were_normalised_are_warned_of(self):
        images = self.synthetic_idx(64, classes=4, side=8)
        plain = self.pack(*images)
        self.assert_exit(self.run_trainer(self.settings(plain)), 0)
        weights = self.dir / "w.safetensors"
        write_safetensors(weights, self.exported("run"))
        words = ["-c", self.dir / "run/config.yaml", "--checkpoint", weights, "--data", plain, "data.train=null", "model.classes=4"]
        said = f"warning: {plain}: it is read without mean and std, and the weights do not say with which the model was trained; set"
        for command in (["eval"], ["predict", "-o", self.dir / "p.csv"]):
            result = self.mpirun(2, [*command, *words])
            self.assert_exit(result, 0)
            self.assertEqual(result.stderr.count(said), 1, result.stderr)
        self.assertNotIn("mean", self.evaluated(*words, "data.normalize={mean: [0], std: [1]}")[1])
        self.assertNotIn("mean", self.evaluated("--run", self.dir / "run", "--data", plain)[1])

    def test_data_that_are_normalised_for_a_model_that_was_not_are_warned_of(self):
        images = self.synthetic_idx(64, classes=4, side=8)
        plain, other = self.pack(*images), self.pack(*images, name="other.h5", options=["--mean", "0.3", "--std", "0.2"])
        warned = f"warning: data.val {other}: its own mean 0.3, std 0.2 are used, but the model was trained with none; set"
        self.assertIn(warned, self.run_trainer(self.settings(plain, data__val=other)).stderr)
        self.assertIn(warned.replace("data.val ", ""), self.evaluated("--run", self.dir / "run", "--data", other)[1])
        same = self.run_trainer(self.settings(plain, run="same", data__val=other, data__normalize="{mean: [0.3], std: [0.2]}"))
        self.assert_exit(same, 0)
        self.assertNotIn("its own", same.stderr)


if __name__ == "__main__":
    system_test.main()
