#include "tutti/train/run_directory.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "run_directory_lock.hpp"
#include "run_directory_metrics.hpp"
#include "tutti/base/atomic_file.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/failed_write.hpp"
#include "tutti/base/open_files.hpp"
#include "tutti/base/path_type.hpp"

namespace tutti {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view old_prefix = "old-";

[[noreturn]] void fail(const std::string& what, const std::string& cause) {
    throw RunError(what + ": " + cause,
                   "check the free space, quota and permissions there, or give another run.dir=…");
}

/// Runs `action`; what the operating system says against it becomes a RunError that begins with `what`.
template <class Action>
void guarded(const std::string& what, const Action& action) {
    try {
        action();
    } catch (const std::system_error& error) {
        if (error.code().value() == EMFILE)
            throw RunError(what + ": " + file::cause(error), too_many_open_files_remedy());
        fail(what, file::cause(error));
    }
}

std::string checkpoint_name(std::int64_t step) {
    std::array<char, 48> name{};
    std::snprintf(name.data(), name.size(), "step-%08lld.h5", static_cast<long long>(step));
    return name.data();
}

/// The step of a checkpoint's file name; nothing for other names.
std::optional<std::int64_t> step_of(std::string_view name) {
    constexpr std::string_view prefix = "step-";
    if (!name.starts_with(prefix)) return std::nullopt;
    std::int64_t step = 0;
    std::from_chars(name.data() + prefix.size(), name.data() + name.size(), step);
    if (step < 0 || checkpoint_name(step) != name) return std::nullopt;
    return step;
}

/// Names in a directory; none when it is not there.
std::vector<std::string> names_in(const fs::path& directory) {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator entry(directory, error), end; !error && entry != end; entry.increment(error))
        names.push_back(entry->path().filename().string());
    if (error && error != std::errc::no_such_file_or_directory)
        throw DataError("cannot list " + directory.string() + ": " + error.message(),
                        "check the permissions and the file system there");
    std::sort(names.begin(), names.end());
    return names;
}

std::vector<std::int64_t> steps_in(const fs::path& directory) {
    std::vector<std::int64_t> steps;
    for (const std::string& name : names_in(directory)) {
        const auto step = step_of(name);
        if (!step) continue;
        // One that cannot be looked at is not one less: a run would go on from an older one, or anew.
        if (type_of_path((directory / name).string()) == fs::file_type::regular) steps.push_back(*step);
    }
    std::sort(steps.begin(), steps.end());
    return steps;
}

/// A file that is already gone is as good as removed.
void remove_file(const fs::path& path) {
    std::error_code error;
    fs::remove(path, error);
    if (error) fail("cannot remove " + path.string(), error.message());
}

/// Temporaries of processes that died while they wrote; `spare` may still be in the making.
void remove_temporaries(const fs::path& directory, const std::string& spare) {
    for (const std::string& name : names_in(directory))
        if (!file::target_of_temporary(name).empty() && (spare.empty() || !name.ends_with(spare)))
            remove_file(directory / name);
}

/// What a run writes into its directory, beside its lock and failed-step-….h5. In the order in which it is
/// moved to old-N: until the checkpoints have gone the run can go on from them, with its rows; what says how
/// it began has gone before, lest a new run begin like that.
constexpr std::string_view checkpoints_name = "checkpoints", failed_prefix = "failed-",
                           provenance_name = "provenance.json", config_name = "config.yaml",
                           origin_name = "resume-from";
constexpr std::array<std::string_view, 8> own_names = {origin_name,     config_name,    checkpoints_name,
                                                       "metrics.jsonl", "epochs.jsonl", "trace.json",
                                                       provenance_name, "log.txt"};

/// Whether `name` is a run's, or a temporary of one. Other programs write theirs there, too (`trainer predict
/// -o RUN_DIR/out.h5`), and a run may have been given the directory of its data or scripts.
bool is_own(std::string_view name) {
    if (const std::string_view target = file::target_of_temporary(name); !target.empty()) name = target;
    return std::ranges::find(own_names, name) != own_names.end() ||
           (name.starts_with(failed_prefix) && step_of(name.substr(failed_prefix.size())));
}

void remove_own_temporaries(const fs::path& directory) {
    for (const std::string& name : names_in(directory))
        if (!file::target_of_temporary(name).empty() && is_own(name)) remove_file(directory / name);
}

/// A file such as config.yaml in a directory where no run was yet is somebody's own, which a run would
/// replace or lengthen. (log.txt may be where the shell writes what this program prints.)
void refuse_what_no_run_wrote(const std::string& path) {
    std::error_code error;
    if (!fs::is_directory(path, error)) return;
    const std::vector<std::string> names = names_in(path);
    const auto shows_a_run = [](const std::string& name) {
        return name == RunLock::name || name == checkpoints_name || name == provenance_name ||
               name.starts_with(old_prefix);
    };
    if (std::ranges::any_of(names, shows_a_run)) return;
    constexpr std::array<std::string_view, 4> written_over = {"config.yaml", "metrics.jsonl", "epochs.jsonl",
                                                              "trace.json"};
    const auto found = std::ranges::find_first_of(names, written_over);
    if (found != names.end())
        throw UsageError(
            "run.dir: " + path + " holds " + *found +
                ", but nothing else of a run's: it may be somebody's own, and would be written over",
            "give another run.dir=…, or another name to that file");
}

