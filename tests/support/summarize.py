"""Counts the test cases of Meson builds: skipped and failed ones are listed, then the closing line.

    python3 tests/support/summarize.py build build-asan
    ...
    312 passed, 0 failed, 4 skipped

Exits with 1 when a case failed, or when a build has no results at all.

Meson 1.0.1 leaves two records in meson-logs/, and neither is enough:

* testlog.json, one line per test program, has the verdict (result, return code, output), but no cases;
* testlog.junit.xml has the cases of GoogleTest and TAP programs, with skip reasons. But a program without cases that
  timed out looks like one that passed, so does a TAP program that died half-way, and the file of a GoogleTest program
  that crashed may be that of an earlier run.

So the verdict is the JSON's, the cases are the XML's, and a bad verdict without a failed case is one more failure.
Meson prints what failed GoogleTest programs said, but of TAP programs only standard error: below a failed TAP case stand
the lines of diagnosis that followed it.
"""

import json
import os
import re
import sys
import xml.etree.ElementTree as ElementTree
from collections import namedtuple

# outcome: passed, failed or skipped; reason: why it was skipped or what failed, one line, may be empty;
# said: lines of a failed TAP case
Case = namedtuple("Case", "test name outcome reason said", defaults=[()])
MOST_SAID = 40  # the last ones: where an assertion and the output that it quotes are

# The name of a suite in the XML is PROJECT.TEST for TAP, PROJECT.TEST.SUITE for GoogleTest; TEST may contain dots.
_Suite = namedtuple("_Suite", "name cases")


def one_line(text):
    return " ".join((text or "").split())


def read_suites(text):
    """The test suites of a JUnit file. Meson copies terminal escapes into it, which XML does not allow."""
    root = ElementTree.fromstring(re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f]", "", text))
    return [_Suite(suite.get("name", ""), suite.findall("testcase")) for suite in root.iter("testsuite")]


def is_gtest(suite, test):
    return suite.name.partition(".")[2] != test


def tap_diagnosis(stdout):
    """Number of each failed case → the lines that followed it, without their '# '."""
    said, lines = {}, []
    for line in stdout.splitlines():
        number = re.match(r"(not )?ok\s+(\d+)", line)
        if number:
            lines = said.setdefault(number[2], []) if number[1] else []
        elif line.startswith("#"):
            lines.append(line[1:].removeprefix(" "))
    return said


def case_of(test, suite, element, said):
    number = element.get("name", "").partition(" ")[0]
    name = re.sub(r"^\d+ - ", "", element.get("name", ""))  # TAP: number and name
    if is_gtest(suite, test):
        name = f"{element.get('classname', '')}.{name}".lstrip(".")
    for tag in ("failure", "error"):
        found = element.find(tag)
        if found is not None:
            lines = () if is_gtest(suite, test) else said.get(number, ())
            return Case(test, name, "failed", one_line(found.get("message") or found.text), tuple(lines[-MOST_SAID:]))
    found = element.find("skipped")
    if found is not None:
        # GoogleTest: "file:line", newline, reason. TAP: the reason is the case's output.
        place, _, reason = (found.get("message") or "").partition("\n")
        reason = one_line(reason) or one_line(element.findtext("system-out"))
        return Case(test, name, "skipped", reason or one_line(f"no reason given {place and f'({place})'}"))
    if element.get("status") == "notrun":
        return Case(test, name, "skipped", "disabled in the source")
    return Case(test, name, "passed", "")


def verdict_reason(row):
    """What happened to a test program as a whole."""
    if row["result"] == "TIMEOUT":
        return f"timed out after {row['duration']:.0f} s"
    if row["result"] == "INTERRUPT":
        return "interrupted"
    if row["result"] == "UNEXPECTEDPASS":
        return "passed, but was expected to fail"
    code = row["returncode"]
    bail = re.search(r"^Bail out!\s*(.*)", row.get("stdout") or "", re.MULTILINE)
    if bail:
        return f"bailed out: {one_line(bail[1])}"
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"


