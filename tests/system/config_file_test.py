"""What -c may name: files, pipes and standard input; what is no text is refused."""

import os
import signal

import system_test
from recipes import TrainingTest


class ConfigFile(TrainingTest):
    def write_pipe(self, job):
        """Opens the pipe for writing once the program reads it: it was there before, and nothing comes."""
        opened = []

        def is_read():
            try:
                opened.append(os.open(self.dir / "pipe", os.O_WRONLY | os.O_NONBLOCK))
            except OSError:  # ENXIO: no reader yet
                return False
            return True
        job.wait_until(is_read)
        pipe = os.fdopen(opened[0], "w")
        self.addCleanup(pipe.close)
        return pipe

    def test_a_pipe_that_nobody_writes_to_ends_with_a_signal(self):
        os.mkfifo(self.dir / "pipe")
        commands = [], ["inspect"], ["eval", "--checkpoint", "c.h5"]
        for number, command in [(signal.SIGTERM, one) for one in commands] + [(signal.SIGINT, []), (signal.SIGINT, ["inspect"])]:
            with self.start([*command, "-c", "pipe"]) as job:
                self.write_pipe(job)
                job.signal(number)
                result = job.wait(60)
            self.assert_exit(result, 1)
            self.assertIn(f"error: stopped by signal {int(number)} while waiting for the config pipe; ", result.stderr)

    def test_under_mpirun_a_signal_to_the_rank_that_waits_ends_all(self):
        os.mkfifo(self.dir / "pipe")
        for command in ([], ["bench", "buckets"]):
            with self.start_mpirun(2, [*command, "-c", "pipe"]) as job:
                self.write_pipe(job)
                job.signal_rank(0, signal.SIGTERM)
                result = job.wait(60)
            self.assert_exit(result, 1)
            self.assertEqual(result.stderr.count("while waiting for the config pipe"), 1, result.stderr)

    def test_a_config_comes_through_a_pipe_or_standard_input(self):
        data = self.small_data(64)
        text = f"data: {{train: {data}}}\\ntrain: {{max_steps: 1, batch_size: 8}}\\n"
        for shell in (f"\"$@\" -c <(sleep 0.3; printf '{text}') run.dir=1", f"printf '{text}' | \"$@\" -c /dev/stdin run.dir=2"):
            with self._start(["bash", "-c", shell, "bash", self.trainer], None) as job:
                self.assert_exit(job.wait(60), 0)

    def test_a_checkpoint_that_its_training_removes_meanwhile_is_replaced_by_the_next_one(self):
        data = self.small_data(64)
        self.assert_exit(self.run_trainer(self.settings(data)), 0)
        file = self.latest("run")
        os.mkfifo(self.dir / "pipe")
        config = (self.dir / "run/config.yaml").read_text()
        for number, (command, printed) in enumerate(((["eval"], "accuracy"), (["predict", "-o", "out.h5"], ""))):
            with self.start_mpirun(2, [*command, "--run", self.dir / "run", "-c", "pipe", "--data", data]) as job:
                with self.write_pipe(job) as pipe:  # the weights have been found, and not been read
                    later = file.with_name(f"step-{9 + number:08}.h5")
                    file.rename(later)
                    pipe.write(config)
                result = job.wait()
            self.assert_exit(result, 0)
            self.assertIn(printed, result.stdout)
            self.assertIn(f"weights {later}, data ", result.stderr)
            file = later

    def test_what_is_no_utf8_text_is_refused(self):
        config = self.dir / "c.yaml"
        for content, *words in ((b"\xff\xfe\x00", "c.yaml: the text is UTF-16, not UTF-8", "iconv -f UTF-16 -t UTF-8"),
                                ("train: {epochs: 1}".encode("utf-16"), "UTF-16"),
                                (b"train:\n  epochs: 1\x00\n", "c.yaml:2: a NUL byte"),
                                ("train:\n  epochs: 1  # für später\n".encode("latin-1"),
                                 "c.yaml:2:17: the byte 0xfc is not UTF-8",
                                 "iconv -f LATIN1 -t UTF-8 OLD > NEW"),
                                (self.small_data(64).read_bytes(), "c.yaml: an HDF5 file, not a config")):
            config.write_bytes(content)
            result = self.mpirun(2, ["-c", "c.yaml"], timeout=60)
            self.assert_exit(result, 2)
            for word in words:
                self.assertIn(word, result.stderr)

    def test_paths_of_a_run_are_bytes(self):
        """A file's name need not be UTF-8; only what a person writes into a config must be."""
        data = self.small_data(64).rename(self.dir / os.fsdecode(b"caf\xe9.h5"))
        training = self.settings(data, data__val=data)
        for command in (training, [*training, "train.epochs=2"], ["eval", "--run", self.dir / "run"]):
            self.assert_exit(self.run_trainer(command), 0)
        self.assertIn(b"caf\xe9.h5", (self.dir / "run/config.yaml").read_bytes())


if __name__ == "__main__":
    system_test.main()
