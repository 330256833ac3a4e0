#pragma once
// What the parts of the fake cuDNN share.

#include <cudnn.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tutti::fake_gpu {

/// A descriptor of the backend API with the attributes that were set.
struct Descriptor {
    explicit Descriptor(cudnnBackendDescriptorType_t kind) : type(kind) {}
    cudnnBackendDescriptorType_t type;
    bool finalized = false;
    std::map<int, std::vector<std::byte>> values;
    std::map<int, std::vector<std::shared_ptr<Descriptor>>> children;
    std::int64_t engine = -1;

    bool has(int name) const { return values.count(name) || children.count(name); }
    template <class T>
    std::vector<T> all(int name) const {
        const std::vector<std::byte>& bytes = values.at(name);
        std::vector<T> result(bytes.size() / sizeof(T));
        std::memcpy(result.data(), bytes.data(), result.size() * sizeof(T));
        return result;
    }
    const Descriptor& child(int name) const { return *children.at(name).at(0); }
};

/// Whether the graph computes attention, and if so, whether the real engines would (their heads' width is a
/// multiple of 8).
bool is_attention(const Descriptor& graph);
bool has_attention_engine(const Descriptor& graph);
/// What the record says of it.
std::string name_of_attention(const Descriptor& graph);
/// Computes the graph. False when a tensor of it has no memory, or is not aligned as it was said to be.
bool compute_attention(const Descriptor& graph, const Descriptor& pack);

}  // namespace tutti::fake_gpu
