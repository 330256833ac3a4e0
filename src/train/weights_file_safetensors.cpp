// Weights from safetensors files (https://github.com/huggingface/safetensors, "Format"): the length of the
// header as u64, the header (a JSON object: name -> dtype, shape, data_offsets), the data.

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "tutti/base/bf16.hpp"
#include "tutti/base/error.hpp"
#include "tutti/base/json_input.hpp"
#include "weights_formats.hpp"

namespace tutti::weights {
namespace {

constexpr std::uint64_t longest_header = 100'000'000;  // the limit of the reference implementation

/// How a dtype of the format is read.
enum class Rule { keep, from_bf16, from_f16, from_i32, skip };
struct Element {
    std::string_view name;
    std::uint64_t bytes;
    Rule rule;
    DType dtype;
};
constexpr std::array<Element, 13> elements{{{"F64", 8, Rule::keep, DType::f64},
                                            {"F32", 4, Rule::keep, DType::f32},
                                            {"BF16", 2, Rule::from_bf16, DType::f32},
                                            {"F16", 2, Rule::from_f16, DType::f32},
                                            {"I64", 8, Rule::keep, DType::i64},
                                            {"I32", 4, Rule::from_i32, DType::i64},
                                            {"U8", 1, Rule::keep, DType::u8},
                                            {"I8", 1, Rule::skip, DType::u8},
                                            {"BOOL", 1, Rule::skip, DType::u8},
                                            {"I16", 2, Rule::skip, DType::i64},
                                            {"U16", 2, Rule::skip, DType::i64},
                                            {"U32", 4, Rule::skip, DType::i64},
                                            {"U64", 8, Rule::skip, DType::i64}}};

/// One safetensors file; every complaint names it.
class Reader {
  public:
    explicit Reader(const std::string& path) : path_(path), file_(path, std::ios::binary | std::ios::ate) {
        if (!file_) refuse("cannot be opened", "check its permissions");
        size_ = static_cast<std::uint64_t>(file_.tellg());
    }

    /// Reads nothing but the header. Throws where it is something else.
    void check_format() { read_header(); }

    /// Nothing where there is none of that name.
    std::string metadata(const std::string& name) {
        const nlohmann::json header = read_header();
        const auto all = header.find("__metadata__");
        if (all == header.end() || !all->is_object() || !all->contains(name)) return {};
        const nlohmann::json& value = all->at(name);
        return value.is_string() ? value.get<std::string>() : std::string();
    }

    std::vector<NamedTensor> read() {
        std::vector<NamedTensor> tensors;
        const nlohmann::json header = read_header();
        for (const auto& [name, entry] : header.items()) {
            if (name == "__metadata__") continue;
            read_tensor(name, entry, tensors);
        }
        return tensors;
    }

  private:
    [[noreturn]] void refuse(const std::string& problem,
                             const std::string& remedy = "write the file again") const {
        throw DataError("weights file " + path_ + " " + problem, remedy);
    }
    [[noreturn]] void refuse_tensor(const std::string& name, const std::string& problem) const {
        throw DataError("weights file " + path_ + ", tensor " + name + ": " + problem,
                        "write the file again");
    }

    void read_bytes(std::uint64_t at, void* into, std::uint64_t count) {
        file_.seekg(static_cast<std::streamoff>(at));
        file_.read(static_cast<char*>(into), static_cast<std::streamsize>(count));
        if (!file_) refuse("cannot be read at byte " + std::to_string(at));
    }

    /// Of torch.save(): a pickle that names the classes of what was saved, then the tensors.
    [[noreturn]] void refuse_archive() {
        constexpr std::uint64_t longest_pickle = 16'000'000;
        std::string beginning(std::min(size_, longest_pickle), '\0');
        read_bytes(0, beginning.data(), beginning.size());
        const auto has = [&](const char* text) { return beginning.find(text) != std::string::npos; };
        const std::string convert = "convert it in Python: safetensors.torch.save_file(";
        if (has("pytorch-lightning_version"))
            refuse("is a checkpoint of Lightning, in a ZIP archive",
                   convert +
                       "{name.removeprefix('model.'): tensor for name, tensor in torch.load(FILE)"
                       "['state_dict'].items()}, OUT)");
        if (has("torch.nn.modules"))
            refuse("is a ZIP archive with a whole model, as torch.save(model) writes it",
                   convert +
                       "torch.load(FILE, weights_only=False).state_dict(), OUT), where its classes can "
                       "be imported");
        refuse("is a ZIP archive, as torch.save() writes them",
               convert +
                   "torch.load(FILE), OUT); where the file holds more than a state_dict, of the part "
                   "that is one, as torch.load(FILE)['model']");
    }

    nlohmann::json read_header() {
        std::array<char, 8> start{};
        read_bytes(0, start.data(), std::min<std::uint64_t>(size_, start.size()));
        if (std::string_view(start.data(), 4) == std::string_view("PK\3\4", 4)) refuse_archive();
        std::uint64_t length = 0;
        std::memcpy(&length, start.data(), sizeof length);
        const std::string neither = "is neither HDF5 nor safetensors";
        if (size_ < start.size()) refuse(neither + " (" + std::to_string(size_) + " bytes)");
        if (length > size_ - start.size() || length > longest_header)
            refuse(neither + ", or cut off (its header would have " + std::to_string(length) + " bytes)");
        std::string text(length, '\0');
        read_bytes(start.size(), text.data(), length);
        if (!text.starts_with('{')) refuse(neither + " (its header is not a JSON object)");
        data_ = start.size() + length;
        return parse_header(text, neither);
    }

