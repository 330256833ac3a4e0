#include "tutti/input/loader.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

/// One batch's memory.
struct Slot {
    Buffer memory;
    std::span<std::byte> samples;  // in `memory`, as the labels and targets
    std::span<std::int64_t> labels;
    std::span<float> targets;
    std::vector<std::int64_t> positions, indices, announced;
    std::vector<SkippedSample> skipped;
    std::size_t count = 0;  // samples in it
    std::exception_ptr error;
    bool ready = false;
};

Buffer allocate(Device* device, std::size_t bytes) {
    if (device) return device->allocate_host(bytes, "batches held ready; data.prefetch says how many");
    // The first bytes of a page. Large memory of malloc begins 16 bytes behind them, where Zen 3 copies from
    // a page's begin (rep movsb, as read(2) does) at a quarter of its speed.
    constexpr auto alignment = std::align_val_t{4096};
    return {static_cast<std::byte*>(::operator new(bytes, alignment)), bytes,
            [](std::byte* data, std::size_t) noexcept { ::operator delete(data, alignment); }};
}

/// The list of an epoch.
struct EpochOrder {
    std::int64_t epoch = 0;
    std::vector<std::int64_t> indices;
};

using Seconds = std::chrono::duration<double>;

/// Those of the slot's indices from `first` on, to their places. How long that took, without augmentation.
Seconds read_samples(const Dataset& dataset, std::int64_t epoch, Slot& slot, std::size_t first,
                     std::size_t count) {
    const auto bytes = static_cast<std::size_t>(dataset.info().sample_bytes());
    Seconds transforming{0};
    const auto begin = std::chrono::steady_clock::now();
    const EpochPositions at{epoch, std::span(slot.positions).subspan(first, count), &transforming};
    const std::span<const std::int64_t> indices = std::span(slot.indices).subspan(first, count);
    dataset.read_at(at, indices, slot.samples.subspan(first * bytes, count * bytes),
                    slot.labels.subspan(first, count));
    if (const auto width = static_cast<std::size_t>(dataset.info().targets); width > 0)
        dataset.targets_at(at, indices, slot.targets.subspan(first * width, count * width));
    return std::chrono::steady_clock::now() - begin - transforming;
}

/// What is known of a batch when its reading begins.
struct ReadPlan {
    BatchWindow window;
    const BatchWindow* ahead;  ///< the next one that no thread will read before long; null at the end
    std::optional<Seconds>
        own_reads;  ///< the time that reading a batch's samples takes, without augmentation
};

/// The first batch waits a second for files that are brought into memory. Those after it let them have four
/// fifths of the disk's time: where the disk is what is waited for, it reads in the files' order for the most
/// part; where it is not, batches still come in time.
BringInPatience patience_for(const ReadPlan& plan) {
    BringInPatience patience;
    if (plan.own_reads)
        patience.end =
            std::min(patience.end,
                     BringInPatience::Clock::now() +
                         std::chrono::duration_cast<BringInPatience::Clock::duration>(4 * *plan.own_reads));
    return patience;
}

/// A disk works on the samples of a later batch while those of this one are waited for, and while the caller
/// computes.
void announce_ahead(const Dataset& dataset, const EpochOrder& order, const ReadPlan& plan, Slot& slot) {
    if (!plan.ahead || plan.ahead->count == 0 || !dataset.waits_for_disk()) return;
    const auto count = static_cast<std::size_t>(plan.ahead->count);
    std::int64_t position = plan.ahead->first;
    for (std::size_t i = 0; i < count; ++i, position += plan.ahead->stride)
        slot.announced[i] = order.indices[static_cast<std::size_t>(position)];
    dataset.announce(std::span(slot.announced).first(count));
}

