"""Seeds bugs into the sources of CUDA kernels, and tells whether the tests catch them.

bugs/KERNEL.toml lists the bugs of kernels/cuda/KERNEL.cu, at least one for each kernel:

    [[bug]]
    name = "tree_without_barrier"
    find = "__syncthreads();"   # what the source has exactly once,
    replace = ""                # and what the bug has in its place
    build = "race"              # the variant that catches it: "asan" (AddressSanitizer, UBSan), "race", or "plain", which is
                                # the cheapest: a test's own comparison fails, or the harness refuses
    says = 'race: thread'       # regular expression that must be in what the kernel's tests then print
    tests = "*Class.test*"      # where they are not those of CudaKernelTest

    bugs.py list KERNEL...            one line per bug: its full name, kernel, build; fails for a kernel without bugs
    bugs.py seed NAME SOURCE OUTPUT   the source with that bug; fails when the text to replace is not there once
    bugs.py check FOLDER KERNEL...    runs FOLDER/bug_NAME for each bug and prints the table of verdicts as TAP
"""

import os
import pathlib
import re
import subprocess
import sys
import tomllib

TABLES = pathlib.Path(__file__).resolve().parent / "bugs"
TIME_LIMIT = 120  # seconds; a bug that makes a kernel hang is caught, too


def read(kernel):
    table = TABLES / f"{kernel}.toml"
    if not table.exists():
        sys.exit(f"{table} is missing: each kernel needs a bug that its tests catch")
    bugs = tomllib.loads(table.read_text(encoding="utf-8")).get("bug", [])
    if not bugs:
        sys.exit(f"{table} has no [[bug]]")
    for bug in bugs:
        bug["kernel"] = kernel
        bug["name"] = f"{kernel}_{bug['name']}"
    names = [bug["name"] for bug in bugs]
    for name in names:
        if names.count(name) > 1:
            sys.exit(f"{table}: {name} is there more than once")
    return bugs


def read_all(kernels):
    return [bug for kernel in kernels for bug in read(kernel)]


def seed(bug, source, output):
    text = pathlib.Path(source).read_text(encoding="utf-8")
    count = text.count(bug["find"])
    if count != 1:
        sys.exit(f"bug {bug['name']}: {source} has {count} times, instead of once: {bug['find']!r}")
    changed = text.replace(bug["find"], bug["replace"])
    pathlib.Path(output).write_text(f'#line 1 "{source}"\n{changed}', encoding="utf-8")


def camel_case(name):
    return "".join(part.capitalize() for part in name.split("_"))


def run(bug, folder):
    """(caught, what the verdict rests on)"""
    program = pathlib.Path(folder, "bug_" + bug["name"])
    tests = bug.get("tests", f"*Cuda{camel_case(bug['kernel'])}Test*")
    if not program.exists():
        return False, f"{program} is not built"
    environment = dict(os.environ, ASAN_OPTIONS="detect_leaks=0:redzone=512", UBSAN_OPTIONS="print_stacktrace=0", LC_ALL="C")
    # Up to the first test that fails, which is most often the one; else all of them.
    for options in (["--gtest_fail_fast"], []):
        try:
            done = subprocess.run([program, "--gtest_filter=" + tests, "--gtest_color=no", *options], env=environment,
                                  timeout=TIME_LIMIT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8",
                                  errors="replace")
        except subprocess.TimeoutExpired:
            return False, f"no end within {TIME_LIMIT} s"
        if "Running 0 tests" in done.stdout:
            return False, f"no test is called {tests}"
        if done.returncode == 0:
            return False, "all tests pass"
        found = re.search(bug["says"], done.stdout)
        if found:
            return True, found[0].splitlines()[0][:100]
    return False, f"it failed otherwise (exit {done.returncode}): " + " | ".join(done.stdout.splitlines()[-12:])


def check(bugs, folder):
    print(f"1..{len(bugs)}")
    missed = 0
    width = max(len(bug["name"]) for bug in bugs)
    for number, bug in enumerate(bugs, 1):
        caught, why = run(bug, folder)
        missed += not caught
        verdict = "caught" if caught else "MISSED"
        print(f"{'ok' if caught else 'not ok'} {number} - {bug['name']:{width}}  {bug['build']:4}  {verdict}: "
              + why.replace("#", ""), flush=True)
    print(f"# {len(bugs) - missed} of {len(bugs)} bugs caught")
    return 1 if missed else 0


def main(arguments):
    if len(arguments) < 2 or arguments[0] not in ("list", "seed", "check"):
        sys.exit(__doc__)
    verb, *rest = arguments
    if verb == "list":
        for bug in read_all(rest):
            print(bug["name"], bug["kernel"], bug["build"])
        return 0
    if verb == "seed":
        name, source, output = rest
        seed(next(bug for bug in read(pathlib.Path(source).stem) if bug["name"] == name), source, output)
        return 0
    return check(read_all(rest[1:]), rest[0])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
