"""The README and jobs/options.md against the program: the references, the subcommands, the recipes in jobs/."""

import pathlib
import re

import system_test
from recipes import TrainingTest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Documentation(TrainingTest):
    def test_the_config_reference_in_the_readme_is_the_programs(self):
        reference = self.run_trainer(["inspect", "--config-reference"])
        self.assert_exit(reference, 0)
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        found = re.search(r"<!-- config reference -->\n(.*?)<!-- end -->", readme, re.S)
        self.assertTrue(found, "README.md has no config reference")
        self.assertEqual(found[1].strip(), reference.stdout.strip(),
                         "renew it with: build/trainer inspect --config-reference")

    def test_the_layers_in_the_readme_are_the_programs(self):
        reference = self.run_trainer(["inspect", "--layer-reference"])
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        found = re.search(r"<!-- layer reference -->\n(.*?)<!-- end -->", readme, re.S)
        self.assertTrue(found, "README.md has no layer reference")
        self.assertEqual(found[1].strip(), reference.stdout.strip())

    def test_the_options_of_other_trainers_in_jobs_are_the_programs(self):
        reference = self.run_trainer(["inspect", "--option-reference"])
        self.assert_exit(reference, 0)
        page = (ROOT / "jobs" / "options.md").read_text(encoding="utf-8")
        found = re.search(r"<!-- option reference -->\n(.*?)<!-- end -->", page, re.S)
        self.assertTrue(found, "jobs/options.md has no option reference")
        self.assertEqual(found[1].strip(), reference.stdout.strip(),
                         "renew it with: build/trainer inspect --option-reference")

    def test_every_subcommand_is_in_the_readme(self):
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        for name in re.findall(r"^  (\w+)  ", self.run_trainer(["--help"]).stdout, re.M):
            self.assertIn(f"trainer {name}", readme)

    def test_every_recipe_in_jobs_trains(self):
        train, val = self.pack(*self.fashion_mnist(300), name="a.h5"), self.pack(*self.fashion_mnist(100), name="b.h5")
        for recipe in sorted((ROOT / "jobs").glob("*.yaml")):
            result = self.run_trainer(["-c", recipe, f"data.train={train}", f"data.val={val}", "train.epochs=1",
                                       f"run.dir={self.dir}/{recipe.stem}"])
            self.assert_exit(result, 0)


if __name__ == "__main__":
    system_test.main()
