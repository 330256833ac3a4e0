#!/usr/bin/env bash
# Installs, builds and trains: LeNet on Fashion-MNIST, on two ranks of this machine.
set -euo pipefail

usage() {
    cat <<'END'
usage: jobs/quickstart.sh [key=value ...]

Installs the missing Debian packages, builds build/trainer, packs Fashion-MNIST into data/fashion_mnist/ and trains
jobs/fashion_mnist.yaml on two ranks. What is already there is not made again. Arguments change the configuration:

  jobs/quickstart.sh train.epochs=1 optim.lr=0.1

TUTTI_MARCH   instruction set of the first build (default: native, this machine's)
END
}

say() { echo "quickstart: $*"; }

if [[ ${1-} == -h || ${1-} == --help ]]; then
    usage
    exit 0
fi

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source-path=SCRIPTDIR source=packages.sh
source jobs/packages.sh
install_packages "${build_packages[@]}"

if [[ ! -f build/meson-private/coredata.dat ]]; then
    march=${TUTTI_MARCH:-native}
    say "configuring build/ (release, -march=$march, without tests)"
    # The program alone is wanted soon: the tests are half of the build.
    output=$(meson setup build -Dbuildtype=release "-Dmarch=$march" -Dtests=false 2>&1) || {
        tail -n 20 <<<"$output" >&2
        exit 1
    }
fi
say "building build/trainer"
ninja -C build trainer

source_dir=/usr/share/datasets/fashion-mnist
target_dir=data/fashion_mnist
class_names='T-shirt/top,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Ankle boot'

pack() { # NAME PREFIX: packs Debian's PREFIX files into NAME.h5 unless it is newer than they are
    local target=$target_dir/$1.h5 part=$target_dir/.$1.h5
    local images=$source_dir/$2-images-idx3-ubyte.gz labels=$source_dir/$2-labels-idx1-ubyte.gz
    if [[ $target -nt $images && $target -nt $labels ]]; then return 0; fi
    say "packing $target"
    # Renamed when complete, so that an interrupted run leaves no half file that looks up to date.
    rm -f "$part"
    build/trainer pack idx --images "$images" --labels "$labels" -o "$part" --class-names "$class_names"
    mv "$part" "$target"
}
mkdir -p "$target_dir"
pack train train
pack test t10k

# Not bound: the two ranks share all cores (the trainer divides them), while mpirun's default is one core each.
# Many containers forbid a process to read another's memory; without that single copy Open MPI works everywhere.
mpi_options=(--quiet -np 2 --bind-to none --mca btl_vader_single_copy_mechanism none)
if ((EUID == 0)); then
    say "running as root: mpirun --allow-run-as-root"
    mpi_options+=(--allow-run-as-root)
fi
# mpirun itself knows best how many ranks it accepts: it counts cores, not hardware threads, and minds cpusets.
if ! mpirun "${mpi_options[@]}" true >/dev/null 2>&1; then
    say "fewer than 2 cores for mpirun: --oversubscribe"
    mpi_options+=(--oversubscribe)
    # --quiet keeps paragraphs about exit codes away, and would hide why mpirun does not start at all.
    mpirun "${mpi_options[@]:1}" true
fi
command=(mpirun "${mpi_options[@]}" build/trainer -c jobs/fashion_mnist.yaml "$@")
say "${command[*]}"
# mpirun carries standard output and standard error apart: the result, which is all of the one, comes last.
status=0
result=$("${command[@]}") || status=$?
if [[ $result ]]; then printf '%s\n' "$result"; fi
exit "$status"
