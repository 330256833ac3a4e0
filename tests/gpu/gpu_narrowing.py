"""The stage of jobs/gpu_check.sh that narrows down a failure of compute-sanitizer itself: in which tests racecheck fails,
and whether it does so without what may be part of it. See gpu_check.py."""

import json
import re

from gpu_process import Failed, OutOfTime, judged_by
from gpu_suites import FINDING, OURS

# Those that racecheck has not judged whole (tests/gpu/h200).
SUSPECTED = ("CudaBf16Activations.", "Shapes/CudaBf16FewChannels.")
ONE_LAUNCH_AT_A_TIME = {"CUDA_LAUNCH_BLOCKING": "1"}
# Tool, its options and the environment, the most telling first. Without a tool the test itself is judged. Initcheck must see
# all kernels: what ours read may have been written by a library's. Racecheck of them all may name the one that fails.
WAYS = {
    "racecheck": ("racecheck", OURS, {}),
    "racecheck, a launch at a time": ("racecheck", OURS, ONE_LAUNCH_AT_A_TIME),
    "racecheck of no kernel": ("racecheck", ["--kernel-name", "kns=no_kernel_has_this_name"], {}),
    "no tool, a launch at a time": (None, [], ONE_LAUNCH_AT_A_TIME),
    "synccheck": ("synccheck", OURS, {}),
    "initcheck": ("initcheck", [], {}),
    "racecheck of all kernels": ("racecheck", [], {}),
}
# What these leave out is only asked of where racecheck failed.
LEAVING_OUT = ("racecheck, a launch at a time", "racecheck of no kernel", "no tool, a launch at a time")


def found_in_ours(said):
    """Whether a finding is of one of our kernels: its own line, or the next that says where, names it. Lines behind that
    are of the host, which is ours in any case."""
    for finding in FINDING.finditer(said):
        line, _, rest = said[finding.start():].partition("\n")
        place = re.match(r"=+ +(?:at|and) (.*)", rest)
        if "tutti::" in line or (place and "tutti::" in place[1]):
            return True
    return False


def summary_lines(result):
    """Of each way how many pieces were without a finding, and which were not."""
    lines = []
    for way, pieces in result.items():
        odd = {"found something": [piece for piece, one in pieces.items() if one["bad"]],
               "found something in a library": [piece for piece, one in pieces.items() if "of_libraries" in one],
               "not judged": [piece for piece, one in pieces.items() if "unjudged" in one]}
        clean = len(set(pieces).difference(*odd.values()))
        told = "".join(f"; {what}: {', '.join(names)}" for what, names in odd.items() if names)
        lines.append(f"  {way}: {clean} clean{told}")
    return lines


class Narrowing:
    """Part of gpu_stages.Check, beside Suites."""

    def sanitizer_narrowed(self):
        """Each suspected test in a process of its own, alone on the GPU, and its suite as one: {way: {test: result}}. Where
        racecheck fails in some, all other ways see those; else the other tools see all tests."""
        self.sanitizer_command("racecheck", OURS)  # skipped where there is none
        results = {}

        def verdict():
            bad = {f"{way}: {piece}": one for way, pieces in results.items() for piece, one in pieces.items() if one["bad"]}
            if bad:
                raise Failed(json.dumps(bad))

        def look(way, program, piece):
            tool, options, environment = WAYS[way]
            command = self.sanitizer_command(tool, options) if tool else []
            done = self.processes.run([*command, program, f"--gtest_filter={piece}"], 120, environment)
            one = self.judge_suite(done, self.judge_sanitized if tool else self.judge_unit)
            said = done.stdout + done.stderr
            passed = done.returncode == 9 and "[  FAILED  ]" not in said
            if tool and options != OURS and one["bad"] and passed and not found_in_ours(said):
                one.update({"bad": False, "of_libraries": True})
            results.setdefault(way, {})[piece] = one
            self.note(results)
            if done.late:
                raise OutOfTime
            return one

        with judged_by(verdict):
            for program in self.unit_programs():
                listed = self.suites(program)
                if unknown := [suite for suite in self.arguments.suites if suite not in listed]:
                    raise Failed(f"{program.name} has no suite {', '.join(unknown)}, but {', '.join(listed)}")
                tests = [suite + test for suite in self.arguments.suites for test in listed[suite]]
                first, *others = WAYS
                odd = []
                for piece in [*tests, *(suite + "*" for suite in self.arguments.suites)]:
                    one = look(first, program, piece)
                    if one["bad"] or "unjudged" in one:
                        odd.append(piece)
                for way in others:
                    for piece in odd or (() if way in LEAVING_OUT else tests):
                        look(way, program, piece)
        return results
