#include "step_graph.hpp"

#include <sched.h>

#include <algorithm>
#include <array>
#include <utility>

namespace tutti {
namespace {

/// Steps that run as they are first: until plans are chosen and memory has grown to what a step needs.
constexpr std::int64_t warm_up_steps = 3;
/// Batches may come to the device in several places in turn; each needs a recording.
constexpr std::int64_t recording_steps = 4;

std::string objection(const Config& config, const std::vector<Communicator*>& transfers) {
    if (config.run.deterministic)
        return "run.deterministic is true, whose virtual shards have gradients at several places in turn";
    if (config.train.accumulate > 1) return "train.accumulate is above 1";
    // A rank alone has nothing to send, whatever would carry it.
    for (const Communicator* const one : transfers)
        if (std::string why = one->why_not_recordable(); one->size() > 1 && !why.empty()) return why;
    if (config.run.cuda_graph == CudaGraphChoice::automatic && transfers.front()->size() > 1)
        return "there are several ranks, whose recorded transfers have not run on GPUs yet "
               "(run.cuda_graph=true has them)";
    return "";
}

}  // namespace

StepGraph::StepGraph(const Config& config, Device& device, Communicator& gradients, Communicator* statistics,
                     Communicator& control, Log& log)
    : log_(log),
      control_(control),
      recorder_(config.run.cuda_graph == CudaGraphChoice::never ? nullptr : device.recorder()),
      transfers_{&gradients} {
    if (statistics) transfers_.push_back(statistics);
    const std::string why = recorder_ ? objection(config, transfers_) : "device is " + device.kind();
    if (recorder_)
        for (Communicator* const one : transfers_) one->before_abort(release_);
    if (why.empty()) return;
    if (config.run.cuda_graph == CudaGraphChoice::always)
        throw UsageError("run.cuda_graph is true, but " + why, "leave it auto");
    if (recorder_) give_up(why);
}

void StepGraph::give_up(const std::string& reason) {
    reason_ = reason;
    impossible_ = true;
    wanted_ = false;
    entries_.clear();
    log_.info("no CUDA graph, each operation of a step is issued on its own: " + reason);
}

StepGraph::Entry* StepGraph::find(const Key& key) {
    const auto found = std::ranges::find(entries_, key, &Entry::key);
    return found == entries_.end() ? nullptr : &*found;
}

StepGraph::Said StepGraph::ask(const Said& mine) {
    if (control_.size() == 1) return mine;
    std::array<std::int64_t, 2> any{mine.cannot ? 1 : 0, mine.lacks ? 1 : 0};
    control_.all_reduce(view_of(std::span(any)), ReduceOp::max).wait();
    return {any[0] != 0, any[1] != 0};
}

bool StepGraph::takes(bool whole, bool mine, const Key& key) {
    wanted_ = false;
    if (!recorder_ || impossible_ || !whole) return false;
    key_ = key;
    const Entry* const entry = find(key);
    const bool may_record = may_record_ > 0;
    if (may_record) --may_record_;
    const Said any = ask({.cannot = !mine, .lacks = !entry || !entry->current()});
    if (any.cannot) return false;
    records_ = any.lacks;
    if (!any.lacks || may_record) return true;
    wanted_ = ++seen_ >= warm_up_steps;
    return false;
}

bool StepGraph::record(const Halves& halves) {
    std::erase_if(entries_, [&](const Entry& entry) { return entry.key == key_; });
    std::string problem;
    try {
        Entry made{key_, recorder_->record(halves.forward), nullptr};
        made.backward = recorder_->record(halves.backward);
        entries_.push_back(std::move(made));
    } catch (const PeerError&) {
        throw;
    } catch (const Error& error) {
        // Without its transfers this rank cannot go on in any way. The others wait for its word below, and
        // end with the job.
        if (std::ranges::any_of(transfers_, &Communicator::given_up)) throw;
        problem = error.what();
    }
    if (!ask({.cannot = !problem.empty()}).cannot) return true;
    halves.forget();
    if (control_.size() > 1) {
        const std::vector<std::string> problems = all_gather_text(control_, problem);
        const auto first = std::ranges::find_if(problems, [](const auto& text) { return !text.empty(); });
        problem = "rank " + std::to_string(first - problems.begin()) + ": " + *first;
    }
    give_up(problem);
    return false;
}

bool StepGraph::run(const RunValues& values, const Halves& halves, const TensorView& sums) {
    recorder_->set(values);
    if (records_) {
        if (!record(halves)) return false;
        if (!std::exchange(announced_, true))
            log_.info("the gradients of whole steps are computed by a CUDA graph from now on");
    }
    const Entry* const entry = find(key_);
    entry->forward->run();
    recorder_->fetch(sums);
    entry->backward->run();
    following_.clear();
    for (Communicator* const one : transfers_) following_.push_back(one->follow_recorded());
    halves.meanwhile();
    wait_for_loss();
    ++steps_;
    return true;
}

void StepGraph::wait_for_loss() {
    while (!recorder_->fetched()) {
        for (Work& work : following_) work.test();
        sched_yield();
    }
}

LossSums StepGraph::loss() const {
    return Loss::from_sums(reinterpret_cast<const double*>(recorder_->result()));
}

void StepGraph::wait_for_transfers() {
    for (Work& work : following_) work.wait();
}

void StepGraph::hear(const StepSums& sums) {
    if (!recorder_ || impossible_) return;
    if (sums.graph_impossible()) return give_up("another rank could not record it");
    if (!sums.graph_wanted()) return;
    // Everywhere, so that all record the same steps.
    entries_.clear();
    may_record_ = recording_steps;
}

}  // namespace tutti
