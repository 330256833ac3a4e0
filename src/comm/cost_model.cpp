#include "tutti/comm/cost_model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "tutti/base/error.hpp"
#include "tutti/base/json_input.hpp"

namespace tutti {
namespace {

/// Relative errors below this are noise of the measurement: no piece is spent on them.
constexpr double noise = 0.01;
constexpr std::size_t fewest_sizes = 3;

struct Line {
    double alpha = 0, beta = 0, error = 0;  ///< error: sum of squared relative errors
    double at(double bytes) const { return alpha + beta * bytes; }
};

double squared_error(std::span<const CostSample> samples, double alpha, double beta) {
    double sum = 0;
    for (const CostSample& sample : samples) {
        const double relative = (alpha + beta * sample.bytes) / sample.seconds - 1;
        sum += relative * relative;
    }
    return sum;
}

/// Least squares of α·u + β·x = 1 with u = 1/t, x = bytes/t: orthogonalise x against u, then solve. α ≥ 0 is
/// asked of the first piece only, whose extrapolation goes down to zero bytes.
Line fit_line(std::span<const CostSample> samples, bool first) {
    double uu = 0, ux = 0, xx = 0, u1 = 0, x1 = 0;
    for (const CostSample& sample : samples) {
        const double u = 1 / sample.seconds, x = sample.bytes / sample.seconds;
        uu += u * u;
        ux += u * x;
        xx += x * x;
        u1 += u;
        x1 += x;
    }
    const double lean = ux / uu;
    double across = 0, across_1 = 0;
    for (const CostSample& sample : samples) {
        const double rest = (sample.bytes - lean) / sample.seconds;
        across += rest * rest;
        across_1 += rest;
    }
    const bool one_size = !(across > 1e-18 * xx);
    double beta = one_size ? (xx > 0 ? x1 / xx : 0) : across_1 / across;
    double alpha = one_size && xx > 0 ? 0 : u1 / uu - lean * beta;
    if (beta < 0) {
        beta = 0;
        alpha = u1 / uu;
    } else if (first && alpha < 0) {
        alpha = 0;
        beta = x1 / xx;
    }
    return {alpha, beta, squared_error(samples, alpha, beta)};
}

/// A border is chosen among many, which counts as three numbers: with one
/// number, plain noise of 5 % is cut in one of ten cases.
double criterion(double error, std::size_t samples, std::size_t pieces) {
    const auto n = static_cast<double>(samples);
    return n * std::log(error / n + noise * noise) +
           (5 * static_cast<double>(pieces) - 3) * std::log(std::max(n, 2.0));
}

/// Where the second line takes over from the first between two neighbouring samples: at their crossing, or,
/// if they do not cross there (a jump), half way on a scale of ratios.
double border(const Line& before, const Line& after, double last, double next) {
    if (before.beta != after.beta) {
        const double crossing = (after.alpha - before.alpha) / (before.beta - after.beta);
        constexpr double rounding = 1e-6;  // lines that cross at a sample, which either may have
        if (crossing > last * (1 - rounding) && crossing <= next * (1 + rounding))
            return std::clamp(crossing, last, next);
    }
    return last > 0 ? std::sqrt(last * next) : next;
}

/// Samples by size, and where each size begins (one past the last at the end).
struct BySize {
    std::vector<CostSample> samples;
    std::vector<std::size_t> begins;

