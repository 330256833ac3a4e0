"""`meson install` into a prefix: the program, jobs/ and the module file, used without the source tree."""

import os
import shutil
import subprocess

import system_test
from recipes import TrainingTest


class Install(TrainingTest):
    def setUp(self):
        super().setUp()
        build = self.trainer.parent
        if shutil.which("meson") is None or not (build / "meson-private").is_dir():
            self.skipTest("the program is not in a build folder of Meson")
        result = subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", self.dir],
                                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.module = next(self.dir.glob("**/share/modulefiles/tutti"))
        self.prefix = self.module.parents[2]

    def test_the_module_file_names_what_was_installed(self):
        text = self.module.read_text()
        self.assertTrue(text.startswith("#%Module"))
        prefix = "/" + str(self.prefix.relative_to(self.dir))
        self.assertIn(f"prepend-path PATH {prefix}/bin\n", text)
        self.assertIn(f"setenv TUTTI_JOBS {prefix}/share/tutti/jobs\n", text)
        self.assertNotIn("@", text)

    def test_the_installed_script_starts_the_installed_program(self):
        data = self.small_data(128)
        env = {**self.environment(), "PATH": f"{self.prefix}/bin:{os.environ['PATH']}"}
        jobs = self.prefix / "share/tutti/jobs"
        self.assertTrue((jobs / "mnist/train_2x2.sbatch").exists())
        command = [jobs / "run.sh", "-n", "2", *self.settings(data)]
        result = subprocess.run([str(word) for word in command], cwd=self.dir, env=env, stdin=subprocess.DEVNULL,
                                capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"{self.prefix}/bin/trainer", result.stderr)
        self.assertTrue((self.dir / "run/provenance.json").exists())


if __name__ == "__main__":
    system_test.main()
