#include "tutti/train/weights_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <set>
#include <string_view>
#include <system_error>

#include "hdf5_tensors.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/path_type.hpp"
#include "tutti/input/dataset.hpp"
#include "tutti/model/graph.hpp"
#include "tutti/train/checkpoint.hpp"
#include "tutti/train/prediction_file.hpp"
#include "vit_names.hpp"
#include "weights_formats.hpp"

namespace tutti {
namespace {

/// The HDF5 signature stands at byte 0, or after a user block at 512, 1024, 2048, … (HDF5 File Format
/// Specification 3.0, "Superblock").
bool has_hdf5_signature(std::ifstream& file, std::uintmax_t size) {
    constexpr std::string_view signature("\x89HDF\r\n\x1a\n", 8);
    std::array<char, signature.size()> found{};
    for (std::uintmax_t at = 0; at + found.size() <= size; at = at == 0 ? 512 : at * 2) {
        file.seekg(static_cast<std::streamoff>(at));
        file.read(found.data(), static_cast<std::streamsize>(found.size()));
        if (std::string_view(found.data(), found.size()) == signature) return true;
    }
    return false;
}

/// What an HDF5 file of this program is that holds no weights; else nothing.
std::string kind_without_weights(const std::string& path) {
    return is_dataset_file(path)      ? "a data set of samples"
           : is_prediction_file(path) ? "a file of predictions"
                                      : "";
}

/// What DistributedDataParallel and torch.compile put before the names of the model that they wrap, in any
/// order.
void unwrap(std::vector<NamedTensor>& tensors) {
    const auto take_off = [&](std::string_view wrapper) {
        if (!std::ranges::all_of(tensors, [&](const auto& one) { return one.name.starts_with(wrapper); }))
            return false;
        for (NamedTensor& one : tensors) one.name.erase(0, wrapper.size());
        return true;
    };
    while (take_off("module.") || take_off("_orig_mod.")) {
    }
}

}  // namespace

void refuse_common_prefix(std::span<const NamedTensor> tensors, const Graph& model, const std::string& file) {
    if (tensors.empty()) return;
    std::set<std::string_view> known;
    for (const auto* parameters : {&model.parameters(), &model.frozen_parameters()})
        for (const Parameter& one : *parameters) known.insert(one.name);
    const std::string& first = tensors.front().name;
    for (std::size_t dot = first.find('.'); dot != std::string::npos; dot = first.find('.', dot + 1)) {
        const std::string prefix = first.substr(0, dot + 1);
        if (!std::ranges::all_of(tensors, [&](const auto& one) { return one.name.starts_with(prefix); }))
            return;
        std::size_t found = 0, as_they_are = 0;
        for (const NamedTensor& one : tensors) {
            found += known.count(std::string_view(one.name).substr(prefix.size()));
            as_they_are += known.count(one.name);
        }
        if (as_they_are > 0 || 2 * found < known.size()) continue;
        throw DataError(
            fmt::format("{} does not fit the model: its names begin with \"{}\", as what wraps a model saves "
                        "them",
                        file, prefix),
            fmt::format("take that away, in Python: state_dict = {{name.removeprefix(\"{}\"): tensor for "
                        "name, tensor in state_dict.items()}}",
                        prefix));
    }
}

bool is_exported_file(const std::string& path) {
    return weights::is_safetensors(path) || weights::is_exported_hdf5(path);
}

TrainedOn read_trained_on(const std::string& path) {
    try {
        if (is_checkpoint(path)) {
            Checkpoint checkpoint = peek_checkpoint(path);
            return {std::move(checkpoint.normalisation), std::move(checkpoint.training_data)};
        }
        if (weights::is_exported_hdf5(path)) return weights::trained_on_of_hdf5(path);
        if (weights::is_safetensors(path)) return weights::trained_on_of_safetensors(path);
    } catch (const DataError&) {  // what is wrong, those say who read the weights
    } catch (const store::Failure&) {
    }
    return {};
}

std::vector<NamedTensor> read_weights(const std::string& path) {
    const auto type = type_of_path(path);
    if (type == std::filesystem::file_type::not_found)
        throw DataError("weights file " + path + " does not exist", "check the path");
    if (type == std::filesystem::file_type::directory)
        throw DataError("weights file " + path + " is a directory", "name a file in it");
    std::ifstream file(path, std::ios::binary);
    if (!file) throw DataError("weights file " + path + " cannot be opened", "check its permissions");
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(path, error);
    if (error) throw DataError("weights file " + path + " cannot be read: " + error.message());
    if (size == 0) throw DataError("weights file " + path + " is empty", "write it again");
    const bool is_hdf5 = has_hdf5_signature(file, size);
    // Their numbers would pass for tensors.
    if (const std::string kind = is_hdf5 ? kind_without_weights(path) : ""; !kind.empty())
        throw DataError("weights file " + path + " is " + kind + ", not weights",
                        "give a checkpoint (RUN_DIR/checkpoints/step-….h5), safetensors, or HDF5 with a "
                        "tensor for each parameter");
    auto tensors = is_hdf5 ? weights::read_hdf5(path) : weights::read_safetensors(path);
    if (tensors.empty())
        throw DataError("weights file " + path + " holds no tensor that can be a weight",
                        "it needs one data set of numbers for each parameter");
    unwrap(tensors);
    take_timms_names(tensors);
    std::sort(tensors.begin(), tensors.end(), [](auto& a, auto& b) { return a.name < b.name; });
    const auto twice =
        std::adjacent_find(tensors.begin(), tensors.end(), [](auto& a, auto& b) { return a.name == b.name; });
    if (twice != tensors.end())
        throw DataError("weights file " + path + " has two tensors with the name " + twice->name,
                        "rename or remove one");
    return tensors;
}

}  // namespace tutti
