#!/usr/bin/env bash
# Everything that only a GPU can show, on a machine that has one: CUDA against the CPU layer by layer and step by step,
# ranks that share the GPU, NCCL, compute-sanitizer, benchmarks.
set -euo pipefail

usage() {
    cat <<'END'
usage: jobs/gpu_check.sh [--trainer FILE] [--tests FOLDER] [--out FOLDER] [--python PY] [--stages A,B] [--quick]
                         [--rehearse]

  --trainer FILE   the program (default: build/trainer beside this folder); a bundle's bin/trainer will do
  --tests FOLDER   where the test programs are (default: tests beside the program)
  --out FOLDER     gets gpu_check.json and gpu_check.txt (default: this folder)
  --python PY      a python that has torch for this GPU: measures ours against PyTorch
  --stages A,B     only these: facts, unit_tests, stepwise_parity, host_staged_ranks, nccl_one_rank,
                   nccl_two_ranks_on_one_gpu, cuda_graph, memcheck, racecheck, kernel_bench, step_bench
  --quick          fewer networks and steps
  --rehearse       the stages on the CPU, to try them; the report says so

Exit code: 0 all stages passed or had a reason to be skipped, 1 one failed, 77 there is no GPU.
Not yet run on hardware.
END
}

case ${1-} in
    -h | --help) usage && exit 0 ;;
esac
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
exec python3 -B "$here/../tests/gpu/gpu_check.py" "$@"