/// How long the samples took, without what other batches need, too, and without augmentation.
std::optional<Seconds> read_batch(const Dataset& dataset, const EpochOrder& order, const ReadPlan& plan,
                                  Slot& slot) {
    const BatchWindow& window = plan.window;
    const auto count = static_cast<std::size_t>(window.count);
    std::int64_t position = window.first;
    for (std::size_t i = 0; i < count; ++i, position += window.stride) {
        slot.positions[i] = position;
        slot.indices[i] = order.indices[static_cast<std::size_t>(position)];
    }
    slot.count = count;
    slot.skipped.clear();
    if (count == 0) return std::nullopt;
    BringInPatience patience = patience_for(plan);
    dataset.bring_in(patience);
    // Until they are all in, other samples are better fetched in the files' order.
    if (!patience.more_to_bring) announce_ahead(dataset, order, plan, slot);
    return read_samples(dataset, order.epoch, slot, 0, count);
}

/// Each sample on its own; what can be read moves up.
void read_one_by_one(const Dataset& dataset, const EpochOrder& order, const BatchWindow& window, Slot& slot) {
    slot.count = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(window.count); ++i) {
        slot.positions[slot.count] = slot.positions[i];
        slot.indices[slot.count] = slot.indices[i];
        try {
            read_samples(dataset, order.epoch, slot, slot.count, 1);
            ++slot.count;
        } catch (const DataError& error) {
            slot.skipped.push_back({slot.indices[i], error.what()});
        }
    }
}

/// How reading a batch went.
struct Outcome {
    std::exception_ptr error;
    double seconds = 0;
    std::optional<Seconds> own_reads;
};

/// Runs read_batch and keeps what it throws. The exception leaves its catch block here, so that only the slot
/// owns it when another thread comes to see it.
Outcome try_read_batch(const Dataset& dataset, OnError on_error, const EpochOrder& order,
                       const ReadPlan& plan, Slot& slot) {
    const auto begin = std::chrono::steady_clock::now();
    Outcome outcome;
    try {
        try {
            outcome.own_reads = read_batch(dataset, order, plan, slot);
        } catch (const DataError&) {
            if (on_error == OnError::stop) throw;
            read_one_by_one(dataset, order, plan.window, slot);
        }
    } catch (const Error&) {
        outcome.error = std::current_exception();
    } catch (const std::bad_alloc&) {
        // All that the caller's rank then tells its peers is an Error.
        outcome.error = std::make_exception_ptr(
            RunError(dataset.name() + ": not enough memory to read a batch",
                     "use a smaller train.batch_size, or fewer data.workers and data.prefetch"));
    } catch (const std::exception& error) {
        outcome.error = std::make_exception_ptr(RunError(dataset.name() + ": " + error.what()));
    }
    outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return outcome;
}

void require_inside(const BatchWindow& window, std::int64_t max_batch, std::size_t order_size) {
    const std::int64_t last = window.first + (window.count - 1) * window.stride;
    if (window.count < 0 || window.count > max_batch)
        throw RunError("loader: a window of " + std::to_string(window.count) + " samples, but buffers hold " +
                       std::to_string(max_batch));
    if (window.count > 0 && (std::min(window.first, last) < 0 ||
                             std::max(window.first, last) >= static_cast<std::int64_t>(order_size)))
        throw RunError("loader: a window of positions " + std::to_string(window.first) + ".." +
                       std::to_string(last) + ", but the epoch's list has " + std::to_string(order_size) +
                       " entries");
}

}  // namespace

