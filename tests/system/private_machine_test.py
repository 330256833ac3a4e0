"""tests/support/private_machine itself: it ends with its command, when it is asked to, and when it is killed."""

import pathlib
import signal
import subprocess
import time
import unittest

import private_machine
import tap

SCRIPT = private_machine.HERE / "private_machine"


def children(process):
    return [int(pid) for pid in pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()]


class PrivateMachineTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        private_machine.start(cls).end()  # skips where there is none

    def begin(self):
        """The script, with a first process that ignores SIGTERM; and that process, as seen from here."""
        # Under nohup SIGHUP is ignored, which a shell cannot undo.
        command = ["env", "--default-signal=HUP", SCRIPT]
        script = subprocess.Popen([*command, "bash", "-c", "trap '' TERM; echo ready; cat"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(script.communicate)
        self.addCleanup(script.kill)
        self.assertEqual("ready\n", script.stdout.readline())
        return script, children(children(script.pid)[0])[0]

    def ended(self, process):
        deadline = time.monotonic() + 20
        while pathlib.Path(f"/proc/{process}").exists():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True

    def test_the_exit_code_is_the_commands(self):
        self.assertEqual(7, subprocess.run([SCRIPT, "sh", "-c", "sleep 1000 & exit 7"], check=False, timeout=60).returncode)

    def test_the_standard_input_is_the_commands(self):
        done = subprocess.run([SCRIPT, "cat"], input="said", capture_output=True, text=True, check=True, timeout=60)
        self.assertEqual("said", done.stdout)

    def test_a_request_to_end_ends_what_ignores_it(self):
        for request, code in ((signal.SIGTERM, 143), (signal.SIGHUP, 129)):
            with self.subTest(request.name):
                script, first = self.begin()
                script.send_signal(request)
                self.assertEqual(code, script.wait(20))
                self.assertTrue(self.ended(first))
                self.assertEqual("", script.stderr.read())

    def test_killed_it_takes_all_along(self):
        script, first = self.begin()
        script.kill()
        script.wait(20)
        self.assertTrue(self.ended(first))


if __name__ == "__main__":
    tap.main()
