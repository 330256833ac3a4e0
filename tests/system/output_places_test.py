"""Where commands are told to write: what cannot be written is refused before anything else is opened; links stay."""

import system_test
from recipes import TrainingTest


class OutputPlaces(TrainingTest):
    def test_a_place_that_cannot_be_written_is_refused_before_anything_is_opened(self):
        (self.dir / "file").write_text("")
        (self.dir / "folder.h5").mkdir()
        (self.dir / "pr_curve.csv").mkdir()
        nowhere = ["--run", "no_run", "--data", "no_data.h5"]
        for place, said in (("file/out.h5", "-o file/out.h5 cannot be written: Not a directory; give a name in a folder"),
                            ("/proc/none/out.h5", "-o /proc/none/out.h5 cannot be written: "),
                            ("folder.h5", "folder.h5 is a directory; name a file in it")):
            for command in (["predict", *nowhere, "-o", place], ["export", "no_run", "-o", place]):
                result = self.mpirun(2, command) if command[0] == "predict" else self.run_trainer(command)
                self.assert_exit(result, 2)
                self.assertIn(said, result.stderr)
        for place, said in (("file", "cannot write into file: Not a directory; give --curves a directory that can be written"),
                            ("file/below", "cannot write into file/below: Not a directory"), (".", "pr_curve.csv is a directory")):
            result = self.mpirun(2, ["eval", *nowhere, "--curves", place])
            self.assert_exit(result, 2)
            self.assertIn(said, result.stderr)
        for bench in "buckets", "loader", "step":
            result = self.mpirun(2, ["bench", bench, "data.train=no_data.h5", "--out", "file"])
            self.assert_exit(result, 2)
            self.assertIn("cannot write into file: ", result.stderr)
        self.assert_exit(self.run_trainer(["eval", *nowhere, "--curves", "new"]), 4)
        self.assert_exit(self.run_trainer(["predict", *nowhere, "-o", "new/out.h5"]), 4)
        self.assertFalse((self.dir / "new").exists(), "nothing is made for what fails")

    def test_a_link_stays_and_the_file_behind_it_is_replaced(self):
        images, labels = self.synthetic_idx(40, classes=4, side=8)
        (self.dir / "far").mkdir()

        def link(name):
            (self.dir / name).symlink_to(f"far/{name}")  # there is no such file yet
            return self.dir / name

        data = self.pack(images, labels, name=link("data.h5").name)
        self.assert_exit(self.run_trainer(self.settings(data)), 0)
        commands = (["predict", "--run", self.dir / "run", "--data", data, "-o", link("rows.h5")],
                    ["predict", "--run", self.dir / "run", "--data", data, "-o", link("rows.csv")],
                    ["export", self.dir / "run", "-o", link("weights.safetensors")],
                    ["pack", "idx", "--images", images, "--labels", labels, "-o", link("again.h5")])
        for _ in "new", "replaced":
            for command in commands:
                self.assert_exit(self.mpirun(2, command) if command[0] == "predict" else self.run_trainer(command), 0)
        names = sorted(["data.h5", *(command[-1].name for command in commands)])
        self.assertEqual(sorted(path.name for path in (self.dir / "far").iterdir()), names)
        for name in names:
            self.assertTrue((self.dir / name).is_symlink(), name)
        self.assertIn("predictions", self.run_trainer(["inspect", self.dir / "rows.h5"]).stdout)

    def test_a_link_to_a_file_of_another_kind_is_refused(self):
        (self.dir / "rows.h5").symlink_to("rows.csv")
        result = self.mpirun(2, ["predict", "--run", "no_run", "--data", "no_data.h5", "-o", "rows.h5"])
        self.assert_exit(result, 2)
        self.assertIn("-o rows.h5 is a link to rows.csv, which ends otherwise; give a name that ends as the file does",
                      result.stderr)


if __name__ == "__main__":
    system_test.main()
