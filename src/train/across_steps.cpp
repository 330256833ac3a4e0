#include "tutti/train/across_steps.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>

#include "tutti/base/error.hpp"

namespace tutti {
namespace {

std::vector<double> ready_by_bucket(std::span<const Bucket> buckets, const AcrossTiming& timing) {
    std::vector<double> ready;
    for (const Bucket& bucket : buckets)
        ready.push_back(
            *std::max_element(timing.ready.begin() + static_cast<std::ptrdiff_t>(bucket.first),
                              timing.ready.begin() + static_cast<std::ptrdiff_t>(bucket.last) + 1));
    return ready;
}

/// How often the order names each bucket.
std::vector<std::size_t> pieces_in(std::span<const std::size_t> order, std::size_t buckets) {
    std::vector<std::size_t> pieces(buckets);
    for (const std::size_t bucket : order) ++pieces[bucket];
    return pieces;
}

/// Of the processor, by each of so many pieces.
double taken_by(const Bucket& bucket, std::size_t pieces, const AcrossTiming& timing) {
    return timing.taken_per_transfer +
           static_cast<double>(bucket.count) * timing.taken_per_element / static_cast<double>(pieces);
}

/// Of one of them.
double piece_seconds(double whole, std::size_t pieces, const AcrossTiming& timing) {
    if (pieces == 1) return whole;
    const auto count = static_cast<double>(pieces);
    return (whole + (count - 1) * timing.per_piece) / count;
}

/// One transfer after the other, and a computation that each slows down while it is under way.
class SharedProcessor {
  public:
    /// After so much computation since the beginning; when the transfer has ended.
    double transfer(double ready, double seconds, double taken) {
        const double begin = std::max(link_, ready + all_taken_);
        link_ = begin + std::max(seconds, taken);
        all_taken_ += taken;
        if (taken > 0) spans_.push_back({begin, link_, 1 - taken / (link_ - begin)});
        return link_;
    }
    /// When a computation of so many seconds ends that goes on at `now`; call it with ascending ones.
    double after(double now, double seconds) {
        if (seconds <= 0) return now;
        for (; next_ < spans_.size(); ++next_) {
            const Span& span = spans_[next_];
            if (span.end <= now) continue;
            if (now + seconds <= span.begin) break;
            if (now < span.begin) {
                seconds -= span.begin - now;
                now = span.begin;
            }
            const double within = (span.end - now) * span.speed;
            if (seconds < within) return now + seconds / span.speed;
            seconds -= within;
            now = span.end;
        }
        return now + seconds;
    }

  private:
    struct Span {
        double begin, end, speed;
    };
    std::vector<Span> spans_;
    double link_ = 0, all_taken_ = 0;
    std::size_t next_ = 0;
};

/// A bucket whose pieces all follow on each other is named once.
void join_rows(std::vector<std::size_t>& order, std::size_t buckets) {
    std::vector<std::size_t> rows(buckets);
    for (std::size_t place = 0; place < order.size(); ++place)
        if (place == 0 || order[place] != order[place - 1]) ++rows[order[place]];
    std::vector<std::size_t> joined;
    for (std::size_t place = 0; place < order.size(); ++place)
        if (place == 0 || order[place] != order[place - 1] || rows[order[place]] > 1)
            joined.push_back(order[place]);
    order = std::move(joined);
}

/// The last parameter of each bucket where one is closed at a layer's end as soon as it has its part of all.
std::vector<std::size_t> equal_cuts(std::span<const ParameterSlice> parameters,
                                    const std::vector<bool>& layer_ends, std::size_t parts) {
    const std::int64_t all = parameters.back().offset + parameters.back().count;
    const auto most = parts < parameters.size() ? all / static_cast<std::int64_t>(parts) : 0;
    std::vector<std::size_t> ends;
    std::int64_t begin = 0;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
        const std::int64_t end = parameters[p].offset + parameters[p].count;
        if (p + 1 < parameters.size() && (!layer_ends[p] || end - begin < most)) continue;
        ends.push_back(p);
        begin = end;
    }
    return ends;
}

}  // namespace

