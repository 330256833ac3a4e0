#include "vit_names.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace tutti {
namespace {

/// A name that begins with `from` begins with `to` instead.
struct Renaming {
    std::string_view from, to;
};

struct Library {
    std::array<std::string_view, 2> signs;   ///< names by which its transformers are known
    std::array<std::string_view, 2> blocks;  ///< what stands before the number of a layer
    std::span<const Renaming> outside, inside;
};

constexpr std::array torchvision_outside{Renaming{"class_token", "cls_token"},
                                         Renaming{"encoder.pos_embedding", "pos_embed"},
                                         Renaming{"conv_proj.", "patch_embed.proj."},
                                         Renaming{"encoder.ln.", "norm."}, Renaming{"heads.head.", "head."}};
constexpr std::array torchvision_inside{Renaming{"ln_1.", "norm1."},
                                        Renaming{"ln_2.", "norm2."},
                                        Renaming{"self_attention.in_proj_", "attn.qkv."},
                                        Renaming{"self_attention.out_proj.", "attn.proj."},
                                        Renaming{"mlp.0.", "mlp.fc1."},
                                        Renaming{"mlp.3.", "mlp.fc2."},
                                        Renaming{"mlp.linear_1.", "mlp.fc1."},
                                        Renaming{"mlp.linear_2.", "mlp.fc2."}};
constexpr std::array hugging_face_outside{
    Renaming{"embeddings.cls_token", "cls_token"}, Renaming{"embeddings.position_embeddings", "pos_embed"},
    Renaming{"embeddings.patch_embeddings.projection.", "patch_embed.proj."}, Renaming{"layernorm.", "norm."},
    Renaming{"classifier.", "head."}};
// The last five are the names within transformers 5, whose files have the others.
constexpr std::array hugging_face_inside{Renaming{"layernorm_before.", "norm1."},
                                         Renaming{"layernorm_after.", "norm2."},
                                         Renaming{"attention.attention.query.", "attn.query."},
                                         Renaming{"attention.attention.key.", "attn.key."},
                                         Renaming{"attention.attention.value.", "attn.value."},
                                         Renaming{"attention.output.dense.", "attn.proj."},
                                         Renaming{"intermediate.dense.", "mlp.fc1."},
                                         Renaming{"output.dense.", "mlp.fc2."},
                                         Renaming{"attention.q_proj.", "attn.query."},
                                         Renaming{"attention.k_proj.", "attn.key."},
                                         Renaming{"attention.v_proj.", "attn.value."},
                                         Renaming{"attention.o_proj.", "attn.proj."},
                                         Renaming{"mlp.", "mlp."}};

constexpr std::array libraries{
    Library{{"class_token", "conv_proj.weight"},
            {"encoder.layers.encoder_layer_"},
            torchvision_outside,
            torchvision_inside},
    Library{{"embeddings.cls_token", "embeddings.patch_embeddings.projection.weight"},
            {"encoder.layer.", "layers."},
            hugging_face_outside,
            hugging_face_inside}};

/// Before all but the head in ViTForImageClassification.
constexpr std::string_view wrapper = "vit.";

std::string_view unwrapped(std::string_view name) {
    return name.starts_with(wrapper) ? name.substr(wrapper.size()) : name;
}

const NamedTensor* find(std::span<const NamedTensor> tensors, std::string_view name) {
    const auto found = std::ranges::find(tensors, name, &NamedTensor::name);
    return found == tensors.end() ? nullptr : &*found;
}

bool has_signs(std::span<const NamedTensor> tensors, const Library& library) {
    return std::ranges::all_of(library.signs, [&](std::string_view sign) {
        return std::ranges::any_of(tensors, [=](const auto& one) { return unwrapped(one.name) == sign; });
    });
}

std::optional<std::string> replaced(std::string_view name, std::span<const Renaming> renamings) {
    for (const auto& [from, to] : renamings)
        if (name.starts_with(from)) return std::string(to).append(name.substr(from.size()));
    return std::nullopt;
}

std::string renamed(const std::string& name, const Library& library) {
    const std::string_view rest = unwrapped(name);
    for (const std::string_view block : library.blocks) {
        const auto dot = rest.find('.', block.size());
        if (block.empty() || !rest.starts_with(block) || dot == std::string_view::npos) continue;
        const auto inside = replaced(rest.substr(dot + 1), library.inside);
        const std::string_view number = rest.substr(block.size(), dot - block.size());
        return inside ? std::string("blocks.").append(number) + "." + *inside : name;
    }
    return replaced(rest, library.outside).value_or(name);
}

/// One tensor with the rows of query, key and value, where all three are there and alike.
void join_attention(std::vector<NamedTensor>& tensors) {
    constexpr std::string_view query = ".attn.query.";
    std::vector<NamedTensor> joined;
    for (const NamedTensor& first : tensors) {
        const auto at = first.name.find(query);
        if (at == std::string::npos || first.shape.rank() == 0) continue;
        const auto part = [&](std::string_view name) {
            return std::string(first.name).replace(at, query.size(), name);
        };
        NamedTensor all{part(".attn.qkv."), first.dtype, first.shape, first.bytes};
        all.shape[0] *= 3;
        for (const std::string_view name : {".attn.key.", ".attn.value."}) {
            const NamedTensor* const next = find(tensors, part(name));
            if (next && next->dtype == first.dtype && next->shape == first.shape)
                all.bytes.insert(all.bytes.end(), next->bytes.begin(), next->bytes.end());
        }
        if (all.bytes.size() == 3 * first.bytes.size()) joined.push_back(std::move(all));
    }
    std::erase_if(tensors, [&](const NamedTensor& one) {
        for (const std::string_view name : {".attn.query.", ".attn.key.", ".attn.value."}) {
            const auto at = one.name.find(name);
            if (at != std::string::npos &&
                find(joined, std::string(one.name).replace(at, name.size(), ".attn.qkv.")))
                return true;
        }
        return false;
    });
    std::ranges::move(joined, std::back_inserter(tensors));
}

}  // namespace

void take_timms_names(std::vector<NamedTensor>& tensors) {
    const auto library =
        std::ranges::find_if(libraries, [&](const Library& one) { return has_signs(tensors, one); });
    if (library == libraries.end()) return;
    for (NamedTensor& tensor : tensors) tensor.name = renamed(tensor.name, *library);
    join_attention(tensors);
}

}  // namespace tutti