std::string without_trailing_slash(std::string path) {
    while (path.size() > 1 && path.back() == '/') path.pop_back();
    return path;
}

void make_directory(const std::string& path) {
    std::error_code error;
    if (fs::exists(path, error) && !fs::is_directory(path, error))
        throw UsageError("run.dir: " + path + " exists and is a file", "give another run.dir=…");
    fs::create_directories(path, error);
    if (error)
        refuse_place(error.value(), "cannot create the run directory " + path + ": " + error.message(),
                     "give a directory that you can write to with run.dir=…");
}

/// Files can be made and replaced in `directory`, which is there. A probe tells: of what root may do, and of
/// file systems that are mounted read-only, permissions say nothing.
void require_writable(const std::string& directory) {
    try {
        const file::Temporary probe(directory + "/" + config_name.data());
    } catch (const std::system_error& error) {
        refuse_place(error.code().value(), "cannot write into " + directory + ": " + file::cause(error),
                     "give a directory that you can write to with run.dir=…");
    }
}

/// Open, but no longer in any directory.
bool is_removed(int descriptor) {
    struct stat open {};
    return descriptor >= 0 && ::fstat(descriptor, &open) == 0 && open.st_nlink == 0;
}

int open_to_append(const std::string& path) {
    const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (descriptor < 0) file::throw_errno(errno);
    return descriptor;
}

/// The one after the last of old-1, old-2, ….
std::string next_old(const std::vector<std::string>& names) {
    std::int64_t last = 0;
    for (const std::string& name : names) {
        if (!name.starts_with(old_prefix)) continue;
        std::int64_t number = 0;
        std::from_chars(name.data() + old_prefix.size(), name.data() + name.size(), number);
        constexpr std::int64_t most = 1'000'000'000;  // others are not ours
        if (number < most) last = std::max(last, number);
    }
    return std::string(old_prefix) + std::to_string(last + 1);
}

void move_old_content(const fs::path& directory) {
    const std::vector<std::string> names = names_in(directory);
    std::vector<std::string> moving;
    for (const std::string& name : names) {
        if (!is_own(name)) continue;
        // A run that ended before its first checkpoint leaves the empty directory; that is no content.
        std::error_code error;
        if (name == checkpoints_name && fs::is_empty(directory / name, error) && !error) continue;
        moving.push_back(name);
    }
    if (moving.empty()) return;
    std::ranges::stable_sort(moving, {},
                             [](const std::string& name) { return std::ranges::find(own_names, name); });
    const fs::path old = directory / next_old(names);
    guarded("cannot move what was written to " + directory.string() + " to " + old.string(), [&] {
        fs::create_directory(old);
        for (const std::string& name : moving) fs::rename(directory / name, old / name);
    });
}

}  // namespace

struct RunDirectory::State {
    explicit State(const std::string& directory) : path(directory), lock(directory) {}
    ~State() { close_metrics(); }

    std::string file(const char* name) const { return path + "/" + name; }
    std::string checkpoints() const { return file(checkpoints_name.data()); }
    std::string metrics() const { return file("metrics.jsonl"); }
    std::string epochs() const { return file("epochs.jsonl"); }
    fs::path next_old_directory() const { return fs::path(path) / next_old(names_in(path)); }
    void close_metrics() {
        if (metrics_descriptor >= 0) ::close(metrics_descriptor);
        metrics_descriptor = -1;
    }

    std::string path;
    RunLock lock;
    int metrics_descriptor = -1;  ///< open from the first row on
    bool has_config = false;      ///< written by this run
};

RunDirectory::RunDirectory(const std::string& path, bool fresh) {
    const std::string directory = without_trailing_slash(path);
    refuse_what_no_run_wrote(directory);
    make_directory(directory);
    state_ = std::make_unique<State>(directory);
    require_writable(directory);
    remove_own_temporaries(directory);
    std::error_code unknown;
    if (fs::is_directory(state_->checkpoints(), unknown)) require_writable(state_->checkpoints());
    remove_temporaries(state_->checkpoints(), "");
    if (fresh) move_old_content(directory);
    guarded("cannot create " + state_->checkpoints(), [&] { fs::create_directories(state_->checkpoints()); });
}

RunDirectory::~RunDirectory() = default;

const std::string& RunDirectory::path() const {
    return state_->path;
}

std::string RunDirectory::log_path() const {
    return state_->file("log.txt");
}

std::string RunDirectory::checkpoint_path(std::int64_t step) const {
    return state_->checkpoints() + "/" + checkpoint_name(step);
}

std::string RunDirectory::failed_step_path(std::int64_t step) const {
    return state_->path + "/failed-" + checkpoint_name(step);
}

std::vector<std::int64_t> RunDirectory::checkpoint_steps() const {
    return steps_in(state_->checkpoints());
}