// Windows [0, released) were given back, [released, taken) are the batches in the caller's hands, at most
// `held`, [taken, claimed) are ready or being read. Windows [released, claimed) have a slot each. A window
// gets the slot that was given back last: where the caller reads all batches itself, one stays in its caches
// instead of all.
struct Loader::State {
    State(const Dataset& data, std::int64_t batch, std::size_t ready_count, Device* device, OnError errors)
        : dataset(data), on_error(errors), max_batch(batch), held(device && device->uploads_ahead() ? 2 : 1) {
        slots.resize(ready_count + held);
        slot_numbers.resize(slots.size());
        free_slots.reserve(slots.size());
        const auto count = static_cast<std::size_t>(batch);
        const std::size_t samples = count * static_cast<std::size_t>(data.info().sample_bytes());
        const std::size_t labels_at =
            (samples + alignof(std::int64_t) - 1) / alignof(std::int64_t) * alignof(std::int64_t);
        const std::size_t targets_at = labels_at + count * sizeof(std::int64_t);
        const std::size_t targets = count * static_cast<std::size_t>(data.info().targets);
        const std::size_t bytes = targets_at + targets * sizeof(float);
        for (Slot& slot : slots) {
            slot.memory = allocate(device, bytes);
            // Touched here, so that no page of it is first seen in a step.
            std::memset(slot.memory.data(), 0, bytes);
            slot.samples = {slot.memory.data(), samples};
            slot.labels = {reinterpret_cast<std::int64_t*>(slot.memory.data() + labels_at), count};
            slot.targets = {reinterpret_cast<float*>(slot.memory.data() + targets_at), targets};
            slot.positions.resize(count);
            slot.indices.resize(count);
            slot.announced.resize(count);
        }
    }

    ~State() {
        {
            const std::lock_guard lock(mutex);
            stopping = true;
        }
        work.notify_all();
        for (std::thread& worker : workers) worker.join();
    }

    State(const State&) = delete;
    State& operator=(const State&) = delete;

    bool can_claim() const { return !paused && claimed < windows.size() && !free_slots.empty(); }

    Slot& slot_of(std::size_t window) { return slots[slot_numbers[window % slots.size()]]; }

    /// The next window; there must be a free slot.
    std::size_t claim() {
        slot_numbers[claimed % slots.size()] = free_slots.back();
        free_slots.pop_back();
        return claimed++;
    }

    void release_before(std::size_t window) {
        for (; released < window; ++released) free_slots.push_back(slot_numbers[released % slots.size()]);
    }

    void release_all() {
        claimed = taken = released = 0;
        free_slots.clear();
        for (std::size_t i = slots.size(); i > 0; --i) free_slots.push_back(i - 1);
    }

    /// Waking a worker, and a batch that another core has written, cost the caller some microseconds: as much
    /// as reading a small batch that is in memory. Such batches it reads itself.
    bool reads_are_quick() const { return typical_seconds && *typical_seconds < 50e-6; }

    /// While no worker is busy and more than half of the buffers are ready, they may sleep on.
    bool worth_waking() const {
        return claimed < windows.size() && !reads_are_quick() &&
               (busy > 0 || 2 * free_slots.size() >= slots.size());
    }

    /// The batches after `window` up to as many as there are workers are being read, or will be at once.
    ReadPlan plan(std::size_t window) const {
        const std::size_t ahead = window + std::max<std::size_t>(workers.size(), 1);
        return {windows[window], ahead < windows.size() ? &windows[ahead] : nullptr, own_reads};
    }

    /// A slow read weighs for some tens of quick ones: the disk may be needed again soon.
    void finish(Slot& slot, Outcome outcome) {
        const double before = typical_seconds.value_or(outcome.seconds);
        typical_seconds = before + (outcome.seconds - before) / 4;
        if (outcome.own_reads) {
            const Seconds former = own_reads.value_or(*outcome.own_reads);
            own_reads = former + (*outcome.own_reads - former) / 4;
        }
        slot.error = std::move(outcome.error);
    }

    void worker_loop() {
        std::unique_lock lock(mutex);
        while (true) {
            // One that is awake would else go on as long as there are free slots, also with quick batches.
            work.wait(lock, [this] { return stopping || (can_claim() && !reads_are_quick()); });
            if (stopping) return;
            const std::size_t w = claim();
            Slot& slot = slot_of(w);
            const ReadPlan what = plan(w);
            ++busy;
            lock.unlock();
            Outcome outcome = try_read_batch(dataset, on_error, order, what, slot);
            lock.lock();
            finish(slot, std::move(outcome));
            slot.ready = true;
            --busy;
            done.notify_one();
        }
    }

    const Dataset& dataset;
    const OnError on_error;
    const std::int64_t max_batch;
    const std::size_t held;
    std::vector<Slot> slots;
    std::vector<std::size_t> slot_numbers;  ///< of window w at w mod slots.size()
    std::vector<std::size_t> free_slots;    ///< numbers, the one given back last at the end
    std::vector<std::thread> workers;

