#include "tutti/train/checkpoint.hpp"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>

#include "checkpoint_model.hpp"
#include "hdf5_output.hpp"
#include "hdf5_tensors.hpp"
#include "tutti/base/atomic_file.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/sha256.hpp"

namespace tutti {
namespace {

using store::Object;

// The newer one has one more field, and only files that need it are of it: programs that do not know the
// field name the version, instead of a damaged file.
constexpr std::int64_t plain_version = 2, unreadable_version = 3;
constexpr const char* version_name = "tutti_checkpoint_version";
constexpr const char* hash_name = "sha256";
constexpr const char* unreadable_name = "unreadable";
constexpr const char* bucket_plan_name = "bucket_plan";
constexpr const char* data_fingerprint_name = "data_fingerprint";
constexpr const char* normalisation_name = "normalisation";
constexpr const char* training_data_name = "training_data";
constexpr const char* failed_step_name = "failed_step";
constexpr const char* model_hash_name = "model_sha256";
/// KIND/NAME is two levels; more than this is a loop in a damaged file.
constexpr int deepest = 8;

/// Every field of Progress with its name in the file: the one list that saving, loading and hashing share.
template <class ProgressRef, class Function>
void each_field(ProgressRef& progress, const Function& visit) {
    visit("step", progress.step);
    visit("epoch", progress.epoch);
    visit("position", progress.position);
    visit("samples", progress.samples);
    visit("world_size", progress.world_size);
    visit("loss_sum", progress.loss_sum);
    visit("loss_weight", progress.loss_weight);
    visit("correct", progress.correct);
    visit("best_metric", progress.best_metric);
    visit("has_best", progress.has_best);
    visit("best_step", progress.best_step);
    visit("skipped", progress.skipped);
    visit("stop_metric", progress.stop_metric);
    visit("has_stop_metric", progress.has_stop_metric);
    visit("stale_evals", progress.stale_evals);
    // Files of epochs without any are as they were before this was counted.
    if (progress.unreadable != 0) visit(unreadable_name, progress.unreadable);
}

std::int64_t version_of(const Progress& progress) {
    return progress.unreadable != 0 ? unreadable_version : plain_version;
}

/// What is hashed is a sequence of fields, each with its length in front, so that no two contents look alike.
class FieldHash {
  public:
    void add(std::string_view text) {
        number(text.size());
        hash_.update(text);
    }
    void add(std::span<const std::byte> bytes) {
        number(bytes.size());
        hash_.update(bytes);
    }
    void add(std::int64_t value) { number(static_cast<std::uint64_t>(value)); }
    void add(double value) { number(std::bit_cast<std::uint64_t>(value)); }
    void add(bool value) { number(value ? 1 : 0); }
    std::string hex() { return hash_.hex(); }

