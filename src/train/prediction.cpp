#include "tutti/train/prediction.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "sample_metrics.hpp"
#include "tutti/base/bf16.hpp"
#include "tutti/base/stop_signal.hpp"

namespace tutti {
namespace {

/// A block is what one rank contributes to an all-gather: a word that says whether it has failed, then rows.
constexpr std::size_t block_header = sizeof(std::int64_t);

/// Bytes of one row on its way: label and prediction, or targets; place on the earth; logits or outputs,
/// embedding.
struct RowLayout {
    explicit RowLayout(const PredictionFormat& format)
        : numbers(format.outputs > 0 ? 0 : 2 * sizeof(std::int64_t)),
          targets(static_cast<std::size_t>(format.targets) * sizeof(float)),
          earth(static_cast<std::size_t>(format.earth) * sizeof(double)),
          given(static_cast<std::size_t>(format.outputs + format.logits) * size_of(format.dtype)),
          embedding(static_cast<std::size_t>(format.embedding) * size_of(format.dtype)) {}

    std::size_t numbers, targets, earth, given, embedding;
    std::size_t bytes() const { return (numbers + targets + earth + given + embedding + 7) / 8 * 8; }
};

/// The first maximum; no_class where that is not finite, as in the accuracy (Ops::rank_labels).
template <class T>
std::int64_t first_maximum(const T* row, std::int64_t count) {
    if (std::any_of(row, row + count, [](T logit) { return std::isnan(logit); })) return no_class;
    const T* const best = std::max_element(row, row + count);
    return std::isfinite(*best) ? best - row : no_class;
}

class Pass {
  public:
    explicit Pass(const PredictionJob& job)
        : job_(job),
          layout_(job.format),
          ranks_(static_cast<std::size_t>(job.communicator.size())),
          outputs_(job.graph.output_shape().count()) {
        const auto largest = static_cast<std::size_t>(job.batch_size);
        piece_ = std::clamp<std::size_t>(job.gather_bytes / (ranks_ * layout_.bytes()), 1, largest);
        rows_.resize(largest * layout_.bytes());
        block_.resize(block_header + piece_ * layout_.bytes());
        all_.resize(ranks_ * block_.size());
        given_.resize(largest * static_cast<std::size_t>(outputs_) * size_of(job.format.dtype));
        embeddings_.resize(largest * layout_.embedding);
    }

    PredictionCounts run() {
        const std::int64_t samples = job_.dataset.info().samples;
        std::vector<std::int64_t> order(static_cast<std::size_t>(samples));
        std::iota(order.begin(), order.end(), std::int64_t{0});
        const std::vector<BatchWindow> windows = epoch_windows({.cursor = 0,
                                                                .limit = samples,
                                                                .batch_size = job_.batch_size,
                                                                .world_size = job_.communicator.size(),
                                                                .rank = job_.communicator.rank()});
        job_.stage.start(job_.loader, std::move(order), windows);
        for (const BatchWindow& window : windows) {
            compute();
            gather(window);
        }
        // What the last rows met on rank 0 has not travelled yet.
        agree(job_.communicator, failure_, "writing the predictions");
        std::array<std::int64_t, 2> counts{correct_, not_finite_};
        job_.communicator.all_reduce(view_of(std::span(counts)), ReduceOp::sum).wait();
        return {samples, counts[0], counts[1]};
    }

  private:
    void compute() {
        try {
            if (StopSignal::pending() != 0)
                throw RunError("stopped by signal " + std::to_string(StopSignal::pending()) + " after " +
                                   std::to_string(written_) + " of " + std::to_string(job_.format.samples) +
                                   " rows",
                               "nothing was written; start it again");
            const auto batch = job_.stage.next(job_.loader);
            if (!batch || batch->window.count == 0) return;
            const std::int64_t n = batch->window.count;
            StepContext step{Phase::evaluate, job_.seed, 0, {}};
            step.positions = batch->positions;
            job_.stage.load(*batch, job_.graph.input(n));
            const TensorView outputs = job_.graph.forward(n, step);
            job_.stage.fetch_ahead(job_.loader);
            take(outputs, given_);
            if (layout_.embedding > 0) take(job_.graph.value(job_.embedding->node, n), embeddings_);
            for (std::int64_t i = 0; i < n; ++i) write_row(static_cast<std::size_t>(i), *batch);
        } catch (const Error& error) {
            fail(error);
        }
    }

