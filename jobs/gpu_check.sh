#!/usr/bin/env bash
# Everything that only a GPU can show, on a machine that has one: CUDA against the CPU layer by layer and step by step,
# ranks that share the GPU, NCCL, compute-sanitizer, benchmarks. In parts, where the machine is there for minutes.
set -euo pipefail

usage() {
    cat <<'END'
usage: jobs/gpu_check.sh [--trainer FILE] [--tests FOLDER] [--out FOLDER] [--python PY] [--part A,B] [--stages A,B]
                         [--minutes M] [--models A,B] [--variants A,B] [--suites A,B] [--jobs N] [--quick] [--rehearse]

  --trainer FILE   the program (default: build/trainer beside this folder, or that of the bundle which has this script)
  --tests FOLDER   where the test programs are (default: tests beside the program, or its folder)
  --out FOLDER     gets gpu_check.json, gpu_check.txt and, of the unit tests, gpu_properties.json, a description of the GPU
                   (default: this folder); the report is written again after each piece; stages
                   that a report there has are kept, each with its GPU and the version of its program; one that is
                   skipped does not replace a verdict
  --python PY      a python that has torch for this GPU: measures ours against PyTorch
  --part A,B       only these, and the facts, in this order: unit (layers against the CPU), parity (steps against the CPU),
                   nccl, ranks (that share the GPU), times (ours alone), graph (CUDA graphs), bench (kernels, PyTorch),
                   sanitizer; and, only where it is named, narrow (suites in which compute-sanitizer itself failed)
  --stages A,B     the same, stage by stage: facts, unit_tests, stepwise_parity, nccl_one_rank, nccl_two_ranks_on_one_gpu,
                   host_staged_ranks, same_bits, step_times, cuda_graph, kernel_bench, step_bench, memcheck, racecheck,
                   sanitizer_narrowed
  --minutes M      ends in time; what did not fit is in "not_run" of the report, and "complete" is false
  --models A,B     of the benchmarks: lenet, resnet18, resnet50, vit_b16, vit_b16_tanh
  --variants A,B   of PyTorch: eager, compile, max-autotune (which may compile for minutes per model)
  --suites A,B     of narrow, as "test_gpu_ops --gtest_list_tests" has them (default: the two of bf16 that racecheck has
                   not judged on an H200)
  --jobs N         so many pieces of the stages that check (unit tests, parity, ranks, graphs) at a time (default: half of the
                   cores, at most 6)
  --quick          fewer networks and steps
  --rehearse       the stages on the CPU, to try them; the report says so

CUDA's libraries are looked for in TUTTI_CUDA_LIBRARIES, LD_LIBRARY_PATH, NVIDIA's wheels of PY and python3, and CUDA's
usual folders. The machine needs Python 3.10 or newer, and of the sources jobs/ and tests/, or a bundle that has them,
made elsewhere (jobs/bundle.sh -t). Where a GPU is there for minutes only, most valuable first (REPORT kept from call to call):

  tutti/share/tutti/jobs/gpu_check.sh --out REPORT --minutes 9 --part unit,parity,nccl,ranks,times
  tutti/share/tutti/jobs/gpu_check.sh --out REPORT --minutes 9 --part graph,bench --python python3
  tutti/share/tutti/jobs/gpu_check.sh --out REPORT --minutes 9 --part sanitizer

Exit code: 0 no stage of the report failed, 1 one did, 77 there is no GPU. 0 also where stages were left out or cut off:
only "complete": true says that each passed or had a reason to be skipped. A stage that failed in an earlier call, and is
kept in the report, makes later calls end with 1, too, until it passes or FOLDER is another one.
END
}

case ${1-} in
    -h | --help) usage && exit 0 ;;
esac
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
exec python3 -B "$here/../tests/gpu/gpu_check.py" "$@"