    /// JSON objects with a key twice are legal, and the library would keep the last.
    nlohmann::json parse_header(const std::string& text, const std::string& neither) const {
        std::set<std::string> names;
        const auto watch = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& value) {
            if (depth == 1 && event == nlohmann::json::parse_event_t::key &&
                !names.insert(value.get<std::string>()).second)
                refuse("has two tensors with the name " + value.get<std::string>(), "rename or remove one");
            return true;
        };
        if (json_depth(text) > deepest_json) refuse(neither + " (its header is nested too deep)");
        try {
            return nlohmann::json::parse(text, watch);
        } catch (const nlohmann::json::exception& error) {
            refuse(neither + " (its header is not valid JSON: " + json_problem(error.what()) + ")");
        }
    }

    std::uint64_t number(const std::string& name, const nlohmann::json& value, const char* what) const {
        if (!value.is_number_unsigned())
            refuse_tensor(name, std::string(what) + " is not a whole number ≥ 0");
        return value.get<std::uint64_t>();
    }

    Shape shape_of(const std::string& name, const nlohmann::json& entry) const {
        const nlohmann::json dims = entry.value("shape", nlohmann::json());
        if (!dims.is_array()) refuse_tensor(name, "it has no shape");
        if (dims.size() > Shape::max_rank)
            refuse_tensor(name, "it has " + std::to_string(dims.size()) + " dimensions, more than " +
                                    std::to_string(Shape::max_rank));
        std::vector<std::int64_t> result;
        std::int64_t bytes = 8;
        for (const nlohmann::json& value : dims) {
            const std::uint64_t d = number(name, value, "a dimension");
            if (d > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()) ||
                __builtin_mul_overflow(bytes, static_cast<std::int64_t>(d), &bytes))
                refuse_tensor(name, "its size overflows");
            result.push_back(static_cast<std::int64_t>(d));
        }
        return Shape(std::span<const std::int64_t>(result));
    }

    const Element& element_of(const std::string& name, const nlohmann::json& entry) const {
        const nlohmann::json dtype = entry.value("dtype", nlohmann::json());
        if (!dtype.is_string()) refuse_tensor(name, "it has no dtype");
        const auto& text = dtype.get_ref<const std::string&>();
        for (const Element& element : elements)
            if (element.name == text) return element;
        throw DataError(
            "weights file " + path_ + ", tensor " + name + ": its type, " + text + ", is not supported",
            "store it as F32, F64, BF16 or F16");
    }

    void read_tensor(const std::string& name, const nlohmann::json& entry,
                     std::vector<NamedTensor>& tensors) {
        if (!entry.is_object()) refuse_tensor(name, "its entry in the header is not an object");
        const Element& element = element_of(name, entry);
        NamedTensor tensor;
        tensor.name = name;
        tensor.shape = shape_of(name, entry);
        const nlohmann::json offsets = entry.value("data_offsets", nlohmann::json());
        if (!offsets.is_array() || offsets.size() != 2) refuse_tensor(name, "it has no pair of data_offsets");
        const std::uint64_t begin = number(name, offsets[0], "a data offset");
        const std::uint64_t end = number(name, offsets[1], "a data offset");
        if (begin > end || end > size_ - data_)
            refuse_tensor(name, "its data, bytes " + std::to_string(begin) + " to " + std::to_string(end) +
                                    ", are not within the file's " + std::to_string(size_ - data_));
        const std::uint64_t expected = static_cast<std::uint64_t>(tensor.shape.count()) * element.bytes;
        if (end - begin != expected)
            refuse_tensor(name, "it has " + std::to_string(end - begin) + " bytes, but " +
                                    std::string(element.name) + " " + to_string(tensor.shape) + " needs " +
                                    std::to_string(expected));
        if (element.rule == Rule::skip) return;
        tensor.dtype = element.dtype;
        tensor.bytes.resize(expected);
        if (expected > 0) read_bytes(data_ + begin, tensor.bytes.data(), expected);
        if (element.rule == Rule::from_bf16)
            tensor.bytes = converted<std::uint16_t>(tensor.bytes, float_of_bf16);
        if (element.rule == Rule::from_f16) tensor.bytes = converted<std::uint16_t>(tensor.bytes, from_f16);
        if (element.rule == Rule::from_i32)
            tensor.bytes =
                converted<std::int32_t>(tensor.bytes, [](std::int32_t v) { return std::int64_t{v}; });
        tensors.push_back(std::move(tensor));
    }

    std::string path_;
    std::ifstream file_;
    std::uint64_t size_ = 0;
    std::uint64_t data_ = 0;  ///< where the data begin
};

}  // namespace

bool is_safetensors(const std::string& path) {
    try {
        Reader(path).check_format();
        return true;
    } catch (const DataError&) {
        return false;
    }
}

TrainedOn trained_on_of_safetensors(const std::string& path) {
    Reader reader(path);
    return {reader.metadata(normalisation_name), reader.metadata(training_data_name)};
}

std::vector<NamedTensor> read_safetensors(const std::string& path) {
    return Reader(path).read();
}

}  // namespace tutti::weights
