"""Each rule of include_rules.py, tried on small trees that keep and that break it."""

import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import include_rules  # noqa: E402
import tap  # noqa: E402

_HEADER = "#pragma once\n// What it is for.\n"


class Rules(unittest.TestCase):
    def check(self, rule, files):
        """The places at which a tree of these files (path → text) breaks a rule, as "file:line"."""
        with tempfile.TemporaryDirectory(prefix="tutti-") as root:
            for name, text in files.items():
                path = pathlib.Path(root, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            messages = list(rule(include_rules.Tree(root)))
        return [":".join(message.split(":")[:2]) for message in messages]

    def check_include(self, path, name):
        return self.check(include_rules.layers, {path: f'\n#include "{name}"\n'})

    def test_every_rule_is_tried_here(self):
        tried = {name.removeprefix("test_rule_") for name in dir(self) if name.startswith("test_rule_")}
        self.assertEqual(tried, {rule.__name__ for rule in include_rules.RULES.values()})

    def test_rule_layers(self):
        order = ["base", "device", "comm", "input", "model", "train", "app"]
        siblings = {"comm", "input", "model"}
        for layer in order:
            for target in order:
                above = order.index(target) > order.index(layer)
                forbidden = target != layer and (above or {layer, target} <= siblings)
                for path in (f"src/{layer}/a.cpp", f"include/tutti/{layer}/a.hpp"):
                    with self.subTest(path=path, target=target):
                        expected = [f"{path}:2"] if forbidden else []
                        self.assertEqual(self.check_include(path, f"tutti/{target}/b.hpp"), expected)
        for target in order:
            with self.subTest(kernels=target):
                expected = [] if target in ("base", "device") else ["kernels/cpu/a.cpp:2"]
                self.assertEqual(self.check_include("kernels/cpu/a.cpp", f"tutti/{target}/b.hpp"), expected)

    def test_private_includes_are_resolved(self):
        wrong = ["src/model/a.cpp:2"]
        for name in ("../comm/b.hpp", "../../src/comm/b.hpp", "src/comm/b.hpp", "comm/b.hpp", "kernels/cpu/b.hpp",
                     "../../kernels/cpu/b.hpp", "../train/b.hpp"):
            with self.subTest(name=name):
                self.assertEqual(self.check_include("src/model/a.cpp", name), wrong)
        for name in ("b.hpp", "layers/b.hpp", "../base/b.hpp", "../model/b.hpp", "dnnl.hpp", "yaml-cpp/yaml.h"):
            with self.subTest(name=name):
                self.assertEqual(self.check_include("src/model/a.cpp", name), [])

    def test_a_folder_named_like_a_layer_inside_a_layer_is_that_layers(self):
        files = {"src/train/model/b.hpp": "", "src/train/a.cpp": '#include "model/b.hpp"\n'}
        self.assertEqual(self.check(include_rules.layers, files), [])

    def test_angle_brackets_and_spaces_do_not_hide_an_include(self):
        for line in ("#include <tutti/app/b.hpp>", '  #  include   "tutti/app/b.hpp"', '#include"tutti/app/b.hpp"'):
            with self.subTest(line=line):
                self.assertEqual(self.check(include_rules.layers, {"src/base/a.cpp": line}), ["src/base/a.cpp:1"])

    def test_a_folder_that_is_no_layer_is_reported(self):
        self.assertEqual(self.check(include_rules.layers, {"src/util/a.cpp": ""}), ["src/util/a.cpp:1"])
        self.assertEqual(self.check(include_rules.layers, {"src/a.cpp": ""}), ["src/a.cpp:1"])
        self.assertEqual(self.check(include_rules.layers, {"include/a.hpp": ""}), ["include/a.hpp:1"])

    def test_rule_foreign_headers(self):
        for name in ("mpi.h", "mpi-ext.h", "nccl.h", "nccl_net.h", "cuda.h", "cuda_runtime.h", "cuda_bf16.h",
                     "cudnn.h", "cublas_v2.h", "cublasLt.h", "hdf5.h", "hdf5_hl.h", "H5public.h", "Eigen/Core",
                     "unsupported/Eigen/CXX11/Tensor", "yaml-cpp/yaml.h", "dnnl.hpp", "oneapi/dnnl/dnnl.hpp"):
            path = "include/tutti/comm/a.hpp"
            for line in (f"#include <{name}>", f'#include "{name}"'):
                with self.subTest(line=line):
                    self.assertEqual(self.check(include_rules.foreign_headers, {path: line}), [f"{path}:1"])
        for name in ("vector", "tutti/comm/mpi_session.hpp", "tutti/base/cuda.hpp"):
            with self.subTest(name=name):
                files = {"include/tutti/comm/a.hpp": f"#include <{name}>", "src/comm/b.cpp": "#include <mpi.h>"}
                self.assertEqual(self.check(include_rules.foreign_headers, files), [])

    def test_rule_feature_conditions(self):
        for line in ("#ifdef TUTTI_CUDA", "#if defined(HAVE_NCCL)", "#ifndef USE_GLOO", "#elif WITH_ONEDNN",
                     "#if HAVE_HWLOC", "# if __has_include(<dnnl.hpp>)", "#if defined(__CUDACC__) && 1"):
            for path in ("src/comm/a.cpp", "include/tutti/comm/a.hpp", "kernels/cpu/a.cpp"):
                with self.subTest(path=path, line=line):
                    self.assertEqual(self.check(include_rules.feature_conditions, {path: line}), [f"{path}:1"])
        for path, line in (("kernels/cuda/a.cu", "#ifdef __CUDA_ARCH__"), ("kernels/cpu/a.cpp", "#ifdef __AVX512F__"),
                           ("src/base/a.cpp", "// if CUDA is there")):
            with self.subTest(path=path, line=line):
                self.assertEqual(self.check(include_rules.feature_conditions, {path: line}), [])

    def test_rule_public_headers(self):
        path = "include/tutti/base/a.hpp"
        for text, expected in ((_HEADER, []), ("// What.\n#pragma once\n", []), ("\n#pragma once\n\n/* What. */", []),
                               ("// What.\nint f();\n", [f"{path}:1"]), ("#pragma once\nint f();\n", [f"{path}:1"]),
                               ("// #pragma once\n", [f"{path}:1"]), ("", [f"{path}:1"] * 2)):
            with self.subTest(text=text):
                self.assertEqual(self.check(include_rules.public_headers, {path: text}), expected)

    def test_rule_file_lengths(self):
        for path in ("src/base/a.cpp", "include/tutti/base/a.hpp", "kernels/cuda/a.cu", "tests/system/a_test.py"):
            with self.subTest(path=path):
                self.assertEqual(self.check(include_rules.file_lengths, {path: "x\n" * 450}), [])
                self.assertEqual(self.check(include_rules.file_lengths, {path: "x\n" * 451}), [f"{path}:451"])

    def test_rule_cuda_words(self):
        for text in ("__shared__ float x;", 'asm("bar.sync 0;");', "#include <cub/cub.cuh>", "float* __restrict__ x"):
            with self.subTest(text=text):
                self.assertEqual(self.check(include_rules.cuda_words, {"kernels/cuda/a.cu": "\n" + text}),
                                 ["kernels/cuda/a.cu:2"])
                files = {path: text for path in ("kernels/cuda/launch.hpp", "kernels/cuda/ptx.hpp", "kernels/cpu/a.cpp")}
                self.assertEqual(self.check(include_rules.cuda_words, files), [])

    def test_rule_unfinished_words(self):
        for word in ("TODO", "FIXME", "XXX", "HACK"):
            for path in ("src/base/a.cpp", "include/tutti/base/a.hpp", "kernels/cpu/a.cpp", "jobs/a.sh"):
                with self.subTest(word=word, path=path):
                    text = f"\n// {word}: later\n"
                    self.assertEqual(self.check(include_rules.unfinished_words, {path: text}), [f"{path}:2"])
        files = {"jobs/a.sh": "mktemp log-XXXXXX\n", "src/base/a.cpp": "// hacked todo\n"}
        self.assertEqual(self.check(include_rules.unfinished_words, files), [])

    def test_rule_unrolled_bodies(self):
        loop = "#pragma unroll\nfor (;;) {\n}\n"
        for before in "if constexpr (false)", "else", "for (int i = 0; i < n; ++i)  // each":
            with self.subTest(before=before):
                self.assertEqual(self.check(include_rules.unrolled_bodies, {"kernels/cuda/a.cu": f"{before}\n{loop}"}),
                                 ["kernels/cuda/a.cu:2"])
        for before in "if constexpr (false) {", "int i = 0;  // of them", "}":
            with self.subTest(before=before):
                self.assertEqual(self.check(include_rules.unrolled_bodies, {"kernels/cuda/a.cu": f"{before}\n{loop}"}), [])

    def test_rule_using_namespaces(self):
        for path in ("include/tutti/base/a.hpp", "src/base/a.hpp", "kernels/cuda/a.cuh", "tests/support/a.hpp"):
            with self.subTest(path=path):
                files = {path: "\nusing namespace std;\n"}
                self.assertEqual(self.check(include_rules.using_namespaces, files), [f"{path}:2"])
        files = {"src/base/a.cpp": "using namespace std;\n", "src/base/a.hpp": "using std::vector;\n"}
        self.assertEqual(self.check(include_rules.using_namespaces, files), [])

    def test_rule_file_names(self):
        for path in ("src/base/Tensor.cpp", "tests/base/my-test.cpp", "src/Base/a.cpp", "jobs/runAll.sh"):
            with self.subTest(path=path):
                self.assertEqual(self.check(include_rules.file_names, {path: ""}), [f"{path}:1"])
        files = {"src/base/meson.build": "", "tests/README.md": "", "jobs/.hidden": "", "kernels/cpu/a_2.cpp": ""}
        self.assertEqual(self.check(include_rules.file_names, files), [])

    def run_main(self, root):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            status = include_rules.main(root)
        return status, output.getvalue()

    def test_a_broken_tree_fails_with_its_places(self):
        with tempfile.TemporaryDirectory(prefix="tutti-") as root:
            pathlib.Path(root, "src/base").mkdir(parents=True)
            pathlib.Path(root, "src/base/a.cpp").write_text('#include "tutti/app/b.hpp"\n')
            status, output = self.run_main(root)
        self.assertEqual(status, 1)
        self.assertRegex(output, r"(?m)^not ok 1 - .*\n# src/base/a.cpp:1: base includes tutti/app/b.hpp of app")
        self.assertEqual(output.count("not ok"), 1)
        self.assertEqual(output.count("\nok "), len(include_rules.RULES) - 1)

    def test_an_empty_tree_fails(self):
        with tempfile.TemporaryDirectory(prefix="tutti-") as root:
            status, output = self.run_main(root)
        self.assertEqual(status, 1)
        self.assertIn("Bail out!", output)


if __name__ == "__main__":
    tap.main()
