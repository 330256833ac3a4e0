#include <algorithm>
#include <charconv>
#include <system_error>

#include "tutti/base/host_name.hpp"
#include "tutti/comm/communicator.hpp"

namespace tutti {
namespace {

TensorView text_bytes(std::string& text) {
    return view_of(std::span(reinterpret_cast<unsigned char*>(text.data()), text.size()));
}

bool failed(const Failure& failure) {
    return failure.code != ExitCode::done;
}

/// What a rank of some host tells the others.
struct RankReport {
    Failure failure;
    std::string host;
};

/// A report as one text: the code's number, the host, the message, with a space between.
std::string pack(const RankReport& report) {
    return std::to_string(static_cast<int>(report.failure.code)) + " " + report.host + " " +
           report.failure.message;
}
RankReport unpack(const std::string& text) {
    int code = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), code);
    const std::size_t host = static_cast<std::size_t>(end - text.data()) + 1,
                      message = text.find(' ', host) + 1;
    return {{error == std::errc{} ? static_cast<ExitCode>(code) : ExitCode::failed, text.substr(message)},
            text.substr(host, message - 1 - host)};
}

/// What every rank throws, from every rank's report.
AgreedError decide(const std::vector<RankReport>& reports) {
    const auto has_failed = [](const RankReport& report) { return failed(report.failure); };
    const auto first = std::find_if(reports.begin(), reports.end(), has_failed);
    const auto others = std::count_if(first + 1, reports.end(), has_failed);
    const auto& [code, text] = first->failure;
    const bool all_alike = std::all_of(reports.begin(), reports.end(), [&](const RankReport& report) {
        return has_failed(report) && report.failure.message == text;
    });
    if (all_alike) return {code, text};

    std::string message =
        "rank " + std::to_string(first - reports.begin()) + " on " + first->host + ": " + text;
    if (others > 0)
        message += " (and " + std::to_string(others) + (others == 1 ? " other rank)" : " other ranks)");
    return {code, message};
}

}  // namespace

std::string broadcast_text(Communicator& communicator, const std::string& text, int root) {
    const bool mine = communicator.rank() == root;
    std::int64_t length = mine ? static_cast<std::int64_t>(text.size()) : 0;
    communicator.broadcast(view_of(std::span(&length, 1)), root).wait();

    std::string result = text;
    result.resize(static_cast<std::size_t>(length));
    communicator.broadcast(text_bytes(result), root).wait();
    return result;
}

std::vector<std::string> all_gather_text(Communicator& communicator, const std::string& text) {
    const auto ranks = static_cast<std::size_t>(communicator.size());
    auto length = static_cast<std::int64_t>(text.size());
    std::vector<std::int64_t> lengths(ranks);
    communicator.all_gather(view_of(std::span(&length, 1)), view_of(std::span(lengths))).wait();

    // Every rank sends as much as the longest text needs, so that the blocks have one size.
    const auto block = static_cast<std::size_t>(*std::max_element(lengths.begin(), lengths.end()));
    std::string padded = text;
    padded.resize(block);
    std::string all(block * ranks, '\0');
    communicator.all_gather(text_bytes(padded), text_bytes(all)).wait();

    std::vector<std::string> texts;
    for (std::size_t rank = 0; rank < ranks; ++rank)
        texts.push_back(all.substr(rank * block, static_cast<std::size_t>(lengths[rank])));
    return texts;
}

void agree(Communicator& communicator, const Failure& mine, const std::string& phase) {
    std::vector<RankReport> reports;
    try {
        // The good case is one small collective; the texts travel only when there is something to say.
        std::int64_t any = failed(mine) ? 1 : 0;
        communicator.all_reduce(view_of(std::span(&any, 1)), ReduceOp::max).wait();
        if (any == 0) return;
        for (const auto& text : all_gather_text(communicator, pack({mine, host_name()})))
            reports.push_back(unpack(text));
    } catch (const PeerError& error) {
        // This rank's own failure must not get lost because a peer did not come to hear of it.
        if (failed(mine)) throw Error(mine.code, mine.message);
        throw PeerError(phase + ": " + error.what());
    }
    throw decide(reports);
}

void tell_errors(Communicator& communicator, const std::function<void()>& work) {
    try {
        work();
    } catch (const Error& error) {
        communicator.will_end_with(error.code(), error.what());
        throw;
    } catch (const std::exception& error) {
        communicator.will_end_with(ExitCode::failed, error.what());
        throw;
    }
}

void together(Communicator& communicator, const std::string& phase, const std::function<void()>& work) {
    Failure failure;
    try {
        work();
    } catch (const Error& error) {
        failure = {error.code(), error.what()};
    } catch (const std::bad_alloc&) {
        failure = {ExitCode::failed, phase + ": not enough memory; use a smaller model or train.batch_size"};
    } catch (const std::system_error& error) {
        // Of a thread that could not be started.
        const bool at_limit = error.code() == std::errc::resource_unavailable_try_again;
        failure = {ExitCode::failed, phase + ": " + error.what() +
                                         (at_limit ? "; raise the limits on processes and memory (ulimit -u, "
                                                     "ulimit -v)"
                                                   : "")};
    } catch (const std::exception& error) {
        failure = {ExitCode::failed, phase + ": " + error.what()};
    }
    agree(communicator, failure, phase);
}

void together_on_first_rank(Communicator& communicator, const std::string& phase,
                            const std::function<void()>& work) {
    together(communicator, phase, [&] {
        if (communicator.rank() == 0) work();
    });
}

}  // namespace tutti
