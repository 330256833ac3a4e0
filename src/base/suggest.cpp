#include "tutti/base/suggest.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <set>
#include <utility>
#include <vector>

namespace tutti {
namespace {

/// Optimal string alignment: insert, delete, replace, or swap two neighbours, each at cost 1. Three rows of
/// the usual table are enough, because a swap looks back two rows.
std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
            row[j] = std::min({last[j] + 1, row[j - 1] + 1, replace});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = std::min(row[j], before_last[j - 2] + 1);
        }
        std::swap(before_last, last);
        std::swap(last, row);
    }
    return last[b.size()];
}

/// "AdamW" and "adamw", "--batch_size" and "--batch-size" are one word to people.
std::string folded(std::string_view word) {
    std::string result(word);
    for (char& c : result) {
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
        if (c == '_') c = '-';
    }
    return result;
}

}  // namespace

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
    // Of two letters any other word of two letters is two edits away.
    std::size_t best_distance = (word.size() <= 3 ? 1 : std::max<std::size_t>(2, word.size() / 3)) + 1;
    std::string best;
    const std::string given = folded(word);
    for (const std::string& candidate : candidates) {
        const std::string other = folded(candidate);
        const std::size_t distance = edit_distance(given, other);
        // Of "resnet", lenet is no nearer than resnet18, which says what was meant.
        const bool goes_on = distance == best_distance && !best.empty() && other.starts_with(given) &&
                             !folded(best).starts_with(given);
        if (distance < best_distance || goes_on) {
            best_distance = distance;
            best = candidate;
        }
    }
    return best;
}

std::string nearest_part(std::string_view word, std::span<const std::string> names) {
    std::set<std::string> parts;
    for (const std::string& name : names) {
        parts.insert(name);
        for (auto dot = name.find('.'); dot != std::string::npos; dot = name.find('.', dot + 1))
            parts.insert(name.substr(0, dot));
    }
    return nearest(word, std::vector<std::string>(parts.begin(), parts.end()));
}

bool same_but_for_spelling(std::string_view a, std::string_view b) {
    return folded(a) == folded(b);
}

std::string nearest_in_meaning(std::string_view word, std::span<const std::string> candidates) {
    // A smooth L1 with beta 1, its default, is huber.
    static constexpr std::array<std::pair<std::string_view, std::string_view>, 19> elsewhere = {{
        {"fp16", "bf16"},         {"float16", "bf16"},    {"half", "bf16"},      {"gpu", "cuda"},
        {"gpus", "cuda"},         {"float", "fp32"},      {"float32", "fp32"},   {"tensorfloat32", "tf32"},
        {"bfloat16", "bf16"},     {"double", "fp64"},     {"float64", "fp64"},   {"fsdp", "zero1"},
        {"zero", "zero1"},        {"deepspeed", "zero1"}, {"mae", "l1"},         {"ce", "cross_entropy"},
        {"nll", "cross_entropy"}, {"smooth-l1", "huber"}, {"smoothl1", "huber"},
    }};
    std::string given = folded(word);
    // MSELoss, huber_loss: a class or a function of PyTorch.
    for (const std::string_view end : {"loss", "-"})
        if (given.size() > end.size() && given.ends_with(end)) given.resize(given.size() - end.size());
    for (const std::string& candidate : candidates)
        if (folded(candidate) == given) return candidate;
    for (const auto& [name, ours] : elsewhere)
        if (name == given && std::find(candidates.begin(), candidates.end(), ours) != candidates.end())
            return std::string(ours);
    return nearest(word, candidates);
}

std::string key_called(std::string_view name) {
    // Of PyTorch's examples, Lightning, Hugging Face, timm and DeepSpeed.
    static constexpr std::array<std::pair<std::string_view, std::string_view>, 64> elsewhere = {{
        {"accum-iter", "train.accumulate"},
        {"accumulate-grad-batches", "train.accumulate"},
        {"accumulation-steps", "train.accumulate"},
        {"grad-accum-steps", "train.accumulate"},
        {"gradient-accumulation", "train.accumulate"},
        {"gradient-accumulation-steps", "train.accumulate"},
        {"amp", "train.precision"},
        {"fp16", "train.precision"},
        {"use-amp", "train.precision"},
        {"mixed-precision", "train.precision"},
        {"bs", "train.batch_size"},
        {"micro-batch-size", "train.batch_size"},
        {"per-device-train-batch-size", "train.batch_size"},
        {"train-batch-size", "train.batch_size"},
        {"max-epochs", "train.epochs"},
        {"num-epochs", "train.epochs"},
        {"num-train-epochs", "train.epochs"},
        {"log-interval", "train.log_every"},
        {"logging-steps", "train.log_every"},
        {"print-freq", "train.log_every"},
        {"eval-interval", "train.eval_every"},
        {"eval-steps", "train.eval_every"},
        {"val-check-interval", "train.eval_every"},
        {"save-steps", "train.checkpoint.every"},
        {"label-smooth", "train.label_smoothing"},
        {"smoothing", "train.label_smoothing"},
        {"clip-grad", "optim.clip_norm"},
        {"clip-grad-norm", "optim.clip_norm"},
        {"grad-clip", "optim.clip_norm"},
        {"gradient-clip-val", "optim.clip_norm"},
        {"gradient-clipping", "optim.clip_norm"},
        {"max-grad-norm", "optim.clip_norm"},
        {"max-norm", "optim.clip_norm"},
        {"freeze", "model.freeze"},
        {"bn-eval", "model.freeze_statistics"},
        {"freeze-backbone", "model.freeze_except"},
        {"freeze-batch-norm", "model.freeze_statistics"},
        {"freeze-bn", "model.freeze_statistics"},
        {"freeze-encoder", "model.freeze_except"},
        {"freeze-layers", "model.freeze"},
        {"frozen", "model.freeze"},
        {"frozen-bn", "model.freeze_statistics"},
        {"linear-probe", "model.freeze_except"},
        {"requires-grad", "model.freeze"},
        {"trainable", "model.freeze_except"},
        {"learning-rate", "optim.lr"},
        {"wd", "optim.weight_decay"},
        {"dataloader-num-workers", "data.workers"},
        {"num-workers", "data.workers"},
        {"prefetch-factor", "data.prefetch"},
        {"arch", "model.name"},
        {"architecture", "model.name"},
        {"n-classes", "model.classes"},
        {"nb-classes", "model.classes"},
        {"num-classes", "model.classes"},
        {"pretrained", "model.init_from"},
        {"output-dir", "run.dir"},
        {"save-dir", "run.dir"},
        {"work-dir", "run.dir"},
        {"resume-from-checkpoint", "run.resume"},
        {"bucket-cap-mb", "distributed.bucket_mb"},
        {"sync-batchnorm", "distributed.sync_batch_norm"},
        {"sync-bn", "distributed.sync_batch_norm"},
        {"syncbn", "distributed.sync_batch_norm"},
    }};
    const std::string given = folded(name);
    const auto found = std::ranges::find(elsewhere, given, &decltype(elsewhere)::value_type::first);
    return found == elsewhere.end() ? std::string() : std::string(found->second);
}

}  // namespace tutti
