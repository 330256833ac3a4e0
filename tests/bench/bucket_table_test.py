"""What bucket_table.py makes of pieces that fail; without a netlab, a trainer and torch."""

import contextlib
import io
import json
import pathlib
import tempfile
import types
import unittest

import bucket_table
from tap import main

SPREAD = {"min": 0.01, "median": 0.02, "max": 0.03}
PLAN = {"names": [{"policy": "cost_model", "text": "cost_model"}], "schedule": "within steps", "step": SPREAD,
        "predicted": 0.021, "overlap": {"median": 0.5}, "exposed": {"median": 0.004}}
SWEEP = {"report": {"plans": [PLAN], "best": 0, "batch_size": 128, "gradient_bytes": 2**20,
                    "yardstick": {"compute": 0.01, "communication": 0.01, "tail": 0.001, "attainable": 0.01}},
         "switch": 0.1}
AUTO = {"said": "buckets: cost_model, 1 bucket", "switch": 0.1}


def ddp_of(values):
    return {"report": {figure: {"median": values[0], "values": values} for figure in ("step", "communication", "exposed")},
            "switch": 0.2}


class Limit(unittest.TestCase):
    def test_a_run_that_does_not_end_has_failed(self):
        with tempfile.TemporaryDirectory(prefix="tutti-") as folder, contextlib.redirect_stdout(io.StringIO()) as text:
            netlab = pathlib.Path(folder) / "netlab"
            netlab.write_text("#!/bin/sh\n[ $1 = up ] || { echo begun; exec sleep 1000; }\n")
            netlab.chmod(0o755)
            arguments = types.SimpleNamespace(support=netlab.parent, congestion="", rate="1gbit", delay="0.2ms", burst=None,
                                              per_host=1)
            with self.assertRaisesRegex(bucket_table.Failed, "not done after 1 s"):
                bucket_table.Lab(arguments, netlab.parent).run(["trainer"], limit=1)
        self.assertIn("trainer: not done after 1 s\nbegun", text.getvalue())


class Table(unittest.TestCase):
    def measure(self, ddp, sweep=SWEEP):
        """What is printed of lenet, what is in the files, and the runs of DDP that were not asked for. A text fails."""
        runs = list(ddp)

        def piece(result):
            def run(*_):
                outcome = result() if callable(result) else result
                if isinstance(outcome, str):
                    raise bucket_table.Failed(outcome)
                return outcome
            return run
        replaced = {"Lab": lambda *_: None, "sweep": piece(sweep), "auto": piece(AUTO), "ddp": piece(lambda: runs.pop(0))}
        kept = {name: getattr(bucket_table, name) for name in replaced}
        text = io.StringIO()
        with tempfile.TemporaryDirectory(prefix="tutti-") as folder, contextlib.redirect_stdout(text):
            out = pathlib.Path(folder)
            arguments = types.SimpleNamespace(out=out, models="lenet", pieces="sweep,auto,ddp", torch="python3", data="F.h5")
            vars(bucket_table).update(replaced)
            try:
                bucket_table.measure(arguments)
            except SystemExit as end:
                print(end)
            finally:
                vars(bucket_table).update(kept)
            files = {path.name: json.loads(path.read_text()) for path in out.iterdir()}
        return text.getvalue(), files, runs

    def test_a_piece_of_ddp_is_tried_once_again(self):
        text, files, left = self.measure([ddp_of([0.05]), "aborted", ddp_of([0.07])])
        self.assertEqual((left, files["lenet-ddp.json"]["report"]["step"]["values"]), ([], [0.05, 0.07]))
        self.assertIn("| 60.0 ms | 60.0 ms |", text)
        self.assertNotIn("failed", text.splitlines()[-1])

    def test_a_half_that_fails_twice_leaves_the_other(self):
        text, files, left = self.measure([ddp_of([0.05]), "why 1", "why 2"])
        self.assertEqual((left, files["lenet-ddp.json"]["report"]["step"]["values"]), ([], [0.05]))
        self.assertIn("| 50.0 ms; one half failed: why 2 | 50.0 ms |", text)
        self.assertIn("failed: lenet, ddp", text)

    def test_ddp_that_fails_always_is_said_in_its_cell(self):
        text, files, left = self.measure(["1", "2", "3", "terminate called"])
        self.assertEqual((left, files["lenet-ddp.json"]["failed"]), ([], "terminate called"))
        self.assertIn("cost_model within steps, 20.0 ms (10.0 to 30.0)", text)
        self.assertIn("| failed: terminate called | – | 10%, 10% |", text)

    def test_a_sweep_that_fails_is_said_in_its_cell_and_the_others_go_on(self):
        text, files, _ = self.measure([ddp_of([0.05]), ddp_of([0.05])], sweep="exit code 1")
        self.assertEqual(sorted(files), ["lenet-auto.json", "lenet-ddp.json", "lenet-sweep.json"])
        self.assertIn("| failed: exit code 1 | – | buckets: cost_model |", text)
        self.assertIn("| 50.0 ms | 50.0 ms |", text)

    def test_the_reason_is_the_line_of_an_error(self):
        self.assertEqual(bucket_table.reason("W1 [c10d] x\nterminate called without | an exception\n-----\nprimary job\n"),
                         "terminate called without / an exception")
        self.assertEqual(bucket_table.reason("something\n\n ----\n"), "something")
        self.assertEqual(bucket_table.reason(""), "")

    def test_the_reason_is_the_programs_not_that_of_open_mpi(self):
        bar = "-" * 74 + "\n"
        told = (bar + "Primary job  terminated normally, but 1 process returned\na non-zero exit code. Per user-direction, the job "
                "has been aborted.\n" + bar + "{}" + bar + "mpirun detected that one or more processes exited with non-zero status, "
                "thus causing\nthe job to be terminated. The first process to do so was:\n\n  Process name: [[5249,1],1]\n"
                "  Exit code:    1\n" + bar)
        trace = "Traceback (most recent call last):\n  File \"<string>\", line 1, in <module>\nRuntimeError: gone away\n"
        abort = "terminate called after throwing an instance of 'gloo::IoException'\n  what():  [x.cc:1] Connection reset by peer\n"
        noticed = (bar + "mpirun noticed that process rank 1 with PID 0 on node vm exited on signal 6 (Aborted).\n" + bar)
        for output, expected in (
                ("error: a.h5: No such file; check the path\n" + told.format(""), "error: a.h5: No such file; check the path"),
                (trace + told.format(trace), "RuntimeError: gone away"),
                (abort + "[vm:1] *** Process received signal ***\n" + noticed, abort.splitlines()[0]),
                ("error: one\nwarning: the signal 15\n" + noticed, "error: one"),
                ("killed it\ndone\n" + noticed, "killed it"),
                (noticed, noticed.splitlines()[1])):
            self.assertEqual(bucket_table.reason(output), expected)


if __name__ == "__main__":
    main()