AcrossTiming with_costs(AcrossTiming timing, const CostModel& cost, std::size_t element_bytes) {
    timing.latency = cost.latency();
    timing.taken_per_transfer = cost.processor().per_transfer;
    timing.taken_per_element = cost.processor().seconds_per_byte * static_cast<double>(element_bytes);
    return timing;
}

double piece_cost(const Communicator& gradients, double empty_transfer) {
    return gradients.sums_in_fixed_order() ? empty_transfer : std::numeric_limits<double>::infinity();
}

std::vector<std::size_t> order_for(const Communicator& gradients, std::vector<std::size_t> order) {
    if (gradients.sums_in_fixed_order()) return order;
    std::vector<std::size_t> whole;
    for (auto place = order.begin(); place != order.end(); ++place)
        if (std::find(place + 1, order.end(), *place) == order.end()) whole.push_back(*place);
    return whole;
}

std::vector<double> transfer_seconds(std::span<const Bucket> buckets, const BucketTiming& timing) {
    std::vector<double> seconds;
    for (const Bucket& bucket : buckets)
        seconds.push_back(timing.cost.occupied_beside(static_cast<double>(bucket.count) *
                                                      static_cast<double>(timing.element_bytes)));
    return seconds;
}

std::vector<std::size_t> first_needed_first(std::span<const double> ready, std::span<const double> seconds,
                                            std::span<const std::size_t> pieces) {
    std::vector<std::size_t> order, left(ready.size()), unsent(ready.size(), 1);
    std::ranges::copy(pieces, unsent.begin());
    std::iota(left.rbegin(), left.rend(), std::size_t{0});  // the first needed comes first
    double now = 0;
    while (!left.empty()) {
        auto next = std::ranges::find_if(left, [&](std::size_t b) { return ready[b] <= now; });
        if (next == left.end()) {
            now = ready[*std::ranges::min_element(left, {}, [&](std::size_t b) { return ready[b]; })];
            continue;
        }
        now += seconds[*next];
        order.push_back(*next);
        if (--unsent[*next] == 0) left.erase(next);
    }
    join_rows(order, ready.size());
    return order;
}

double step_across(std::span<const Bucket> buckets, std::span<const std::size_t> order,
                   std::span<const double> seconds, const AcrossTiming& timing) {
    const std::vector<double> ready = ready_by_bucket(buckets, timing);
    const std::vector<std::size_t> pieces = pieces_in(order, buckets.size());
    std::vector<double> done;                                // by place in the order
    std::vector<std::size_t> place_of(timing.ready.size());  // of the last piece
    SharedProcessor shared;
    for (std::size_t place = 0; place < order.size(); ++place) {
        const Bucket& bucket = buckets[order[place]];
        const std::size_t parts = pieces[order[place]];
        done.push_back(shared.transfer(ready[order[place]],
                                       piece_seconds(seconds[order[place]], parts, timing),
                                       taken_by(bucket, parts, timing)) +
                       timing.latency);
        for (std::size_t p = bucket.first; p <= bucket.last; ++p) place_of[p] = place;
    }
    double now = shared.after(0, timing.backward_end + timing.between);
    std::size_t updated = 0;
    const auto update_before = [&](std::size_t end) {
        for (; updated < end; ++updated) {
            const Bucket& bucket = buckets[order[updated]];
            now = std::max(now, done[updated]);
            if (place_of[bucket.first] == updated)
                now = shared.after(now, static_cast<double>(bucket.count) * timing.update_per_element);
        }
    };
    for (const LayerForward& layer : timing.layers) {
        for (std::size_t p = layer.first; p < layer.last; ++p) update_before(place_of[p] + 1);
        now = shared.after(now, layer.seconds);
    }
    update_before(order.size());
    return now + timing.loss;
}

double step_within(std::span<const Bucket> buckets, std::span<const double> seconds,
                   const AcrossTiming& timing) {
    const std::vector<double> ready = ready_by_bucket(buckets, timing);
    SharedProcessor shared;
    double link = 0, updates = 0, last_update = 0;
    for (std::size_t b = 0; b < buckets.size(); ++b) {
        link = shared.transfer(ready[b], seconds[b], taken_by(buckets[b], 1, timing));
        last_update = static_cast<double>(buckets[b].count) * timing.update_per_element;
        updates += last_update;
    }
    double now =
        std::max(shared.after(0, timing.backward_end + updates), link + timing.latency + last_update) +
        timing.between + timing.loss;
    for (const LayerForward& layer : timing.layers) now += layer.seconds;
    return now;
}

