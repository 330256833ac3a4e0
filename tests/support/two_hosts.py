"""Two hosts for a test class: a network of namespaces in a machine of its own; skips where there can be none."""

import shutil
import unittest

import private_machine

NETLAB = private_machine.HERE / "netlab"


def start(test_class, *options):
    """Gives the class `machine` and `lab`, the folder of the network; options are those of `netlab up`."""
    if shutil.which("ip") is None:
        raise unittest.SkipTest("ip is not installed (iproute2)")
    test_class.machine = private_machine.start(test_class)
    test_class.lab = test_class.machine.folder / "lab"
    up = test_class.machine.run([NETLAB, "up", test_class.lab, "2", *options])
    if up.returncode == 3:
        raise unittest.SkipTest(up.stderr)
    if up.returncode != 0:
        raise AssertionError(f"the hosts do not come up:\n{up.stderr[-4000:]}")


def environment(test):
    """The test's, without what mpirun on one host is told."""
    return {name: value for name, value in test.environment().items() if not name.startswith("OMPI_")}
