# shellcheck shell=bash
# The builds of jobs/test.sh: configured here, and which suites of theirs it runs. Sourced.

configure() { # FOLDER FIRST_TIME_OPTION -- OPTION...: the first one is kept as it is in an existing build
    local folder=$1 first=$2
    shift 3
    if [[ -f $folder/meson-private/coredata.dat ]]; then
        meson configure "$folder" "$@"
    else
        meson setup "$folder" "$first" "$@"
    fi
}

configure_release() {
    configure build "-Dmarch=${TUTTI_MARCH:-native}" -- -Dbuildtype=release -Dwerror=true -Dtests=true
}

# Much of the time to compile goes into headers that files share. Warnings about shadowed and hidden names are build/'s to
# find, where each file of the program is on its own.
many_files_at_once=(-Dunity=on -Dunity_size=16)
not_of_many_files=(-Wno-shadow -Wno-subobject-linkage)

# shellcheck disable=SC2034  # of those who source this
mpich_suites=(mpi mpich) sanitized_suites=(unit)

configure_mpich() {
    configure build-mpich "-Dmarch=${TUTTI_MARCH:-native}" -- -Dmpi=mpich -Dcuda=disabled -Dimages=disabled \
        -Dbuildtype=release -Dwerror=true -Dtests=true "${many_files_at_once[@]}" "-Dcpp_args=${not_of_many_files[*]}"
}

configure_sanitized() {
    # A fixed instruction set, so that everybody checks the same code paths. Libraries that are not instrumented
    # only slow this down: oneDNN is left out. This is also the build that has no optional library but those of images,
    # whose decoders read files from anywhere.
    local march=native
    if [[ $(uname -m) == x86_64 ]]; then march=x86-64-v3; fi
    # -Og and line numbers alone: with -O2 -g the same sources take four times as long to compile. The first undefined behaviour
    # ends a program, so no code is made to go on.
    configure build-asan "-Dmarch=$march" -- -Dbuildtype=custom -Doptimization=g -Ddebug=false "${many_files_at_once[@]}" \
        "-Dcpp_args=-g1 -fno-sanitize-recover=undefined ${not_of_many_files[*]}" \
        -Db_sanitize=address,undefined -Db_lundef=false -Donednn=disabled -Dgloo=disabled -Dimages=enabled \
        -Dcuda=disabled -Dtests=true
}
