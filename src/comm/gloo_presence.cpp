#include "gloo_presence.hpp"

#include <gloo/types.h>

#include <chrono>
#include <cstddef>
#include <exception>
#include <optional>
#include <utility>

#include "gloo_call_code.hpp"
#include "gloo_context.hpp"
#include "gloo_exchange.hpp"
#include "waiting.hpp"

namespace tutti {
namespace {

const std::uint64_t slot =
    static_cast<std::uint64_t>(gloo::Slot::build(static_cast<std::uint8_t>(GlooSlot::presence), 0));
constexpr std::chrono::milliseconds patience(1500);
static_assert(sizeof(GlooState) == 2 * sizeof(std::uint64_t));

}  // namespace

GlooPresence::GlooPresence(std::shared_ptr<gloo::Context> context, std::shared_ptr<GlooJob> job,
                           std::shared_ptr<const std::vector<std::string>> hosts)
    : context_(std::move(context)), job_(std::move(job)), hosts_(std::move(hosts)) {
    for (int rank = 0; rank < context_->size; ++rank) {
        auto& state = handed_out_.emplace_back();
        if (rank == context_->rank) continue;
        state = context_->createUnboundBuffer(&job_->state, sizeof(GlooState));
        state->send(rank, slot, 0, sizeof(GlooState));
    }
}

std::vector<GlooPresence::Answer> GlooPresence::ask() {
    const auto size = static_cast<std::size_t>(context_->size);
    std::vector<Answer> answers(size);
    std::vector<std::unique_ptr<gloo::transport::UnboundBuffer>> buffers(size);
    const auto with = [&](std::size_t rank, const auto& work) {
        if (answers[rank].gone || static_cast<int>(rank) == context_->rank) return;
        try {
            work(static_cast<int>(rank), buffers[rank]);
        } catch (const std::exception&) {
            answers[rank].gone = true;
        }
    };
    for (std::size_t rank = 0; rank < size; ++rank)
        with(rank, [&](int from, auto& buffer) {
            buffer = context_->createUnboundBuffer(&answers[rank], sizeof(GlooState));
            buffer->recv(from, slot, 0, sizeof(GlooState));
        });
    const auto end = std::chrono::steady_clock::now() + patience;
    for (std::size_t rank = 0; rank < size; ++rank)
        with(rank, [&](int, auto& buffer) {
            while (std::chrono::steady_clock::now() < end && job_->pulse.wait_receive(*buffer) < 0) {
            }
        });
    buffers.clear();  // nothing comes any more
    const auto own = static_cast<std::size_t>(context_->rank);
    answers[own] = {job_->state.calls_and_one, job_->state.last_call};
    return answers;
}

std::string GlooPresence::silence() {
    const std::vector<Answer> answers = ask();
    std::vector<int> mute, idle;
    for (int rank = 0; rank < context_->size; ++rank) {
        const Answer& answer = answers[static_cast<std::size_t>(rank)];
        if (answer.gone) continue;
        if (answer.calls_and_one == 0) mute.push_back(rank);
        if (answer.calls_and_one == 1) idle.push_back(rank);
    }
    if (mute.empty() && idle.empty()) return all_wait + unlike(answers);
    return describe_silence(mute.empty() ? idle : mute, *hosts_) + unlike(answers);
}

std::string GlooPresence::unlike() {
    return unlike(ask());
}

std::string GlooPresence::unlike(const std::vector<Answer>& answers) const {
    std::vector<std::optional<std::string>> calls;
    for (const Answer& answer : answers) {
        // Where one is silent some of the others may be a call further.
        if (!answer.gone && answer.calls_and_one <= 1) return {};
        calls.push_back(!answer.gone && answer.last_call != 0 ? std::optional(describe_call(answer.last_call))
                                                              : std::nullopt);
    }
    const std::string found = unlike_calls(calls);
    return found.empty() ? "" : "; " + describe_unlike_calls(found) + ": " + same_calls;
}

void GlooPresence::require_connection(int rank) {
    gloo::transport::UnboundBuffer& state = *handed_out_[static_cast<std::size_t>(rank)];
    state.abortWaitSend();  // returns at once, unless the connection has failed
    state.waitSend(nullptr, gloo_timeout(0));
}

}  // namespace tutti
