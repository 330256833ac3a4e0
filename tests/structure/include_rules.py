"""The house rules that a machine can check: layers, headers, file sizes, names. Prints TAP, one line per rule.

    python3 tests/structure/include_rules.py [ROOT]

Each rule is a function from a Tree to the places that break it, as "file:line: what is wrong".
"""

import pathlib
import re
import sys
from collections import namedtuple

# What a layer may include besides itself: base ← device ← {comm, input, model} ← train ← app.
_BELOW_TRAIN = {"base", "device", "comm", "input", "model"}
LAYERS = {
    "base": set(),
    "device": {"base"},
    "comm": {"base", "device"},
    "input": {"base", "device"},
    "model": {"base", "device"},
    "train": _BELOW_TRAIN,
    "app": _BELOW_TRAIN | {"train"},
    "kernels": {"base", "device"},
}

# Headers that must not reach those who include ours.
FOREIGN_HEADERS = {
    "MPI": r"mpi(-ext)?\.h|mpi/|openmpi/",
    "NCCL": r"nccl[\w.]*",
    "CUDA": r"(cuda|cudnn|cublas|cub/|curand|nvtx|nvToolsExt|device_launch_parameters|thrust/)",
    "HDF5": r"hdf5|H5\w+\.h|H5Cpp|highfive/",
    "Eigen": r"(unsupported/)?Eigen/",
    "YAML": r"yaml-cpp/",
    "gloo": r"gloo/",
    "oneDNN": r"(oneapi/)?dnnl",
}

CODE_ROOTS = ("src", "include", "kernels")
CODE = (".cpp", ".hpp", ".c", ".h", ".cu", ".cuh")
HEADERS = (".hpp", ".h", ".cuh")
MAX_LINES = 450

File = namedtuple("File", "path lines")  # path: relative, with slashes


class Tree:
    """The text files of the house's folders."""

    def __init__(self, root):
        self.files = []
        for top in ("src", "include", "kernels", "tests", "jobs"):
            for path in sorted(pathlib.Path(root, top).rglob("*")):
                name = path.relative_to(root).as_posix()
                if not path.is_file() or "__pycache__" in path.parts:
                    continue
                try:
                    self.files.append(File(name, path.read_text(encoding="utf-8").splitlines()))
                except UnicodeDecodeError:
                    self.files.append(File(name, []))  # binary: only its name can be right or wrong

    def under(self, *tops, suffixes=()):
        for file in self.files:
            if file.path.startswith(tuple(top + "/" for top in tops)) and file.path.endswith(tuple(suffixes or [""])):
                yield file


def matches(files, pattern):
    """(file, line number, match) for each line in which the pattern is found."""
    expression = re.compile(pattern)
    for file in files:
        for number, line in enumerate(file.lines, 1):
            found = expression.search(line)
            if found:
                yield file, number, found


INCLUDE = r'^\s*#\s*include\s*([<"])([^>"]+)[>"]'


def layer_of(path):
    """Layer of a path relative to the root; None where it is in none."""
    parts = path.split("/")
    if parts[0] == "kernels":
        return "kernels"
    folders = parts[1:-1] if parts[0] == "src" else parts[2:-1] if parts[:2] == ["include", "tutti"] else []
    return folders[0] if folders else None


def included_layer(file, name, known):
    """Layer of what `#include "name"` in this file means; None for other libraries."""
    if name.startswith("tutti/"):
        return name.split("/")[1]
    folder = pathlib.PurePosixPath(file.path).parent
    parts = []
    for part in (folder / name).parts:
        if part == "..":
            del parts[-1:]
        else:
            parts.append(part)
    beside = "/".join(parts)
    if beside in known or name.startswith("../"):
        return layer_of(beside)
    if name.startswith(("src/", "kernels/", "include/")):
        return layer_of(name)
    return layer_of("src/" + name) if name.split("/")[0] in LAYERS and "/" in name else None


def layers(tree):
    known = {file.path for file in tree.files}
    for file in tree.under(*CODE_ROOTS, suffixes=CODE):
        layer = layer_of(file.path)
        if layer not in LAYERS:
            yield f"{file.path}:1: belongs to no layer; the layers are {', '.join(LAYERS)}"
            continue
        for _, number, found in matches([file], INCLUDE):
            target = included_layer(file, found[2], known)
            if target not in {None, layer} | LAYERS[layer]:
                allowed = ", ".join(name for name in LAYERS if name in LAYERS[layer]) or "nothing else"
                yield f"{file.path}:{number}: {layer} includes {found[2]} of {target}; it may see {allowed}"


