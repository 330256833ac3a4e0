"""What commands do not write over: other people's files in a run's directory, and whatever -o names by mistake."""

import system_test
from recipes import TrainingTest


class KeptFiles(TrainingTest):
    def refused(self, arguments, *words):
        result = self.run_trainer(arguments)
        self.assert_exit(result, 2)
        for word in words:
            self.assertIn(str(word), result.stderr)

    def trained(self):
        data, val = self.small_data(64), self.small_data(40, "val.h5")
        self.assert_exit(self.run_trainer(self.settings(data, data__val=val)), 0)
        return self.dir / "run"

    def test_an_option_with_an_empty_value_is_refused(self):
        for arguments in (["-c", "", "train.max_steps=1"], ["-c=", "train.max_steps=1"], ["bench", "step", "-c", ""],
                          ["bench", "step", "--synthetic", "--out=", "train.batch_size=8"],
                          ["eval", "--run=", "--data", "val.h5"], ["pack", "idx", "--images=", "--labels", "l"]):
            self.refused(arguments, "has an empty value", "is a variable of a script not set?")
        self.assertEqual([path for path in self.dir.iterdir() if path.name != ".jobs"], [])

    def test_the_home_directory_is_filled_in_behind_an_equals_sign(self):
        images, labels = self.synthetic_idx(8)
        self.assert_exit(self.run_trainer(["pack", "idx", "--images", images, "--labels", labels, "--output=~/x.h5"],
                                          env={"HOME": str(self.dir)}), 0)
        self.assertTrue((self.dir / "x.h5").exists())

    def test_paths_of_options_are_read_as_those_of_settings(self):
        run, home = self.trained(), {"HOME": str(self.dir)}
        for arguments in (["export", "~/run", "-o", "~/w.safetensors"], ["predict", "--run=~/run", "--data", "~/val.h5", "-o", "~/p.csv"],
                          ["eval", "-c", "~/run/config.yaml", "--checkpoint", "~/run", "--data", "~/val.h5", "~/val.h5"],
                          ["bench", "step", "--synthetic", "--shape", "8", "--steps", "1", "--warmup", "0", "--out", "~",
                           "model.name=mlp", "train.batch_size=8"]):
            self.assert_exit(self.run_trainer(arguments, env=home), 0)
        for name in ("w.safetensors", "p.csv", "step.json"):
            self.assertTrue((self.dir / name).exists(), name)
        self.assertFalse((self.dir / "~").exists())
        for option, arguments in (("--output", ["export", run, "-o", "$SCRATCH/w.h5"]), ("--out", ["bench", "step", "--out", "${SCRATCH}"]),
                                  ("--run", ["eval", "--run", "$SCRATCH/run"]), ("--config", ["-c", "$SCRATCH/run.yaml"]),
                                  ("--dir", ["pack", "images", "--dir", "$SCRATCH/x", "-o", "x.h5"])):
            self.refused(arguments, f"{option}: $", "SCRATCH", "nobody replaces the variable; write the folder out")

    def test_packing_replaces_data_sets_alone(self):
        data = self.small_data(64)
        self.assert_exit(self.run_trainer(self.settings(data)), 0)
        (self.dir / "my.yaml").write_text("run: {seed: 1}\n")
        images, labels = self.synthetic_idx(8)
        pack = ["pack", "idx", "--images", images, "--labels", labels, "-o"]
        for target, said in ((self.latest("run"), "would overwrite the checkpoint of a run"),
                             (self.dir / "my.yaml", "my.yaml, which is no data set")):
            before = target.read_bytes()
            self.refused([*pack, target], said)
            self.assertEqual(target.read_bytes(), before)
        (self.dir / "empty.h5").touch()
        for target in (data, self.dir / "empty.h5"):
            self.assert_exit(self.run_trainer([*pack, target]), 0)
            self.assertGreater(target.stat().st_size, 0)

    def test_predictions_replace_predictions_alone(self):
        run = self.trained()
        predict = ["predict", "--run", run, "-o"]
        for name in ("out.csv", "out.h5"):
            for _ in range(2):
                self.assert_exit(self.run_trainer([*predict, name]), 0)
        (self.dir / "table.csv").write_text("index,name\n0,a\n")
        self.assert_exit(self.run_trainer(["export", run, "-o", "weights.h5"]), 0)
        for name, what in (("table.csv", "table.csv, which is no file of predictions"),
                           ("weights.h5", "weights.h5, which is no file of predictions")):
            before = (self.dir / name).read_bytes()
            result = self.mpirun(2, [*predict, name])
            self.assert_exit(result, 2)
            self.assertIn(f"-o {name} would overwrite {what}", result.stderr)
            self.assertEqual((self.dir / name).read_bytes(), before)
        (self.dir / "empty.csv").touch()
        self.assert_exit(self.run_trainer([*predict, "empty.csv"]), 0)
        self.assertIn("would overwrite predictions", self.run_trainer(["export", run, "-o", "out.h5"]).stderr)

    def test_no_conversion_replaces_a_checkpoint(self):
        run = self.trained()
        checkpoint = self.latest("run")
        before = checkpoint.read_bytes()
        self.assert_exit(self.run_trainer(["export", run, "-o", "w.SAFETENSORS"]), 0)
        result = self.run_trainer(["import", "w.SAFETENSORS", "-o", checkpoint])
        self.assert_exit(result, 2)
        self.assertIn("would overwrite the checkpoint", result.stderr)
        self.assertEqual(checkpoint.read_bytes(), before)
        data = self.small_data(8, "kept.h5")
        before = data.read_bytes()
        result = self.run_trainer(["import", "w.SAFETENSORS", "-o", data])
        self.assert_exit(result, 2)
        self.assertIn("would overwrite a data set", result.stderr)
        self.assertEqual(data.read_bytes(), before)
        # What it wrote itself is written anew, other people's files are not.
        for name in ("w.H5", "w.SAFETENSORS", "again.safetensors"):
            for _ in range(2):
                self.assert_exit(self.run_trainer(["export", run, "-o", name]), 0)
        for name in ("own.safetensors", "own.h5"):
            (self.dir / name).write_bytes(b"\x89PNG\r\n" + bytes(range(200)))
        for name in ("own.safetensors", "own.h5"):
            before = (self.dir / name).read_bytes()
            result = self.run_trainer(["export", run, "-o", name])
            self.assert_exit(result, 2)
            self.assertIn(f"-o {name} would overwrite ", result.stderr)
            self.assertEqual((self.dir / name).read_bytes(), before)

    def test_an_output_that_cannot_be_is_told_before_anything_is_read(self):
        self.refused(["pack", "csv", "--csv", "absent.csv", "--label", "y", "-o", "/proc/x.h5"], "-o /proc/x.h5 cannot be written")
        self.refused(["pack", "images", "--dir", "absent", "-o", self.dir], "is a directory")
        self.refused(["pack", "images", "--dir", "absent", "-o", "new/"], "is a directory")
        absent = self.run_trainer(["pack", "csv", "--csv", "absent.csv", "--label", "y", "-o", "new/folder/x.h5"])
        self.assert_exit(absent, 4)
        self.assertEqual([path for path in self.dir.iterdir() if path.name != ".jobs"], [])

    def test_a_run_leaves_files_that_no_run_wrote(self):
        data = self.small_data(64)
        own = self.dir / "run"
        own.mkdir()
        (own / "config.yaml").write_text("# by hand\nmodel: {name: mlp, hidden: [16]}\n")
        for resume in ("auto", "never"):
            self.refused(["-c", own / "config.yaml", f"run.dir={own}", f"data.train={data}", f"run.resume={resume}"],
                         "holds config.yaml, but nothing else of a run")
        self.assertEqual([path.name for path in own.iterdir()], ["config.yaml"])
        (own / "config.yaml").rename(own / "my.yaml")
        command = ["-c", own / "my.yaml", f"run.dir={own}", f"data.train={data}", "train.max_steps=1", "run.resume=never"]
        for _ in range(2):  # the second moves what the first wrote, and not what it reads
            self.assert_exit(self.run_trainer(command), 0)
        self.assertEqual((own / "my.yaml").read_text()[:9], "# by hand")
        self.assertTrue((own / "old-1" / "config.yaml").exists())


if __name__ == "__main__":
    system_test.main()
