#pragma once
// What every communicator must do, as checks that any backend's tests run on all ranks. The values are small
// whole numbers, whose sums are exact in every type and order, so equality is demanded.

#include <ostream>
#include <span>

#include "tutti/comm/communicator.hpp"

namespace tutti::test {

struct ContractCheck {
    const char* name;
    void (*run)(Communicator& communicator);
};

/// The checks, in a fixed order; each is collective and uses GoogleTest's EXPECT on every rank.
std::span<const ContractCheck> communicator_contract();

/// "all_reduce_sums", for INSTANTIATE_TEST_SUITE_P and failure messages.
inline std::ostream& operator<<(std::ostream& out, const ContractCheck& check) {
    return out << check.name;
}

}  // namespace tutti::test