  private:
    void number(std::uint64_t value) { hash_.update(std::as_bytes(std::span(&value, 1))); }
    Sha256 hash_;
};

/// Over name, dtype, shape and bytes of all tensors, in the order of their names.
std::string hash_of(const std::vector<NamedTensor>& tensors) {
    std::vector<const NamedTensor*> sorted;
    for (const NamedTensor& tensor : tensors) sorted.push_back(&tensor);
    std::sort(sorted.begin(), sorted.end(), [](auto* a, auto* b) { return a->name < b->name; });
    FieldHash hash;
    for (const NamedTensor* tensor : sorted) {
        hash.add(tensor->name);
        hash.add(name_of(tensor->dtype));
        hash.add(static_cast<std::int64_t>(tensor->shape.rank()));
        for (const std::int64_t d : tensor->shape) hash.add(d);
        hash.add(std::span<const std::byte>(tensor->bytes));
    }
    return hash.hex();
}

/// Over everything; the model enters with its own hash, which is stored too, so that the model can be read
/// alone.
std::string hash_of(const Checkpoint& checkpoint, const std::string& model_hash, std::int64_t version) {
    FieldHash hash;
    hash.add(version);
    each_field(checkpoint.progress, [&](const char* name, auto value) {
        hash.add(std::string_view(name));
        hash.add(value);
    });
    hash.add(checkpoint.config);
    hash.add(checkpoint.last_eval);
    hash.add(model_hash);
    hash.add(hash_of(checkpoint.optimizer));
    hash.add(hash_of(checkpoint.ema));
    // Files of runs without one are as they were before there were any.
    if (!checkpoint.bucket_plan.empty()) hash.add(checkpoint.bucket_plan);
    if (!checkpoint.failed_step.empty()) {
        hash.add(std::string_view(failed_step_name));
        hash.add(checkpoint.failed_step);
    }
    if (!checkpoint.data_fingerprint.empty()) {
        hash.add(std::string_view(data_fingerprint_name));
        hash.add(checkpoint.data_fingerprint);
    }
    if (!checkpoint.normalisation.empty()) {
        hash.add(std::string_view(normalisation_name));
        hash.add(checkpoint.normalisation);
    }
    if (!checkpoint.training_data.empty()) {
        hash.add(std::string_view(training_data_name));
        hash.add(checkpoint.training_data);
    }
    return hash.hex();
}

NamedTensor as_tensor(const std::string& text) {
    NamedTensor tensor;
    tensor.dtype = DType::u8;
    tensor.shape = {static_cast<std::int64_t>(text.size())};
    const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
    tensor.bytes.assign(bytes.begin(), bytes.end());
    return tensor;
}

void check_tensors(const std::vector<NamedTensor>& tensors, const std::string& group) {
    std::vector<std::string_view> names;
    for (const NamedTensor& tensor : tensors) {
        const auto bytes = static_cast<std::size_t>(tensor.shape.count()) * size_of(tensor.dtype);
        if (tensor.bytes.size() != bytes)
            throw RunError("checkpoint: " + group + " tensor " + tensor.name + " has " +
                           std::to_string(tensor.bytes.size()) + " bytes, not the " + std::to_string(bytes) +
                           " of its shape");
        const std::string path = "/" + tensor.name + "/";
        if (path.find("//") != std::string::npos || path.find("/./") != std::string::npos)
            throw RunError("checkpoint: " + group + " tensor has the name \"" + tensor.name +
                           "\", which HDF5 cannot hold");
        names.push_back(tensor.name);
    }
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end())
        throw RunError("checkpoint: two " + group + " tensors have the name " + std::string(*twice));
}

/// Slashes in the name become groups.
void write_at(hid_t parent, std::string_view name, const NamedTensor& tensor) {
    const auto slash = name.find('/');
    const std::string head(name.substr(0, slash));
    if (slash == std::string_view::npos) return store::write_tensor(parent, head, tensor);
    const bool exists = H5Lexists(parent, head.c_str(), H5P_DEFAULT) > 0;
    const Object group = exists ? Object(H5Gopen2(parent, head.c_str(), H5P_DEFAULT), H5Gclose)
                                : store::create_group(parent, head);
    write_at(group, name.substr(slash + 1), tensor);
}

void write_content(const store::OutputFile& output, const Checkpoint& checkpoint) {
    const hid_t file = output.id();
    const std::string model_hash = hash_of(checkpoint.model);
    const std::int64_t version = version_of(checkpoint.progress);
    store::write_attribute(file, version_name, version);
    store::write_attribute(file, hash_name, hash_of(checkpoint, model_hash, version));
    store::write_attribute(file, model_hash_name, model_hash);
    each_field(checkpoint.progress, [&](const char* name, auto value) {
        if constexpr (std::is_same_v<decltype(value), bool>)
            store::write_attribute(file, name, std::int64_t{value});
        else
            store::write_attribute(file, name, value);
    });
    // Data sets and not attributes: an attribute ends at 64 KiB.
    const Object run = store::create_group(file, "run");
    store::write_tensor(run, "config", as_tensor(checkpoint.config));
    store::write_tensor(run, "last_eval", as_tensor(checkpoint.last_eval));
    if (!checkpoint.bucket_plan.empty())
        store::write_tensor(run, bucket_plan_name, as_tensor(checkpoint.bucket_plan));
    if (!checkpoint.failed_step.empty())
        store::write_tensor(run, failed_step_name, as_tensor(checkpoint.failed_step));
    if (!checkpoint.data_fingerprint.empty())
        store::write_tensor(run, data_fingerprint_name, as_tensor(checkpoint.data_fingerprint));
    if (!checkpoint.normalisation.empty())
        store::write_tensor(run, normalisation_name, as_tensor(checkpoint.normalisation));
    if (!checkpoint.training_data.empty())
        store::write_tensor(run, training_data_name, as_tensor(checkpoint.training_data));
    const auto write_group = [&](const char* name, const std::vector<NamedTensor>& tensors) {
        const Object group = store::create_group(file, name);
        for (const NamedTensor& tensor : tensors) {
            write_at(group, tensor.name, tensor);
            output.check();
        }
    };
    write_group("model", checkpoint.model);
    write_group("optimizer", checkpoint.optimizer);
    write_group("ema", checkpoint.ema);
}

void read_group(hid_t group, const std::string& prefix, bool with_bytes, int depth,
                std::vector<NamedTensor>& out) {
    if (depth > deepest) throw store::Failure("its groups are nested too deeply");
    for (const std::string& name : store::members(group)) {
        const Object object(H5Oopen(group, name.c_str(), H5P_DEFAULT), H5Oclose);
        if (H5Iget_type(object) == H5I_GROUP) {
            read_group(object, prefix + name + "/", with_bytes, depth + 1, out);
            continue;
        }
        try {
            if (H5Iget_type(object) != H5I_DATASET) throw store::Failure("it is not a data set");
            out.push_back(store::read_tensor(object, with_bytes));
        } catch (const store::Failure& failure) {
            throw store::Failure("data set " + prefix + name + ": " + failure.what());
        }
        out.back().name = prefix + name;
    }
}

std::vector<NamedTensor> read_group(hid_t file, const char* name, bool with_bytes) {
    const Object group(H5Gopen2(file, name, H5P_DEFAULT), H5Gclose);
    std::vector<NamedTensor> tensors;
    read_group(group, "", with_bytes, 0, tensors);
    return tensors;
}

std::string read_text(hid_t file, const char* name) {
    const Object dataset(H5Dopen2(file, name, H5P_DEFAULT), H5Dclose);
    const NamedTensor tensor = store::read_tensor(dataset, true);
    if (tensor.dtype != DType::u8) throw store::Failure(std::string("data set ") + name + " is not text");
    return {reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()};
}

/// What to do about a bad checkpoint: the newest older one beside it, if there is one.
std::string use_an_older_one(const std::string& path) {
    const std::filesystem::path bad(path);
    const auto rank = [](const std::string& name) { return std::pair(name.size(), name); };
    std::string best;
    std::error_code error;
    const auto directory = bad.has_parent_path() ? bad.parent_path() : std::filesystem::path(".");
    for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
        const std::string name = entry.path().filename().string();
        if (!name.starts_with("step-") || !name.ends_with(".h5")) continue;
        if (rank(name) < rank(bad.filename().string()) && rank(name) > rank(best)) best = name;
    }
    if (best.empty()) return "use another checkpoint";
    return "use an older checkpoint (" + (bad.parent_path() / best).string() + ")";
}

