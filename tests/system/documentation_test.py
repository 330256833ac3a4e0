"""README.md and the pages beside it against the program: the references, the subcommands, the recipes in jobs/."""

import pathlib
import re

import system_test
from recipes import TrainingTest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def anchors(page):
    """The names by which the headings of a page can be linked to."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    return [re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings]


class Documentation(TrainingTest):
    def help_of(self, *command):
        result = self.run_trainer([*command, "--help"])
        self.assert_exit(result, 0)
        return result.stdout

    def assert_reference(self, page, name):
        """What stands between the marks in the page is what `trainer inspect --NAME-reference` prints."""
        reference = self.run_trainer(["inspect", f"--{name}-reference"])
        self.assert_exit(reference, 0)
        found = re.search(rf"<!-- {name} reference -->\n(.*?)<!-- end -->", (ROOT / page).read_text(encoding="utf-8"), re.S)
        self.assertTrue(found, f"{page} has no {name} reference")
        self.assertEqual(found[1].strip(), reference.stdout.strip(),
                         f"renew it with: build/trainer inspect --{name}-reference")

    def test_the_settings_in_jobs_are_the_programs(self):
        self.assert_reference("jobs/configuration.md", "config")

    def test_the_layers_in_jobs_are_the_programs(self):
        self.assert_reference("jobs/configuration.md", "layer")

    def test_the_options_of_other_trainers_in_jobs_are_the_programs(self):
        self.assert_reference("jobs/options.md", "option")

    def test_every_link_between_the_pages_leads_somewhere(self):
        pages = [path for path in [ROOT / "README.md", *ROOT.glob("*/**/*.md")] if "build" not in path.relative_to(ROOT).parts[0]]
        for page in pages:
            for target, place in re.findall(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]*))?\)", page.read_text(encoding="utf-8")):
                file = (page.parent / target).resolve() if target else page
                self.assertTrue(file.exists(), f"{page}: there is no {target}")
                if place:
                    self.assertIn(place, anchors(file), f"{page}: {file} has no heading #{place}")

    def test_every_subcommand_is_in_the_readme(self):
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        names = re.findall(r"^  (\w+)  ", self.help_of(), re.M)
        self.assertGreater(len(names), 8)
        for name in names:
            self.assertIn(f"trainer {name}", readme)

    def test_sbatch_files_promise_settings_where_their_command_takes_them(self):
        files = sorted((ROOT / "jobs").glob("*/*.sbatch"))
        self.assertNotEqual(files, [])
        for path in files:
            text = path.read_text(encoding="utf-8")
            command = re.search(r'/run\.sh"((?: [a-z]+\b)*)', text)[1].split() or ["train"]
            takes_settings = "key=value" in self.help_of(*command)
            self.assertEqual("[key=value ...]" in text, takes_settings, path)

    def test_every_recipe_in_jobs_trains(self):
        train, val = self.pack(*self.fashion_mnist(300), name="a.h5"), self.pack(*self.fashion_mnist(100), name="b.h5")
        recipes = sorted((ROOT / "jobs").glob("*.yaml"))
        self.assertNotEqual(recipes, [])
        for recipe in recipes:
            result = self.run_trainer(["-c", recipe, f"data.train={train}", f"data.val={val}", "train.epochs=1",
                                       f"run.dir={self.dir}/{recipe.stem}"])
            self.assert_exit(result, 0)


if __name__ == "__main__":
    system_test.main()
