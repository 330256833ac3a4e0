"""The stages of jobs/gpu_check.sh that run GoogleTest programs, alone and under compute-sanitizer; see gpu_check.py."""

import json
import os
import pathlib
import re
import shutil

from gpu_process import OUT_OF_TIME, Failed, OutOfTime, Skipped, judged_by

# What compute-sanitizer says, and ends with 255 for, when a program uses no GPU (its option require-cuda-init): some suites
# are of the host's code alone.
NO_CUDA_IN_IT = "terminated before first instrumented API call"
# What it says where it cannot look into kernels, as on some virtual machines; the program then has error 999 at its first
# allocation.
NOT_THIS_DEVICE = "Device not supported"
# What it says where it failed in itself, and counts as an error. The program's calls fail from there on.
FAILED_IN_ITSELF = "Internal Sanitizer Error"
# A line about something that it found in the program.
FINDING = re.compile(r"^=+ (?:(?:Error|Warning): (?:Race|Potential)|Invalid |Misaligned |Uninitialized |Barrier error )",
                     re.MULTILINE)
# No API errors: libraries look for functions that the driver does not have, and ask for symbols that a file does not have,
# while our own calls all are judged by the program. Hazards are looked for in our kernels alone, whose namespace is in
# their (mangled) names: those of the libraries synchronise in ways of their own, and would take the time.
OURS = ["--kernel-name", "kns=5tutti"]
SANITIZER = {"memcheck": ["--report-api-errors", "no"], "racecheck": OURS}


def unjudged_names(results):
    """Suites, and tests of those that were run test by test."""
    for of_program in results.values():
        for suite, result in of_program.items():
            for test, one in result.get("apart", {"": result}).items():
                if "unjudged" in one:
                    yield suite + test


