#include "tutti/model/parameter.hpp"

#include <array>
#include <cstring>

namespace tutti {
namespace {

std::array<std::size_t, Shape::max_rank> full_permutation(const ParameterSpec& spec) {
    std::array<std::size_t, Shape::max_rank> result{};
    for (std::size_t i = 0; i < spec.view.rank(); ++i)
        result[i] = spec.permutation.empty() ? i : spec.permutation[i];
    return result;
}

// Calls copy(arena element, file element) for every element, in the arena's order.
template <class Copy>
void for_each_element(const ParameterSpec& spec, Copy copy) {
    const std::size_t rank = spec.view.rank();
    const auto permutation = full_permutation(spec);
    std::array<std::int64_t, Shape::max_rank> file_stride{}, stride{}, size{}, index{};
    std::int64_t running = 1;
    for (std::size_t i = rank; i-- > 0;) {
        file_stride[i] = running;
        running *= spec.view[i];
    }
    for (std::size_t i = 0; i < rank; ++i) {
        size[i] = spec.view[permutation[i]];
        stride[i] = file_stride[permutation[i]];
    }
    std::int64_t file = 0;
    for (std::int64_t arena = 0; arena < running; ++arena) {
        copy(arena, file);
        for (std::size_t i = rank; i-- > 0;) {
            file += stride[i];
            if (++index[i] < size[i]) break;
            file -= size[i] * stride[i];
            index[i] = 0;
        }
    }
}

}  // namespace

Shape ParameterSpec::arena_shape() const {
    Shape result = view;
    const auto order = full_permutation(*this);
    for (std::size_t i = 0; i < view.rank(); ++i) result[i] = view[order[i]];
    return result;
}

void reorder_to_arena(const ParameterSpec& spec, std::size_t element_bytes, const std::byte* file,
                      std::byte* arena) {
    for_each_element(spec, [&](std::int64_t to, std::int64_t from) {
        std::memcpy(arena + static_cast<std::size_t>(to) * element_bytes,
                    file + static_cast<std::size_t>(from) * element_bytes, element_bytes);
    });
}

void reorder_to_file(const ParameterSpec& spec, std::size_t element_bytes, const std::byte* arena,
                     std::byte* file) {
    for_each_element(spec, [&](std::int64_t from, std::int64_t to) {
        std::memcpy(file + static_cast<std::size_t>(to) * element_bytes,
                    arena + static_cast<std::size_t>(from) * element_bytes, element_bytes);
    });
}

}  // namespace tutti