def skip_reason(row):
    """Of a program that was skipped as a whole: TAP's plan `1..0 # SKIP reason`, or the last line it printed."""
    lines = (row.get("stdout") or "").strip().splitlines()
    plan = [line for line in lines if re.match(r"1\.\.0\s*#", line)]
    if plan:
        return one_line(re.sub(r"^1\.\.0\s*#\s*(skip\S*)?", "", plan[0], flags=re.IGNORECASE))
    return one_line(lines[-1]) if lines else "no reason given"


def cases_of_program(row, suites):
    """All cases of one test program, given its line of testlog.json and its suites of the XML."""
    test, result, stdout = row["name"], row["result"], row.get("stdout") or ""
    bad = result in ("FAIL", "TIMEOUT", "INTERRUPT", "ERROR", "UNEXPECTEDPASS")
    if bad and row["returncode"] not in (0, 1):
        # GoogleTest writes its file when it ends in order, with 0 or 1: this file is not of this run.
        suites = [suite for suite in suites if not is_gtest(suite, test)]
    said = tap_diagnosis(stdout)
    cases = [case_of(test, suite, element, said) for suite in suites for element in suite.cases]

    if bad:
        if not any(case.outcome == "failed" for case in cases):
            cases.append(Case(test, "", "failed", verdict_reason(row)))
    elif not cases:
        if "[==========] Running" in stdout:
            cases.append(Case(test, "", "failed", "ended with success before GoogleTest had reported"))
        elif result != "SKIP":
            cases.append(Case(test, "", "passed", ""))
        elif row["returncode"] == 0 and "1..0" not in stdout:
            cases.append(Case(test, "", "failed", "printed no test result"))
        else:
            cases.append(Case(test, "", "skipped", skip_reason(row)))
    return cases


def cases_of_build(json_text, xml_text):
    """All cases of one `meson test`, from the text of its two records."""
    rows = [json.loads(line) for line in json_text.splitlines() if line.strip()]
    names = sorted((row["name"] for row in rows), key=len, reverse=True)
    suites = {name: [] for name in names}
    for suite in read_suites(xml_text):
        owner = suite.name.partition(".")[2]
        # The longest name wins: a test "a.b" and suite "b" of a test "a" begin alike.
        test = next((name for name in names if owner == name or owner.startswith(name + ".")), None)
        if test is not None:
            suites[test].append(suite)
    return [case for row in rows for case in cases_of_program(row, suites[row["name"]])]


def summary(builds):
    """Lines to print and the number of failures. `builds`: folder → its cases, or None when it has no results."""
    lines = {"skipped": [], "failed": []}
    count = {"passed": 0, "failed": 0, "skipped": 0}
    for folder, cases in builds.items():
        log = os.path.join(folder, "meson-logs", "testlog.txt")
        if not cases:
            cases = [Case("", "", "failed", "no test ran: see the output above")]
            log = os.path.join(folder, "meson-logs", "meson-log.txt")
        for case in cases:
            count[case.outcome] += 1
            if case.outcome != "passed":
                test = case.test.partition(":")[2] or case.test  # without the project's name
                label = ": ".join(part for part in (folder, test, case.name) if part)
                reason = f": {case.reason}" if case.reason else ""
                place = f" (log: {log})" if case.outcome == "failed" else ""
                lines[case.outcome] += [f"  {label}{reason}{place}", *(f"    {line}".rstrip() for line in case.said)]
    output = []
    for outcome in ("skipped", "failed"):
        if lines[outcome]:
            output += [f"{outcome}:", *lines[outcome], ""]
    output.append(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
    return output, count["failed"]


def read_build(folder):
    texts = []
    for name in ("testlog.json", "testlog.junit.xml"):
        path = os.path.join(folder, "meson-logs", name)
        if not os.path.exists(path):
            return None
        with open(path, encoding="utf-8", errors="replace") as file:
            texts.append(file.read())
    return cases_of_build(*texts)


def main(folders):
    output, failed = summary({folder: read_build(folder) for folder in folders})
    print("\n".join(output))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
