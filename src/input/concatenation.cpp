#include "concatenation.hpp"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

/// Several data sets one after the other.
class Concatenation final : public Dataset {
  public:
    explicit Concatenation(std::vector<std::unique_ptr<Dataset>> parts) : parts_(std::move(parts)) {
        info_ = parts_.front()->info();
        info_.samples = 0;
        for (const std::unique_ptr<Dataset>& part : parts_) {
            begins_.push_back(info_.samples);
            info_.samples += part->info().samples;
            if (info_.class_names.empty()) info_.class_names = part->info().class_names;
            if (info_.target_names.empty()) info_.target_names = part->info().target_names;
            if (info_.feature_names.empty()) info_.feature_names = part->info().feature_names;
            info_.classes = std::max(info_.classes, part->info().classes);  // those that state it agree
            info_.frames = std::max(info_.frames, part->info().frames);
            const DatasetInfo& first = parts_.front()->info();
            if (info_.other_normalisation.empty() &&
                (part->info().mean != first.mean || part->info().std != first.std))
                info_.other_normalisation =
                    part->name() + " says another mean and std, or none, than " + parts_.front()->name() +
                    ", whose are taken for all; set data.normalize, or pack them alike";
        }
        // Part by part, so that no more than one part's are there twice.
        targets_.reserve(static_cast<std::size_t>(info_.samples * info_.targets));
        for (const std::unique_ptr<Dataset>& part : parts_) {
            const std::vector<float> targets = part->hand_over_targets();
            targets_.insert(targets_.end(), targets.begin(), targets.end());
        }
    }

    const DatasetInfo& info() const override { return info_; }

    std::string name() const override {
        constexpr std::size_t most_named = 4;
        std::string names = parts_.front()->name();
        if (parts_.size() > most_named)
            return names + " and " + std::to_string(parts_.size() - 1) + " more files";
        for (std::size_t part = 1; part < parts_.size(); ++part) names += ", " + parts_[part]->name();
        return names;
    }

    void read(std::span<const std::int64_t> indices, std::span<std::byte> samples,
              std::span<std::int64_t> labels) const override {
        const auto bytes = static_cast<std::size_t>(info_.sample_bytes());
        assert(samples.size() == indices.size() * bytes && labels.size() == indices.size());
        // In shuffled order a part is read a sample or two at a time; a disk would have no more to do at
        // once.
        if (waits_for_disk()) announce(indices);
        for_each_part(indices,
                      [&](const Dataset& part, std::span<const std::int64_t> local, std::size_t begin) {
                          part.read(local, samples.subspan(begin * bytes, local.size() * bytes),
                                    labels.subspan(begin, local.size()));
                      });
    }

    void read_labels(std::span<const std::int64_t> indices, std::span<std::int64_t> labels) const override {
        assert(labels.size() == indices.size());
        for_each_part(indices,
                      [&](const Dataset& part, std::span<const std::int64_t> local, std::size_t begin) {
                          part.read_labels(local, labels.subspan(begin, local.size()));
                      });
    }

    std::span<const float> targets() const override { return targets_; }

    void bring_in(BringInPatience& patience) const override {
        for (const std::unique_ptr<Dataset>& part : parts_) part->bring_in(patience);
    }

    std::uint64_t mapped_bytes() const override {
        std::uint64_t sum = 0;
        for (const std::unique_ptr<Dataset>& part : parts_) sum += part->mapped_bytes();
        return sum;
    }

    std::uint64_t brought_in_bytes() const override {
        std::uint64_t sum = 0;
        for (const std::unique_ptr<Dataset>& part : parts_) sum += part->brought_in_bytes();
        return sum;
    }

    bool waits_for_disk() const override {
        return std::ranges::any_of(
            parts_, [](const std::unique_ptr<Dataset>& part) { return part->waits_for_disk(); });
    }

    bool reads_alone() const override {
        return std::ranges::any_of(parts_,
                                   [](const std::unique_ptr<Dataset>& part) { return part->reads_alone(); });
    }

    void announce(std::span<const std::int64_t> indices) const override {
        for_each_part(indices, [](const Dataset& part, std::span<const std::int64_t> local, std::size_t) {
            if (part.waits_for_disk()) part.announce(local);
        });
    }

    /// Every sample is as likely to be read as any other.
    void expect_reads(double samples) override {
        const double share = samples / static_cast<double>(std::max<std::int64_t>(info_.samples, 1));
        for (const std::unique_ptr<Dataset>& part : parts_)
            part->expect_reads(share * static_cast<double>(part->info().samples));
    }

  private:
    /// Calls visit(part, its own indices, where they begin in `indices`) for each run of indices in one part.
    template <class Visit>
    void for_each_part(std::span<const std::int64_t> indices, Visit visit) const {
        std::vector<std::int64_t> local(indices.size());
        for (std::size_t begin = 0, end = 0; begin < indices.size(); begin = end) {
            const std::size_t part = part_of(indices[begin]);
            for (end = begin; end < indices.size() && part_of(indices[end]) == part; ++end)
                local[end] = indices[end] - begins_[part];
            visit(*parts_[part], std::span<const std::int64_t>(local).subspan(begin, end - begin), begin);
        }
    }

    /// Empty parts begin where their successor begins: the last part that begins at or before the index has
    /// it.
    std::size_t part_of(std::int64_t index) const {
        if (index < 0 || index >= info_.samples)
            throw DataError(name() + ": there is no sample " + std::to_string(index) + ", the files have " +
                            std::to_string(info_.samples));
        return static_cast<std::size_t>(std::upper_bound(begins_.begin(), begins_.end(), index) -
                                        begins_.begin() - 1);
    }

    std::vector<std::unique_ptr<Dataset>> parts_;
    std::vector<std::int64_t> begins_;
    std::vector<float> targets_;
    DatasetInfo info_;
};

}  // namespace

std::unique_ptr<Dataset> concatenate(std::vector<std::unique_ptr<Dataset>> parts) {
    return std::make_unique<Concatenation>(std::move(parts));
}

}  // namespace tutti