std::vector<std::size_t> whole_order(std::span<const Bucket> buckets, std::span<const double> seconds,
                                     const AcrossTiming& timing) {
    std::vector<std::size_t> own(buckets.size());
    std::iota(own.begin(), own.end(), std::size_t{0});
    std::vector<std::size_t> other = first_needed_first(ready_by_bucket(buckets, timing), seconds);
    return step_across(buckets, other, seconds, timing) < step_across(buckets, own, seconds, timing) ? other
                                                                                                     : own;
}

std::vector<std::size_t> issue_order(std::span<const Bucket> buckets, std::span<const double> seconds,
                                     const AcrossTiming& timing) {
    constexpr double worth_a_cut = 0.99;
    std::vector<std::size_t> best = whole_order(buckets, seconds, timing);
    const double all = std::accumulate(seconds.begin(), seconds.end(), 0.0);
    if (std::isinf(timing.per_piece) || buckets.size() < 2 || all <= 0) return best;
    double shortest = worth_a_cut * step_across(buckets, best, seconds, timing);
    const std::vector<double> ready = ready_by_bucket(buckets, timing);
    for (const double parts : {4.0, 8.0, 16.0, 32.0}) {
        std::vector<std::size_t> pieces;
        std::vector<double> each;
        for (const double whole : seconds) {
            pieces.push_back(std::max<std::size_t>(static_cast<std::size_t>(whole * parts / all), 1));
            each.push_back(piece_seconds(whole, pieces.back(), timing));
        }
        // Where the model sees no difference a bucket's place is one behind the moment when it is ready:
        // what comes later than expected then holds nobody up.
        for (const double late : {1.1, 1.0}) {
            std::vector<double> expected = ready;
            for (double& time : expected) time *= late;
            std::vector<std::size_t> order = first_needed_first(expected, each, pieces);
            const double step = step_across(buckets, order, seconds, timing);
            if (step >= shortest) continue;
            shortest = step;
            best = std::move(order);
        }
    }
    return best;
}

void check_issue_order(std::span<const std::size_t> order, std::size_t buckets) {
    if (order.empty()) return;
    std::vector<std::size_t> sorted(order.begin(), order.end()), numbers(buckets);
    std::ranges::sort(sorted);
    const auto repeated = std::ranges::unique(sorted);
    sorted.erase(repeated.begin(), repeated.end());
    std::iota(numbers.begin(), numbers.end(), std::size_t{0});
    if (sorted != numbers)
        throw DataError("an order of issue of " + std::to_string(order.size()) +
                        " transfers does not hold each of " + std::to_string(buckets) + " buckets");
}

AcrossPlan plan_across_steps(std::span<const ParameterSlice> parameters, const std::vector<bool>& layer_ends,
                             const CostModel& cost, std::size_t element_bytes, const AcrossTiming& timing) {
    const auto planned = [&](std::span<const std::size_t> ends, bool in_pieces) {
        AcrossPlan plan;
        plan.buckets = plan_from_ends(parameters, ends);
        const auto seconds = transfer_seconds(plan.buckets, {timing.ready, cost, element_bytes});
        plan.order = in_pieces ? issue_order(plan.buckets, seconds, timing)
                               : whole_order(plan.buckets, seconds, timing);
        plan.seconds = step_across(plan.buckets, plan.order, seconds, timing);
        return plan;
    };
    /// Joins neighbours as long as the step becomes shorter.
    const auto joined_from = [&](std::vector<std::size_t> ends) {
        AcrossPlan best = planned(ends, false);
        for (bool shorter = true; shorter;) {
            shorter = false;
            std::vector<std::size_t> joined_best = ends;
            for (std::size_t cut = 0; cut + 1 < ends.size(); ++cut) {
                std::vector<std::size_t> joined = ends;
                joined.erase(joined.begin() + static_cast<std::ptrdiff_t>(cut));
                AcrossPlan plan = planned(joined, false);
                if (plan.seconds >= best.seconds) continue;
                best = std::move(plan);
                joined_best = std::move(joined);
                shorter = true;
            }
            ends = std::move(joined_best);
        }
        return ends;
    };
    std::optional<AcrossPlan> best;
    const auto consider = [&](std::span<const std::size_t> ends) {
        AcrossPlan plan = planned(ends, true);
        if (!best || plan.seconds < best->seconds) best = std::move(plan);
    };
    const std::vector<std::size_t> layers = equal_cuts(parameters, layer_ends, parameters.size());
    consider(layers);
    consider(joined_from(layers));
    // Joining looks at whole transfers, and so may pass by cuts that are better in pieces.
    for (const std::size_t parts : {32u, 16u, 8u, 4u}) {
        const std::vector<std::size_t> ends = equal_cuts(parameters, layer_ends, parts);
        if (ends.size() == layers.size()) continue;
        consider(ends);
        consider(joined_from(ends));
    }
    return *best;
}

