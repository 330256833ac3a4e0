"""The module opens on a machine without a GPU, and can run every case that `trainer bench kernels` shows. Prints TAP.

    cuda_module.py MODULE TRAINER
"""

import ctypes
import json
import subprocess
import sys


def main(module, trainer):
    library = ctypes.CDLL(module)
    shown = subprocess.run([trainer, "bench", "kernels", "--json", "--repetitions", "1"], stdout=subprocess.PIPE,
                           check=True, encoding="utf-8")
    report = json.loads(shown.stdout)
    kernels = report["kernels"]
    print(f"1..{len(kernels) + 2}")
    checks = [(library.tutti_cuda_device_count() >= 0, "the module opens and counts the GPUs")]
    measured = report["device"] is not None
    said = measured or "not_measured" in report
    checks.append((said and all((row["median_seconds"] is not None) == measured for row in kernels),
                   "times are there with a GPU, and the reason without"))
    for index, row in enumerate(kernels):
        floor = row["bytes"] / report["floor_bytes_per_second"]
        known = library.tutti_cuda_knows_kernel(index) == 1
        checks.append((known and abs(floor - row["floor_seconds"]) < 1e-12, f"runs {row['kernel']}"))
    for number, (good, what) in enumerate(checks, 1):
        print(f"{'ok' if good else 'not ok'} {number} - {what}")
    return 0 if all(good for good, _ in checks) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
