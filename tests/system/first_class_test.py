"""Labels that somebody counted from 1: nothing fails of them, so a warning says it."""

import system_test
from recipes import TrainingTest

SAID = "no sample has the label 0"


class FirstClass(TrainingTest):
    def data_with_labels(self, change, name="data.h5"):
        images, labels = self.synthetic_idx(48, classes=3, side=8)
        header, given = labels.read_bytes()[:8], labels.read_bytes()[8:]
        labels.write_bytes(header + bytes(change(label) for label in given))
        return self.pack(images, labels, name=name)

    def test_training_and_inspect_say_once_that_the_first_class_is_empty(self):
        data = self.data_with_labels(lambda label: label + 1)
        for ranks in 1, 2:
            result = self.mpirun(ranks, self.settings(data, f"run{ranks}"))
            self.assert_exit(result, 0)
            warned = [line for line in result.stderr.splitlines() if SAID in line]
            self.assertEqual(len(warned), 1, result.stderr)
            self.assertIn("warning: data: " + SAID, warned[0])
            self.assertIn('file["labels"][:] -= 1', warned[0])
            self.assertIn('file.attrs["classes"] = 3', warned[0])
        result = self.run_trainer(["inspect", data])
        self.assert_exit(result, 0)
        self.assertIn(f"warning: {data}: {SAID}", result.stderr)

    def test_nothing_is_said_of_labels_from_0_on_even_where_another_class_is_empty(self):
        data = self.data_with_labels(lambda label: 2 * label)
        for command in self.settings(data), ["inspect", data]:
            result = self.run_trainer(command)
            self.assert_exit(result, 0)
            self.assertNotIn(SAID, result.stderr)

    def test_nothing_is_said_where_labels_are_not_read(self):
        data = self.data_with_labels(lambda label: label + 1)
        result = self.mpirun(2, ["bench", "step", "--synthetic", *self.settings(data), "--steps", "1"])
        self.assertNotIn(SAID, result.stderr)


if __name__ == "__main__":
    system_test.main()
