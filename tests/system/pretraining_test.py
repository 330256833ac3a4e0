"""Masked pre-training of clips without labels: its losses on any number of ranks and after a resume, what evaluations say,
what is refused, and the way on into a classifier."""

import json
import math
import random

import system_test
from recipes import TrainingTest, png

FRAMES, SIDE, CLIPS = 4, 8, 48
CLIP = f"frames: {FRAMES}, patch: 2, dim: 12, depth: 2, heads: 2"
RECIPE = f"""
model: {{name: videomae_pretrain, {CLIP}, mask_ratio: 0.5, decoder_depth: 1}}
optim: {{name: adamw, lr: 0.003}}
train: {{batch_size: 12, epochs: 3, log_every: 1, precision: fp64}}
"""


class Pretraining(TrainingTest):
    def setUp(self):
        super().setUp()
        draw = random.Random(3)
        names = []
        for clip in range(CLIPS):
            # A wave that goes through the frame, so that what is hidden follows from what is seen.
            phase, speed, across = draw.uniform(0, 6.3), draw.uniform(-0.5, 0.5), draw.choice((0.3, 0.6))
            folder = self.dir / "clips" / f"{clip:03}"
            folder.mkdir(parents=True)
            for frame in range(FRAMES):
                row = bytes(int(128 + 100 * math.sin(phase + speed * frame + across * x)) for x in range(SIDE))
                (folder / f"img_{frame:05}.png").write_bytes(png(SIDE, SIDE, [row] * SIDE, 0))
            names.append(folder.name)
        (self.dir / "all.csv").write_text("\n".join(["path,label", *(f"{name},{i % 2}" for i, name in enumerate(names))]) + "\n")
        self.data = self.pack_clips("clips.h5", "--no-labels")
        (self.dir / "recipe.yaml").write_text(RECIPE)

    def pack_clips(self, name, *more):
        packed = self.run_trainer(["pack", "clips", "--dir", "clips", "--csv", "all.csv", "--frames", FRAMES, "--channels", 1,
                                   "--mean", 0.5, "--std", 0.25, *more, "-o", name])
        self.assert_exit(packed, 0)
        return self.dir / name

    def command(self, run, *more, ranks=1):
        return ["-c", "recipe.yaml", f"run.dir={run}", f"data.train={self.data}", f"data.val={self.data}",
                f"train.batch_size={12 // ranks}", *more]

    def train(self, run, *more, ranks=1):
        command = self.command(run, *more, ranks=ranks)
        result = self.mpirun(ranks, command) if ranks > 1 else self.run_trainer(command)
        self.assert_exit(result, 0)
        return result

    def test_losses_are_the_same_on_any_number_of_ranks_and_fall(self):
        for ranks in (1, 2, 3):
            result = self.train(f"run{ranks}", ranks=ranks)
            self.assertRegex(result.stdout, r"(?m)^test loss \d\.\d{4} \(48 samples\)$")
            self.assertRegex(result.stderr + result.stdout, r"epoch 1: training loss \d\.\d{4} \(48 samples\)")
        first = self.losses("run1")
        self.assertEqual(len(first), 12)
        self.assertLess(sum(first[-4:]), 0.97 * sum(first[:4]))
        for ranks in (2, 3):
            for one, other in zip(first, self.losses(f"run{ranks}"), strict=True):
                self.assertAlmostEqual(one, other, delta=1e-12)
        rows = self.metrics("run1", "eval")
        self.assertEqual([set(row) for row in rows], [{"type", "epoch", "step", "split", "loss", "samples"}] * 3)
        config = (self.dir / "run1" / "config.yaml").read_text()
        self.assertIn("\n  loss: reconstruction\n", config)
        self.assertIn("\n  mask_ratio: 0.5\n", config)

    def test_a_mask_of_the_decoder(self):
        """Eight frames in four groups; half of what is hidden is said, by the clip's position alone."""
        packed = self.run_trainer(["pack", "clips", "--dir", "clips", "--csv", "all.csv", "--frames", 8, "--channels", 1,
                                   "--mean", 0.5, "--std", 0.25, "--no-labels", "-o", "eight.h5"])
        self.assert_exit(packed, 0)
        self.data = self.dir / "eight.h5"
        eight = ["model.frames=8", "model.decoder_mask_ratio=0.5", "train.epochs=2"]
        for ranks in (1, 2):
            self.train(f"v2-{ranks}", *eight, ranks=ranks)
        for one, other in zip(self.losses("v2-1"), self.losses("v2-2"), strict=True):
            self.assertAlmostEqual(one, other, delta=1e-12)
        self.train("v1", *eight[:1], "train.epochs=2")
        self.assertNotAlmostEqual(self.losses("v1")[0], self.losses("v2-1")[0], delta=1e-6)
        self.assertLess(sum(self.losses("v2-1")[-4:]), 0.99 * sum(self.losses("v2-1")[:4]))
        shown = self.run_trainer(["inspect", "-c", "v2-1/config.yaml"]).stdout
        self.assertRegex(shown, r"mask_tokens +\[64, 6\]")
        self.assertRegex(shown, r"last_tokens +\[16, 6\]")
        resumed = self.run_trainer(self.command("v2-1", *eight[:1], "train.epochs=3"))
        self.assert_exit(resumed, 2)
        self.assertIn("model.decoder_mask_ratio", resumed.stderr)
        refused = self.run_trainer(self.command("odd", "model.decoder_mask_ratio=0.5", *eight[:1], "model.tubelet=4"))
        self.assert_exit(refused, 2)
        self.assertIn("in 2 groups", refused.stderr)

    def test_the_same_bits_after_a_resume_and_on_two_ranks(self):
        exact = ["run.deterministic=true", "run.virtual_shards=4", "train.checkpoint.best=val/loss"]
        self.train("whole", *exact)
        self.train("two", *exact, ranks=2)
        self.train("part", *exact, "train.max_steps=7")
        self.train("part", *exact)
        hashes = [self.sha256(run) for run in ("whole", "two", "part")]
        self.assertEqual(len(set(hashes)), 1, hashes)
        self.assertEqual(self.losses("whole"), self.losses("part"))

    def test_evaluations_give_the_loss_alone_whatever_labels_there_are(self):
        labelled = self.pack_clips("labelled.h5")
        self.train("run", "train.epochs=1")
        last = self.metrics("run", "eval")[-1]["loss"]
        for data, ranks in ((self.data, 1), (labelled, 1), (self.data, 2)):
            command = ["eval", "--run", "run", "--data", data, "--json"]
            result = self.mpirun(ranks, command) if ranks > 1 else self.run_trainer(command)
            self.assert_exit(result, 0)
            row = json.loads(result.stdout)
            self.assertEqual(set(row), {"loss", "samples", "data", "weights", "weights_sha256", "world_size"})
            self.assertAlmostEqual(row["loss"], last, delta=1e-12)
        result = self.run_trainer(["eval", "--run", "run", "--data", labelled])
        self.assertIn(f"test loss {last:.4f} (48 samples)\n", result.stdout)
        self.train("labelled", "train.epochs=1", f"data.train={labelled}", "data.val=null")
        self.train("unlabelled", "train.epochs=1", "data.val=null")
        self.assertEqual(self.losses("labelled"), self.losses("unlabelled"))

    def test_every_command_takes_data_without_labels(self):
        more = ["data.train=" + str(self.data), "data.val=" + str(self.data)]
        diverged = self.run_trainer(self.command("bad", "optim.name=sgd", "optim.lr=1e300"))
        self.assert_exit(diverged, 1)
        failed, = (self.dir / "bad").glob("failed-step-*.h5")
        replayed = self.run_trainer(["replay", failed])
        self.assert_exit(replayed, 1)
        self.assertIn("step 2 (epoch 1)", replayed.stdout)
        self.assert_exit(self.run_trainer(["inspect", "-c", "recipe.yaml", *more]), 0)
        self.assert_exit(self.run_trainer(["bench", "loader", "-c", "recipe.yaml", *more, "--rounds", 1, "--cold-rounds", 1,
                                           "--batches", 2, "data.workers=1", "--out", "loader"]), 0)
        self.assertTrue((self.dir / "loader" / "loader.json").exists())

    def test_what_is_not_for_it_is_refused(self):
        self.train("run", "train.max_steps=1")
        predict = self.run_trainer(["predict", "--run", "run", "--data", self.data, "-o", "out.csv"])
        self.assert_exit(predict, 2)
        self.assertRegex(predict.stderr, "hidden pixels.*model.init_from=")
        self.assertFalse((self.dir / "out.csv").exists())
        for settings, said in ((["train.label_smoothing=0.1"], "train.label_smoothing is for classes"),
                               (["train.checkpoint.best=val/accuracy"], "give val/loss"),
                               (["train.loss=mse"], "set train.loss to reconstruction"),
                               (["model.classes=2"], "model.classes"), (["model.mask_ratio=0.01"], "hides 0 of 16 patches"),
                               (["model.frames=3"], "model.frames is 3, but the data have clips of 4 frames")):
            result = self.mpirun(2, self.command("refused", *settings, ranks=2))
            self.assert_exit(result, 2)
            self.assertIn(said, result.stderr)
        classifier = self.run_trainer(self.command("refused", "model.name=videomae"))
        self.assert_exit(classifier, 2)
        self.assertIn("model.mask_ratio", classifier.stderr)
        self.assertFalse((self.dir / "refused").exists())

    def test_a_classifier_begins_with_its_encoder(self):
        self.train("run", "train.epochs=1")
        labelled = self.pack_clips("labelled.h5")
        (self.dir / "fine.yaml").write_text(f"model: {{name: videomae, {CLIP}}}\ntrain: {{batch_size: 12, max_steps: 0, precision: fp64}}\n")
        for source in ("run", sorted((self.dir / "run" / "checkpoints").glob("*.h5"))[-1]):
            result = self.run_trainer(["-c", "fine.yaml", "run.dir=fine", "run.resume=never", f"data.train={labelled}",
                                       f"model.init_from={source}"])
            self.assert_exit(result, 0)
            before, after = (self.tensors(run) for run in ("run", "fine"))
            taken = {name.removeprefix("encoder.") for name in before if name.startswith("encoder.")} - {
                "norm.weight", "norm.bias"}
            self.assertEqual(set(after) - taken, {"fc_norm.weight", "fc_norm.bias", "head.weight", "head.bias"})
            for name in taken:
                self.assertEqual(after[name], before["encoder." + name], name)

    def tensors(self, run):
        """name -> bytes"""
        self.assert_exit(self.run_trainer(["export", run, "-o", f"{run}.safetensors"]), 0)
        content = (self.dir / f"{run}.safetensors").read_bytes()
        begin = 8 + int.from_bytes(content[:8], "little")
        header = json.loads(content[8:begin])
        return {name: content[begin + entry["data_offsets"][0]:begin + entry["data_offsets"][1]]
                for name, entry in header.items() if name != "__metadata__"}


if __name__ == "__main__":
    system_test.main()
