"""Data whose features are other columns, or stand in another order, are not taken for those of training."""

import system_test
from recipes import PackingTest


class FeatureNames(PackingTest):
    def table(self, name, header):
        path = self.dir / f"{name}.csv"
        path.write_text(header + "\n" + "".join(f"{i},{i % 5},{i % 2}\n" for i in range(16)))
        self.pack_from(0, "csv", "--csv", path, "--label", "y", "-o", self.dir / f"{name}.h5")
        return self.dir / f"{name}.h5"

    def test_other_columns_are_refused_by_training_eval_and_predict(self):
        data, same = self.table("data", "age,rooms,y"), self.table("same", "age,rooms,y")
        other, third = self.table("other", "rooms,age,y"), self.table("third", "age,floors,y")
        self.assert_exit(self.mpirun(2, self.settings(data, data__val=same, train__batch_size=4)), 0)
        result = self.run_trainer(self.settings(data, "refused", data__val=other, train__batch_size=4))
        self.assert_exit(result, 4)
        self.assertIn(f"data.val {other} has the features rooms, age, but data.train {data} has age, rooms; pack both with "
                      "the same columns in the same order", result.stderr)
        self.assertFalse((self.dir / "refused").exists())
        for command in (["eval"], ["predict", "-o", self.dir / "out.csv"]):
            given = [*command, "--run", self.dir / "run", "--data"]
            self.assert_exit(self.run_trainer([*given, same]), 0)
            for file, features in ((other, "rooms, age"), (third, "age, floors")):
                result = self.mpirun(2, [*given, file])
                self.assert_exit(result, 4)
                self.assertIn(f"{file} has the features {features}, but the model was trained with age, rooms; pack the data "
                              "with the columns of training, in their order", result.stderr)

    def test_the_weights_know_them_where_the_training_data_are_gone(self):
        data, other = self.table("data", "age,rooms,y"), self.table("other", "rooms,age,y")
        self.assert_exit(self.run_trainer(self.settings(data, train__batch_size=4)), 0)
        moved = data.rename(self.dir / "moved.h5")
        config = ["-c", self.dir / "run/config.yaml"]
        exported = [self.dir / "w.safetensors", self.dir / "w.h5"]
        for weights in exported:
            self.assert_exit(self.run_trainer(["export", self.dir / "run", "-o", weights]), 0)
        for weights in (["--run", self.dir / "run"], *([*config, "--checkpoint", weights] for weights in exported)):
            result = self.run_trainer(["eval", *weights, "--data", moved])
            self.assert_exit(result, 0)
            self.assertNotIn("warning", result.stderr)
            result = self.mpirun(2, ["eval", *weights, "--data", other])
            self.assert_exit(result, 4)
            self.assertIn(f"{other} has the features rooms, age, but the model was trained with age, rooms", result.stderr)

    def test_fine_tuning_on_other_columns_is_warned_of(self):
        data, other = self.table("data", "age,rooms,y"), self.table("other", "rooms,age,y")
        self.assert_exit(self.run_trainer(self.settings(data, train__batch_size=4)), 0)
        for name, file, count in (("same", data, 0), ("others", other, 1)):
            result = self.begin(file, name, 2, model__init_from=self.dir / "run", train__batch_size=4)
            self.assert_exit(result, 0)
            self.assertEqual(result.stderr.count(f"warning: {file} has the features rooms, age, but the weights of "
                                                 "model.init_from were trained with age, rooms; pack the data"), count)

    def test_they_are_shown_of_data_and_of_a_checkpoint(self):
        data = self.table("data", "age,rooms,y")
        self.assert_exit(self.run_trainer(self.settings(data, train__batch_size=4)), 0)
        for path in (data, self.dir / "run"):
            result = self.run_trainer(["inspect", path])
            self.assert_exit(result, 0)
            self.assertIn("\n  features\n       0  age\n       1  rooms\n", result.stdout)
        self.assertIn("\n  data      samples [2], 2 classes\n  classes\n       0  0\n", result.stdout)


if __name__ == "__main__":
    system_test.main()