    /// As the file's type: what the device keeps in bf16 is widened.
    void take(const TensorView& values, std::vector<std::byte>& host) {
        assert(static_cast<std::size_t>(values.count()) * size_of(job_.format.dtype) <= host.size());
        if (values.dtype == job_.format.dtype) return job_.device.copy_to_host(host.data(), values);
        assert(values.dtype == DType::bf16 && job_.format.dtype == DType::f32);
        narrow_.resize(static_cast<std::size_t>(values.count()));
        job_.device.copy_to_host(narrow_.data(), values);
        std::ranges::transform(narrow_, reinterpret_cast<float*>(host.data()), float_of_bf16);
    }

    void write_row(std::size_t i, const HostBatch& batch) {
        const std::size_t given_bytes = static_cast<std::size_t>(outputs_) * size_of(job_.format.dtype);
        const std::byte* given = given_.data() + i * given_bytes;
        std::byte* row = rows_.data() + i * layout_.bytes();
        bool finite = true;
        if (layout_.numbers > 0) {
            const std::int64_t prediction =
                job_.format.dtype == DType::f64
                    ? first_maximum(reinterpret_cast<const double*>(given), outputs_)
                    : first_maximum(reinterpret_cast<const float*>(given), outputs_);
            const std::array<std::int64_t, 2> numbers{
                job_.dataset.info().labelled ? batch.labels[i] : unknown_label, prediction};
            std::memcpy(row, numbers.data(), layout_.numbers);
            finite = prediction != no_class;
        } else {
            with_type([&]<class T>(T) {
                const auto* const values = reinterpret_cast<const T*>(given);
                finite = std::all_of(values, values + outputs_, [](T value) { return std::isfinite(value); });
            });
        }
        not_finite_ += finite ? 0 : 1;
        row += layout_.numbers;
        if (layout_.targets > 0)
            std::memcpy(row, batch.targets.data() + i * static_cast<std::size_t>(job_.format.targets),
                        layout_.targets);
        row += layout_.targets;
        if (job_.location || job_.segments || layout_.earth > 0) {
            const Decoded decoded = decode(given);
            if (layout_.earth > 0) {
                const std::array<double, 3> earth = on_earth(decoded.place, batch, i);
                std::memcpy(row, earth.data(), layout_.earth);
            }
            write_values(decoded.values, row + layout_.earth);
        } else if (layout_.given > 0) {
            std::memcpy(row, given, layout_.given);
        }
        row += layout_.earth + layout_.given;
        if (layout_.embedding > 0)
            reorder_to_file(job_.embedding->row, size_of(job_.format.dtype),
                            embeddings_.data() + i * layout_.embedding, row);
    }

    /// What the file holds of a sample: its outputs, or what is decoded from the heat map, or from the
    /// seconds, in their place.
    struct Decoded {
        std::vector<double> values;
        SamplePlace place{};  ///< where the outputs are one
    };
    Decoded decode(const std::byte* given) const {
        std::vector<double> outputs;
        with_type([&]<class T>(T) {
            const auto* const values = reinterpret_cast<const T*>(given);
            outputs.assign(values, values + outputs_);
        });
        if (job_.segments)
            return {values_of(decode_segments(outputs, *job_.segments),
                              static_cast<std::size_t>(job_.format.outputs))};
        if (job_.location) {
            const Location location = find_location(outputs, job_.graph.output_shape(), *job_.location);
            const auto values = values_of(location);
            return {{values.begin(), values.end()}, location.place()};
        }
        const SamplePlace place{outputs.front(), outputs.back()};  // of two
        return {std::move(outputs), place};
    }
    void write_values(const std::vector<double>& values, std::byte* row) const {
        with_type([&]<class T>(T) {
            for (const double value : values) {
                const T written = static_cast<T>(value);
                std::memcpy(row, &written, sizeof written);
                row += sizeof written;
            }
        });
    }
    /// action(0 of the file's type)
    template <class Action>
    void with_type(const Action& action) const {
        if (job_.format.dtype == DType::f64)
            action(double{});
        else
            action(float{});
    }

    /// earth_columns of the place that is predicted for a sample of the batch.
    std::array<double, 3> on_earth(const SamplePlace& place, const HostBatch& batch, std::size_t i) const {
        constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
        const auto position_of = [&](const SamplePlace& at) {
            return job_.geography->position(batch.indices[i], at).value_or(EarthPosition());
        };
        const EarthPosition predicted = position_of(place);
        std::array<double, 3> columns{predicted.latitude, predicted.longitude, unknown};
        if (layout_.targets == 0) return columns;
        std::span<const float> target = batch.targets.subspan(
            i * static_cast<std::size_t>(job_.format.targets), static_cast<std::size_t>(job_.format.targets));
        if (job_.location) {
            if (!is_present(target)) return columns;
            target = target.subspan(1);  // behind presence
        }
        const SamplePlace truth{static_cast<double>(target[0]), static_cast<double>(target[1])};
        columns[2] = great_circle_km(predicted, position_of(truth));
        return columns;
    }

