"""JSON that is nested deeper than a stack is: no file of it ends a command with a signal."""

import struct

import system_test
from recipes import TrainingTest

DEEP = 200_000 * "["


class DeepJson(TrainingTest):
    def refused(self, said, *words):
        result = self.run_trainer(list(words))
        self.assert_exit(result, 4)
        self.assertIn(said, result.stderr)
        self.assertLess(len(result.stderr), 1000)

    def test_in_what_is_read_it_is_refused(self):
        header = f'{{"w": {{"dtype": "F32", "shape": {DEEP}'.encode()
        weights = self.dir / "w.safetensors"
        weights.write_bytes(struct.pack("<Q", len(header)) + header)
        for command in ["inspect", weights], ["import", weights, "-o", self.dir / "w.h5"]:
            self.refused("(its header is nested too deep)", *command)
        text = self.dir / "deep.json"
        text.write_text(DEEP + 200_000 * "]")
        nested = f"{text}: lists and objects are nested more than 64 deep"
        self.refused(nested, "plan", "--from", text, "--world", 4)
        self.refused(nested, "pack", "features", "--features", self.dir, "--labels", text, "-o", self.dir / "x.h5")

    def test_in_the_rows_of_a_run_it_is_left_alone(self):
        data = self.small_data(64)
        settings = self.settings(data, train__epochs=1)
        self.assert_exit(self.run_trainer(settings), 0)
        for name in "metrics.jsonl", "epochs.jsonl":
            path = self.dir / "run" / name
            path.write_text(f'{{"step": {DEEP}{200_000 * "]"}}}\n' + path.read_text())
        self.assert_exit(self.run_trainer([*settings, "train.epochs=2"]), 0)

    def test_a_record_of_the_run_that_is_no_file_is_as_none(self):
        data = self.small_data(64)
        settings = self.settings(data, data__val=data, train__epochs=1)
        self.assert_exit(self.run_trainer(settings), 0)
        record = self.dir / "run/provenance.json"
        for content in DEEP, None:
            record.unlink()
            if content:
                record.write_text(content)
            else:
                record.mkdir()
            self.assert_exit(self.run_trainer(["eval", "--run", self.dir / "run"]), 0)


if __name__ == "__main__":
    system_test.main()
