#include "gloo_presence.hpp"

#include <gloo/types.h>

#include <chrono>
#include <cstdint>
#include <exception>
#include <utility>

#include "gloo_context.hpp"
#include "gloo_exchange.hpp"
#include "waiting.hpp"

namespace tutti {
namespace {

const std::uint64_t slot =
    static_cast<std::uint64_t>(gloo::Slot::build(static_cast<std::uint8_t>(GlooSlot::presence), 0));
constexpr std::chrono::milliseconds patience(1500);

}  // namespace

GlooPresence::GlooPresence(std::shared_ptr<gloo::Context> context, std::shared_ptr<GlooJob> job,
                           std::shared_ptr<const std::vector<std::string>> hosts)
    : context_(std::move(context)), job_(std::move(job)), hosts_(std::move(hosts)) {
    for (int rank = 0; rank < context_->size; ++rank) {
        auto& byte = handed_out_.emplace_back();
        if (rank == context_->rank) continue;
        byte = context_->createUnboundBuffer(&job_->calls_and_one, 1);
        byte->send(rank, slot, 0, 1);
    }
}

std::string GlooPresence::silence() {
    const auto size = static_cast<std::size_t>(context_->size);
    std::vector<std::uint8_t> answers(size, 0);
    std::vector<bool> gone(size, false);
    {
        std::vector<std::unique_ptr<gloo::transport::UnboundBuffer>> buffers(size);
        const auto with = [&](std::size_t rank, const auto& work) {
            if (gone[rank] || static_cast<int>(rank) == context_->rank) return;
            try {
                work(static_cast<int>(rank), buffers[rank]);
            } catch (const std::exception&) {
                gone[rank] = true;  // the connection is closed
            }
        };
        for (std::size_t rank = 0; rank < size; ++rank)
            with(rank, [&](int from, auto& buffer) {
                buffer = context_->createUnboundBuffer(&answers[rank], 1);
                buffer->recv(from, slot, 0, 1);
            });
        const auto end = std::chrono::steady_clock::now() + patience;
        for (std::size_t rank = 0; rank < size; ++rank)
            with(rank, [&](int, auto& buffer) {
                while (std::chrono::steady_clock::now() < end && job_->pulse.wait_receive(*buffer) < 0) {
                }
            });
    }  // nothing comes any more
    std::vector<int> mute, idle;
    for (int rank = 0; rank < context_->size; ++rank) {
        const auto place = static_cast<std::size_t>(rank);
        if (rank == context_->rank || gone[place]) continue;
        if (answers[place] == 0) mute.push_back(rank);
        if (answers[place] == 1) idle.push_back(rank);
    }
    if (mute.empty() && idle.empty()) return all_wait;
    return describe_silence(mute.empty() ? idle : mute, *hosts_);
}

void GlooPresence::require_connection(int rank) {
    gloo::transport::UnboundBuffer& byte = *handed_out_[static_cast<std::size_t>(rank)];
    byte.abortWaitSend();  // returns at once, unless the connection has failed
    byte.waitSend(nullptr, gloo_timeout(0));
}

}  // namespace tutti
