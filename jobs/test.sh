#!/usr/bin/env bash
# Everything that must hold before a change is merged: formatting, a build without warnings, all tests, and the unit
# tests once more under the address and undefined-behaviour sanitizers. The program and the tests of its communication
# are also built and run with MPICH.
# shellcheck disable=SC2317  # stage() calls the functions by name
set -euo pipefail

usage() {
    cat <<'END'
usage: jobs/test.sh [quick]

Stages: packages, format, build, test, mpich, sanitize ("quick" leaves out mpich and sanitize). The first stage that
fails ends the run. Builds are kept in build/, build-mpich/ and build-asan/. The last line reads "N passed, N failed, N skipped".

TUTTI_MARCH   instruction set of build/ when it is configured for the first time (default: native)
END
}

with_sanitizers=true
case ${1-} in
    '') ;;
    quick) with_sanitizers=false ;;
    -h | --help) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
esac

cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null
# What ccache has not it need not preprocess first, once more than the compiler: g++ says which headers it read.
export CCACHE_DEPEND=1
# shellcheck source-path=SCRIPTDIR source=packages.sh
source jobs/packages.sh
# shellcheck source-path=SCRIPTDIR source=builds.sh
source jobs/builds.sh

table=()       # one line per stage that ended
result_dirs=() # builds whose tests ran

# Runs a stage; ends the script when it fails. Never call it in a condition: that would switch off `set -e` inside.
stage() { # NAME COMMAND...
    local name=$1 start=$SECONDS status
    shift
    echo "== $name"
    set +e
    (
        set -e
        "$@"
    )
    status=$?
    set -e
    echo "stage $name: $((SECONDS - start)) s"
    if ((status == 0)); then
        table+=("$(printf '%-10s %6d s  ok' "$name" "$((SECONDS - start))")")
    else
        table+=("$(printf '%-10s %6d s  FAILED' "$name" "$((SECONDS - start))")")
        finish 1
    fi
}

finish() { # STATUS: prints the tables and the closing line
    local status=$1
    echo
    printf '%s\n' "${table[@]}"
    if ((${#result_dirs[@]} > 0)); then
        echo
        python3 -B tests/support/summarize.py "${result_dirs[@]}" || status=1
    fi
    exit "$status"
}

check_format() {
    find src include kernels tests -type f \( -name '*.cpp' -o -name '*.hpp' -o -name '*.cu' \) -print0 |
        xargs -0 -r clang-format --dry-run -Werror
}

build_release() {
    configure_release
    ninja -C build
}

# Results of an earlier run must not pass for this one's: a GoogleTest program that crashes writes no file, and Meson
# would read the old one.
remove_old_results() { # FOLDER
    rm -f "$1"/*.xml "$1"/meson-logs/testlog*
}

run_tests() {
    remove_old_results build
    # Half as many again as cores: most system tests wait for files, sockets and each other.
    meson test -C build --no-rebuild --num-processes $((($(nproc) * 3 + 1) / 2)) --print-errorlogs
}

# While tests wait for files, sockets and each other, what the later stages need is built of what they leave of the cores:
# one build after the other.
begin_to_build_ahead() {
    setsid jobs/build_ahead.sh build-mpich >build/meson-logs/ahead_mpich.txt 2>&1 &
    mpich_ahead=$!
    setsid jobs/build_ahead.sh build-asan "$mpich_ahead" >build/meson-logs/ahead_asan.txt 2>&1 &
    asan_ahead=$!
    trap 'kill -- "-$mpich_ahead" "-$asan_ahead" 2>/dev/null || true' EXIT
}

# What is not built yet the stage itself builds, now that no test waits for the cores.
end_building_ahead() { # PROCESS
    kill -- "-$1" 2>/dev/null || true
    tail --pid="$1" -f /dev/null
}

run_sanitized() {
    end_building_ahead "$asan_ahead"
    remove_old_results build-asan
    configure_sanitized
    # Quotes: the path may contain spaces.
    export ASAN_OPTIONS=detect_stack_use_after_return=1
    export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
    export LSAN_OPTIONS="suppressions='$PWD/tests/support/lsan.supp':print_suppressions=0"
    # Builds what the unit tests need, and no more.
    meson test -C build-asan "${sanitized_suites[@]/#/--suite=}" --timeout-multiplier 4 --print-errorlogs
}

# The same program with the other MPI, and without images: its own tests of communication, and a short run on two ranks.
run_mpich() {
    end_building_ahead "$mpich_ahead"
    remove_old_results build-mpich
    configure_mpich
    meson test -C build-mpich "${mpich_suites[@]/#/--suite=}" --print-errorlogs
}

stage packages install_packages "${build_packages[@]}" "${test_packages[@]}"
stage format check_format
stage build build_release
result_dirs+=(build)
if $with_sanitizers; then begin_to_build_ahead; fi
stage test run_tests
if $with_sanitizers; then
    result_dirs+=(build-mpich)
    stage mpich run_mpich
    result_dirs+=(build-asan)
    stage sanitize run_sanitized
fi
finish 0