void RunDirectory::set_aside_checkpoints_after(std::int64_t step) {
    const fs::path old = state_->next_old_directory();
    guarded("cannot move later checkpoints of " + state_->path + " to " + old.string(), [&] {
        for (const std::int64_t later : checkpoint_steps()) {
            if (later <= step) continue;
            fs::create_directories(old / "checkpoints");
            fs::rename(checkpoint_path(later), old / "checkpoints" / checkpoint_name(later));
        }
    });
}

void RunDirectory::set_aside_course() {
    const fs::path old = state_->next_old_directory();
    set_aside_checkpoints_after(-1);
    state_->close_metrics();
    for (const fs::path rows : {state_->metrics(), state_->epochs()})
        guarded("cannot move " + rows.string() + " to " + old.string(), [&] {
            std::error_code error;
            if (fs::file_size(rows, error) == 0 || error) return;
            fs::create_directories(old);
            fs::rename(rows, old / rows.filename());
        });
}

void RunDirectory::note_origin(const std::string& file) {
    const std::string path = state_->file(origin_name.data());
    guarded("cannot write " + path, [&] { file::replace(path, file + "\n"); });
}

void RunDirectory::forget_origin() {
    remove_file(state_->file(origin_name.data()));
}

void RunDirectory::begin_rows() {
    // A run's config is moved before its rows.
    if (type_of_path(state_->file(config_name.data())) == fs::file_type::not_found) set_aside_course();
    cut_metrics({});
}

void RunDirectory::prune_checkpoints(std::int64_t keep, std::optional<std::int64_t> protect) {
    remove_temporaries(state_->checkpoints(), file::temporary_name(""));
    const std::vector<std::int64_t> steps = checkpoint_steps();
    const auto count = static_cast<std::int64_t>(steps.size());
    if (keep <= 0) return;
    for (std::int64_t i = 0; i < count - keep; ++i) {
        const std::int64_t step = steps[static_cast<std::size_t>(i)];
        if (step != protect) remove_file(checkpoint_path(step));
    }
}

void RunDirectory::require_own() {
    state_->lock.require_directory();
    // Before a lock is made in a directory that somebody is emptying.
    std::error_code unknown;
    if (state_->has_config && !fs::exists(state_->file("config.yaml"), unknown) && !unknown)
        throw RunError("files of the run directory " + state_->path +
                           ", config.yaml among them, were removed while this run used it",
                       RunLock::remedy);
    state_->lock.require();
    guarded("cannot create " + state_->checkpoints(), [&] { fs::create_directories(state_->checkpoints()); });
}

void RunDirectory::write_config(const std::string& yaml) {
    const std::string path = state_->file("config.yaml");
    guarded("cannot write " + path, [&] { file::replace(path, yaml); });
    state_->has_config = true;
}

void RunDirectory::write_provenance(const std::string& json) {
    const std::string path = state_->file("provenance.json");
    guarded("cannot write " + path, [&] { file::replace(path, json); });
}

void RunDirectory::append_metric(const std::string& json_line) {
    if (state_->metrics_descriptor < 0 || is_removed(state_->metrics_descriptor)) {
        require_own();
        state_->close_metrics();
    }
    const std::string path = state_->metrics();
    guarded("cannot write " + path, [&] {
        int& descriptor = state_->metrics_descriptor;
        if (descriptor < 0) descriptor = open_to_append(path);
        file::write_all(descriptor, json_line + "\n");
    });
}

void RunDirectory::append_epoch(const std::string& json_line) {
    require_own();
    const std::string path = state_->epochs();
    guarded("cannot write " + path, [&] {
        const int descriptor = open_to_append(path);
        try {
            file::write_all(descriptor, json_line + "\n");
        } catch (...) {
            ::close(descriptor);
            throw;
        }
        ::close(descriptor);
    });
}

void RunDirectory::cut_metrics(const MetricsEnd& end) {
    state_->close_metrics();  // it would append to the file that is replaced
    for (const std::string& path : {state_->metrics(), state_->epochs()}) {
        std::error_code error;
        std::string rows;
        const bool is_there = fs::exists(path, error) || error;
        if (is_there) guarded("cannot read " + path, [&] { rows = file::content(path); });
        const std::string kept = keep_rows_up_to(rows, end);
        if (!is_there || kept != rows) guarded("cannot write " + path, [&] { file::replace(path, kept); });
    }
}

std::optional<std::string> latest_checkpoint(const std::string& run_directory) {
    const fs::path directory = fs::path(run_directory) / "checkpoints";
    const std::vector<std::int64_t> steps = steps_in(directory);
    if (steps.empty()) return std::nullopt;
    return (directory / checkpoint_name(steps.back())).string();
}

std::string noted_origin(const std::string& run_directory) {
    const std::string path = (fs::path(run_directory) / origin_name).string();
    if (type_of_path(path) == fs::file_type::not_found) return {};
    std::string file;
    guarded("cannot read " + path, [&] { file = file::content(path); });
    if (file.ends_with('\n')) file.pop_back();
    return file;
}

std::string path_of_checkpoint(const std::string& run_directory, std::int64_t step) {
    return (fs::path(run_directory) / "checkpoints" / checkpoint_name(step)).string();
}

}  // namespace tutti
