#pragma once
// Private to comm: which ranks wait, too, where each waits for a few others?

#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tutti {

struct GlooJob;

/// What a rank tells of itself; its memory is what is sent.
struct GlooState {
    std::atomic<std::uint64_t> calls_and_one = 1;  ///< calls under way on this rank, or given up
    std::atomic<std::uint64_t> last_call = 0;      ///< code_of() the latest that began
};

/// Every rank keeps its GlooState for each other, which gloo's thread hands out to who asks for it. A rank at
/// other work answers, too; one that is stopped does not.
class GlooPresence {
  public:
    /// Collective in so far as all ranks have one. hosts: by rank, for messages.
    GlooPresence(std::shared_ptr<gloo::Context> context, std::shared_ptr<GlooJob> job,
                 std::shared_ptr<const std::vector<std::string>> hosts);

    /// For a rank that has waited too long, once: "nothing came from rank 3 on node7" of those that do not
    /// answer within 1.5 s; where all do, of those in which no call is under way. Whoever has gone, perhaps
    /// because it had waited too long itself, is not named.
    std::string silence();
    /// Likewise: "; the ranks wait in unlike calls (rank 0: …)" where all wait and that is so, else nothing.
    std::string unlike();
    /// Throws gloo's exception where the connection to that rank is closed.
    void require_connection(int rank);

  private:
    struct Answer {
        std::uint64_t calls_and_one = 0, last_call = 0;  ///< none: no answer
        bool gone = false;                               ///< the connection is closed
    };
    /// By rank.
    std::vector<Answer> ask();
    std::string unlike(const std::vector<Answer>& answers) const;

    std::shared_ptr<gloo::Context> context_;
    std::shared_ptr<GlooJob> job_;
    std::shared_ptr<const std::vector<std::string>> hosts_;
    std::vector<std::unique_ptr<gloo::transport::UnboundBuffer>> handed_out_;  ///< by rank; null: the own
};

}  // namespace tutti
