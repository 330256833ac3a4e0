#pragma once
// How long an all-reduce takes, as a function of its bytes. Pure: samples in, model out.

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace tutti {

/// One measurement of a collective.
struct CostSample {
    double bytes = 0;    ///< of the buffer on one rank, ≥ 0
    double seconds = 0;  ///< > 0
};

/// From `from_bytes` up to the next piece, a transfer of n bytes takes alpha + n · seconds_per_byte.
struct CostPiece {
    double from_bytes = 0;  ///< the first piece starts at 0
    double alpha = 0;       ///< seconds; ≥ 0 in the first piece, may be negative where a slope steepens
    double seconds_per_byte = 0;  ///< ≥ 0
    friend bool operator==(const CostPiece&, const CostPiece&) = default;
};

/// Processor seconds that a transfer takes from the thread that computes beside it: its calls, and the
/// system's work on the same core. What LogP calls the overhead o, for which a processor can do nothing else,
/// and with one part that grows with the message, as LogGP has it for the wire (Alexandrov et al. 1995).
struct ProcessorCost {
    double per_transfer = 0, seconds_per_byte = 0;  ///< ≥ 0
    friend bool operator==(const ProcessorCost&, const ProcessorCost&) = default;
};

/// The α–β model (Hockney 1994, "The communication challenge for MPP"), in pieces because libraries change
/// their protocol with the size and memories have caches; and of α what transfers in flight share, as LogP
/// tells latency from gap (Culler et al. 1993, "LogP: towards a realistic model of parallel computation"). A
/// default model costs nothing: one rank.
class CostModel {
  public:
    CostModel() = default;
    /// Pieces by ascending from_bytes, the first at 0; throws UsageError otherwise, or for a value that is
    /// not finite. residuals: (model − sample) / sample of each fitted sample, in the order of the samples.
    explicit CostModel(std::vector<CostPiece> pieces, std::vector<double> residuals = {});
    /// The same with latency(), which is no more than a transfer of nothing takes, and not negative.
    CostModel with_latency(double seconds) const;
    /// The same with another processor(). Throws UsageError where that is negative or not finite.
    CostModel with_processor(const ProcessorCost& processor) const;

    /// Seconds of one transfer; never falls as bytes grow: where a piece lies below the end of the one
    /// before, that end holds. It may jump up where a piece begins.
    double seconds(double bytes) const;
    /// The end of each transfer's time, in which the next one may already be under way.
    double latency() const { return latency_; }
    /// What a transfer keeps the next one waiting: seconds − latency.
    double occupied(double bytes) const { return seconds(bytes) - latency_; }
    /// What so many bytes take at least in any number of transfers, one after the other: latency + bytes ×
    /// the least occupied(s) / s of all s ≤ bytes, as the parts of a sum cannot all be above the mean. Where
    /// a model steepens that is less than the seconds of one transfer, else the same.
    double least_seconds(double bytes) const;
    /// Of these, what a computation beside the transfer loses; nothing where it was not measured.
    const ProcessorCost& processor() const { return processor_; }
    double taken(double bytes) const { return processor_.per_transfer + bytes * processor_.seconds_per_byte; }
    /// What a transfer beside a computation keeps the next one waiting: it cannot be through before it had
    /// the processor for as long as it needs it.
    double occupied_beside(double bytes) const {
        const double alone = occupied(bytes), needs = taken(bytes);
        return alone > needs ? alone : needs;
    }

    std::span<const CostPiece> pieces() const { return pieces_; }
    std::span<const double> residuals() const { return residuals_; }
    /// The largest |residual|; 0 without samples.
    double worst_residual() const;

  private:
    std::vector<CostPiece> pieces_;
    std::vector<double> residuals_;
    double latency_ = 0;
    ProcessorCost processor_;
};

/// The model with the least Σ ((model − sample) / sample)², cut into 1 … most_pieces pieces. A further piece
/// must pay for its numbers (the Bayesian information criterion, Schwarz 1978, with errors below 1 %
/// taken as noise) and needs three sizes of its own. Samples in any order, sizes may repeat. One size: time
/// in proportion to the bytes. Throws UsageError without samples or for one that is not finite and positive.
CostModel fit_cost(std::span<const CostSample> samples, std::size_t most_pieces = 3);

/// One JSON object: {"pieces": [{"from_bytes", "alpha", "seconds_per_byte"}], "latency", "processor":
/// {"per_transfer", "seconds_per_byte"}, "residuals": […]}. Of older versions without "processor": none.
std::string to_json(const CostModel& model);
/// Throws DataError that says what is wrong.
CostModel cost_model_from_json(const std::string& text);

}  // namespace tutti
