"""model.init_from of a masked autoencoder's weights: a classifier begins with its encoder and a head of its own."""

import struct

import system_test
from recipes import TrainingTest, write_safetensors

NOTE = "model.init_from: the encoder of a masked autoencoder; fc_norm and head begin anew"
CLASSIFIER = ["model.name=videomae", "model.hidden=null", "model.frames=1", "model.tubelet=1", "model.patch=4",
              "model.dim=8", "model.depth=2", "model.heads=2"]


class PretrainedEncoder(TrainingTest):
    def begin(self, data, run, ranks=1, **overrides):
        return super().begin(data, run, ranks, CLASSIFIER, **overrides)

    def autoencoder(self, data):
        """Another seed's weights under the names of VideoMAE's pre-training."""
        self.assert_exit(self.begin(data, "source", run__seed=5), 0)
        tensors = {f"encoder.{name}": tensor for name, tensor in self.exported("source").items()
                   if not name.startswith(("fc_norm.", "head."))}
        for name, shape in (("encoder.norm.weight", [8]), ("encoder.norm.bias", [8]), ("encoder_to_decoder.weight", [4, 8]),
                            ("mask_token", [1, 1, 4]), ("decoder.blocks.0.norm1.weight", [4]), ("decoder.norm.bias", [4]),
                            ("decoder.head.weight", [16, 4])):
            count = 1
            for side in shape:
                count *= side
            tensors[name] = (shape, struct.pack(f"<{count}f", *[9.0] * count))
        write_safetensors(self.dir / "autoencoder.safetensors", tensors)
        return tensors

    def test_a_classifier_begins_with_the_encoder_and_a_new_head(self):
        data = self.small_data(16)
        source = self.autoencoder(data)
        self.assert_exit(self.begin(data, "fresh"), 0)
        fresh = self.exported("fresh")
        convert = ["import", self.dir / "autoencoder.safetensors", "-o", self.dir / "autoencoder.h5"]
        self.assert_exit(self.run_trainer(convert), 0)
        for ranks, name in (1, "autoencoder.safetensors"), (1, "autoencoder.h5"), (2, "autoencoder.h5"):
            with self.subTest(ranks=ranks, name=name):
                run = f"{ranks}_{name}".replace(".", "_")
                result = self.begin(data, run, ranks, model__init_from=self.dir / name)
                self.assert_exit(result, 0)
                self.assertEqual(result.stderr.count(NOTE), 1)
                self.assertIn(NOTE, (self.dir / run / "log.txt").read_text())
                weights = self.exported(run)
                self.assertEqual(weights.keys(), fresh.keys())
                for parameter, tensor in weights.items():
                    new = parameter.startswith(("fc_norm.", "head."))
                    self.assertEqual(tensor, fresh[parameter] if new else source[f"encoder.{parameter}"], parameter)
        self.assertNotEqual(fresh["patch_embed.proj.weight"], source["encoder.patch_embed.proj.weight"])

        # A resume has weights of its own.
        result = self.begin(data, "1_autoencoder_h5", model__init_from=self.dir / "autoencoder.h5", train__epochs=1)
        self.assert_exit(result, 0)
        self.assertIn("resuming ", result.stderr)
        self.assertNotIn(NOTE, result.stderr)

    def test_what_does_not_fit_is_refused(self):
        data = self.small_data(16)
        source = self.autoencoder(data)
        missing = {name: tensor for name, tensor in source.items() if name != "encoder.blocks.1.norm1.bias"}
        write_safetensors(self.dir / "other.safetensors", {**missing, "teacher": ([1], bytes(4))})
        for name, change, words in (
                ("other", {}, "(missing: blocks.1.norm1.bias, not in the model: teacher)"),
                ("autoencoder", {"model__dim": 16}, " patch_embed.proj.weight [8, 1, 1, 4, 4] instead of [16, 1, 1, 4, 4]"),
                ("autoencoder", {"model__name": "vit", "model__frames": "null", "model__tubelet": "null"},
                 "not in the model: decoder.blocks.0.norm1.weight")):
            for ranks in (1, 2):
                result = self.begin(data, "none", ranks, model__init_from=self.dir / f"{name}.safetensors", **change)
                self.assert_exit(result, 4)
                self.assertIn(words, result.stderr)
                self.assertNotIn(NOTE, result.stderr)
                self.assertFalse((self.dir / "none").exists())


if __name__ == "__main__":
    system_test.main()