/// The version of the file, which this program reads.
std::int64_t check_version(hid_t file, const std::string& path) {
    const htri_t marked = H5Aexists(file, version_name);
    if (marked < 0) throw store::Failure(store::cause());
    if (marked == 0)
        throw DataError(
            path + " is an HDF5 file but not a checkpoint (it has no attribute " + version_name + ")",
            "name a file that a training saved: RUN_DIR/checkpoints/step-….h5, to replay "
            "RUN_DIR/failed-step-….h5");
    std::int64_t found = 0;
    store::read_attribute(file, version_name, found);
    if (found != plain_version && found != unreadable_version)
        throw DataError(path + " has checkpoint format " + std::to_string(found) +
                            ", this program reads formats " + std::to_string(plain_version) + " and " +
                            std::to_string(unreadable_version),
                        "use the version of the program that wrote it");
    return found;
}

[[noreturn]] void throw_unreadable(const std::string& path, const store::Failure& failure) {
    throw DataError(path + " cannot be read: " + failure.what(),
                    "the file is damaged: " + use_an_older_one(path));
}

[[noreturn]] void throw_damaged(const std::string& path) {
    throw DataError(path + ": the stored SHA-256 does not match its content",
                    "the file is damaged: " + use_an_older_one(path));
}

Checkpoint read(const std::string& path, bool with_bytes) {
    const hdf5::QuietErrors silent;
    const Object file = store::open_file(path, use_an_older_one(path));
    try {
        const std::int64_t version = check_version(file, path);
        Checkpoint checkpoint;
        each_field(checkpoint.progress, [&](const char* name, auto& value) {
            if constexpr (std::is_same_v<decltype(value), bool&>) {
                std::int64_t number = 0;
                store::read_attribute(file, name, number);
                value = number != 0;
            } else {
                store::read_attribute(file, name, value);
            }
        });
        if (H5Aexists(file, unreadable_name) > 0)
            store::read_attribute(file, unreadable_name, checkpoint.progress.unreadable);
        checkpoint.config = read_text(file, "run/config");
        checkpoint.last_eval = read_text(file, "run/last_eval");
        const auto read_if_there = [&](const char* name) {
            const std::string whole = std::string("run/") + name;
            return H5Lexists(file, whole.c_str(), H5P_DEFAULT) > 0 ? read_text(file, whole.c_str())
                                                                   : std::string();
        };
        checkpoint.bucket_plan = read_if_there(bucket_plan_name);
        checkpoint.failed_step = read_if_there(failed_step_name);
        checkpoint.data_fingerprint = read_if_there(data_fingerprint_name);
        checkpoint.normalisation = read_if_there(normalisation_name);
        checkpoint.training_data = read_if_there(training_data_name);
        checkpoint.model = read_group(file, "model", with_bytes);
        checkpoint.optimizer = read_group(file, "optimizer", with_bytes);
        checkpoint.ema = read_group(file, "ema", with_bytes);
        if (with_bytes) {
            std::string stored;
            store::read_attribute(file, hash_name, stored);
            if (stored != hash_of(checkpoint, hash_of(checkpoint.model), version)) throw_damaged(path);
        }
        return checkpoint;
    } catch (const store::Failure& failure) {
        throw_unreadable(path, failure);
    }
}

