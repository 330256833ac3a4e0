"""Runs Python unittest cases and prints TAP, the Test Anything Protocol, which Meson reads (`protocol: 'tap'`).

    import unittest, tap

    class Packing(unittest.TestCase):
        def test_labels_survive(self): ...

    if __name__ == "__main__":
        tap.main()

prints

    1..1
    ok 1 - Packing.labels_survive

A skipped test is `ok 2 - Packing.name # SKIP reason`. What a failing test has to say follows it in lines that begin
with `#`. While tests run, sys.stdout is standard error, so that a stray print() does not break the protocol.
"""

import signal
import sys
import unittest


class _Report(unittest.TestResult):
    """Prints one TAP line per test, as soon as it is over."""

    def __init__(self, tests, stream):
        super().__init__()
        self.stream = stream
        self.pending = list(tests)  # not reported yet
        self.number = 0
        self.outcome = ("ok", "", [])  # of the running test: verdict, skip reason, lines to say
        self.classes = {}  # outcome of classes whose setUpClass failed or skipped
        self.good = True
        self._say(f"1..{len(self.pending)}")

    def _say(self, line):
        print(line, file=self.stream, flush=True)

    def startTest(self, test):
        super().startTest(test)
        self.outcome = ("ok", "", [])

    def stopTest(self, test):
        super().stopTest(test)
        self._report(test, self.outcome)

    def _report(self, test, outcome):
        verdict, reason, lines = outcome
        self.pending.remove(test)
        self.number += 1
        skip = " # SKIP " + " ".join(reason.split()) if verdict == "skip" else ""
        word = "not ok" if verdict == "not ok" else "ok"
        self.good = self.good and word == "ok"
        self._say(f"{word} {self.number} - {name_of(test)}{skip}")
        for line in lines:
            self._say(f"# {line}")

    def _record(self, test, verdict, reason, lines):
        """Keeps the outcome of a test or, when setUpClass or setUpModule went wrong, of all tests it stood for."""
        if not isinstance(test, unittest.TestCase):
            self.classes[str(test)] = (verdict, reason, lines)
            return
        if self.outcome[0] == "not ok":  # a test with several failures (subTest, tearDown) stays failed
            verdict, reason, lines = "not ok", "", self.outcome[2] + lines
        self.outcome = (verdict, reason, lines)

    def _fail(self, test, error, heading=""):
        text = self._exc_info_to_string(error, test)  # without unittest's own frames
        self._record(test, "not ok", "", ([heading] if heading else []) + text.rstrip().splitlines())

    def addError(self, test, err):
        self._fail(test, err)

    def addFailure(self, test, err):
        self._fail(test, err)

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self._fail(test, err, heading=f"with {subtest._subDescription()}")

    def addSkip(self, test, reason):
        self._record(test, "skip", reason, [])

    def addExpectedFailure(self, test, err):
        self._record(test, "ok", "", [])

    def addUnexpectedSuccess(self, test):
        self._record(test, "not ok", "", ["was expected to fail, but passed"])

    def finish(self):
        """Reports the tests that unittest did not even start, so that the plan is fulfilled."""
        for test in list(self.pending):
            holder = f"setUpClass ({type(test).__module__}.{type(test).__qualname__})"
            outcome = self.classes.get(holder)
            if outcome is None:
                others = [o for name, o in self.classes.items() if name.startswith("setUpModule")]
                outcome = others[0] if others else ("not ok", "", ["did not run"])
            self._report(test, outcome)
        for holder, (verdict, _, lines) in self.classes.items():
            if verdict == "not ok" and not holder.startswith("setUp"):  # tearDownClass: all tests are reported
                self.good = False
                self._say(f"Bail out! {holder}: {lines[-1]}")


def name_of(test):
    """`Class.behaviour` for the method `test_behaviour`."""
    method = test.id().rsplit(".", 1)[-1]
    name = f"{type(test).__name__}.{method.removeprefix('test_')}"
    return name.replace("#", "")


def _flatten(suite):
    for item in suite:
        if isinstance(item, unittest.TestSuite):
            yield from _flatten(item)
        else:
            yield item


def run(suite, stream):
    """Runs the suite, prints TAP to the stream and tells whether all was well."""
    report = _Report(_flatten(suite), stream)
    suite.run(report)
    report.finish()
    return report.good


def main():
    """Runs the cases of the calling script, or those named on the command line (Class or Class.test_name), and exits
    with 0 when none failed, with 1 otherwise."""

    def stop(signum, frame):
        raise KeyboardInterrupt  # unlike SystemExit, unittest lets it through: `finally` blocks end what runs

    signal.signal(signal.SIGTERM, stop)
    loader = unittest.TestLoader()
    module = sys.modules["__main__"]
    names = sys.argv[1:]
    suite = loader.loadTestsFromNames(names, module) if names else loader.loadTestsFromModule(module)
    stream, sys.stdout = sys.stdout, sys.stderr
    try:
        good = run(suite, stream)
    except KeyboardInterrupt:
        print("Bail out! stopped by a signal", file=stream, flush=True)
        good = False
    sys.exit(0 if good else 1)
