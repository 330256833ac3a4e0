"""What the build reads in ptxas's messages, and that a kernel that spills stops it."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path[:0] = [str(ROOT / "tests/support"), str(ROOT / "kernels/cuda")]

import compile_kernel  # noqa: E402
import tap  # noqa: E402

MESSAGES = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z1av' for 'sm_90'
ptxas info    : Function properties for _Z1av
    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 1024 bytes smem
ptxas info    : Compiling entry function '_Z1bv' for 'sm_90'
ptxas info    : Function properties for _Z1bv
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 20 registers, used 0 barriers
"""


class CompileKernel(unittest.TestCase):
    def test_reads_registers_shared_memory_and_spills(self):
        self.assertEqual(compile_kernel.read_resources(MESSAGES),
                         [("_Z1av", "sm_90", "255", "1024", "4", "12"), ("_Z1bv", "sm_90", "20", "0", "0", "0")])

    def compile(self, messages, status=0):
        """Runs the script with a compiler that says `messages`; gives its exit status, errors and the table."""
        with tempfile.TemporaryDirectory() as folder:
            said, table = pathlib.Path(folder, "said"), pathlib.Path(folder, "table")
            said.write_text(messages, encoding="utf-8")
            done = subprocess.run(
                [sys.executable, "-B", ROOT / "kernels/cuda/compile_kernel.py", "--source", "norm.cu", "--resources", table,
                 "--architectures", "80,90", "--", "sh", "-c", f"cat '{said}' >&2; exit {status}"],
                stderr=subprocess.PIPE, encoding="utf-8", env=os.environ)
            return done.returncode, done.stderr, table.read_text(encoding="utf-8") if table.exists() else ""

    def test_a_kernel_that_spills_stops_the_build(self):
        status, errors, table = self.compile(MESSAGES)
        self.assertEqual(status, 1)
        self.assertIn("norm.cu: a kernel spills registers", errors)
        self.assertIn("norm sm_90 255 1024 4 12 a\n", table)

    def test_other_kernels_pass(self):
        status, errors, table = self.compile("\n".join(MESSAGES.splitlines()[5:]))
        self.assertEqual((status, errors), (0, ""))
        self.assertEqual(table, "norm sm_90 20 0 0 0 b\n")

    def test_errors_of_the_compiler_are_shown(self):
        status, errors, table = self.compile("norm.cu(3): error: expected a ;\n", status=2)
        self.assertEqual((status, table), (2, ""))
        self.assertEqual(errors.strip(), "norm.cu(3): error: expected a ;")


if __name__ == "__main__":
    tap.main()
