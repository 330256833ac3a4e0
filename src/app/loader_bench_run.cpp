#include "loader_bench_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <map>
#include <set>

#include "files_in_memory.hpp"
#include "page_cache.hpp"
#include "provenance.hpp"
#include "sequential_read.hpp"
#include "transformed_data.hpp"
#include "tutti/base/error.hpp"
#include "tutti/comm/stop_vote.hpp"
#include "tutti/input/loader.hpp"
#include "tutti/train/objective.hpp"
#include "tutti/train/precision.hpp"

namespace tutti {
namespace {

constexpr std::int64_t bytes_of_a_round = std::int64_t{4} << 30;
constexpr std::int64_t large_block = std::int64_t{1} << 20;

/// One measurement of all ranks.
class LoaderBenchRun {
  public:
    LoaderBenchRun(const JobStart& start, const LoaderBenchOptions& options)
        : start_(start),
          options_(options),
          config_(read_training_config(start, options.recipe)),
          control_(start.timed_world(config_.distributed)),
          inputs_(open_training(start.over(*control_), config_, false)) {}

    LoaderReport run() {
        describe();
        add_rows(false);
        // The first pass brings the files into memory, if they fit there, and touches all buffers.
        for (std::size_t round = 0; round <= options_.rounds; ++round) measure_warm(round);
        // Pages that are mapped cannot be evicted.
        inputs_.train.reset();
        if (options_.cold_rounds > 0) add_rows(true);
        for (std::size_t round = 1; round <= options_.cold_rounds; ++round) measure_cold(round);
        return std::move(report_);
    }

  private:
    void describe() {
        const DatasetInfo& info = inputs_.train->info();
        const std::int64_t batch = config_.train.batch_size;
        const std::int64_t batch_bytes =
            std::max<std::int64_t>(batch * inputs_.train->stored_sample_bytes(), 1);
        const std::int64_t global = batch * control_->size();
        const std::int64_t epoch = (info.samples + global - 1) / global;
        report_.provenance = nlohmann::ordered_json::parse(
            provenance(*inputs_.device, inputs_.places, start_.environment, options_.recipe.overrides));
        report_.data = info;
        report_.stored_bytes = inputs_.train->stored_sample_bytes();
        for (const TransformSpec& spec : config_.data.transforms) report_.transforms.push_back(to_text(spec));
        report_.files = config_.data.train;
        report_.batch_size = batch;
        report_.prefetch = config_.data.prefetch;
        report_.batches =
            std::min(epoch, options_.batches > 0 ? options_.batches
                                                 : std::max<std::int64_t>(bytes_of_a_round / batch_bytes, 1));
        report_.rounds = options_.rounds;
        report_.cold_rounds = options_.cold_rounds;
        together(*control_, "preparing the sequential read", [&] {
            for (const std::int64_t block : {batch_bytes, std::max(batch_bytes, large_block)})
                sequential_.try_emplace(static_cast<std::uint64_t>(block), report_.files,
                                        static_cast<std::size_t>(block));
        });
    }

    void add_rows(bool cold) {
        for (auto way = sequential_.rbegin(); way != sequential_.rend(); ++way)
            report_.rows.push_back({.cold = cold, .shuffled = {}, .block = way->first, .seconds = {}});
        // Rank 0's, as ranks may have numbers of their own, and all make the same rows.
        std::array<std::int64_t, 1> of_config{loader_workers(config_.data)};
        control_->broadcast(view_of(std::span(of_config)), 0).wait();
        for (const bool shuffled : {true, false})
            for (const int workers : std::set<int>{0, 1, 2, static_cast<int>(of_config.front())})
                report_.rows.push_back(
                    {.cold = cold, .shuffled = shuffled, .workers = workers, .seconds = {}});
    }

    void check_stop(const char* state, std::size_t round, std::size_t rounds) {
        end_if_stopped(*control_, fmt::format("measuring {} round {} of {}", state, round, rounds));
        start_.log.progress(fmt::format("{} round {} of {}", state, round, rounds));
    }

    std::uint64_t sum_of(std::int64_t mine) {
        control_->all_reduce(view_of(std::span(&mine, 1)), ReduceOp::sum).wait();
        return static_cast<std::uint64_t>(mine);
    }

    /// Seconds that the slowest rank took.
    double timed(const std::function<void()>& work) {
        double seconds = 0;
        control_->barrier();
        together(*control_, "reading the data", [&] {
            const auto begin = std::chrono::steady_clock::now();
            work();
            seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        });
        control_->all_reduce(view_of(std::span(&seconds, 1)), ReduceOp::max).wait();
        return seconds;
    }

