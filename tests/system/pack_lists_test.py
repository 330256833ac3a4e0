"""Data sets from tables of images, through the command line and into a training."""

import os
import random
import struct

import system_test
from recipes import PackingTest, png


class PackLists(PackingTest):
    def manifest(self, count=12):
        """Images of 16 x 8 pixels, every second one with a bright square around (cx, cy), in the columns of a locator's list."""
        numbers = random.Random(5)
        (self.dir / "in").mkdir()
        rows, places = [], []
        for index in range(count):
            present = index % 2
            cx, cy = numbers.randrange(2, 14), numbers.randrange(2, 6)
            pixels = [bytes(250 if present and abs(x - cx) < 2 and abs(y - cy) < 2 else 10 for x in range(16) for _ in range(3))
                      for y in range(8)]
            (self.dir / "in" / f"{index:02}.png").write_bytes(png(8, 16, pixels, 2))
            split = "train" if index < count - 2 else "val"
            rows.append(f"{index:02}.png,2020-01-01,{present},{f'{cx},{cy}' if present else ','},{split}")
            places.append((present, cx if present else None, cy if present else None))
        table = self.dir / "list.csv"
        table.write_text("\n".join(["image_path,datetime,presence,cx,cy,split", *rows]) + "\n")
        return table, places

    def test_a_pipe_is_refused_at_once(self):
        os.mkfifo(self.dir / "list.csv")
        for kind in "images", "csv":
            result = self.pack_from(4, kind, "--csv", self.dir / "list.csv", "-o", self.dir / "o.h5", "--no-labels")
            self.assertIn("list.csv is a pipe, but tables are read twice; write it to a file first", result.stderr)

    def test_labels_that_are_counted_from_1_are_told_with_what_to_do(self):
        (self.dir / "in").mkdir()
        for index in range(4):
            (self.dir / "in" / f"{index}.png").write_bytes(png(2, 2, [bytes(6)] * 2, 2))
        table, target = self.dir / "list.csv", self.dir / "o.h5"
        images = ["images", "--csv", table, "--dir", self.dir / "in", "-o", target]
        said = "no sample has the label 0"

        def write(labels):
            table.write_text("path,label\n" + "".join(f"{index}.png,{label}\n" for index, label in enumerate(labels)))

        write((1, 2, 3, 3))
        warned = self.pack_from(0, *images)
        self.assertIn(f"warning: {target}: {said}", warned.stderr)
        self.assertIn("if these labels are counted from 1, give --class-names 1,2,3\n", warned.stderr)
        self.assertIn("4 classes", warned.stdout)
        followed = self.pack_from(0, *images, "--class-names", "1,2,3")
        self.assertNotIn(said, followed.stderr)
        self.assertIn("3 classes", followed.stdout)
        write((0, 2, 3, 3))
        self.assertNotIn(said, self.pack_from(0, *images).stderr)
        # Names say what classes are: a file may lack the first one.
        write(("dog", "dog", "emu", "emu"))
        self.assertNotIn(said, self.pack_from(0, *images, "--class-names", "cat,dog,emu").stderr)
        pixels, labels = self.dir / "pixels", self.dir / "labels"
        pixels.write_bytes(struct.pack(">IIII", 0x803, 2, 2, 2) + bytes(8))
        labels.write_bytes(struct.pack(">II", 0x801, 2) + bytes((1, 2)))
        self.assertIn("subtract 1 from them", self.pack_from(0, "idx", "--images", pixels, "--labels", labels, "-o", target).stderr)

    def test_a_locators_list_is_packed_with_places_that_follow_the_letterbox(self):
        table, places = self.manifest()
        target, index = self.dir / "data.h5", self.dir / "index.csv"
        result = self.pack_from(0, "images", "--csv", table, "--dir", self.dir / "in", "--keep", "split=train", "--size", 8, "--fit",
                                "letterbox", "--target", "presence,cx,cy", "--target-pixels", "cx,cy", "--fill-targets", 0,
                                "--index", index, "-o", target)
        self.assertEqual(result.stdout, f"{target}: 10 samples [8, 8, 3] u8, 3 targets; 2 rows were left out by --keep; in 5 "
                                        "rows --fill-targets stands for an empty or not finite target\n")
        # Half the size, two rows of black above: x' = (x + 0.5) / 2 - 0.5, y' = (y + 0.5) / 2 - 0.5 + 2.
        expected = [value for present, cx, cy in places[:10]
                    for value in ((1, cx / 2 - 0.25, cy / 2 + 1.75) if present else (0, 0, 0))]
        content = target.read_bytes()
        self.assertIn(struct.pack("<30f", *expected), content)
        self.assertEqual(index.read_text().splitlines()[1], "0,00.png")
        # The first image has no square: 4 grey rows between black ones.
        self.assertIn(bytes(2 * 24) + bytes([10]) * (4 * 24) + bytes(2 * 24), content)
        shown = self.run_trainer(["inspect", target]).stdout
        self.assertIn("presence", shown)
        self.assertIn("cy", shown)
        result = self.run_trainer([f"data.train={target}", f"data.val={target}", "model.name=mlp", "train.batch_size=5",
                                   "train.max_steps=2", f"run.dir={self.dir / 'run'}"])
        self.assert_exit(result, 0)
        # Without --fill-targets rows without a place are left out; without --target-pixels places stay the table's.
        result = self.pack_from(0, "images", "--csv", table, "--dir", self.dir / "in", "--size", 8, "--target", "cx,cy", "-o", target)
        self.assertIn("6 samples [8, 8, 3] u8, 2 targets; 6 rows were left out for an empty or not finite target\n", result.stdout)
        self.assertIn(struct.pack("<12f", *(value for present, *place in places if present for value in place)),
                      target.read_bytes())

    def test_the_index_does_not_replace_the_list(self):
        table, _ = self.manifest(4)
        before = table.read_bytes()
        result = self.pack_from(2, "images", "--csv", table, "--dir", self.dir / "in", "--label", "presence", "--index", table,
                                "-o", self.dir / "data.h5")
        self.assertIn("is the table that is packed", result.stderr)
        self.assertEqual(table.read_bytes(), before)

    def test_a_list_is_packed_with_labels_and_trained_on(self):
        table, _ = self.manifest()
        target, bare = self.dir / "data.h5", self.dir / "bare.h5"
        result = self.pack_from(0, "images", "--csv", table, "--dir", self.dir / "in", "--label", "presence", "--class-names",
                                "clear,storm", "--size", 8, "--fit", "stretch", "-o", target)
        self.assertEqual(result.stdout, f"{target}: 12 samples [8, 8, 3] u8, 2 classes\n")
        self.assertIn("storm", self.run_trainer(["inspect", target]).stdout)
        result = self.run_trainer(self.settings(target, data__val=target, train__epochs=20, train__batch_size=4))
        self.assert_exit(result, 0)
        self.assertIn("test accuracy 1.0000 (12 of 12)", result.stdout)
        result = self.pack_from(0, "images", "--csv", table, "--dir", self.dir / "in", "--no-labels", "-o", bare)
        self.assertEqual(result.stdout, f"{bare}: 12 samples [8, 16, 3] u8, no labels\n")
        names = self.dir / "names.csv"
        names.write_text("file;kind\n" + "".join(f"{self.dir / 'in' / f'{index:02}.png'};{kind}\n"
                                                 for index, kind in enumerate(["storm", "clear", "storm"])))
        result = self.pack_from(0, "images", "--csv", names, "--delimiter", ";", "--path-column", "file", "--label", "kind", "-o",
                                target)
        self.assertEqual(result.stdout, f"{target}: 3 samples [8, 16, 3] u8, 2 classes\n")
        self.assertIn(struct.pack("<3q", 1, 0, 1), target.read_bytes())

    def test_lists_that_are_wrong_end_with_4_and_leave_nothing(self):
        table, target = self.dir / "bad.csv", self.dir / "data.h5"
        self.manifest(2)
        for text, options, said in (
                ("file,label\n00.png,0\n", (), f"{table}:1: there is no column path, nor image_path; name the column with the "
                                               "paths: --path-column COLUMN"),
                ("path,label\n00.png,0\n01.png\n", (), f"{table}:3: 1 fields, but the first line names 2 columns"),
                ("path,label\n00.png,-1\n", (), f"{table}:2: the label is '-1'; number the classes from 0 on"),
                ("path,x\n00.png,far\n", ("--target", "x"), f"{table}:2: column x: 'far' is not a number"),
                ("path,x\n00.png,\n", ("--target", "x"), f"{table}: of 1 rows none is left"),
                ("path,label\n00.png,0\nnone.png,0\n", (), f"{self.dir / 'in' / 'none.png'}: cannot be read as an image"),
                ("", (), f"{table}: the file is empty")):
            table.write_text(text)
            result = self.pack_from(4, "images", "--csv", table, "--dir", self.dir / "in", *options, "-o", target)
            self.assertIn(said, result.stderr)
            self.assertEqual([path.name for path in self.dir.iterdir() if path.name.startswith("data.h5")], [])
        table.write_text("path,label\n00.png,0\nnone.png,0\n01.png,1\n")
        result = self.pack_from(0, "images", "--csv", table, "--dir", self.dir / "in", "--skip-errors", "-o", target)
        self.assertIn("2 samples [8, 16, 3] u8, 2 classes; 1 file was left out\n", result.stdout)

    def test_wrong_words_end_with_2(self):
        table, _ = self.manifest(2)
        out, listed = self.dir / "o.h5", ["images", "--csv", table, "--dir", self.dir / "in"]
        for arguments, said in (
                (["images"], "give --dir DIR with a folder per class, or --csv FILE"),
                (["images", "--dir", self.dir, "--label", "presence"], "--csv"),
                (["images", "--dir", self.dir, "--class-names", "a,b"], "--class-names is for --csv"),
                ([*listed, "--label", "presense"], "did you mean presence?"),
                ([*listed, "--path-column", "file"], f"--path-column: {table} has no column file"),
                ([*listed, "--label", "presence", "--target", "cx"], "--target"),
                ([*listed, "--target", "cx", "--class-names", "a"], "names the classes of labels"),
                ([*listed, "--target", "cx,cy", "--target-pixels", "cx"], "name x and y of each place: x,y or x1,y1,x2,y2"),
                ([*listed, "--target", "cx", "--target-pixels", "cx,cy"], "cy is not among the columns of --target"),
                ([*listed, "--label", "presence", "--target-pixels", "cx,cy"], "--target"),
                ([*listed, "--target", "cx", "--fill-targets", "nan"], "--fill-targets nan is not a finite number"),
                ([*listed, "--label", "presence", "--fill-targets", "0"], "--target"),
                ([*listed, "--label", "presence", "--fit", "letterbox"], "--size"),
                ([*listed, "--label", "presence", "--size", "8", "--fit", "pad"], "crop, letterbox, stretch"),
                ([*listed, "--label", "presence", "--delimiter", ";;"], "one character")):
            self.assertIn(said, self.pack_from(2, *arguments, "-o", out).stderr)
        self.assertIn("would overwrite", self.pack_from(2, *listed, "--label", "presence", "-o", table).stderr)

    def test_a_negative_number_may_fill_targets(self):
        table, _ = self.manifest(2)
        target = self.dir / "data.h5"
        self.pack_from(0, "images", "--csv", table, "--dir", self.dir / "in", "--target", "cx,cy", "--fill-targets", "-1", "-o",
                       target)
        self.assertIn(struct.pack("<2f", -1, -1), target.read_bytes())


if __name__ == "__main__":
    system_test.main()
