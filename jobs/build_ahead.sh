#!/usr/bin/env bash
# build_ahead.sh build-mpich|build-asan [PROCESS]: what that stage of jobs/test.sh will test, when PROCESS has ended. It
# takes the cores only when nobody else wants them, for tests run beside it that wait for each other and compare times.
# Run it in a session of its own (setsid), which the scheduler may weigh as one.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source-path=SCRIPTDIR source=builds.sh
source jobs/builds.sh

# By session where that is how processes are weighed (sched(7), "The autogroup feature"), and by process.
if [[ -w /proc/self/autogroup ]]; then echo 19 >/proc/self/autogroup || true; fi
renice -n 19 -p $$ >/dev/null
chrt --idle --pid 0 $$ || true # a container may forbid it

build() { # FOLDER SUITE...
    local names targets
    names=$(python3 -B tests/support/test_targets.py "$@")
    mapfile -t targets <<<"$names"
    ninja -C "$1" -j "$(nproc)" "${targets[@]}"
}

if [[ -n ${2-} ]]; then tail --pid="$2" -f /dev/null; fi
case $1 in
    build-mpich)
        configure_mpich
        build build-mpich "${mpich_suites[@]}"
        ;;
    build-asan)
        configure_sanitized
        build build-asan "${sanitized_suites[@]}"
        ;;
esac
