#pragma once
// Private to comm: NCCL, or through host memory.

#include <functional>
#include <optional>
#include <string>

#include "tutti/base/config.hpp"
#include "tutti/comm/communicator.hpp"

namespace tutti {

/// Nothing: NCCL, which open_nccl_here has opened on every rank. Else gradients go through host memory, and
/// the text says why where nobody asked for it; the same on every rank. Collective where NCCL is in question.
/// Throws AgreedError where NCCL was asked for and a rank cannot open it.
std::optional<std::string> choose_staging(Backend asked, Communicator& bootstrap,
                                          const std::function<void()>& open_nccl_here);

}  // namespace tutti