double least_to_send(std::int64_t elements, std::int64_t all, const BucketTiming& cost,
                     std::optional<double> least_of_all) {
    if (least_of_all && elements == all) return *least_of_all;
    const double by_model =
        cost.cost.least_seconds(static_cast<double>(elements) * static_cast<double>(cost.element_bytes));
    return least_of_all ? std::min(by_model, *least_of_all) : by_model;
}

double attainable_across(std::span<const ParameterSlice> parameters, const BucketTiming& cost,
                         const AcrossTiming& timing, std::optional<double> least_of_all) {
    const std::int64_t end = parameters.back().offset + parameters.back().count;
    const auto seconds = [&](std::int64_t elements) {
        return least_to_send(elements, end, cost, least_of_all);
    };
    double compute = timing.backward_end + timing.between + timing.loss;
    for (const LayerForward& layer : timing.layers) compute += layer.seconds;
    compute += static_cast<double>(end) * timing.update_per_element;
    double least = compute;
    // Behind the computation that makes them ready, and before the one that waits for them, go the gradients
    // of the layers up to any one: those of the last layers, which are ready first and needed last.
    double forward = timing.loss;
    for (auto layer = timing.layers.rbegin(); layer != timing.layers.rend(); ++layer) {
        forward += layer->seconds;
        if (layer->first == layer->last) continue;
        // What lies behind this layer's beginning in the arena is ready later, and needed before its
        // forward's end.
        const double first_ready = *std::min_element(
            timing.ready.begin() + static_cast<std::ptrdiff_t>(layer->first), timing.ready.end());
        least = std::max(least, first_ready + seconds(end - parameters[layer->first].offset) + forward);
    }
    return least;
}

std::vector<LayerForward> layers_of(const Graph& graph, std::span<const double> seconds) {
    std::vector<std::int64_t> elements;
    for (const Graph::LayerReport& layer : graph.report()) elements.push_back(layer.trained());
    return layers_of(elements, parameter_slices(graph), seconds);
}

std::vector<LayerForward> layers_of(std::span<const std::int64_t> elements,
                                    std::span<const ParameterSlice> parameters,
                                    std::span<const double> seconds) {
    if (seconds.size() != elements.size())
        throw DataError("there are times of " + std::to_string(seconds.size()) + " layers for " +
                        std::to_string(elements.size()));
    std::vector<LayerForward> result(elements.size());
    // Backward goes through the layers from the last to the first, and so does the arena.
    std::size_t next = 0;
    for (std::size_t layer = elements.size(); layer-- > 0;) {
        const std::size_t begin = next;
        std::int64_t left = elements[layer];
        for (; left > 0 && next < parameters.size(); ++next) left -= parameters[next].count;
        if (left != 0)
            throw DataError("the parameters do not fill layer " + std::to_string(layer) + " of " +
                            std::to_string(elements.size()));
        result[layer] = {begin, next, seconds[layer]};
    }
    if (next != parameters.size()) throw DataError("the layers do not hold all parameters");
    return result;
}

}  // namespace tutti