    std::mutex mutex;
    std::condition_variable work;  ///< a window can be claimed, or stopping
    std::condition_variable done;  ///< a read has ended; only the owner's thread waits for it
    // Written only while no worker reads (busy == 0 and paused).
    EpochOrder order;
    std::vector<BatchWindow> windows;
    std::size_t claimed = 0, taken = 0, released = 0, busy = 0;
    bool paused = false, stopping = false;
    std::optional<double> typical_seconds;  ///< of reading a batch: a moving average
    std::optional<Seconds> own_reads;       ///< the same, of its samples alone
};

Loader::Loader(const Dataset& dataset, std::int64_t max_batch, int workers, int prefetch, Device* device,
               OnError on_error) {
    if (max_batch < 1 || workers < 0 || prefetch < 1)
        throw UsageError("loader: batch of " + std::to_string(max_batch) + ", " + std::to_string(workers) +
                             " workers, prefetch " + std::to_string(prefetch),
                         "train.batch_size and data.prefetch must be 1 or more, data.workers 0 or more");
    if (dataset.reads_alone()) workers = 0;
    state_ = std::make_unique<State>(dataset, max_batch,
                                     workers == 0 ? 0 : static_cast<std::size_t>(prefetch), device, on_error);
    for (int i = 0; i < workers; ++i) state_->workers.emplace_back(&State::worker_loop, state_.get());
}

Loader::~Loader() = default;

void Loader::start(std::vector<std::int64_t> order, std::vector<BatchWindow> windows, std::int64_t epoch) {
    State& state = *state_;
    for (const BatchWindow& window : windows) require_inside(window, state.max_batch, order.size());
    {
        std::unique_lock lock(state.mutex);
        state.paused = true;
        state.done.wait(lock, [&state] { return state.busy == 0; });
        state.order = {epoch, std::move(order)};
        state.windows = std::move(windows);
        for (Slot& slot : state.slots) {
            slot.ready = false;
            slot.error = nullptr;
        }
        state.release_all();
        state.paused = false;
        if (state.reads_are_quick()) return;
    }
    state.work.notify_all();
}

std::optional<HostBatch> Loader::next() {
    State& state = *state_;
    std::unique_lock lock(state.mutex);
    // With the batch that is asked for the caller holds no more than it may.
    if (state.released + state.held <= state.taken) {
        state.release_before(state.taken + 1 - state.held);
        if (state.worth_waking()) state.work.notify_one();
    }
    if (state.taken == state.windows.size()) return std::nullopt;
    const std::size_t w = state.taken;
    const BatchWindow& window = state.windows[w];
    // No worker has begun it, or there is none: reading is no longer than waiting for it.
    const bool reads = state.claimed == w;
    if (reads) state.claim();
    Slot& slot = state.slot_of(w);
    if (reads) {
        const ReadPlan plan = state.plan(w);
        lock.unlock();
        Outcome outcome = try_read_batch(state.dataset, state.on_error, state.order, plan, slot);
        lock.lock();
        state.finish(slot, std::move(outcome));
    } else {
        state.done.wait(lock, [&slot] { return slot.ready; });
    }
    slot.ready = false;
    ++state.taken;
    if (std::exception_ptr error = std::exchange(slot.error, nullptr)) {
        lock.unlock();
        std::rethrow_exception(std::move(error));
    }
    const std::size_t count = slot.count;
    const std::size_t bytes = count * static_cast<std::size_t>(state.dataset.info().sample_bytes());
    HostBatch batch{window,
                    slot.samples.first(bytes),
                    slot.labels.first(count),
                    std::span(slot.positions).first(count),
                    std::span(slot.indices).first(count),
                    slot.skipped,
                    slot.targets.first(count * static_cast<std::size_t>(state.dataset.info().targets))};
    batch.window.count = static_cast<std::int64_t>(count);
    return batch;
}

}  // namespace tutti
