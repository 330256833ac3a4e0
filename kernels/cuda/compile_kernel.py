"""Compiles one CUDA source with nvcc, and keeps what ptxas says about each kernel.

    compile_kernel.py --resources TABLE --architectures 80,90,100 -- NVCC ARGUMENT...

TABLE gets one line per kernel and architecture:

    sum_of_squares sm_90 32 0 0 0 tutti::cuda::(anonymous namespace)::sum_blocks<float>

the source's name, the architecture, registers per thread, bytes of static shared memory, of spills stored and of
spills loaded, the kernel. A kernel that spills fails the build: its thread needs more registers than it has, and every
spill is memory traffic that no profile of the source explains.
"""

import argparse
import pathlib
import re
import subprocess
import sys

NAME = re.compile(r"Compiling entry function '(\S+)' for '(sm_\w+)'")
SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")


def demangled(names):
    """The names as C++ writes them, where c++filt is there to tell."""
    try:
        done = subprocess.run(["c++filt", "-p"], input="\n".join(names), stdout=subprocess.PIPE, encoding="utf-8",
                              check=True)
    except (OSError, subprocess.CalledProcessError):
        return dict(zip(names, names))
    # The anonymous namespace carries the name of nvcc's temporary file.
    return {name: re.sub(r"\(anonymous namespace\)::|tutti::cuda::", "", readable)
            for name, readable in zip(names, done.stdout.splitlines())}


def read_resources(messages):
    """[(mangled name, architecture, registers, shared bytes, spill stores, spill loads)] of ptxas -v."""
    kernels, kernel, spills = [], None, ("0", "0")
    for line in messages.splitlines():
        if found := NAME.search(line):
            kernel = (found[1], found[2])
        elif found := SPILLS.search(line):
            spills = (found[2], found[3])
        elif (found := USED.search(line)) and kernel:
            shared = SHARED.search(line)
            kernels.append((*kernel, found[1], shared[1] if shared else "0", *spills))
            kernel = None
    return kernels


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--resources", required=True)
    parser.add_argument("--source", required=True)
    parser.add_argument("--architectures", required=True)
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    architectures = arguments.architectures.split(",")
    generate = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in architectures]
    generate.append("-gencode=arch=compute_{0},code=compute_{0}".format(architectures[-1]))

    done = subprocess.run(arguments.command + generate + ["-Xptxas=-v", arguments.source],
                          stderr=subprocess.PIPE, encoding="utf-8", errors="replace")
    kernels = read_resources(done.stderr)
    report = [line for line in done.stderr.splitlines() if not re.match(r"ptxas info\s*:|\s+\d+ bytes stack frame", line)]
    if report:
        print("\n".join(report), file=sys.stderr)
    if done.returncode != 0:
        return done.returncode

    source = pathlib.Path(arguments.source).stem
    names = demangled([kernel[0] for kernel in kernels])
    lines = sorted(f"{source} {' '.join(kernel[1:])} {names[kernel[0]]}" for kernel in kernels)
    pathlib.Path(arguments.resources).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    spilling = [line for line in lines if line.split()[4:6] != ["0", "0"]]
    for line in spilling:
        print(f"{arguments.source}: a kernel spills registers (kernel_resources of compile_kernel.py): {line}", file=sys.stderr)
    return 1 if spilling else 0


if __name__ == "__main__":
    sys.exit(main())
