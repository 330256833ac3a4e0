"""model.init_except: weights of a file for all but some parts, which begin anew."""

import shutil

import system_test
from recipes import TrainingTest, write_safetensors

OTHER_CLASSES = {"model__name": "lenet", "model__hidden": "null", "model__classes": 7}


class InitExcept(TrainingTest):
    def setUp(self):
        super().setUp()
        self.data = self.small_data(16)

    def begin(self, run, ranks=1, **overrides):
        return super().begin(self.data, run, ranks, **overrides)

    def test_a_head_for_other_classes_begins_anew(self):
        self.assert_exit(self.begin("source", model__name="lenet", model__hidden="null", run__seed=5), 0)
        self.assert_exit(self.begin("fresh", **OTHER_CLASSES), 0)
        source, fresh = self.exported("source"), self.exported("fresh")
        for ranks in 1, 2:
            run = f"tuned{ranks}"
            result = self.begin(run, ranks, **OTHER_CLASSES, model__init_from=self.dir / "source", model__init_except="[fc2]")
            self.assert_exit(result, 0)
            self.assertEqual(result.stderr.count("model.init_from: all but fc2"), 1)
            tuned = self.exported(run)
            self.assertEqual(tuned.keys(), source.keys())
            for name, tensor in tuned.items():
                self.assertEqual(tensor, (fresh if name.startswith("fc2.") else source)[name], name)
            self.assertNotEqual(source["fc1.weight"], fresh["fc1.weight"])

    def test_a_head_that_stays_is_of_other_classes_whatever_else_begins_anew(self):
        named = ["--class-names", "a,b,c,d"]
        self.data = self.pack(*self.synthetic_idx(16, classes=4, side=8), name="named.h5", options=named)
        self.assert_exit(self.begin("source", model__name="lenet", model__hidden="null"), 0)
        self.data = self.pack(*self.synthetic_idx(16, classes=4, side=8), name="others.h5", options=["--class-names", "a,b,d,c"])
        for parts, doubted in ("[conv1]", 1), ("[fc2]", 0), ("[conv1, fc2.bias]", 0):
            result = self.begin(f"tuned{parts}", model__name="lenet", model__hidden="null", model__init_from=self.dir / "source",
                                model__init_except=parts)
            self.assert_exit(result, 0)
            self.assertEqual(result.stderr.count("; the head begins with its weights"), doubted, parts + result.stderr)

    def test_what_does_not_fit_names_the_way_out(self):
        self.assert_exit(self.begin("source", model__name="lenet", model__hidden="null"), 0)
        source = {"model__init_from": self.dir / "source"}
        result = self.begin("none", **OTHER_CLASSES, **source)
        self.assert_exit(result, 4)
        for words in "of another shape: fc2.", "model.init_except, here [fc2]":
            self.assertIn(words, result.stderr)
        result = self.begin("none", 2, **OTHER_CLASSES, **source, model__init_except="[fc3]")
        self.assert_exit(result, 2)
        self.assertIn("model.init_except: fc3 names no weights", result.stderr)
        self.assertFalse((self.dir / "none").exists())
        result = self.begin("idle", model__init_except="[fc1]")
        self.assert_exit(result, 0)
        self.assertIn("model.init_except has no effect without model.init_from", result.stderr)

    def test_names_of_what_wrapped_the_model_say_what_to_take_away(self):
        self.assert_exit(self.begin("source"), 0)
        source = self.exported("source")
        for prefix in "model.", "net.backbone.":
            for names in (source, {name: tensor for name, tensor in source.items() if not name.startswith("fc1.")}):
                weights = self.dir / "wrapped.safetensors"
                write_safetensors(weights, {prefix + name: tensor for name, tensor in names.items()})
                said = (f'{weights} does not fit the model: its names begin with "{prefix}", as what wraps a model saves them; take that '
                        f'away, in Python: state_dict = {{name.removeprefix("{prefix}"): tensor for name, tensor in state_dict.items()}}')
                for result in (self.begin("run", 2, model__init_from=weights, model__init_except="[fc1]"),
                               self.begin("run", model__init_from=weights),
                               self.run_trainer(["eval", "-c", self.dir / "source/config.yaml", "--checkpoint", weights, "--data", self.data])):
                    self.assert_exit(result, 4)
                    self.assertIn(said, result.stderr)
        write_safetensors(weights, {"model." + name.replace("fc", "layer"): tensor for name, tensor in source.items()})
        others = self.begin("run", model__init_from=weights)
        self.assert_exit(others, 4)
        self.assertIn("missing: ", others.stderr)
        self.assertNotIn("begin with", others.stderr)

    def test_a_resume_goes_on_from_its_checkpoint_and_not_from_other_weights(self):
        for seed in 5, 6:
            self.assert_exit(self.begin(f"source{seed}", run__seed=seed), 0)
        first = {"model__init_from": self.dir / "source5", "model__init_except": "[fc2]"}
        self.assert_exit(self.begin("run", **first, train__epochs=1), 0)
        before = (self.dir / "run/config.yaml").read_text()
        for other, said in (({**first, "model__init_from": self.dir / "source6"}, f"model.init_from: {self.dir}/source5 -> {self.dir}/source6"),
                            ({**first, "model__init_except": "[fc1]"}, r"model.init_except: \[fc2\] -> \[fc1\]")):
            for epochs in 1, 2:  # whether it is finished or not
                result = self.begin("run", 2, **other, train__epochs=epochs)
                self.assert_exit(result, 2)
                self.assertRegex(result.stderr, f"was trained with other settings \\({said}\\); leave model.init_from out to go on with")
        self.assertEqual((self.dir / "run/config.yaml").read_text(), before)
        # What it began with is not needed any more, whether it is named or not.
        shutil.rmtree(self.dir / "source5")
        for epochs, settings in (2, first), (3, {}):
            self.assert_exit(self.begin("run", epochs - 1, **settings, train__epochs=epochs, train__batch_size=8 // (epochs - 1)), 0)
            config = (self.dir / "run/config.yaml").read_text()
            self.assertIn(f"init_from: {self.dir}/source5", config)
            self.assertIn("init_except: [fc2]", config)
        result = self.begin("anew", **first)
        self.assert_exit(result, 4)
        self.assertIn("source5 does not exist", result.stderr)


if __name__ == "__main__":
    system_test.main()
