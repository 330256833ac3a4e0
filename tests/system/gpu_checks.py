"""jobs/gpu_check.sh within a process of Python, whose time ends when a test says so."""

import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import time
from unittest import mock

from recipes import TrainingTest

sys.path.append(str(pathlib.Path(__file__).parents[2] / "tests/gpu"))
import gpu_check
import gpu_process


class UntilSign(gpu_process.Processes):
    """The time is over as soon as one of the processes says so, by this file: on a slow machine as on a quick one."""

    def __init__(self, sign):
        super().__init__()
        self.sign = sign

    def left(self):
        return 0 if self.sign.exists() else 3600

    def wait(self, process, seconds):
        end = time.monotonic() + seconds
        while process.poll() is None and not self.sign.exists() and time.monotonic() < end:
            time.sleep(0.02)


class GpuCheckTest(TrainingTest):
    def check_until(self, processes, *options):
        """The same in this process: the exit code. The time is over when `processes` says so."""
        words = [str(word) for word in ["--out", self.dir, "--rehearse", "--quick", "--jobs", "1", *options]]
        # The name of the folder for temporary files is found once per process, otherwise.
        with mock.patch.dict(os.environ, self.environment(), clear=True), mock.patch.object(tempfile, "tempdir", None), \
                contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return gpu_check.check(gpu_check.parse(words), processes)

    @property
    def sign(self):
        return self.dir / "time-is-over"

    def report(self):
        report = json.loads((self.dir / "gpu_check.json").read_text())
        return report, {stage["name"]: stage for stage in report["stages"]}