    /// Row j of a global batch is slot j / R of rank j mod R, so equal slots of all ranks are neighbours in
    /// the file, and a piece of the slots is a run of rows.
    void gather(const BatchWindow& window) {
        const auto rows = static_cast<std::size_t>(window.end - window.begin);
        const std::size_t slots = (rows + ranks_ - 1) / ranks_;
        for (std::size_t slot = 0; slot < slots; slot += piece_) {
            const std::size_t count = std::min(piece_, slots - slot);
            const std::size_t block = block_header + count * layout_.bytes();
            const std::int64_t failed = failure_.code == ExitCode::done ? 0 : 1;
            std::memcpy(block_.data(), &failed, block_header);
            std::memcpy(block_.data() + block_header, rows_.data() + slot * layout_.bytes(),
                        count * layout_.bytes());
            const auto bytes = [](std::vector<std::byte>& memory, std::size_t size) {
                return TensorView{memory.data(), DType::u8, {static_cast<std::int64_t>(size)}};
            };
            job_.communicator.all_gather(bytes(block_, block), bytes(all_, ranks_ * block)).wait();
            for (std::size_t rank = 0; rank < ranks_; ++rank) {
                std::int64_t one = 0;
                std::memcpy(&one, all_.data() + rank * block, block_header);
                if (one != 0) agree(job_.communicator, failure_, "predicting");
            }
            if (job_.writer) append(block, std::min(rows - slot * ranks_, count * ranks_));
        }
    }

    void append(std::size_t block, std::size_t rows) {
        labels_.clear();
        predictions_.clear();
        file_targets_.resize(rows * layout_.targets);
        file_earth_.resize(rows * layout_.earth);
        file_given_.resize(rows * layout_.given);
        file_embeddings_.resize(rows * layout_.embedding);
        for (std::size_t j = 0; j < rows; ++j) {
            const std::byte* row =
                all_.data() + j % ranks_ * block + block_header + j / ranks_ * layout_.bytes();
            if (layout_.numbers > 0) {
                std::array<std::int64_t, 2> numbers{};
                std::memcpy(numbers.data(), row, layout_.numbers);
                labels_.push_back(numbers[0]);
                predictions_.push_back(numbers[1]);
                correct_ += numbers[0] == numbers[1] && numbers[1] != no_class ? 1 : 0;
            }
            row += layout_.numbers;
            if (layout_.targets > 0)
                std::memcpy(file_targets_.data() + j * layout_.targets, row, layout_.targets);
            row += layout_.targets;
            if (layout_.earth > 0) std::memcpy(file_earth_.data() + j * layout_.earth, row, layout_.earth);
            row += layout_.earth;
            if (layout_.given > 0) std::memcpy(file_given_.data() + j * layout_.given, row, layout_.given);
            row += layout_.given;
            if (layout_.embedding > 0)
                std::memcpy(file_embeddings_.data() + j * layout_.embedding, row, layout_.embedding);
        }
        try {
            // They did not travel: rank 0 reads those of these rows.
            std::vector<std::string> paths;
            if (job_.format.has_paths)
                paths =
                    job_.paths->read(static_cast<std::int64_t>(written_), static_cast<std::int64_t>(rows));
            const std::span<const std::byte> given = file_given_, none;
            const bool regression = job_.format.outputs > 0;
            job_.writer->append({.count = rows,
                                 .labels = labels_,
                                 .predictions = predictions_,
                                 .logits = regression ? none : given,
                                 .embeddings = file_embeddings_,
                                 .outputs = regression ? given : none,
                                 .targets = file_targets_,
                                 .earth = file_earth_,
                                 .paths = paths});
            written_ += rows;
        } catch (const Error& error) {
            fail(error);
        }
    }

    /// The first reason stays; the peers hear of it with the next block.
    void fail(const Error& error) {
        if (failure_.code == ExitCode::done) failure_ = {error.code(), error.what()};
    }

    const PredictionJob& job_;
    const RowLayout layout_;
    const std::size_t ranks_;
    const std::int64_t outputs_;
    std::size_t piece_ = 1;  ///< slots of each rank that travel at once
    std::vector<std::byte> rows_, block_, all_, given_, embeddings_, file_given_, file_targets_, file_earth_,
        file_embeddings_;
    std::vector<std::uint16_t> narrow_;
    std::vector<std::int64_t> labels_, predictions_;
    std::int64_t correct_ = 0, not_finite_ = 0;  // of all, on rank 0; of this rank
    std::size_t written_ = 0;
    Failure failure_;
};

}  // namespace

PredictionCounts predict(const PredictionJob& job) {
    return Pass(job).run();
}

}  // namespace tutti
