#pragma once
// Gradients in fewer bytes while they are on their way.

#include <memory>

#include "tutti/comm/communicator.hpp"

namespace tutti {

/// The ranks of `host`, whose sums of f32 (all_reduce) travel as bf16: half of the bytes. Every value is
/// rounded to bf16 (to the nearest, ties to even), those of all ranks are added in fp32 in rank order, and
/// the sum is rounded once more, whatever the number of ranks: with u = 2⁻⁸ the error is at most
/// u·(|x₀| + |x₁| + …) + u·|sum of the rounded|, beside fp32's own. (With several ranks on each of several
/// hosts the hosts' sums are rounded, too.) All ranks get the same bits, and what is not finite stays so.
/// Everything else goes as `host` sends it.
///
/// Memory that the host can address only. No other memory is needed: the bf16 lie in the front half of the
/// buffer, which is rounded by the call and widened in the test() or wait() that sees the end.
std::unique_ptr<Communicator> make_compressing_communicator(std::unique_ptr<Communicator> host);

}  // namespace tutti
