#include "tutti/train/account.hpp"

#include <fmt/format.h>

namespace tutti {

std::string Account::to_json() const {
    return fmt::format(
        R"({{"data": {:.6f}, "forward": {:.6f}, "backward": {:.6f}, "communication": {:.6f}, "optimizer": {:.6f}, )"
        R"("checkpoint": {:.6f}, "evaluation": {:.6f}}})",
        data, forward, backward, communication, optimizer, checkpoint, evaluation);
}

}  // namespace tutti
