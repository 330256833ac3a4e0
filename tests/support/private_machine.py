"""A machine of its own for a group of tests (see the script private_machine): processes, network, host names.

    class Hosts(SystemTest):
        @classmethod
        def setUpClass(cls):
            cls.machine = private_machine.start(cls)        # skips the class where that is not possible
            cls.machine.run(["hostname"])

It ends with the class, and with it whatever was started inside, also when the test program is killed: the machine's
first process waits for the end of its standard input.
"""

import os
import pathlib
import subprocess
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent


class PrivateMachine:
    """`folder`: of the machine's own, removed at the end; its path is short enough for sockets."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self._holder = subprocess.Popen([HERE / "private_machine", "sh", "-c", "echo ready; cat"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        start_new_session=True)
        if self._holder.stdout.readline() != "ready\n":
            reason = " ".join(self._holder.stderr.read().split())
            self.end()
            raise unittest.SkipTest(reason or "no private machine")
        # The script's child is unshare, whose child is the first process inside.
        self._first = self._holder.pid
        for _ in range(2):
            self._first = int(pathlib.Path(f"/proc/{self._first}/task/{self._first}/children").read_text().split()[0])

    def entered(self, command):
        """The command line that runs `command` inside."""
        return ["nsenter", "-t", self._first, "--pid", "--mount", "--net", "--uts", "--ipc", "env",
                "TUTTI_PRIVATE_MACHINE=1", *command]

    def run(self, command, timeout=60, **options):
        """Runs `command` inside; a subprocess.CompletedProcess with text output. After `timeout` seconds the error has
        what was printed until then, and which processes are left inside."""
        try:
            return subprocess.run([str(part) for part in self.entered(command)], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=timeout, check=False,
                                  **options)
        except subprocess.TimeoutExpired as error:
            printed = [(part or b"").decode(errors="replace")[-4000:] for part in (error.stdout, error.stderr)]
            left = subprocess.run(["nsenter", "-t", str(self._first), "--pid", "--mount", "ps", "-eLo",
                                   "pid,tid,ppid,stat,etime,wchan:24,args"], stdout=subprocess.PIPE, text=True, check=False)
            raise AssertionError("\n".join([f"{error}; it printed:", *printed, "left inside:", left.stdout])) from error

    def end(self):
        for stream in (self._holder.stdin, self._holder.stdout, self._holder.stderr):
            stream.close()
        try:
            self._holder.wait(20)
        except subprocess.TimeoutExpired:
            self._holder.kill()  # unshare dies with it, its child with that, and the rest
            self._holder.wait()


def start(test_class):
    """A PrivateMachine that ends with `test_class`; raises SkipTest where it is not possible."""
    if os.geteuid() != 0:
        raise unittest.SkipTest("several hosts on one machine need root")
    folder = tempfile.TemporaryDirectory(prefix="tutti-", dir="/tmp", ignore_cleanup_errors=True)
    os.chmod(folder.name, 0o755)  # munged wants a socket that everybody can reach
    test_class.addClassCleanup(folder.cleanup)
    machine = PrivateMachine(folder.name)
    test_class.addClassCleanup(machine.end)
    return machine
