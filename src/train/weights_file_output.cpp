// Weights to files that other programs read.

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "hdf5_output.hpp"
#include "hdf5_tensors.hpp"
#include "tutti/base/atomic_file.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/lower_case.hpp"
#include "tutti/base/utf8.hpp"
#include "tutti/train/weights_file.hpp"
#include "weights_formats.hpp"

namespace tutti {
namespace {

std::string_view name_in_safetensors(DType dtype) {
    switch (dtype) {
        case DType::f32:
            return "F32";
        case DType::f64:
            return "F64";
        case DType::bf16:
            return "BF16";
        case DType::i64:
            return "I64";
        case DType::u8:
            return "U8";
    }
    return "";
}

template <class Visit>
void each_text(const TrainedOn& trained_on, Visit visit) {
    if (!trained_on.normalisation.empty()) visit(weights::normalisation_name, trained_on.normalisation);
    if (!trained_on.data.empty()) visit(weights::training_data_name, trained_on.data);
}

std::string safetensors_header(std::span<const NamedTensor> tensors, const TrainedOn& trained_on) {
    nlohmann::ordered_json header;
    header["__metadata__"] = {{"format", "pt"}};  // what the readers of PyTorch's weights look for
    each_text(trained_on,
              [&](const char* name, const std::string& text) { header["__metadata__"][name] = text; });
    std::size_t offset = 0;
    for (const NamedTensor& tensor : tensors) {
        if (!is_utf8(tensor.name))
            throw DataError("the name of the tensor " + as_utf8(tensor.name) +
                                " is not UTF-8, which a safetensors file must hold",
                            "rename it, or write HDF5: -o FILE.h5");
        const std::size_t end = offset + tensor.bytes.size();
        const std::vector<std::int64_t> shape(tensor.shape.begin(), tensor.shape.end());
        header[tensor.name] = {
            {"dtype", name_in_safetensors(tensor.dtype)}, {"shape", shape}, {"data_offsets", {offset, end}}};
        offset = end;
    }
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');  // the data begin at a multiple of 8
    return text;
}

void write_safetensors(int descriptor, std::span<const NamedTensor> tensors, const TrainedOn& trained_on) {
    const std::string header = safetensors_header(tensors, trained_on);
    std::string length(8, '\0');
    for (std::size_t i = 0; i < length.size(); ++i)
        length[i] = static_cast<char>(static_cast<std::uint64_t>(header.size()) >> (8 * i));
    file::write_all(descriptor, length + header);
    for (const NamedTensor& tensor : tensors)
        file::write_all(descriptor,
                        {reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()});
}

/// A slash leads to groups, of which readers make names with dots; a name ends at a zero byte.
void check_name_in_hdf5(const std::string& name) {
    using namespace std::string_view_literals;
    if (!name.empty() && name != "." && name.find_first_of("/\0"sv) == std::string::npos) return;
    throw DataError("the name of the tensor \"" + as_utf8(name.substr(0, name.find('\0'))) +
                        "\" is none of a data set in HDF5",
                    "rename it, or write safetensors: -o FILE.safetensors");
}

void write_hdf5(const file::Temporary& temporary, std::span<const NamedTensor> tensors,
                const TrainedOn& trained_on) {
    for (const NamedTensor& tensor : tensors) check_name_in_hdf5(tensor.name);
    store::OutputFile output(temporary.descriptor(), temporary.name());
    store::write_attribute(output.id(), weights::weights_version_name, weights::weights_version);
    // HDF5's limit of 64 KiB is one of files in the format before 1.8.
    each_text(trained_on, [&](const char* name, const std::string& text) {
        store::write_attribute(output.id(), name, text);
    });
    for (const NamedTensor& tensor : tensors) {
        store::write_tensor(output.id(), tensor.name, tensor);
        output.check();
    }
    output.close();
}

}  // namespace

void write_weights(const std::string& path, std::vector<NamedTensor> tensors, const TrainedOn& trained_on) {
    const std::string ending = lower_case(std::filesystem::path(path).extension().string());
    const bool safetensors = ending == ".safetensors";
    if (!safetensors && ending != ".h5" && ending != ".hdf5")
        throw UsageError("weights cannot be written to " + path, "end its name with .safetensors or .h5");
    std::sort(tensors.begin(), tensors.end(), [](auto& a, auto& b) { return a.name < b.name; });
    const auto fail = [&](const std::string& cause) {
        throw RunError("cannot write the weights " + path + ": " + cause,
                       "check the free space, quota and permissions there, or give another name");
    };
    const hdf5::QuietErrors silent;
    try {
        file::Temporary temporary(path);
        if (safetensors)
            write_safetensors(temporary.descriptor(), tensors, trained_on);
        else
            write_hdf5(temporary, tensors, trained_on);
        temporary.commit();
    } catch (const store::Failure& failure) {
        fail(failure.what());
    } catch (const std::system_error& error) {
        fail(file::cause(error));
    }
}

}  // namespace tutti
