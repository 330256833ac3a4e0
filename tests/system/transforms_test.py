"""data.transforms: what is trained on, what inspect and bench say of it, and what is refused."""

import json

import system_test
from recipes import OwnCache, TrainingTest, write_safetensors

AUGMENTED = "data.transforms=[horizontal_flip, {random_crop: {size: 6, padding: 2}}]"
MULTI_SCALE = "data.transforms=[{multi_scale_crop: {size: 6, scales: [1, 0.7, 0.4]}}]"


class Transforms(OwnCache, TrainingTest):
    def test_batches_do_not_depend_on_ranks_and_workers(self):
        for transforms in AUGMENTED, MULTI_SCALE:
            with self.subTest(transforms):
                self.check_ranks_and_workers(transforms, "multi" if transforms == MULTI_SCALE else "crop")

    def check_ranks_and_workers(self, transforms, runs):
        data, val = self.small_data(96), self.small_data(40, "val.h5")
        losses = {}
        for name, ranks, batch, workers in (("one", 1, 16, 0), ("three", 1, 16, 3), ("two", 2, 8, 2)):
            settings = self.settings(data, f"{runs}_{name}", train__batch_size=batch, data__workers=workers,
                                     train__epochs=2, train__log_every=1, data__val=val) + [transforms]
            self.assert_exit(self.mpirun(ranks, settings) if ranks > 1 else self.run_trainer(settings), 0)
            losses[name] = self.losses(f"{runs}_{name}")
        self.assertEqual(len(losses["one"]), 12)
        self.assertEqual(losses["three"], losses["one"])
        for one, two in zip(losses["one"], losses["two"], strict=True):
            self.assertAlmostEqual(one, two, places=5)
        plain = self.settings(data, f"{runs}_plain", train__batch_size=16, train__epochs=2, train__log_every=1)
        self.assert_exit(self.run_trainer(plain), 0)
        self.assertNotEqual(self.losses(f"{runs}_plain"), losses["one"])

    def test_an_evaluation_crops_in_the_centre(self):
        data = self.small_data(96)
        for run, transforms in ("crop", AUGMENTED), ("multi", MULTI_SCALE):
            settings = self.settings(data, run, data__val=data, train__epochs=1) + [transforms]
            self.assert_exit(self.run_trainer(settings), 0)
            results = [self.run_trainer(["eval", "--run", self.dir / run, "--json", f"run.seed={seed}"])
                       for seed in (1, 2)]
            for result in results:
                self.assert_exit(result, 0)
            rows = [json.loads(result.stdout) for result in results]
            self.assertEqual(rows[0]["loss"], rows[1]["loss"])
            self.assertEqual(rows[0]["samples"], 96)
            self.assertEqual(self.metrics(run, "eval")[-1]["correct"], rows[0]["correct"])

    def test_data_with_targets_are_refused_for_these_and_not_for_the_crop(self):
        data = self.small_data(24)
        crop = "data.transforms=[{random_crop: {size: 6}}]"
        self.assert_exit(self.run_trainer([*self.settings(data), crop]), 0)
        targets = self.images_with_places(12, side=8)
        weights = self.latest("run")
        for words in (["--run", self.dir / "run"], ["--checkpoint", weights],
                      ["-c", self.dir / "run/config.yaml", "--checkpoint", weights]):
            for ranks in 1, 2:
                result = self.mpirun(ranks, ["eval", *words, "--data", targets])
                self.assert_exit(result, 4)
                self.assertIn(f"{targets} has targets, but the model was trained to give classes; give data with labels", result.stderr)

    def test_a_crop_of_another_size_is_evaluated_and_predicted(self):
        data, other = self.small_data(96), self.small_data(24, "other.h5")
        settings = self.settings(data, data__val=data, train__epochs=1) + [
            "data.transforms=[{random_crop: {size: 5}}]", "model.classes=4"]
        self.assert_exit(self.run_trainer(settings), 0)
        for arguments in (["eval", "--run", self.dir / "run"], ["eval", "--run", self.dir / "run", "--data", other],
                          ["predict", "--run", self.dir / "run", "--data", other, "-o", self.dir / "out.h5"]):
            for ranks in (1, 2):
                self.assert_exit(self.mpirun(ranks, arguments) if ranks > 1 else self.run_trainer(arguments), 0)

        # What the model was trained on its weights say; those of another program may need these data.
        data.write_bytes(b"no longer a data set")
        run = ["eval", "--run", self.dir / "run", "--data", other]
        weights = self.dir / "w.safetensors"
        write_safetensors(weights, self.exported("run"))
        bare = ["eval", "-c", self.dir / "run/config.yaml", "--checkpoint", weights, "--data", other]
        for arguments, code in ((run, 0), ([*run, "model.classes=null"], 0), (bare, 0), ([*bare, "model.classes=null"], 4)):
            result = self.run_trainer(arguments)
            self.assert_exit(result, code)
        self.assertIn(str(data), result.stderr)

    def test_inspect_and_bench_show_them(self):
        data = self.small_data(96)
        config = self.dir / "config.yaml"
        config.write_text(f"data: {{train: {data}, transforms: [horizontal_flip, {{center_crop: {{size: 5}}}}]}}\n"
                          "model: {hidden: [8]}\ntrain: {batch_size: 8}\n")
        result = self.run_trainer(["inspect", "-c", config])
        self.assert_exit(result, 0)
        self.assertIn("transforms of [8, 8, 1]\n  {horizontal_flip: {p: 0.5}}\n  {center_crop: {size: 5}}\n"
                      "  give [5, 5, 1]\n", result.stdout)
        self.assertIn("images before they are cropped", result.stdout)
        # Read are micro-batches, which are virtual shards in deterministic mode: with 8 of them an eighth.
        for settings, size in ([], "512.0 KiB"), (["run.deterministic=true"], "64.0 KiB"):
            result = self.run_trainer(["inspect", "-c", config, "train.batch_size=8192", "data.workers=0", *settings])
            self.assert_exit(result, 0)
            self.assertRegex(result.stdout, f"transforms +{size}  images before they are cropped")
        result = self.run_trainer(["bench", "loader", "-c", config, "--rounds", "1", "--cold-rounds", "0", "--out",
                                   self.dir])
        self.assert_exit(result, 0)
        report = json.loads((self.dir / "loader.json").read_text())
        self.assertEqual(report["sample_shape"], [5, 5, 1])
        self.assertEqual(report["sample_bytes"], 64)
        self.assertEqual(report["transforms"], ["{horizontal_flip: {p: 0.5}}", "{center_crop: {size: 5}}"])

    def test_what_cannot_be_done_ends_with_2(self):
        data = self.small_data(96)
        for transforms, said in (
                ("[horizontal_flipp]", "did you mean horizontal_flip?"),
                ("[{random_crop: {size: 9}}]", "which are [8, 8, 1] there; use a smaller size or more padding"),
                ("[{random_crop: {pad: 9}}]", "pad is not a parameter of random_crop"),
                ("[{multi_scale_crop: {size: 6, scales: [2]}}]",
                 "data.transforms[0].multi_scale_crop.scales[0]: 2 is not a number")):
            for ranks in (1, 2):
                settings = self.settings(data) + [f"data.transforms={transforms}"]
                result = self.mpirun(ranks, settings) if ranks > 1 else self.run_trainer(settings)
                self.assert_exit(result, 2)
                self.assertIn(said, result.stderr)
        self.assertFalse((self.dir / "run").exists())

    def test_a_resume_with_others_says_so(self):
        data = self.small_data(96)
        self.assert_exit(self.run_trainer(self.settings(data, train__epochs=1)), 0)
        result = self.run_trainer(self.settings(data, train__epochs=2) + ["data.transforms=[vertical_flip]"])
        self.assert_exit(result, 0)
        self.assertIn("data.transforms: [] -> [{vertical_flip: {p: 0.5}}]", result.stderr)

    def test_a_resume_with_another_size_is_refused(self):
        data = self.small_data(96)
        self.assert_exit(self.run_trainer(self.settings(data, train__epochs=1)), 0)
        before = (self.dir / "run" / "metrics.jsonl").read_text()
        settings = self.settings(data, train__epochs=2) + ["data.transforms=[{center_crop: {size: 5}}]"]
        for ranks in (1, 2):
            result = self.mpirun(ranks, settings) if ranks > 1 else self.run_trainer(settings)
            self.assert_exit(result, 2)
            self.assertIn("data.transforms: [] -> [{center_crop: {size: 5}}]), and the model for images of this size "
                          "does not take its weights; restore them, or start anew", result.stderr)
        self.assertEqual((self.dir / "run" / "metrics.jsonl").read_text(), before)

    def test_an_evaluation_may_crop_otherwise_than_training_where_the_weights_fit(self):
        data = self.small_data(32)
        for run, model, code in ("convolutional", {"model__name": "resnet18", "model__stem": "cifar", "model__hidden": "null"}, 0), \
                ("of_pixels", {}, 4):
            settings = self.settings(data, run, train__epochs=1, **model) + ["data.transforms=[{center_crop: {size: 6}}]"]
            self.assert_exit(self.run_trainer(settings), 0)
            result = self.run_trainer(["eval", "--run", self.dir / run, "--data", data, "data.transforms=[]"])
            self.assert_exit(result, code)
            self.assertEqual("give weights" in result.stderr or "does not fit" in result.stderr, code == 4, result.stderr)

    def test_a_named_checkpoint_that_does_not_fit_is_refused_before_there_is_a_run_directory(self):
        data = self.small_data(96)
        larger = self.pack(*self.synthetic_idx(96, classes=4, side=9), name="larger.h5")
        self.assert_exit(self.run_trainer(self.settings(data, train__epochs=1)), 0)
        checkpoint = self.latest("run")
        raw = bytearray(checkpoint.read_bytes())
        raw[len(raw) // 2] ^= 1
        damaged = self.dir / "damaged.h5"
        damaged.write_bytes(raw)
        for source, code, change, words in (
                (checkpoint, 2, "data.transforms=[{center_crop: {size: 5}}]", "does not take its weights"),
                (checkpoint, 4, f"data.train={larger}", "of another shape"),
                (damaged, 4, "train.log_every=1", "damaged.h5")):
            for ranks in (1, 2):
                settings = [*self.settings(data, "other", train__epochs=2, run__resume=source), change]
                result = self.mpirun(ranks, settings) if ranks > 1 else self.run_trainer(settings)
                self.assert_exit(result, code)
                self.assertIn(words, result.stderr)
                self.assertFalse((self.dir / "other").exists(), "no run directory for a run that never was")


if __name__ == "__main__":
    system_test.main()