    void read_sequentially(LoaderRow& row, bool counts) {
        SequentialRead& files = sequential_.at(row.block);
        auto bytes = static_cast<std::uint64_t>(report_.batches * report_.batch_size * report_.stored_bytes);
        // Compressed files are shorter than what is in them, and what was read once is no longer cold.
        const auto ranks = static_cast<std::uint64_t>(control_->size());
        if (row.cold) bytes = std::min(bytes, std::max<std::uint64_t>(files.all_bytes() / ranks, 1));
        // Each rank another part, as its batches are: what one rank has read is in memory for all of a host.
        const auto skip = bytes * static_cast<std::uint64_t>(control_->rank());
        const double seconds = timed([&] { files.read(bytes, skip); });
        row.bytes = sum_of(static_cast<std::int64_t>(bytes));
        if (counts) row.seconds.push_back(seconds);
    }

    /// The same batches in every round: of a file that does not fit into memory, these are there from the
    /// second time on.
    void load(Loader& loader, LoaderRow& row, bool counts) {
        std::vector<std::int64_t> order = epoch_order({.samples = report_.data.samples,
                                                       .world_size = control_->size(),
                                                       .seed = config_.run.seed,
                                                       .shuffle = *row.shuffled});
        std::vector<BatchWindow> windows = epoch_windows({.limit = report_.data.samples,
                                                          .batch_size = report_.batch_size,
                                                          .world_size = control_->size(),
                                                          .rank = control_->rank()});
        windows.resize(std::min(windows.size(), static_cast<std::size_t>(report_.batches)));
        std::int64_t samples = 0;
        const double seconds = timed([&] {
            loader.start(std::move(order), std::move(windows));
            while (const std::optional<HostBatch> batch = loader.next()) samples += batch->window.count;
        });
        row.samples = static_cast<std::int64_t>(sum_of(samples));
        row.bytes = static_cast<std::uint64_t>(row.samples * report_.stored_bytes);
        if (counts) row.seconds.push_back(seconds);
    }

    Loader loader_for(const Dataset& data, int workers) const {
        return {data, report_.batch_size, workers, static_cast<int>(report_.prefetch)};
    }

    void measure_warm(std::size_t round) {
        check_stop("warm", round, options_.rounds);
        for (LoaderRow& row : report_.rows) {
            if (!row.shuffled) {
                read_sequentially(row, round > 0);
                continue;
            }
            Loader loader = loader_for(*inputs_.train, row.workers);
            load(loader, row, round > 0);
        }
    }

    void measure_cold(std::size_t round) {
        check_stop("cold", round, options_.cold_rounds);
        for (LoaderRow& row : report_.rows) {
            if (!row.cold) continue;
            evict();
            if (!row.shuffled) {
                read_sequentially(row, true);
                continue;
            }
            std::unique_ptr<Dataset> data;
            together(*control_, "opening the data", [&] {
                data = transformed(open_datasets(report_.files, file_memory(), labels_needed(config_)),
                                   config_, TransformUse::training);
            });
            Loader loader = loader_for(*data, row.workers);
            load(loader, row, true);
        }
    }

    FileMemory file_memory() const {
        const auto rank = static_cast<std::size_t>(start_.world.rank());
        return file_memory_of_rank(ranks_beside(inputs_.places, rank));
    }

    /// On every host; the ranks of one host do the same work twice.
    void evict() {
        control_->barrier();
        together(*control_, "evicting the data from memory", [&] {
            for (const std::string& file : report_.files) evict_from_page_cache(file);
        });
        double left = 0;
        together(*control_, "looking for the data in memory", [&] {
            for (const std::string& file : report_.files) left = std::max(left, share_in_page_cache(file));
        });
        control_->all_reduce(view_of(std::span(&left, 1)), ReduceOp::max).wait();
        report_.left_in_memory = std::max(report_.left_in_memory.value_or(0), left);
    }

    const JobStart& start_;
    const LoaderBenchOptions& options_;
    const Config config_;
    const std::unique_ptr<Communicator> control_;
    TrainingInputs inputs_;
    std::map<std::uint64_t, SequentialRead> sequential_;  ///< by the bytes of a block
    LoaderReport report_;
};

}  // namespace

LoaderReport run_loader_bench(const JobStart& start, const LoaderBenchOptions& options) {
    LoaderBenchRun run(start, options);
    return run.run();
}

}  // namespace tutti