def foreign_headers(tree):
    for library, pattern in FOREIGN_HEADERS.items():
        for file, number, found in matches(tree.under("include", suffixes=CODE), INCLUDE):
            if re.match(pattern, found[2]):
                yield f"{file.path}:{number}: {found[2]} of {library} in a public header; move it to src or kernels"


def feature_conditions(tree):
    pattern = r"^\s*#\s*(if|ifdef|ifndef|elif|elifdef|elifndef)\b.*(CUDA|NVCC|NCCL|GLOO|DNN|HAVE_|__has_include)"
    for file, number, found in matches(tree.under("src", "include", "kernels/cpu", suffixes=CODE), pattern):
        yield f"{file.path}:{number}: #{found[1]} of the feature {found[2]}; give the backend an absent twin instead"


def public_headers(tree):
    for file in tree.under("include", suffixes=HEADERS):
        lines = [line.strip() for line in file.lines if line.strip()]
        if "#pragma once" not in lines:
            yield f"{file.path}:1: no #pragma once"
        first = next((line for line in lines if line != "#pragma once"), "")
        if not first.startswith(("//", "/*")):
            yield f"{file.path}:1: does not begin with a comment that says what it is for"


def file_lengths(tree):
    for file in tree.under("src", "include", "kernels", "tests"):
        if len(file.lines) > MAX_LINES and not file.path.endswith(".json"):  # what programs have written
            yield f"{file.path}:{MAX_LINES + 1}: {len(file.lines)} lines, more than {MAX_LINES}: two ideas, two files"


def cuda_words(tree):
    """The tests run the kernels' sources on the CPU, where only launch.hpp and ptx.hpp know what these mean."""
    kernels = [file for file in tree.under("kernels/cuda", suffixes=(".cu", ".cuh", ".hpp"))
               if not file.path.endswith(("/launch.hpp", "/ptx.hpp"))]
    for file, number, found in matches(kernels, r"__shared__|\b__CUDACC__\b|\b__restrict__\b|\basm\b|<cub/|cooperative_groups"):
        yield f"{file.path}:{number}: {found[0]} in a kernel; say it as kernels/cuda/launch.hpp or ptx.hpp does"


def unrolled_bodies(tree):
    """nvcc 13.0 takes `#pragma unroll` for a statement: behind `if constexpr (false)` it drops the one after the loop."""
    for file in tree.under("kernels", suffixes=CODE):
        for number, (before, line) in enumerate(zip(file.lines, file.lines[1:]), 2):
            if re.match(r"\s*#\s*pragma\s+unroll", line) and not re.search(r"[{};]\s*(//.*)?$", before):
                yield f"{file.path}:{number}: #pragma unroll where a statement is wanted; put the loop into braces"


def unfinished_words(tree):
    for file, number, found in matches(tree.under(*CODE_ROOTS, "jobs"), r"\b(TODO|FIXME|XXX|HACK)\b"):
        yield f"{file.path}:{number}: {found[1]}: do it, or leave it out"


def using_namespaces(tree):
    headers = tree.under("src", "include", "kernels", "tests", suffixes=HEADERS)
    for file, number, found in matches(headers, r"^\s*using\s+namespace\s+(\w+)"):
        yield f"{file.path}:{number}: using namespace {found[1]} in a header"


def file_names(tree):
    for file in tree.files:
        for part in file.path.split("/"):
            if not re.fullmatch(r"[a-z0-9_]+(\.[a-z0-9_]+)*|\.[\w.-]+|README\.md", part):
                yield f"{file.path}:1: {part} is not snake_case"


RULES = {
    "a layer includes only what is below it": layers,
    "public headers include no header of MPI, NCCL, CUDA, HDF5, Eigen, YAML or oneDNN": foreign_headers,
    "no #if of a feature outside kernels/cuda": feature_conditions,
    "each public header has #pragma once and begins with a comment": public_headers,
    f"no file has more than {MAX_LINES} lines": file_lengths,
    "kernels leave CUDA's own words to launch.hpp and ptx.hpp": cuda_words,
    "no #pragma unroll begins the body of an if or a loop without braces": unrolled_bodies,
    "no unfinished words in the code": unfinished_words,
    "no using namespace in a header": using_namespaces,
    "file names are snake_case": file_names,
}


def main(root):
    tree = Tree(root)
    print(f"1..{len(RULES)}")
    good = True
    for number, (name, rule) in enumerate(RULES.items(), 1):
        places = list(rule(tree))
        good = good and not places
        print(f"{'not ok' if places else 'ok'} {number} - {name.replace('#', '')}")
        for place in places:
            print(f"# {place}")
    if not tree.files:
        print(f"Bail out! no files below {root}")
        return 1
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2]))