class Suites:
    """Part of gpu_stages.Check."""

    def unit_programs(self):
        # Others of that kind run on stand-ins. A rehearsal has only the CPU's.
        wanted = re.compile(r"^test_kernels$" if self.arguments.rehearse else r"^test_gpu_ops$")
        # Passes over folders that go meanwhile, as those of mpirun's sessions.
        files = (pathlib.Path(folder, name) for folder, _, names in os.walk(self.arguments.tests) for name in names)
        found = sorted(path for path in files if wanted.match(path.name) and os.access(path, os.X_OK))
        if not found:
            raise Skipped(f"no test programs in {self.arguments.tests}")
        return found

    def suites(self, program):
        """Of a GoogleTest program: {"Suite.": [tests]}."""
        listed = self.run([program, "--gtest_list_tests"], seconds=120).stdout
        suites = {}
        for line in listed.splitlines():
            if re.match(r"\S+\.(\s|$)", line):
                suites[line.split()[0]] = []
            elif suites and re.match(r"  \S", line):
                suites[list(suites)[-1]].append(line.split()[0])
        if not suites:
            raise Failed(f"{program.name} lists no tests: {listed[-500:]}")
        return suites

    def judge_suite(self, done, judge):
        """Counts of one that was run; one in which nothing was tested is bad."""
        begun = re.findall(r"^\[ RUN      \] (\S+)", done.stdout, re.MULTILINE)
        skipped = set(re.findall(r"^\[  SKIPPED \] (\S+\.\S+)", done.stdout, re.MULTILINE))
        result = {"tests": len(begun) - len(skipped), **({"skipped": len(skipped)} if skipped else {}), **judge(done, begun)}
        if result["tests"] == 0 and done.returncode == 0:
            result.update({"bad": True, "said": f"nothing was tested: {done.stdout[-800:]}"})
        return result

    def judge_apart(self, suite, apart, judge):
        """The counts of one whose tests were run one by one."""
        tests = {test: self.judge_suite(done, judge) for test, done in apart.items()}
        result = {"tests": sum(one["tests"] for one in tests.values()), "bad": any(one["bad"] for one in tests.values()),
                  "errors": sum(one.get("errors") or 0 for one in tests.values()), "apart": tests}
        if unjudged := {test: one["unjudged"] for test, one in tests.items() if "unjudged" in one}:
            result["unjudged"] = "; ".join(f"{suite}{test}: {why}" for test, why in unjudged.items())
        return result

    def run_suites(self, command, seconds, judge, jobs):
        """Suite by suite, because an error of the GPU stays with a process: {program: {suite: result}}. judge(Ended) adds
        to the counts: "bad", and "unjudged" where a suite did not say enough. One in which compute-sanitizer failed is run
        again test by test, so that it says which, and judges the others."""
        results = {}

        def verdict():
            suites = {suite: result for of_program in results.values() for suite, result in of_program.items()}
            if bad := {suite: result for suite, result in suites.items() if result["bad"]}:
                raise Failed(json.dumps(bad))

        with judged_by(verdict):
            for program in self.unit_programs():
                listed, of_program, late = self.suites(program), results.setdefault(program.name, {}), []

                def keep(suite, found, listed=listed, of_program=of_program, late=late):
                    done, apart = found
                    of_program[suite] = self.judge_apart(suite, apart, judge) if apart else self.judge_suite(done, judge)
                    # In the program's order, whichever ended first.
                    for name in [name for name in listed if name in of_program]:
                        of_program[name] = of_program.pop(name)
                    unjudged = ", ".join(unjudged_names(results))
                    self.note(results, f"not judged: {unjudged}" if unjudged else "")
                    late += [suite] if any(one.late for one in (done, *apart.values())) else []

                def run(suite, program=program, listed=listed):
                    def only(tests):
                        return self.processes.run([*command, program, f"--gtest_filter={suite}{tests}"], seconds=seconds)

                    done = only("*")
                    failed = FAILED_IN_ITSELF in done.stdout + done.stderr
                    return done, {test: only(test) for test in listed[suite]} if failed else {}

                self.processes.each(listed, run, keep, jobs)
                if late:
                    raise OutOfTime
        if all("unjudged" in result for suites in results.values() for result in suites.values()):
            raise Failed("no suite was judged: " + json.dumps(results))
        return results

    @staticmethod
    def judge_unit(done, begun):
        failed = re.findall(r"^\[  FAILED  \] (\S+?)(?:,|$| \()", done.stdout, re.MULTILINE)
        result = {"failed": sorted(set(failed)), "bad": bool(failed) or (done.returncode != 0 and not done.late)}
        if done.late:
            result["unjudged"] = OUT_OF_TIME
        if failed:
            first = done.stdout.find("Failure\n")
            result["said"] = done.stdout[max(first - 200, 0):first + 800]
        elif done.returncode != 0:
            how = "did not end" if done.returncode is None else f"ended with {done.returncode}"
            result["said"] = f"{how} in {begun[-1] if begun else 'no test'}: {(done.stdout + done.stderr)[-800:]}"
        return result

    def unit_tests(self):
        """The programs that compare CUDA with the CPU, layer by layer."""
        # Beside the report: cuDNN's description of this GPU.
        self.processes.environment["TUTTI_GPU_PROPERTIES_TO"] = str(self.arguments.out.resolve() / "gpu_properties.json")
        return self.run_suites([], 120, self.judge_unit, self.arguments.jobs)

    def sanitizer_command(self, tool, options):
        program = shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")
        if self.arguments.rehearse or program is None:
            raise Skipped("a rehearsal has no GPU" if self.arguments.rehearse else "compute-sanitizer is not installed")
        # A bundle's program is a script that starts it.
        return [program, "--tool", tool, "--target-processes", "all", "--error-exitcode", "9", *options]

    @staticmethod
    def judge_sanitized(done, _=None):
        said = done.stdout + done.stderr
        # Of any suite, the first that asks for the GPU: the tool's refusal is no verdict on our code.
        if re.search(rf"^=+ .*{NOT_THIS_DEVICE}", said, re.MULTILINE):
            raise Skipped("compute-sanitizer does not support this device")
        found = [int(count) for count in re.findall(r"^=+ (?:ERROR|RACECHECK) SUMMARY: (\d+)", said, re.MULTILINE)]
        result = {"code": done.returncode, "errors": sum(found) if found else None, "bad": sum(found) > 0}
        if FAILED_IN_ITSELF in said and not FINDING.search(said):
            result.update({"errors": None, "bad": False, "unjudged": "compute-sanitizer failed in itself"})
        elif done.returncode is None and not result["bad"]:
            result["unjudged"] = "it did not end in time"  # the tool is slow
        elif NO_CUDA_IN_IT in said and not found:
            result["unjudged"] = "it does not use the GPU"
        elif done.returncode != 0 or not found:  # code 0 without a summary: the tool saw nothing
            result["bad"] = True
        of_tool = "\n".join(line for line in said.splitlines() if line.startswith("=========") and line.strip("= "))
        # Which call failed first says more than what failed after it.
        first = re.search(r"Failure\n|C\+\+ exception|terminate called", said)
        around = said[first.start():first.start() + 1000] + "\n" if first else ""
        kept = result["bad"] or FAILED_IN_ITSELF in said
        return {**result, **({"said": of_tool[:2000] + "\n" + around + said[-1500:]} if kept else {})}

    def sanitizer(self, tool):
        return self.run_suites(self.sanitizer_command(tool, SANITIZER[tool]), 240, self.judge_sanitized, self.arguments.jobs)

    def memcheck(self):
        return self.sanitizer("memcheck")

    def racecheck(self):
        return self.sanitizer("racecheck")
