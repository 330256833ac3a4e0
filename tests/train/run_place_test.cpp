// The place of a run in the error of a lost peer.
#include "run_place.hpp"

#include <gtest/gtest.h>

#include <typeinfo>

#include "tutti/base/error.hpp"
#include "tutti/comm/communicator.hpp"

namespace tutti {
namespace {

TEST(RunPlace, IsASentencesBeginning) {
    EXPECT_EQ(to_text(RunPlace{}), "before step 1 (epoch 1)");
    EXPECT_EQ(to_text(RunPlace{RunPlace::Work::step, 1234, 3}), "in step 1234 (epoch 3)");
    EXPECT_EQ(to_text(RunPlace{RunPlace::Work::evaluation, 1234, 3}),
              "in the evaluation after step 1234 (epoch 3)");
    EXPECT_EQ(to_text(RunPlace{RunPlace::Work::checkpoint, 1234, 3}),
              "at the checkpoint of step 1234 (epoch 3)");
    EXPECT_EQ(to_text(RunPlace{RunPlace::Work::after_step, 1234, 3}), "after step 1234 (epoch 3)");
    EXPECT_EQ(to_text(RunPlace{RunPlace::Work::after_step, 0, 0}), "after step 0");
}

/// The type, code and message with which `error` leaves work that has come to step 7.
template <class Thrown>
std::string leaves_as(const Thrown& error) {
    RunPlace place;
    try {
        name_place_of_lost_peers(place, [&] {
            place = {RunPlace::Work::step, 7, 2};
            throw error;
        });
    } catch (const Error& caught) {
        const char* const type = typeid(caught) == typeid(AgreedError) ? "agreed"
                                 : typeid(caught) == typeid(PeerError) ? "peer"
                                                                       : "other";
        return std::string(type) + " " + std::to_string(static_cast<int>(caught.code())) + " " +
               caught.what();
    }
    return "nothing";
}

TEST(RunPlace, IsNamedWhereAPeerIsLost) {
    EXPECT_EQ(leaves_as(PeerError("lost", "look")), "peer 5 in step 7 (epoch 2): lost; look");
    EXPECT_EQ(leaves_as(AgreedError(ExitCode::peer, "lost")), "agreed 5 in step 7 (epoch 2): lost");
    EXPECT_EQ(leaves_as(Error(ExitCode::peer, "lost")), "peer 5 in step 7 (epoch 2): lost");
}

TEST(RunPlace, IsLeftOutOfOtherErrors) {
    EXPECT_EQ(leaves_as(AgreedError(ExitCode::failed, "the loss is nan")), "agreed 1 the loss is nan");
    EXPECT_EQ(leaves_as(DataError("missing")), "other 4 missing");
    EXPECT_THROW(name_place_of_lost_peers({}, [] { throw std::bad_alloc(); }), std::bad_alloc);
}

}  // namespace
}  // namespace tutti
