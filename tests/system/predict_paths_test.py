"""Where each sample comes from, from the packed files to the predictions."""

import csv
import random
import re

import system_test
from recipes import TrainingTest, png


class PredictPaths(TrainingTest):
    def clips(self, count=13):
        """A data set of clips of two grey frames, two classes, and the folders of its samples in order."""
        numbers = random.Random(count)
        for label in range(2):
            for number in range(count):
                # One name is a field that CSV has to quote.
                folder = self.dir / "clips" / ("calm", "storm")[label] / (f'a "clip", {number:02}' if number == 3 else f"{number:02}")
                folder.mkdir(parents=True)
                for frame in range(2):
                    rows = [bytes(128 * label + value // 4 for value in numbers.randbytes(6)) for _ in range(6)]
                    (folder / f"img_{frame:05}.png").write_bytes(png(6, 6, rows))
        target = self.dir / "data.h5"
        self.assert_exit(self.run_trainer(["pack", "clips", "--dir", self.dir / "clips", "--frames", 2, "-o", target]), 0)
        return target, [str(folder) for folder in sorted((self.dir / "clips").glob("*/*"))]

    def trained(self, data):
        self.assert_exit(self.run_trainer(self.settings(data, train__epochs=1, train__batch_size=4)), 0)

    def predicted(self, ranks, *files, batch=4):
        self.assert_exit(self.mpirun(ranks, ["predict", "--run", self.dir / "run", "--data", *files, "-o", "out.csv",
                                             f"train.batch_size={batch}"]), 0)
        with open(self.dir / "out.csv", newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def test_each_row_has_the_path_of_its_sample_at_any_number_of_ranks(self):
        data, folders = self.clips()
        self.trained(data)
        self.assertIn(f"  paths     one each, the first: {folders[0]}\n", self.run_trainer(["inspect", data]).stdout)
        labels = [folder.startswith(str(self.dir / "clips" / "storm")) for folder in folders]
        for ranks, batch in ((1, 4), (1, 26), (3, 2), (3, 30)):
            rows = self.predicted(ranks, data, batch=batch)
            self.assertEqual(list(rows[0])[:4], ["index", "path", "label", "prediction"])
            self.assertEqual([(row["index"], row["path"]) for row in rows], [(str(i), path) for i, path in enumerate(folders)])
            self.assertEqual([row["label"] for row in rows], [str(int(label)) for label in labels])

    def test_of_several_files_those_without_paths_have_empty_ones(self):
        grey = [bytes(range(8 * row, 8 * row + 8)) for row in range(8)]
        images = [self.dir / "in" / str(label) / f"{number}.png" for label in range(2) for number in range(3)]
        for image in images:
            image.parent.mkdir(parents=True, exist_ok=True)
            image.write_bytes(png(8, 8, grey))
        self.assert_exit(self.run_trainer(["pack", "images", "--dir", self.dir / "in", "-o", "images.h5"]), 0)
        bare = self.small_data(5, "bare.h5", classes=2)
        self.trained(bare)
        self.assertNotIn("path", self.predicted(3, bare)[0])
        self.assertNotIn("paths", self.run_trainer(["inspect", bare]).stdout)
        paths = [str(image) for image in images]
        for ranks in (1, 3):
            rows = self.predicted(ranks, bare, self.dir / "images.h5", bare)
            self.assertEqual([row["path"] for row in rows], [""] * 5 + paths + [""] * 5)

    def test_hdf5_files_have_them_with_a_hash(self):
        data, folders = self.clips()
        self.trained(data)
        sums = set()
        for ranks in (1, 3):
            for name in ("out.h5", "again.h5"):
                self.assert_exit(self.mpirun(ranks, ["predict", "--run", self.dir / "run", "--data", data, "-o", name]), 0)
            content = (self.dir / "out.h5").read_bytes()
            self.assertEqual(content, (self.dir / "again.h5").read_bytes())
            for folder in folders:
                self.assertIn(folder.encode(), content)
            sums.update(re.findall(r"^    paths +text \[26\] +([0-9a-f]{64})$", self.run_trainer(["inspect", "out.h5"]).stdout, re.M))
        self.assertEqual(len(sums), 1)

    def test_damaged_paths_end_predict_and_inspect_but_not_training(self):
        data, _ = self.clips(40)
        content = data.read_bytes()
        # The last collection of HDF5's global heap, in which texts of variable length are; attributes are in the first.
        place = content.rfind(b"GCOL")
        self.assertGreater(place, content.find(b"GCOL"))
        data.write_bytes(content[:place] + b"gone" + content[place + 4:])
        self.trained(data)
        self.assert_exit(self.run_trainer(["eval", "--run", self.dir / "run", "--data", data]), 0)
        for ranks in (1, 3):
            result = self.mpirun(ranks, ["predict", "--run", self.dir / "run", "--data", data, "-o", "out.csv"])
            self.assert_exit(result, 4)
            self.assertIn(f"{data}: /paths cannot be read: ", result.stderr)
            self.assertIn("; write it again, or remove it", result.stderr)
            self.assertEqual(list(self.dir.glob("out*")), [])
        result = self.run_trainer(["inspect", data])
        self.assert_exit(result, 4)
        self.assertIn(f"{data}: /paths cannot be read: ", result.stderr)

    def test_what_is_no_utf8_is_shown(self):
        data, folders = self.clips()
        content = data.read_bytes()
        place = content.find(folders[5].encode())
        data.write_bytes(content[:place] + b"\xff" + content[place + 1:])
        self.trained(data)
        self.assertEqual(self.predicted(3, data)[5]["path"], "\N{REPLACEMENT CHARACTER}" + folders[5][1:])


if __name__ == "__main__":
    system_test.main()
