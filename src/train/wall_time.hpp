#pragma once
// Private to train: when a run with a limit of time must stop, by what its parts took until now.

#include <array>
#include <cstddef>
#include <cstdint>

namespace tutti {

/// Asked before every update, as the answer goes around with that update's sums: the update that brings
/// "stop" is the last one, and a checkpoint follows. So a run may go on only while there is time for the
/// update to come, for what follows it (an evaluation, a checkpoint), for one more update, which may be the
/// one that brings "stop", and for the checkpoint after it. Each part is taken to last as long as the longest
/// measured: of the last 32 updates, of all checkpoints and of all evaluations. Before the first evaluation
/// the median update stands for its parts, as a run's first updates take much longer than others. A quarter
/// is added, and half a second for the program's end. The times are seconds since the start of the program.
class WallTime {
  public:
    explicit WallTime(double limit) : limit_(limit) {}

    /// What the next update brings with it if the run goes on.
    struct Ahead {
        bool evaluates = false;  ///< an evaluation follows it
        bool saves = false;      ///< a checkpoint follows it
        bool last = false;       ///< no update follows it
        double updates_per_evaluation =
            0;  ///< what an evaluation costs while none was measured; of an update
    };

    /// Notes how long the update before took: the time between two calls, without checkpoints and
    /// evaluations.
    void before_update(double now);
    void saved(double seconds);
    void evaluated(double seconds);

    bool is_over(double now, const Ahead& ahead) const { return now + needed(ahead) > limit_; }
    /// Half of the time has passed, and no checkpoint has shown what one costs.
    bool wants_checkpoint(double now) const { return !has_saved_ && now > 0.5 * limit_; }
    double limit() const { return limit_; }

  private:
    static constexpr std::size_t remembered = 32;
    double needed(const Ahead& ahead) const;
    double median_update() const;

    double limit_;
    std::array<double, remembered> updates_{};
    std::size_t next_ = 0, filled_ = 0;
    double last_call_ = -1;  // none yet
    double between_ = 0;     // checkpoints and evaluations since then
    double checkpoint_ = 0, evaluation_ = 0;
    bool has_saved_ = false;
};

}  // namespace tutti
