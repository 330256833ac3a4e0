"""Data sets from folders of frames and from features of videos, through the command line and into a training."""

import json
import os
import pathlib
import random
import signal
import struct

import system_test
from recipes import PackingTest, png

RECIPE = pathlib.Path(__file__).resolve().parents[2] / "jobs" / "clip_selection" / "clip_selection.yaml"


def npy(rows, kind="f", version=1):
    """A .npy file by the specification of its format; kind: of struct, f is 32 bits and e 16."""
    header = f"{{'descr': '<f{struct.calcsize(kind)}', 'fortran_order': False, 'shape': ({len(rows)}, {len(rows[0])}), }}"
    before = 10 if version == 1 else 12
    header += " " * (63 - (before + len(header)) % 64) + "\n"
    return (b"\x93NUMPY" + bytes((version, 0)) + struct.pack("<H" if version == 1 else "<I", len(header)) + header.encode() +
            b"".join(struct.pack(f"<{len(row)}{kind}", *row) for row in rows))


class PackVideos(PackingTest):
    def outputs(self):
        """The data set and what is beside it under a temporary name."""
        return [path for path in self.dir.iterdir() if path.name.startswith("data.h5")]

    def assert_same_losses_on_1_and_2_ranks(self, batch, settings, run="ranks"):
        """Two steps with so many samples each."""
        losses = []
        for ranks in (1, 2):
            result = self.mpirun(ranks, [*settings, f"run.dir={self.dir / f'{run}{ranks}'}", "train.max_steps=2",
                                         "train.log_every=1", f"train.batch_size={batch // ranks}", "train.precision=fp64"])
            self.assert_exit(result, 0)
            losses.append(self.losses(f"{run}{ranks}"))
            self.assertEqual(len(losses[-1]), 2)
        for one, two in zip(*losses, strict=True):
            self.assertAlmostEqual(one, two, delta=1e-12 * one)

    def videos(self):
        """A list of two parts of two videos, and three kinds of features in three types; the samples and labels."""
        numbers = random.Random(2)
        kinds = {"visual": ("e", 1, 512), "audio": ("f", 2, 2048), "text": ("d", 1, 384)}
        parts = [{"youtube_id": "a", "timeRange": [0, 12.0], "segments": [[2.5, 4.25], [8, 10.0]], "timeRangeOffset": [0, 12.0],
                  "segmentsOffset": [[2.5, 4.25], [8, 10.0]], "coverage": 0.3},
                 {"youtube_id": "b", "timeRange": [6, 18], "segments": [[6, 11.5]], "timeRangeOffset": [0, 12],
                  "segmentsOffset": [[0, 5.5]], "coverage": 0.4}]
        (self.dir / "list.json").write_text(json.dumps(parts))
        labels = [1 if second in (2, 3, 4, 8, 9) else 0 for second in range(12)]
        labels += [1 if second < 12 else 0 for second in range(6, 18)]
        rows = {"a": [[] for _ in range(12)], "b": [[] for _ in range(20)]}
        for name, (kind, version, width) in kinds.items():
            (self.dir / name).mkdir()
            for video, all_rows in rows.items():
                # Eighths: exact in 16 bits.
                values = [[numbers.randrange(-16, 16) / 8 for _ in range(width)] for _ in all_rows]
                (self.dir / name / f"{video}.npy").write_bytes(npy(values, kind, version))
                for row, more in zip(all_rows, values):
                    row += more
        return [*rows["a"], *rows["b"][6:18]], labels

    def pack_features(self, code, *more):
        return self.pack_from(code, "features", "--labels", self.dir / "list.json", "--features",
                              ",".join(str(self.dir / name) for name in ("visual", "audio", "text")), "-o", self.dir / "data.h5",
                              *more)

    def test_features_are_packed_and_the_recipe_trains_on_them(self):
        samples, labels = self.videos()
        target = self.dir / "data.h5"
        self.assertEqual(self.pack_features(0).stdout, f"{target}: 24 samples [2944] f32, 2 classes\n")
        content = target.read_bytes()
        self.assertIn(b"".join(struct.pack("<2944f", *row) for row in samples), content)
        self.assertIn(struct.pack("<24q", *labels), content)
        self.assertIn("inside", self.run_trainer(["inspect", target]).stdout)
        self.pack_features(0, "--threads", 3)
        self.assertEqual(target.read_bytes(), content)
        self.assert_same_losses_on_1_and_2_ranks(
            12, ["-c", RECIPE, f"data.train={target}", f"data.val={target}", "model.hidden=[32]"])

    def test_features_that_cannot_be_read_end_the_packing_or_are_counted(self):
        self.videos()
        broken = self.dir / "audio" / "b.npy"
        broken.write_bytes(broken.read_bytes()[:-1])
        result = self.pack_features(4)
        self.assertIn(f"{broken}: it is cut off", result.stderr)
        self.assertEqual(self.outputs(), [])
        result = self.pack_features(0, "--skip-errors")
        self.assertIn("12 samples [2944] f32, 2 classes; 1 parts were left out", result.stdout)
        self.assertIn(f"warning: {broken}", result.stderr)
        (self.dir / "list.json").write_text('[{"youtube_id": "a"}]')
        self.assertIn("list.json: entry 1 (a): it has no timeRange", self.pack_features(4).stderr)

    def clips(self, count=8, side=8):
        """Clips of 3 frames that become brighter ("day"), or darker ("dusk") and are the same ones in another order."""
        numbers = random.Random(3)
        for index in range(count):
            frames = [[bytes(80 * level + value // 4 for value in numbers.randbytes(3 * side)) for _ in range(side)]
                      for level in range(3)]
            for name, order in (("day", (0, 1, 2)), ("dusk", (2, 1, 0))):
                folder = self.dir / "in" / name / f"{index:02}"
                folder.mkdir(parents=True)
                for place, level in enumerate(order):
                    (folder / f"img_{place:05}.png").write_bytes(png(side, side, frames[level], 2))
        return self.dir / "in"

    def test_clips_are_packed_and_a_transformer_tells_their_order(self):
        folder, target = self.clips(), self.dir / "data.h5"
        result = self.pack_from(0, "clips", "--dir", folder, "--frames", 4, "-o", target, "--mean", "0.5,0.5,0.5", "--std",
                                "0.25,0.25,0.25")
        # Three colours of four frames, the last of which repeats the third.
        self.assertEqual(result.stdout, f"{target}: 16 samples [8, 8, 12] u8, 2 classes\n")
        common = [f"data.train={target}", f"data.val={target}", "model.patch=4", "model.dim=16", "model.depth=1",
                  "model.heads=2", "data.transforms=[horizontal_flip]"]
        for model in ["model.name=vit"], ["model.name=videomae", "model.frames=4"]:
            settings, run = [*common, *model], self.dir / f"run {model[0]}"
            self.assert_same_losses_on_1_and_2_ranks(8, settings, run.name)
            result = self.run_trainer([*settings, f"run.dir={run}", "train.epochs=30", "train.eval_every=30",
                                       "train.batch_size=8", "train.checkpoint={every: 30 epochs}", "optim.lr=0.05"])
            self.assert_exit(result, 0)
            self.assertIn("test accuracy 1.0000 (16 of 16)", result.stdout)
        table = self.dir / "predicted.csv"
        self.assert_exit(self.run_trainer(["predict", "--run", run, "--data", target, "-o", table]), 0)
        rows = [line.split(",") for line in table.read_text().splitlines()]
        label, prediction = rows[0].index("label"), rows[0].index("prediction")
        self.assertEqual([row[prediction] for row in rows[1:]], ["0"] * 8 + ["1"] * 8)
        self.assertEqual([row[label] for row in rows[1:]], ["0"] * 8 + ["1"] * 8)
        result = self.run_trainer([*common, "model.name=videomae", f"run.dir={self.dir / 'none'}", "train.batch_size=8"])
        self.assert_exit(result, 2)
        self.assertIn("model.frames is 16, but the data have 12 channels for all frames", result.stderr)
        table, bare = self.dir / "list.csv", self.dir / "bare.h5"
        table.write_text("path,start\nday/03,0\ndusk/07,0\n")
        result = self.pack_from(0, "clips", "--csv", table, "--dir", folder, "--no-labels", "--frames", 4, "-o", bare)
        self.assertEqual(result.stdout, f"{bare}: 2 samples [8, 8, 12] u8, no labels\n")

    def test_clips_of_a_list_are_packed_with_targets(self):
        folder, target, table = self.clips(3), self.dir / "data.h5", self.dir / "list.csv"
        rows = ["day/00,0,1.5,2,1", "day/01,0,3,4,0", "dusk/00,0,,5,1", "dusk/01,0,6,inf,1", "dusk/02,0,7,-8.25,1"]
        table.write_text("\n".join(["path,start,x_pix,y_pix,label", *rows]) + "\n")
        result = self.pack_from(0, "clips", "--csv", table, "--dir", folder, "--frames", 4, "--target", "x_pix,y_pix", "--keep",
                                "label=1", "-o", target)
        self.assertEqual(result.stdout, f"{target}: 2 samples [8, 8, 12] u8, 2 targets; 1 rows were left out by --keep; 2 rows "
                                        "were left out for an empty or not finite target\n")
        self.assertIn(struct.pack("<4f", 1.5, 2, 7, -8.25), target.read_bytes())
        self.assertIn("y_pix", self.run_trainer(["inspect", target]).stdout)
        result = self.run_trainer([f"data.train={target}", "data.transforms=[horizontal_flip]", "model.name=mlp",
                                   f"run.dir={self.dir / 'none'}"])
        self.assert_exit(result, 2)
        self.assertIn("{horizontal_flip: {p: 0.5}} moves pixels, but ", result.stderr)

    def test_clips_that_cannot_be_read_end_the_packing_or_are_counted(self):
        folder, target = self.clips(3), self.dir / "data.h5"
        broken = folder / "dusk" / "01" / "img_00002.png"
        broken.write_bytes(b"none")
        result = self.pack_from(4, "clips", "--dir", folder, "-o", target)
        self.assertIn(f"{broken}: cannot be read as an image", result.stderr)
        self.assertEqual(self.outputs(), [])
        # The frames that are taken are whole.
        self.pack_from(0, "clips", "--dir", folder, "-o", target, "--frames", 2)
        result = self.pack_from(0, "clips", "--dir", folder, "-o", target, "--skip-errors")
        self.assertEqual(result.stdout, f"{target}: 5 samples [8, 8, 48] u8, 2 classes; 1 clips were left out\n")
        self.assertIn(f"warning: {broken}", result.stderr)

    def test_a_signal_ends_the_packing_and_leaves_nothing(self):
        folder, target = self.clips(1), self.dir / "data.h5"
        image = self.dir / "large.png"
        image.write_bytes(png(2000, 2000, [bytes(6000)] * 2000, 2))
        for clip in range(100):
            (folder / "dusk" / f"large{clip:03}").mkdir()
            for index in range(16):
                os.link(image, folder / "dusk" / f"large{clip:03}" / f"{index}.png")
        (self.dir / "seen").mkdir()
        (self.dir / "seen" / "a.npy").write_bytes(npy([[0.5] * 16] * 1000, "e"))
        part = {"youtube_id": "a", "timeRange": [0, 1000], "segments": []}
        (self.dir / "list.json").write_text(json.dumps([part] * 20000))
        for number, arguments in ((signal.SIGTERM, ["clips", "--dir", folder, "--size", "8"]),
                                  (signal.SIGINT, ["features", "--labels", self.dir / "list.json", "--features", self.dir / "seen"])):
            with self.start(["pack", *arguments, "-o", target]) as job:
                job.wait_until(self.outputs)
                job.signal(number)
                result = job.wait()
            self.assert_exit(result, 1)
            self.assertIn(f"{target}: stopped by signal {number.value}; nothing was written", result.stderr)
            self.assertEqual(self.outputs(), [])

    def test_wrong_words_end_with_2(self):
        out = self.dir / "o.h5"
        for arguments, said in (
                (["clip", "--dir", "x"], "did you mean clips?"),
                (["feature", "--labels", "x"], "did you mean features?"),
                (["clips", "-o", out], "give --dir DIR with a folder per class, or --csv FILE"),
                (["clips", "--dir", self.dir, "--no-labels", "-o", out], "--csv"),
                (["clips", "--dir", self.dir, "--target", "x", "-o", out], "--csv"),
                (["clips", "--dir", self.dir, "--keep", "x=1", "-o", out], "--csv"),
                (["clips", "--csv", out, "--no-labels", "--target", "x", "-o", out], "--target"),
                (["clips", "--csv", out, "--keep", "x", "-o", out], "write --keep COLUMN=VALUE"),
                (["clips", "--csv", out, "--target", "x", "--class-names", "a", "-o", out], "names the classes of labels"),
                (["clips", "--dir", self.dir, "--class-names", "a,b", "-o", out], "--class-names is for --csv"),
                (["clips", "--dir", self.dir, "--frames", "0", "-o", out], "--frames"),
                (["clips", "--dir", self.dir, "--size", "8by8", "-o", out], "--size 8by8 is no size"),
                (["features", "--labels", "x", "-o", out], "--features"),
                (["features", "--features", "x", "-o", out], "--labels"),
                (["features", "--labels", "x", "--features", "y", "--threads", "0", "-o", out], "--threads")):
            self.assertIn(said, self.pack_from(2, *arguments).stderr)
        self.pack_from(4, "clips", "--dir", self.dir / "missing", "-o", out)
        self.pack_from(4, "features", "--labels", self.dir / "missing", "--features", self.dir, "-o", out)


if __name__ == "__main__":
    system_test.main()
