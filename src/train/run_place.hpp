#pragma once
// Where in a run the trainer is, for the error of a peer that is lost there.

#include <cstdint>
#include <functional>
#include <string>

namespace tutti {

struct RunPlace {
    enum class Work { before_step, step, evaluation, checkpoint, after_step };
    Work work = Work::before_step;
    std::int64_t step = 1;   ///< the one under way, or to come; else the last one
    std::int64_t epoch = 1;  ///< from 1; 0: of a run without any
};

/// "in step 1234 (epoch 3)", "in the evaluation after step 1234 (epoch 3)".
std::string to_text(const RunPlace& place);

/// Does `work`, which keeps `place` up to date. An error for a peer (ExitCode::peer) leaves it as "PLACE:
/// MESSAGE", an AgreedError as such, others as PeerError; all else as it is.
void name_place_of_lost_peers(const RunPlace& place, const std::function<void()>& work);

}  // namespace tutti
