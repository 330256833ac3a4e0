"""A run that is stopped after every one of its first 12 updates, and resumed, has the bits of one that never stopped."""

import system_test
from recipes import OwnCache, TrainingTest

STOPS = 12

# Recipe -> (ranks, settings). 100 samples in batches of 8 per rank: 13 updates an epoch on one rank (the last one is
# uneven), so that the stops lie in the first epoch and the runs end in the third.
RECIPES = {
    "momentum and a power-law warm-up": (1, {
        "optim.momentum": 0.9, "optim.weight_decay": 1e-3, "schedule.name": "step", "schedule.step_size": 1,
        "schedule.gamma": 0.5, "schedule.warmup_epochs": 0.6, "schedule.warmup": "power"}),
    "adamw, accumulation, cosine, clipping, moving average": (1, {
        "train.batch_size": 2, "train.accumulate": 4, "optim.name": "adamw", "optim.lr": 0.01,
        "optim.decay_1d": "false", "optim.clip_norm": 0.5, "optim.layer_decay": 0.8, "schedule.name": "cosine",
        "schedule.warmup_epochs": 0.5, "schedule.min_lr": 1e-5, "train.ema": "{decay: 0.9, warmup: true}"}),
    "adam on two ranks with accumulation": (2, {
        "train.batch_size": 1, "train.accumulate": 4, "optim.name": "adam", "optim.lr": 0.01, "train.ema": 0.9,
        "train.nan_policy": "skip"}),
    "batch-norm, dropout, moving average on two ranks": (2, {
        "train.batch_size": 4, "model.name": "null", "model.hidden": "null", "train.ema": 0.9, "optim.momentum": 0.9,
        "distributed.across_steps": "true", "distributed.bucket_policy": "per_layer",
        "model.layers": "[{conv2d: {out: 4, kernel: 3}}, batch_norm2d, relu, {max_pool2d: {kernel: 2}}, "
                        "{dropout: {p: 0.3}}, flatten, {linear: {out: 4}}]"}),
    "measured buckets on two ranks": (2, {
        "train.batch_size": 4, "distributed.bucket_policy": "auto", "optim.momentum": 0.9,
        "distributed.across_steps": "true"}),
    "synchronized batch-norm with accumulation": (2, {
        "train.batch_size": 2, "train.accumulate": 2, "model.name": "null", "model.hidden": "null",
        "distributed.sync_batch_norm": "true", "train.recompute": "true",
        "model.layers": "[{conv2d: {out: 4, kernel: 3}}, batch_norm2d, relu, flatten, {linear: {out: 8}}, relu, "
                        "{linear: {out: 4}}]"}),
    "vision transformer with stochastic depth": (1, {
        "model.name": "vit", "model.hidden": "null", "model.dim": 8, "model.depth": 2, "model.heads": 2,
        "model.drop_path": 0.4, "optim.name": "adamw", "optim.lr": 0.003, "train.label_smoothing": 0.1,
        "train.class_weights": "[1,2,3,4]"}),
    "video transformer": (1, {
        "model.name": "videomae", "model.hidden": "null", "model.frames": 1, "model.tubelet": 1, "model.patch": 4,
        "model.dim": 8, "model.depth": 2, "model.heads": 2, "optim.name": "adamw", "optim.lr": 0.003,
        "optim.decay_1d": "false"}),
    "masked autoencoder on two ranks": (2, {
        "model.name": "videomae_pretrain", "model.hidden": "null", "model.frames": 1, "model.tubelet": 1, "model.patch": 2,
        "model.dim": 8, "model.depth": 1, "model.heads": 2, "model.mask_ratio": 0.6, "model.decoder_depth": 1,
        "train.batch_size": 4, "optim.name": "adamw", "optim.lr": 0.003, "optim.decay_1d": "false"}),
    "augmented images on two ranks": (2, {
        "train.batch_size": 4, "data.workers": 2, "optim.momentum": 0.9,
        "data.transforms": "[horizontal_flip, {random_crop: {size: 6, padding: 1}}, {random_erasing: {p: 0.3}}]"}),
    "adadelta": (1, {"optim.name": "adadelta", "optim.weight_decay": 0.01}),
    "lamb": (1, {"optim.name": "lamb", "optim.lr": 0.02, "train.early_stopping": "{patience: 9, metric: val/loss}"}),
}


class ExactResume(OwnCache, TrainingTest):
    def train(self, ranks, settings):
        result = self.mpirun(ranks, settings) if ranks > 1 else self.run_trainer(settings)
        self.assert_exit(result, 0)

    def rows(self, run, kind, fields):
        return [tuple(row.get(field) for field in fields) for row in self.metrics(run, kind)]

    def check(self, name):
        ranks, recipe = RECIPES[name]
        data, val = self.small_data(100), self.small_data(40, "val.h5")
        given = {"optim.momentum": 0, "train.log_every": 1, "train.epochs": 3, "train.checkpoint.every": "never",
                 "train.checkpoint.best": "val/loss", "data.val": val, **recipe}
        given = [f"{key}={value}" for key, value in given.items()]
        self.train(ranks, self.settings(data, "full") + given)
        for stop in range(1, STOPS + 1):
            self.train(ranks, self.settings(data, "run") + given + [f"train.max_steps={stop}"])
        self.train(ranks, self.settings(data, "run") + given)

        step_fields = ("step", "epoch", "samples", "loss", "lr", "grad_norm", "skipped")
        full = self.rows("full", "step", step_fields)
        self.assertEqual(len(full), 39)
        self.assertEqual(self.rows("run", "step", step_fields), full)
        # The stopped runs evaluate at each stop; the uninterrupted one's evaluations are all there, too.
        eval_fields = ("epoch", "step", "loss", "accuracy", "balanced_accuracy")
        evals = self.rows("full", "eval", eval_fields)
        self.assertEqual(len(evals), 3)
        self.assertEqual([row for row in self.rows("run", "eval", eval_fields) if row[1] > STOPS], evals)
        self.assertEqual(self.sha256("run"), self.sha256("full"))


for _name in RECIPES:
    def _test(self, name=_name):
        self.check(name)
    setattr(ExactResume, "test_" + "".join(c if c.isalnum() else "_" for c in _name), _test)


if __name__ == "__main__":
    system_test.main()
