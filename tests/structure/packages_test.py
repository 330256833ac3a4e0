"""jobs/packages.sh: that no service is started while packages are installed, and that what forbids it goes again."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[1] / "support"))
import tap  # noqa: E402

PATIENCE = 20  # seconds

# apt-get that notes its arguments and the policy that it finds, and waits for the file "go" of a slow installation.
APT_GET = """#!/bin/sh
[ "$5" = install ] || exit 0
{ echo "$@"; cat "$POLICY" 2>/dev/null; } >"$NOTES"
while [ -n "$SLOW" ] && [ ! -e "$GO" ]; do sleep 0.02; done
exit ${APT_STATUS-0}
"""


class Packages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)
        self.policy, self.notes, self.go = (self.dir / name for name in ("policy-rc.d", "notes", "go"))
        for name, text in (("apt-get", APT_GET), ("dpkg-query", "#!/bin/sh\n"),
                           ("sudo", '#!/bin/sh\n[ "$1" = -n ] && shift\nexec "$@"\n')):
            (self.dir / name).write_text(text)
            (self.dir / name).chmod(0o755)

    def start(self, *packages, **environment):
        script = 'set -euo pipefail; source "$1"; shift; service_policy=$POLICY; install_packages "$@"'
        # Under nohup SIGHUP is ignored, and a shell cannot trap what was ignored when it began.
        process = subprocess.Popen(
            ["env", "--default-signal=HUP,INT,TERM", "bash", "-c", script, "bash", HERE.parents[2] / "jobs/packages.sh", *packages], start_new_session=True,
            env=dict(os.environ, PATH=f"{self.dir}:{os.environ['PATH']}", POLICY=str(self.policy), NOTES=str(self.notes),
                     GO=str(self.go), TMPDIR=str(self.dir), **environment),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        """Its session, whatever is left of it."""
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.communicate(timeout=PATIENCE)

    def begun(self, process):
        """Until apt-get runs."""
        deadline = time.monotonic() + PATIENCE
        while not self.notes.exists():
            self.assertIsNone(process.poll())
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)

    def install(self, *packages, status=0, **environment):
        process = self.start(*packages, **environment)
        said, _ = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, status, said)
        return said

    def test_daemons_are_not_started_and_the_policy_is_removed(self):
        self.install("g++", "munge")
        self.assertIn("install --no-install-recommends g++ munge\n", self.notes.read_text())
        self.assertIn("\nexit 101\n", self.notes.read_text())
        self.assertFalse(self.policy.exists())

    def test_it_is_removed_behind_a_failure_that_is_told(self):
        said = self.install("munge", status=1, APT_STATUS="100")
        self.assertIn("packages: apt-get failed", said)
        self.assertFalse(self.policy.exists())

    def test_without_daemons_nothing_is_forbidden(self):
        self.install("g++")
        self.assertNotIn("exit 101", self.notes.read_text())

    def test_somebody_elses_policy_stays(self):
        self.policy.write_text("#!/bin/sh\nexit 104\n")
        self.install("slurmd")
        self.assertIn("exit 104", self.notes.read_text())
        self.assertEqual(self.policy.read_text(), "#!/bin/sh\nexit 104\n")

    def test_an_interrupted_installation_leaves_none(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(signal=number):
                self.notes.unlink(missing_ok=True)
                process = self.start("slurmctld", SLOW="1")
                self.begun(process)
                os.killpg(process.pid, number)
                process.communicate(timeout=PATIENCE)
                self.assertNotEqual(process.returncode, 0)
                deadline = time.monotonic() + PATIENCE
                while self.policy.exists() and time.monotonic() < deadline:
                    time.sleep(0.02)
                self.assertFalse(self.policy.exists())

    def test_one_that_a_killed_installation_left_goes(self):
        process = self.start("slurmctld", SLOW="1")
        self.begun(process)
        self.end(process)
        self.assertTrue(self.policy.exists())
        self.install("slurmctld")
        self.assertFalse(self.policy.exists())


if __name__ == "__main__":
    tap.main()
