"""Data sets from folders of images and from tables, through the command line and into a training."""

import csv
import os
import random
import resource
import signal
import statistics
import struct

import system_test
from recipes import PackingTest, png


class Pack(PackingTest):
    def folder(self, classes=("cat", "dog"), count=12, side=10):
        """Dark images of the first class, bright ones of the second."""
        numbers = random.Random(1)
        for label, name in enumerate(classes):
            (self.dir / "in" / name).mkdir(parents=True)
            for index in range(count):
                rows = [bytes(128 * label + value // 4 for value in numbers.randbytes(3 * side)) for _ in range(side)]
                (self.dir / "in" / name / f"{index:03}.png").write_bytes(png(side, side, rows, 2))
        return self.dir / "in"

    def test_images_are_packed_shown_and_trained_on(self):
        folder, target = self.folder(), self.dir / "data.h5"
        result = self.pack_from(0, "images", "--dir", folder, "--size", "8", "-o", target, "--mean", "0.5,0.5,0.5", "--std",
                                "0.25,0.25,0.25")
        self.assertEqual(result.stdout, f"{target}: 24 samples [8, 8, 3] u8, 2 classes\n")
        self.assertIn("cat", self.run_trainer(["inspect", target]).stdout)
        result = self.run_trainer(self.settings(target, data__val=target, train__epochs=20, train__batch_size=8,
                                                data__transforms="[horizontal_flip]"))
        self.assert_exit(result, 0)
        self.assertIn("test accuracy 1.0000 (24 of 24)", result.stdout)

    def test_files_that_are_no_images_by_their_names_are_counted(self):
        folder, target = self.folder(), self.dir / "data.h5"
        for name in ("a.webp", "b.webp", "c.BMP", "deep/d.bmp", "e.bmp", "README", ".hidden.bmp", ".cache/f.bmp"):
            (folder / "cat" / name).parent.mkdir(exist_ok=True)
            (folder / "cat" / name).write_bytes(b"x")
        for more in ([], ["--skip-errors"]):
            result = self.pack_from(0, "images", "--dir", folder, "-o", target, *more)
            self.assertEqual(result.stdout, f"{target}: 24 samples [10, 10, 3] u8, 2 classes; 6 files were passed over: .bmp 3, "
                                            ".webp 2, without a suffix 1\n")

    def test_images_that_cannot_be_read_end_the_packing_or_are_counted(self):
        folder, target = self.folder(), self.dir / "data.h5"
        broken = folder / "cat" / "005.png"
        broken.write_bytes(broken.read_bytes()[:60])
        result = self.pack_from(4, "images", "--dir", folder, "-o", target)
        self.assertIn(f"{broken}: cannot be read as an image", result.stderr)
        self.assertEqual(self.outputs(), [])
        for threads in (1, 3):
            self.assertEqual(self.pack_from(4, "images", "--dir", folder, "-o", target, "--threads", threads).stderr,
                             result.stderr)
        self.assertIn("--threads", self.pack_from(2, "images", "--dir", folder, "-o", target, "--threads", 0).stderr)
        result = self.pack_from(0, "images", "--dir", folder, "-o", target, "--skip-errors")
        self.assertEqual(result.stdout, f"{target}: 23 samples [10, 10, 3] u8, 2 classes; 1 file was left out\n")
        self.assertIn(f"warning: {broken}", result.stderr)
        self.assertTrue(result.stderr.endswith("; replace or remove the file\n"), result.stderr)

    def test_an_index_says_where_each_sample_comes_from(self):
        folder, target, index = self.folder(), self.dir / "data.h5", self.dir / "my, index.csv"
        (folder / "cat" / "000.png").write_bytes(b"broken")
        (folder / "dog" / "003.png").rename(folder / "dog" / 'a "dog", 3.png')
        self.pack_from(0, "images", "--dir", folder, "-o", target, "--skip-errors", "--index", index)
        with open(index, newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file))
        images = sorted(folder.glob("cat/*.png"))[1:] + sorted(folder.glob("dog/*.png"))
        self.assertEqual(rows, [["index", "path"], *([str(i), str(image)] for i, image in enumerate(images))])
        (self.dir / "t.csv").write_text("a,y\n1,2\n3,\n5,6\n")
        self.pack_from(0, "csv", "--csv", self.dir / "t.csv", "--target", "y", "-o", target, "--index", index)
        self.assertEqual(index.read_text(), "index,line\n0,2\n1,4\n")
        for name, said in ((target, "is the file that -o names"), ("x.h5", "end it with .csv"), ("/proc/x.csv", "--index /proc/x.csv cannot")):
            self.assertIn(said, self.pack_from(2, "csv", "--csv", self.dir / "t.csv", "--target", "y", "-o", target,
                                               "--index", name).stderr)

    def test_a_signal_ends_the_packing_and_leaves_nothing(self):
        folder, target = self.folder(), self.dir / "data.h5"
        broken = folder / "cat" / "000.png"
        # Large images, minutes of work.
        image = self.dir / "large.png"
        image.write_bytes(png(4000, 4000, [bytes(12000)] * 4000, 2))
        for index in range(1000):
            os.link(image, folder / "dog" / f"large{index:04}.png")
        for number, options in ((signal.SIGTERM, []), (signal.SIGINT, ["--skip-errors"])):
            with self.start(["pack", "images", "--dir", folder, "-o", target, "--size", "8", *options]) as job:
                # The look at all files comes before the output is begun; it tells of this one first.
                job.wait_until((lambda: f"warning: {broken}" in job.said()) if options else self.outputs)
                job.signal(number)
                result = job.wait()
            self.assert_exit(result, 1)
            self.assertIn(f"{target}: stopped by signal {number.value}; nothing was written", result.stderr)
            self.assertEqual(self.outputs(), [])
            broken.write_bytes(b"none")

    def test_a_pipe_in_an_images_place_is_not_waited_for(self):
        folder, target = self.folder(), self.dir / "data.h5"
        pipe = folder / "cat" / "004.png"
        pipe.unlink()
        os.mkfifo(pipe)
        result = self.pack_from(4, "images", "--dir", folder, "-o", target)
        self.assertIn(f"{pipe}: cannot be read as an image: it is no regular file", result.stderr)
        self.assertEqual(self.outputs(), [])
        result = self.pack_from(0, "images", "--dir", folder, "-o", target, "--skip-errors")
        self.assertIn("23 samples", result.stdout)

    def test_a_limit_for_the_size_of_files_is_a_failed_write(self):
        folder, target = self.folder(), self.dir / "data.h5"
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
        try:
            job = self.start(["pack", "images", "--dir", folder, "-o", target])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        with job:
            result = job.wait()
        self.assert_exit(result, 1)
        self.assertIn(f"{target}: writing failed: ", result.stderr)
        self.assertEqual(self.outputs(), [])

    def test_a_table_is_packed_and_trained_on(self):
        table, target = self.dir / "flowers.csv", self.dir / "data.h5"
        rows = [f"{i},{(-1) ** i * 2 + i / 50},{i % 3},{'rose' if i % 2 else 'tulip'}" for i in range(40)]
        table.write_text("\n".join(["id,length,width,species", *rows]) + "\n")
        result = self.pack_from(0, "csv", "--csv", table, "--label", "species", "--drop", "id", "-o", target)
        self.assertEqual(result.stdout, f"{target}: 40 samples [2] f32, 2 classes\n")
        result = self.run_trainer(self.settings(target, data__val=target, train__epochs=30, train__batch_size=8))
        self.assert_exit(result, 0)
        self.assertIn("test accuracy 1.0000 (40 of 40)", result.stdout)
        result = self.run_trainer(self.settings(target, "other", data__transforms="[horizontal_flip]"))
        self.assert_exit(result, 2)
        self.assertIn("has samples of shape [2], but transforms are for images", result.stderr)

    def test_a_column_without_a_name_is_told_and_left_out(self):
        table, target = self.dir / "t.csv", self.dir / "data.h5"
        table.write_text(",x,id,y\n" + "".join(f"{i},{i},{i},{i % 2}\n" for i in range(4)))
        given = ["csv", "--csv", table, "--label", "y", "-o", target]
        result = self.pack_from(0, *given)
        self.assertIn(f"warning: {table}: column 1 (without a name) becomes a feature", result.stderr)
        self.assertIn("leave it out with --drop ''\n", result.stderr)
        for drop in (["--drop", "", "--drop", "id"], ["--drop", "id", "--drop", ""], ["--drop", "id", ""]):
            result = self.pack_from(0, *given, *drop)
            self.assertEqual((result.stdout, result.stderr), (f"{target}: 4 samples [1] f32, 2 classes\n", ""), drop)

    def test_a_table_without_labels_is_predicted(self):
        table, target, bare = self.dir / "flowers.csv", self.dir / "data.h5", self.dir / "bare.h5"
        table.write_text("\n".join(["length,width,species", *(f"{i},{i % 3},{i % 2 * 30}" for i in range(40))]) + "\n")
        result = self.pack_from(0, "csv", "--csv", table, "--label", "species", "-o", target)
        self.assertIn("warning: ", result.stderr)
        self.assertIn("has labels up to 30, but only 2 of these classes have samples", result.stderr)
        self.assert_exit(self.run_trainer(self.settings(target, train__epochs=1)), 0)
        result = self.pack_from(0, "csv", "--csv", table, "--no-labels", "--drop", "species", "-o", bare)
        self.assertEqual(result.stdout, f"{bare}: 40 samples [2] f32, no labels\n")
        result = self.run_trainer(["inspect", bare])
        self.assert_exit(result, 0)
        self.assertIn("  classes   unknown\n", result.stdout)
        self.assertIn("  labels    none\n", result.stdout)
        predicted = self.run_trainer(["predict", "--run", self.dir / "run", "--data", bare, "-o", self.dir / "out.csv"])
        self.assert_exit(predicted, 0)
        for command in (["eval", "--run", self.dir / "run", "--data", bare], self.settings(bare, "other")):
            result = self.run_trainer(command)
            self.assert_exit(result, 4)
            self.assertIn("data without labels can only be predicted", result.stderr)

    def test_a_table_with_targets_is_packed_and_shown(self):
        table, target = self.dir / "tracks.csv", self.dir / "data.h5"
        rows = [f"{i / 4},{'' if i == 7 else 10 * i},{i % 3},{'inf' if i == 8 else -i},{i % 2}" for i in range(20)]
        table.write_text("\n".join(["speed,x_pix,width,y_pix,label", *rows]) + "\n")
        result = self.pack_from(0, "csv", "--csv", table, "--target", "x_pix,y_pix", "--drop", "label", "-o", target)
        self.assertEqual(result.stdout, f"{target}: 18 samples [2] f32, 2 targets; 2 rows were left out for an empty or not "
                                        "finite target\n")
        result = self.pack_from(0, "csv", "--csv", table, "--target", "x_pix,y_pix", "--keep", "label=1.0", "--keep",
                                "width=0", "--keep", "width=1", "--drop", "label", "-o", target)
        # Of 1, 3, …, 19 those but 5, 11 and 17 have the width 0 or 1, and 7 has no x_pix.
        self.assertEqual(result.stdout, f"{target}: 6 samples [2] f32, 2 targets; 13 rows were left out by --keep; 1 row "
                                        "was left out for an empty or not finite target\n")
        left = [1, 3, 9, 13, 15, 19]
        self.assertIn(struct.pack("<12f", *(value for i in left for value in (10 * i, -i))), target.read_bytes())
        result = self.run_trainer(["inspect", target])
        self.assert_exit(result, 0)
        self.assertIn("\n  targets   2\n", result.stdout)
        shown = [line.split() for line in result.stdout.splitlines()[-3:]]
        self.assertEqual(shown[0], ["name", "minimum", "mean", "maximum", "std"])
        self.assertEqual(shown[1], ["0", "x_pix", "10", "100", "190", f"{10 * statistics.pstdev(left):.6g}"])
        self.assertEqual(shown[2], ["1", "y_pix", "-19", "-10", "-1", f"{statistics.pstdev(left):.6g}"])
        self.assertIn("of 20 rows none is left", self.pack_from(
            4, "csv", "--csv", table, "--target", "x_pix", "--keep", "label=2", "-o", target).stderr)

    def test_an_output_that_is_an_image_is_refused(self):
        image = self.folder() / "dog" / "003.png"
        before = image.read_bytes()
        result = self.pack_from(2, "images", "--dir", self.dir / "in", "-o", image)
        self.assertIn(f"-o {image} would overwrite {image}", result.stderr)
        self.assertEqual(image.read_bytes(), before)

    def test_wrong_words_end_with_2(self):
        table = self.dir / "a.csv"
        table.write_text("x,y\n1,0\n")
        for arguments, said in (
                (["image", "--dir", "x"], "did you mean images?"),
                (["images", "--dir", self.dir, "-o", self.dir / "o.h5", "--size", "8by8"], "--size 8by8 is no size"),
                (["images", "--dir", self.dir, "-o", self.dir / "o.h5", "--size", "0"], "--size 0 is no size"),
                (["csv", "--csv", table, "--label", "label", "-o", self.dir / "o.h5"], "has no column label"),
                (["csv", "--csv", table, "--label", "y", "-o", table], "would overwrite"),
                (["csv", "--csv", table, "-o", self.dir / "o.h5"],
                 "give --label COLUMN, --target COLUMNS for regression, or --no-labels"),
                (["csv", "--csv", table, "--label", "y", "--mean", "1", "-o", self.dir / "o.h5"], "--mean requires --std"),
                (["csv", "--csv", table, "--label", "y", "--std", "1", "-o", self.dir / "o.h5"], "--std requires --mean"),
                (["csv", "--csv", table, "--label", "y", "--no-labels", "-o", self.dir / "o.h5"], "--no-labels"),
                (["csv", "--csv", table, "--label", "y", "--target", "x", "-o", self.dir / "o.h5"], "--target"),
                (["csv", "--csv", table, "--no-labels", "--target", "x", "-o", self.dir / "o.h5"], "--target"),
                (["csv", "--csv", table, "--target", "z", "-o", self.dir / "o.h5"], "--target: "),
                (["csv", "--csv", table, "--target", "y", "--class-names", "a", "-o", self.dir / "o.h5"],
                 "--class-names names the classes of labels"),
                (["csv", "--csv", table, "--label", "y", "--keep", "y", "-o", self.dir / "o.h5"],
                 "write --keep COLUMN=VALUE"),
                (["csv", "--csv", table, "--label", "y", "--delimiter", ";;", "-o", self.dir / "o.h5"], "one character")):
            self.assertIn(said, self.pack_from(2, *arguments).stderr)
        self.pack_from(4, "images", "--dir", self.dir / "missing", "-o", self.dir / "o.h5")


if __name__ == "__main__":
    system_test.main()
