"""Data sets from folders of frames and from features of videos, through the command line and into a training."""

import json
import os
import pathlib
import random
import signal
import struct

import system_test
from recipes import PackingTest, png
from sequences import npy

RECIPE = pathlib.Path(__file__).resolve().parents[2] / "jobs" / "clip_selection" / "clip_selection.yaml"


class PackVideos(PackingTest):
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

    def pack_features(self, code, *more, output="data.h5"):
        return self.pack_from(code, "features", "--labels", self.dir / "list.json", "--features",
                              ",".join(str(self.dir / name) for name in ("visual", "audio", "text")), "-o", self.dir / output,
                              *more)

    def test_features_are_packed_and_train_on_one_rank_and_two(self):
        samples, labels = self.videos()
        target = self.dir / "data.h5"
        self.assertEqual(self.pack_features(0).stdout, f"{target}: 24 samples [2944] f32, 2 classes\n")
        content = target.read_bytes()
        self.assertIn(b"".join(struct.pack("<2944f", *row) for row in samples), content)
        self.assertIn(struct.pack("<24q", *labels), content)
        self.assertIn("inside", self.run_trainer(["inspect", target]).stdout)
        self.pack_features(0, "--threads", 3)
        self.assertEqual(target.read_bytes(), content)
        self.assert_same_losses_on_1_and_2_ranks(12, [f"data.train={target}", "model.name=mlp", "model.hidden=[32]"])

    def test_features_that_cannot_be_read_end_the_packing_or_are_counted(self):
        self.videos()
        broken = self.dir / "audio" / "b.npy"
        broken.write_bytes(broken.read_bytes()[:-1])
        result = self.pack_features(4)
        self.assertIn(f"{broken}: it is cut off", result.stderr)
        self.assertEqual(self.outputs(), [])
        result = self.pack_features(0, "--skip-errors")
        self.assertIn("12 samples [2944] f32, 2 classes; 1 part was left out", result.stdout)
        self.assertIn(f"warning: {broken}", result.stderr)
        (self.dir / "list.json").write_text('[{"youtube_id": "a"}]')
        self.assertIn("list.json: entry 1 (a): it has no timeRange", self.pack_features(4).stderr)

    def test_parts_of_videos_are_packed_as_sequences(self):
        samples, _ = self.videos()
        target, index = self.dir / "data.h5", self.dir / "index.csv"
        result = self.pack_features(0, "--sequences", "--length", 14, "--index", index)
        self.assertEqual(result.stdout,
                         f"{target}: 2 samples [14, 2945] f32, segments in 14 seconds; 4 of 28 seconds are padding\n")
        content, padding = target.read_bytes(), [0.0] * 2945
        for part in samples[:12], samples[12:]:
            rows = [[*row, 1] for row in part] + [padding] * 2
            self.assertIn(b"".join(struct.pack("<2945f", *row) for row in rows), content)
        outside = (-1, -1)
        first = [outside] * 3 + [(0.5, 1.25), (1.5, 0.25)] + [outside] * 3 + [(0, 2), (1, 1)] + [outside] * 4
        second = [(t, 5.5 - t) for t in range(6)] + [outside] * 8
        self.assertIn(struct.pack("<56f", *(number for pair in first + second for number in pair)), content)
        self.assertEqual(index.read_text(), "index,id,second\n0,a,0\n1,b,6\n")
        shown = self.run_trainer(["inspect", target]).stdout
        for line in ("shape     [14, 2945] f32", "targets   segments in 14 seconds", "paths     one each, the first: a",
                     "segments  3 in 2 of 2 samples, 1.75 to 5.5 s long, 3.08333 s on average",
                     "seconds   10 inside of a segment, 18 outside or padding"):
            self.assertIn(f"  {line}\n", shown)
        self.assertLess(len(shown.splitlines()), 12)
        self.pack_features(0, "--sequences", "--length", 14, "--threads", 3)
        self.assertEqual(target.read_bytes(), content)
        self.assert_same_losses_on_1_and_2_ranks(
            2, ["-c", RECIPE, f"data.train={target}", f"data.val={target}", "model.dim=16", "model.depth=1", "model.heads=2"])
        self.pack_features(0, "--sequences", "--mean", "0.5", "--std", "2")
        self.assertRegex(self.run_trainer(["inspect", target]).stdout, r"mean .* 0.5, 0\n  std .* 2, 1\n")
        bare = self.dir / "bare.h5"
        parts = [{"youtube_id": "b", "timeRange": [first, last]} for first, last in ((0, 9), (9, 20))]
        (self.dir / "list.json").write_text(json.dumps(parts))
        self.assertIn("entry 1 (b): it has no segments", self.pack_features(4, "--sequences").stderr)
        result = self.pack_features(0, "--sequences", "--no-labels", output=bare)
        self.assertEqual(result.stdout, f"{bare}: 2 samples [11, 2945] f32, no labels; 2 of 22 seconds are padding\n")
        shown = self.run_trainer(["inspect", bare]).stdout
        self.assertIn("the first: 'b 0-9'", shown)
        self.assertIn("labels    none", shown)

    def test_sequences_that_do_not_go_together_are_refused(self):
        self.videos()
        target, other, bare = self.dir / "data.h5", self.dir / "other.h5", self.dir / "seconds.h5"
        self.pack_features(0, "--sequences")
        self.pack_features(0, "--sequences", "--length", 20, output=other)
        self.pack_features(0, output=bare)
        for second, said in (
                (other, f"{target} has sequences of 12 steps, but {other} of 20; files that are used together must agree; pack "
                        "them again with the same --length"),
                (bare, f"{target} has segments in 12 seconds, but {bare} has 2 classes")):
            result = self.run_trainer([f"data.train=[{target},{second}]", f"data.val={target}", f"run.dir={self.dir / 'run'}"])
            self.assert_exit(result, 4)
            self.assertIn(said, result.stderr)
        train = [f"data.train={target}", "model.name=temporal_transformer", "model.dim=8", "model.depth=1", "model.heads=2",
                 "train.batch_size=2", f"run.dir={self.dir / 'run'}"]
        for settings, code, said in (
                ([f"data.val={other}"], 4, "pack both with the same --length"),
                (["data.normalize={mean: [0.5], std: [2]}"], 2,
                 "data.normalize has mean 0.5 and std 2 for the last feature of sequences"),
                (["data.transforms=[horizontal_flip]"], 2, "but transforms are for images"),
                (["model.name=vit"], 2, "has segments, which only the model temporal_transformer tells")):
            result = self.run_trainer([*train, f"data.val={target}", *settings])
            self.assert_exit(result, code)
            self.assertIn(said, result.stderr)
        result = self.pack_features(4, "--sequences", "--length", 11)
        self.assertIn("list.json: entry 1 (a): it has 12 seconds, more than the 11 of --length; give --length 12", result.stderr)
        result = self.pack_features(4, "--sequences", "--length", 11, "--skip-errors")
        self.assertIn("list.json: no entry could be read", result.stderr)
        parts = json.loads((self.dir / "list.json").read_text())
        parts[1]["segments"] = [[6.25, 6.75], [8, 9]]
        parts[1]["timeRange"] = [6, 10]
        (self.dir / "list.json").write_text(json.dumps(parts))
        result = self.pack_features(0, "--sequences", "--length", 4, "--skip-errors")
        self.assertEqual(result.stdout, f"{target}: 1 sample [4, 2945] f32, segments in 4 seconds; 1 segment was left out, in "
                                        "which no second of its part begins; 1 part was left out\n")
        self.assertIn("warning: ", result.stderr)

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
        # 6 frames of 2 channels, and 16 of none.
        for frames in 6, 16:
            result = self.run_trainer([*common, "model.name=videomae", f"model.frames={frames}", "train.batch_size=8",
                                       f"run.dir={self.dir / 'none'}"])
            self.assert_exit(result, 2)
            self.assertIn(f"model.frames is {frames}, but the data have clips of 4 frames; set model.frames: 4, ", result.stderr)
        self.assertIn("  frames    4, of 3 channels each\n", self.run_trainer(["inspect", target]).stdout)
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
        self.assertEqual(result.stdout, f"{target}: 2 samples [8, 8, 12] u8, 2 targets; 1 row was left out by --keep; 2 rows "
                                        "were left out for an empty or not finite target\n")
        self.assertIn(struct.pack("<4f", 1.5, 2, 7, -8.25), target.read_bytes())
        self.assertIn("y_pix", self.run_trainer(["inspect", target]).stdout)
        result = self.run_trainer([f"data.train={target}", "data.transforms=[horizontal_flip]", "model.name=mlp",
                                   f"run.dir={self.dir / 'none'}"])
        self.assert_exit(result, 4)
        self.assertIn("sample 1 has y_pix -8.25, outside of its 8 pixels, so a flip", result.stderr)
        result = self.run_trainer([f"data.train={target}", "data.transforms=[{center_crop: {size: 4}}]", "model.name=mlp",
                                   f"run.dir={self.dir / 'none'}"])
        self.assert_exit(result, 2)
        self.assertIn("{center_crop: {size: 4}} moves pixels, but ", result.stderr)

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
        self.assertEqual(result.stdout, f"{target}: 5 samples [8, 8, 48] u8, 2 classes; 1 clip was left out\n")
        self.assertIn(f"warning: {broken}", result.stderr)

    def test_the_index_tells_ranges_of_one_folder_apart(self):
        folder, table, index = self.clips(1), self.dir / "list.csv", self.dir / "index.csv"
        table.write_text("path,start,end\ndusk/00,1,2\nnone,1,2\ndusk/00,2,2\n")
        arguments = ["clips", "--csv", table, "--dir", folder, "--no-labels", "--frames", 1, "--skip-errors", "-o", self.dir / "data.h5",
                     "--index", index]
        self.pack_from(0, *arguments, "--range", "start,end")
        self.assertEqual(index.read_text(), "index,path,start,end\n0,dusk/00,1,2\n1,dusk/00,2,2\n")
        self.pack_from(0, *arguments)
        self.assertEqual(index.read_text(), "index,path\n0,dusk/00\n1,dusk/00\n")

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
        features = ["features", "--labels", self.dir / "list.json", "--features", self.dir / "seen"]
        for number, arguments in ((signal.SIGTERM, ["clips", "--dir", folder, "--size", "8"]),
                                  (signal.SIGINT, [*features]), (signal.SIGTERM, [*features, "--sequences"])):
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
                (["features", "--labels", "x", "--features", "y", "--threads", "0", "-o", out], "--threads"),
                (["features", "--labels", "x", "--features", "y", "--length", "9", "-o", out], "--sequences"),
                (["features", "--labels", "x", "--features", "y", "--sequences", "--length", "0", "-o", out], "--length"),
                (["features", "--labels", "x", "--features", "y", "--sequences", "--length", "1.5", "-o", out], "--length")):
            self.assertIn(said, self.pack_from(2, *arguments).stderr)
        self.pack_from(4, "clips", "--dir", self.dir / "missing", "-o", out)
        self.pack_from(4, "features", "--labels", self.dir / "missing", "--features", self.dir, "-o", out)


if __name__ == "__main__":
    system_test.main()