[[noreturn]] void throw_unwritable(const std::string& path, const std::string& cause) {
    throw RunError("cannot save the checkpoint " + path + ": " + cause,
                   "check the free space, quota and permissions there, or give another run.dir=…");
}

}  // namespace

void save_checkpoint(const std::string& path, const Checkpoint& checkpoint) {
    check_tensors(checkpoint.model, "model");
    check_tensors(checkpoint.optimizer, "optimizer");
    check_tensors(checkpoint.ema, "ema");
    const hdf5::QuietErrors silent;
    try {
        file::Temporary temporary(path);
        {
            store::OutputFile file(temporary.descriptor(), temporary.name());
            write_content(file, checkpoint);
            file.close();
        }
        temporary.commit();
    } catch (const store::Failure& failure) {
        throw_unwritable(path, failure.what());
    } catch (const std::system_error& error) {
        throw_unwritable(path, file::cause(error));
    }
}

Checkpoint load_checkpoint(const std::string& path) {
    return read(path, true);
}

Checkpoint peek_checkpoint(const std::string& path) {
    return read(path, false);
}

std::string model_sha256(const Checkpoint& checkpoint) {
    return hash_of(checkpoint.model);
}

bool is_checkpoint(hid_t file) {
    return H5Aexists(file, version_name) > 0;
}

bool is_checkpoint(const std::string& path) {
    return store::has_attribute(path, version_name);
}

std::vector<NamedTensor> load_checkpoint_model(hid_t file, const std::string& path) {
    try {
        check_version(file, path);
        std::vector<NamedTensor> tensors = read_group(file, "model", true);
        std::string stored;
        store::read_attribute(file, model_hash_name, stored);
        if (stored != hash_of(tensors)) throw_damaged(path);
        return tensors;
    } catch (const store::Failure& failure) {
        throw_unreadable(path, failure);
    }
}

}  // namespace tutti
