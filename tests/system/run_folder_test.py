"""Relative paths of a run's config lead from the folder that the run was started in, wherever eval, predict and replay are."""

import json
import shutil

import system_test
from recipes import TrainingTest


class RunFolder(TrainingTest):
    def in_folder(self, name, arguments, ranks=1):
        folder = self.dir / name
        folder.mkdir(exist_ok=True)
        env = {"PWD": str(folder)}
        return self.mpirun(ranks, arguments, env=env) if ranks > 1 else self.run_trainer(arguments, env=env)

    def trained(self, **settings):
        """A run in home/, on home/data.h5 and home/val.h5."""
        home = self.dir / "home"
        home.mkdir()
        for count, name in (64, "data.h5"), (40, "val.h5"):
            self.small_data(count, name).rename(home / name)
        return self.in_folder("home", self.settings("data.h5", data__val="val.h5", **settings))

    def test_data_are_found_where_the_run_had_them(self):
        self.assert_exit(self.trained(), 0)
        self.assertEqual(json.loads((self.dir / "run/provenance.json").read_text())["folder"], str(self.dir / "home"))
        shown = {}
        for folder in "home", "elsewhere":
            for named in ["--run", self.dir / "run"], ["--checkpoint", self.latest("run")]:
                for ranks in 1, 2:
                    result = self.in_folder(folder, ["eval", *named, "--json"], ranks)
                    self.assert_exit(result, 0)
                    row = json.loads(result.stdout)
                    shown.setdefault(folder, set()).add((row["data"], row["samples"]))
        self.assertEqual(shown, {"home": {("val.h5", 40)}, "elsewhere": {(str(self.dir / "home/val.h5"), 40)}})
        result = self.in_folder("elsewhere", ["predict", "--run", self.dir / "run", "-o", "out.csv"])
        self.assert_exit(result, 0)
        self.assertIn("40 rows", result.stdout)

    def test_what_the_command_line_names_is_where_the_command_is(self):
        self.assert_exit(self.trained(), 0)
        (self.dir / "elsewhere").mkdir()
        self.small_data(24, "val.h5").rename(self.dir / "elsewhere/val.h5")
        for named in ["--data", "val.h5"], ["data.val=val.h5"]:
            result = self.in_folder("elsewhere", ["eval", "--run", self.dir / "run", *named])
            self.assert_exit(result, 0)
            self.assertIn("of 24)", result.stdout)

    def test_data_that_moved_with_the_command_are_found_and_lost_ones_named(self):
        self.assert_exit(self.trained(), 0)
        (self.dir / "elsewhere").mkdir()
        shutil.move(self.dir / "home/val.h5", self.dir / "elsewhere/val.h5")
        self.assert_exit(self.in_folder("elsewhere", ["eval", "--run", self.dir / "run"]), 0)
        (self.dir / "elsewhere/val.h5").unlink()
        remedy = "name the data: --data FILE.h5, or start it in the folder that they are relative to"
        for ranks in 1, 2:
            lost = self.in_folder("elsewhere", ["eval", "--run", self.dir / "run"], ranks)
            self.assert_exit(lost, 4)
            self.assertIn(f"val.h5: No such file or directory in {self.dir / 'elsewhere'} nor in {self.dir / 'home'}, where the run "
                          f"was started; {remedy}", lost.stderr)
        # An older run says nothing of its folder.
        (self.dir / "run/provenance.json").unlink()
        lost = self.in_folder("elsewhere", ["eval", "--run", self.dir / "run"])
        self.assert_exit(lost, 4)
        self.assertIn(f"val.h5: No such file or directory in {self.dir / 'elsewhere'}; {remedy}", lost.stderr)

    def test_a_missing_one_that_the_command_line_names_was_looked_for_there_alone(self):
        self.assert_exit(self.trained(), 0)
        for words, said in (("data.val=val.h5", f"val.h5: No such file or directory (looked for in {self.dir / 'elsewhere'}, where the program"),
                            ("data.val=a.h5,b.h5", "give a list")):
            lost = self.in_folder("elsewhere", ["eval", "--run", self.dir / "run", words])
            self.assert_exit(lost, 4)
            self.assertIn(said, lost.stderr)
            self.assertNotIn("where the run was started", lost.stderr)

    def test_a_folder_that_cannot_be_looked_at_is_as_none(self):
        self.assert_exit(self.trained(), 0)
        mine = self.dir / "mine.h5"
        (self.dir / "home/val.h5").rename(mine)
        shutil.rmtree(self.dir / "home")
        (self.dir / "home").symlink_to("home")
        self.assert_exit(self.in_folder("elsewhere", ["eval", "--run", self.dir / "run", "--data", mine]), 0)
        mine.rename(self.dir / "elsewhere/val.h5")
        self.assert_exit(self.in_folder("elsewhere", ["eval", "--run", self.dir / "run"]), 0)

    def test_weights_may_be_named_from_their_own_folder_and_by_each_rank_in_its_way(self):
        self.assert_exit(self.trained(), 0)
        result = self.run_trainer(["eval", "--checkpoint", self.latest("run").name], env={"PWD": str(self.dir / "run/checkpoints")})
        self.assert_exit(result, 0)
        self.assertIn("of 40)", result.stdout)
        by_config = ["-c", self.dir / "run/config.yaml", "--checkpoint", self.latest("run")]
        for first, second in (["--run", self.dir / "run"], by_config), (by_config, ["--run", self.dir / "run"]):
            result = self.mpirun(1, ["eval", *first, ":", "-n", "1", self.trainer, "eval", *second], per_rank_exit_codes=False,
                                 env={"PWD": str(self.dir / "home")})
            self.assert_exit(result, 0)
            self.assertIn("of 40)", result.stdout)

    def test_a_failed_step_is_made_again_from_any_folder(self):
        self.assert_exit(self.trained(optim__lr=1e30), 1)
        file = self.dir / "run/failed-step-00000002.h5"
        for folder in "home", "elsewhere":
            self.assert_exit(self.in_folder(folder, ["replay", file]), 1)
        (self.dir / "home/data.h5").unlink()
        lost = self.in_folder("elsewhere", ["replay", file])
        self.assert_exit(lost, 4)
        self.assertIn("name the data: data.train=FILE.h5", lost.stderr)


if __name__ == "__main__":
    system_test.main()