    std::span<const CostSample> sizes(std::size_t first, std::size_t end) const {
        return std::span(samples).subspan(begins[first], begins[end] - begins[first]);
    }
    std::size_t count() const { return begins.size() - 1; }
};

BySize sort_by_size(std::span<const CostSample> samples) {
    BySize sorted{{samples.begin(), samples.end()}, {}};
    std::stable_sort(sorted.samples.begin(), sorted.samples.end(),
                     [](const CostSample& a, const CostSample& b) { return a.bytes < b.bytes; });
    for (std::size_t i = 0; i < sorted.samples.size(); ++i)
        if (i == 0 || sorted.samples[i].bytes > sorted.samples[i - 1].bytes) sorted.begins.push_back(i);
    sorted.begins.push_back(sorted.samples.size());
    return sorted;
}

/// best[k][e]: least error of the first e sizes in k + 1 pieces, and where the last of them begins.
struct Choice {
    double error = std::numeric_limits<double>::infinity();
    std::size_t begin = 0;
};

std::vector<std::vector<Choice>> best_cuts(const BySize& sorted, std::size_t most_pieces) {
    const std::size_t sizes = sorted.count();
    std::vector<std::vector<Choice>> best(most_pieces, std::vector<Choice>(sizes + 1));
    for (std::size_t end = 1; end <= sizes; ++end)
        best[0][end] = {fit_line(sorted.sizes(0, end), true).error, 0};
    for (std::size_t k = 1; k < most_pieces; ++k)
        for (std::size_t end = (k + 1) * fewest_sizes; end <= sizes; ++end)
            for (std::size_t begin = k * fewest_sizes; begin + fewest_sizes <= end; ++begin) {
                const double error =
                    best[k - 1][begin].error + fit_line(sorted.sizes(begin, end), false).error;
                if (error < best[k][end].error) best[k][end] = {error, begin};
            }
    return best;
}

std::vector<CostPiece> pieces_of(const BySize& sorted, const std::vector<std::size_t>& begins) {
    std::vector<CostPiece> pieces;
    Line before;
    for (std::size_t k = 0; k < begins.size(); ++k) {
        const std::size_t end = k + 1 < begins.size() ? begins[k + 1] : sorted.count();
        const Line line = fit_line(sorted.sizes(begins[k], end), k == 0);
        double from = 0;
        if (k > 0)
            from = border(before, line, sorted.sizes(begins[k] - 1, begins[k]).front().bytes,
                          sorted.sizes(begins[k], end).front().bytes);
        pieces.push_back({from, line.alpha, line.beta});
        before = line;
    }
    return pieces;
}

/// The same times as CostModel::seconds() has them, each piece's by its own numbers: where a line lies below
/// the end of the one before, a level piece holds that end until the line has come up to it.
std::vector<CostPiece> never_falling(const std::vector<CostPiece>& lines) {
    std::vector<CostPiece> pieces;
    double reached = 0;
    for (std::size_t k = 0; k < lines.size(); ++k) {
        const auto& [from, alpha, beta] = lines[k];
        const double end =
            k + 1 < lines.size() ? lines[k + 1].from_bytes : std::numeric_limits<double>::infinity();
        const double meets = beta > 0 ? (reached - alpha) / beta : std::numeric_limits<double>::infinity();
        // Lines that cross at the border meet there but for roundings.
        if (alpha + beta * from >= reached * (1 - 1e-9) || !(meets > from)) {
            pieces.push_back(lines[k]);
        } else {
            pieces.push_back({from, reached, 0});
            if (meets < end) pieces.push_back({meets, alpha, beta});
        }
        if (k + 1 < lines.size()) reached = std::max(reached, alpha + beta * end);
    }
    return pieces;
}

void require_valid(std::span<const CostSample> samples) {
    if (samples.empty()) throw UsageError("a cost model needs at least one sample", "measure one size");
    for (const CostSample& sample : samples)
        if (!(std::isfinite(sample.bytes) && sample.bytes >= 0 && std::isfinite(sample.seconds) &&
              sample.seconds > 0))
            throw UsageError("a cost model cannot use the sample of " + std::to_string(sample.bytes) +
                                 " bytes in " + std::to_string(sample.seconds) + " s",
                             "bytes must not be negative, seconds must be positive");
}

}  // namespace

CostModel::CostModel(std::vector<CostPiece> pieces, std::vector<double> residuals)
    : pieces_(std::move(pieces)), residuals_(std::move(residuals)) {
    double from = 0;
    for (std::size_t k = 0; k < pieces_.size(); ++k) {
        const CostPiece& piece = pieces_[k];
        const bool placed = k == 0 ? piece.from_bytes == 0 : piece.from_bytes > from;
        if (!placed || !std::isfinite(piece.from_bytes) || !std::isfinite(piece.alpha) ||
            !(std::isfinite(piece.seconds_per_byte) && piece.seconds_per_byte >= 0))
            throw UsageError("piece " + std::to_string(k) + " of a cost model is not one",
                             "pieces begin at 0 and ascend, with finite numbers and a slope of at least 0");
        from = piece.from_bytes;
    }
}

double CostModel::seconds(double bytes) const {
    double longest = 0;
    for (std::size_t k = 0; k < pieces_.size() && pieces_[k].from_bytes <= bytes; ++k) {
        const double end = k + 1 < pieces_.size() ? std::min(bytes, pieces_[k + 1].from_bytes) : bytes;
        longest = std::max(longest, pieces_[k].alpha + pieces_[k].seconds_per_byte * end);
    }
    return longest;
}

double CostModel::least_seconds(double bytes) const {
    double least = seconds(bytes), longest = 0;
    // Lines that begin above the latency fall per byte, others rise: the least is at the end of one, which
    // may be where it leaves what the piece before holds.
    const auto consider = [&](double size, double seconds) {
        if (size > 0 && size < bytes)
            least = std::min(least, latency_ + bytes * ((seconds - latency_) / size));
    };
    for (std::size_t k = 0; k < pieces_.size() && pieces_[k].from_bytes < bytes; ++k) {
        const CostPiece& piece = pieces_[k];
        const double end = k + 1 < pieces_.size() ? pieces_[k + 1].from_bytes : bytes;
        if (piece.seconds_per_byte > 0) {
            const double leaves = (longest - piece.alpha) / piece.seconds_per_byte;
            if (leaves > piece.from_bytes && leaves < end) consider(leaves, longest);
        }
        longest = std::max(longest, piece.alpha + piece.seconds_per_byte * end);
        consider(end, longest);
    }
    return least;
}

CostModel CostModel::with_latency(double seconds) const {
    CostModel model = *this;
    model.latency_ = std::clamp(seconds, 0.0, this->seconds(0));
    return model;
}

CostModel CostModel::with_processor(const ProcessorCost& processor) const {
    for (const double seconds : {processor.per_transfer, processor.seconds_per_byte})
        if (!std::isfinite(seconds) || seconds < 0)
            throw UsageError("a transfer takes " + std::to_string(seconds) + " s of the processor",
                             "give numbers of at least 0");
    CostModel model = *this;
    model.processor_ = processor;
    return model;
}

double CostModel::worst_residual() const {
    double worst = 0;
    for (const double residual : residuals_) worst = std::max(worst, std::abs(residual));
    return worst;
}

CostModel fit_cost(std::span<const CostSample> samples, std::size_t most_pieces) {
    require_valid(samples);
    most_pieces = std::max<std::size_t>(most_pieces, 1);
    const BySize sorted = sort_by_size(samples);
    const auto best = best_cuts(sorted, most_pieces);

    std::size_t chosen = 1;
    for (std::size_t pieces = 2; pieces <= most_pieces; ++pieces) {
        const auto score = [&](std::size_t count) {
            return criterion(best[count - 1][sorted.count()].error, samples.size(), count);
        };
        if (score(pieces) < score(chosen)) chosen = pieces;
    }
    std::vector<std::size_t> begins(chosen);
    for (std::size_t k = chosen, end = sorted.count(); k-- > 0; end = begins[k])
        begins[k] = best[k][end].begin;

    auto pieces = never_falling(pieces_of(sorted, begins));
    const CostModel model(pieces);
    std::vector<double> residuals;
    residuals.reserve(samples.size());
    for (const CostSample& sample : samples)
        residuals.push_back(model.seconds(sample.bytes) / sample.seconds - 1);
    return CostModel(std::move(pieces), std::move(residuals));
}

std::string to_json(const CostModel& model) {
    nlohmann::ordered_json json;
    json["pieces"] = nlohmann::ordered_json::array();
    for (const CostPiece& piece : model.pieces()) {
        nlohmann::ordered_json row;
        row["from_bytes"] = piece.from_bytes;
        row["alpha"] = piece.alpha;
        row["seconds_per_byte"] = piece.seconds_per_byte;
        json["pieces"].push_back(std::move(row));
    }
    json["latency"] = model.latency();
    json["processor"]["per_transfer"] = model.processor().per_transfer;
    json["processor"]["seconds_per_byte"] = model.processor().seconds_per_byte;
    json["residuals"] = std::vector<double>(model.residuals().begin(), model.residuals().end());
    return json.dump();
}

CostModel cost_model_from_json(const std::string& text) {
    try {
        const auto json = parse_json<nlohmann::json>(text);
        std::vector<CostPiece> pieces;
        for (const auto& row : json.at("pieces"))
            pieces.push_back({row.at("from_bytes").get<double>(), row.at("alpha").get<double>(),
                              row.at("seconds_per_byte").get<double>()});
        std::vector<double> residuals;
        if (json.contains("residuals")) residuals = json.at("residuals").get<std::vector<double>>();
        ProcessorCost processor;
        if (json.contains("processor"))
            processor = {json.at("processor").at("per_transfer").get<double>(),
                         json.at("processor").at("seconds_per_byte").get<double>()};
        return CostModel(std::move(pieces), std::move(residuals))
            .with_latency(json.value("latency", 0.0))
            .with_processor(processor);
    } catch (const nlohmann::json::exception& error) {
        throw DataError("not a cost model: " + json_problem(error.what()), "measure it anew");
    } catch (const UsageError& error) {
        throw DataError(std::string("not a cost model: ") + error.what(), "measure it anew");
    }
}

}  // namespace tutti
