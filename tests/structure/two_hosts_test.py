"""Two hosts for a test: where this machine forbids them the test is skipped, and where they are broken it fails."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import tap  # noqa: E402
import two_hosts  # noqa: E402

# ip that refuses the command that FAILS is a part of, in the words of SAYS; all others succeed.
IP = """#!/bin/sh
case "$*" in *"$FAILS"*) echo "$SAYS" >&2; exit 2 ;; esac
"""


class Machine:
    """In place of a private machine: this one, with another ip."""

    def __init__(self, folder, fails, says):
        self.folder = folder
        self.environment = dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}", FAILS=fails, SAYS=says,
                                TUTTI_PRIVATE_MACHINE="1")

    def run(self, command, env=None):
        return subprocess.run([str(part) for part in command], env={**self.environment, **(env or {})}, capture_output=True,
                              text=True, timeout=60, check=False)


class TwoHosts(unittest.TestCase):
    def start(self, fails, says, *options):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        ip = pathlib.Path(folder.name) / "ip"
        ip.write_text(IP)
        ip.chmod(0o755)
        machine = Machine(pathlib.Path(folder.name), fails, says)
        with mock.patch.object(two_hosts.private_machine, "start", lambda _: machine), \
                mock.patch.object(two_hosts.shutil, "which", lambda _: str(ip)):
            two_hosts.start(type("Hosts", (), {}), *options)

    def test_hosts_that_come_up_are_taken(self):
        self.start("nothing", "")

    def test_what_the_kernel_refuses_is_a_skip_with_its_words(self):
        for fails, says in (("netns add", 'mount --make-shared /run/netns failed: Operation not permitted'),
                            ("type bridge", "RTNETLINK answers: Operation not supported"),
                            ("type veth", "Error: Unknown device type."),
                            ("tc qdisc", "Error: Specified qdisc kind is unknown."), ("tc qdisc", "Error: Specified qdisc not found.")):
            with self.subTest(fails=fails), self.assertRaisesRegex(unittest.SkipTest, f"not possible here: .*{says[:30]}"):
                self.start(fails, says, "--rate", "1gbit", "--burst", "65536")

    def test_anything_else_is_a_failure_with_what_was_said(self):
        burst = ["--rate", "1gbit", "--burst", "65536"]
        for fails, says, options in (("tc qdisc", 'exec of "tc" failed: No such file or directory', burst),
                                     ("netns add", 'Cannot create namespace file "nl-login": File exists', []),
                                     ("address add", "Error: any valid prefix is expected", []),
                                     ("nothing", "unknown option --speed", ["--speed", "9"])):
            with self.subTest(fails=fails), self.assertRaisesRegex(AssertionError, f"do not come up:\n.*{says[:30]}"):
                self.start(fails, says, *options)


if __name__ == "__main__":
    tap.main()
