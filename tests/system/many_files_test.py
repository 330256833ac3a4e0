"""Data in many files: named by a pattern, and more of them than a process may open at first."""

import json
import os

import system_test
from recipes import TrainingTest

FILES = 100


class ManyFiles(TrainingTest):
    def shards(self):
        """FILES names of one data set of 4 samples, part-00.h5 to part-99.h5."""
        data = self.small_data(4, name="data.h5")
        for number in range(FILES):
            os.link(data, self.dir / f"part-{number:02}.h5")

    def limit_open_files(self, option, count):
        """From here on the program is started with a limit of open files: -S soft, - also the hard one."""
        program = self.dir / "limited.sh"
        program.write_text(f'#!/bin/bash\nulimit {option}n {count}\nexec {self.quoted_trainer} "$@"\n')
        program.chmod(0o755)
        self.trainer = program

    def test_a_pattern_names_them_and_the_limit_is_raised_where_the_system_lets_it(self):
        self.shards()
        self.limit_open_files("-S", 80)
        result = self.mpirun(2, self.settings("part-*.h5", "run", train__epochs=1, train__batch_size=10, model__hidden="[8]",
                                              data__val="part-0[01].h5"))
        self.assert_exit(result, 0)
        self.assertIn(f"data: part-00.h5 and {FILES - 1} more files, {4 * FILES} samples", result.stderr)
        named = f"train: [{', '.join(f'part-{number:02}.h5' for number in range(FILES))}]"
        self.assertIn(named, (self.dir / "run/config.yaml").read_text(), "what was read stays known, whatever else comes there")
        names = [f"part-{number:02}.h5" for number in range(7)]
        result = self.run_trainer(["eval", "--run", "run", "--json", "--data", *names])
        self.assert_exit(result, 0)
        self.assertIn("data part-00.h5 and 6 more files: 28 samples", result.stderr)
        self.assertEqual(json.loads(result.stdout)["data"], ", ".join(names))
        for command in ["eval", "--json"], ["predict", "-o", "out.csv"]:
            result = self.mpirun(2, [*command, "--run", "run", "--data", "part-0[0-6].h5"])
            self.assert_exit(result, 0)
            self.assertIn("data part-00.h5 and 6 more files: 28 samples", result.stderr)
        result = self.run_trainer(["eval", "--run", "run", "--data", "none-*.h5"])
        self.assert_exit(result, 4)
        self.assertIn("no file has a name of this pattern: check it\n", result.stderr)

    def test_a_limit_that_cannot_be_raised_is_named_with_its_remedy(self):
        self.shards()
        self.limit_open_files("-", 80)
        result = self.run_trainer(self.settings("part-*.h5", "run"))
        self.assert_exit(result, 4)
        self.assertRegex(result.stderr, r"error: part-\d\d.h5: .*Too many open files; raise the limit of open files, which is 80: "
                                        r"ulimit -n 1024 \(above 80 an administrator must allow it\)")
        self.assertFalse((self.dir / "run").exists())

    def test_a_pattern_that_fits_no_file_is_named(self):
        result = self.run_trainer(self.settings("*.h5", "run"))
        self.assert_exit(result, 4)
        self.assertIn(f"error: *.h5: No such file or directory (looked for in {self.dir}, where the program was started); no file has "
                      "a name of this pattern: check it\n", result.stderr)


if __name__ == "__main__":
    system_test.main()
