// main() of tests that run under mpirun. Rank 0 prints and writes the report; a failure on another rank fails
// the same test on rank 0, with its message. A rank that ends in another way ends the job.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "mpi_environment.hpp"

namespace tutti::test {
namespace {

MpiSession* the_session = nullptr;

/// Seconds that ranks may differ in reaching the end of one test.
constexpr double patience = 60;

class GatherFailures final : public testing::EmptyTestEventListener {
  public:
    explicit GatherFailures(std::unique_ptr<Communicator> communicator)
        : communicator_(std::move(communicator)) {}

    void OnTestPartResult(const testing::TestPartResult& result) override {
        if (!result.failed() || communicator_->rank() == 0) return;
        const char* const file = result.file_name();
        failures_ += std::string(file != nullptr ? file : "unknown file") + ":" +
                     std::to_string(result.line_number()) + ": " + result.summary() + "\n";
    }

    void OnTestEnd(const testing::TestInfo&) override {
        std::vector<std::string> all;
        try {
            all = all_gather_text(*communicator_, failures_);
        } catch (const Error& error) {
            std::fprintf(stderr, "rank %d: the ranks are not at the same test: %s\n%s", communicator_->rank(),
                         error.what(), failures_.c_str());
            communicator_->abort(ExitCode::peer);
        }
        failures_.clear();
        if (communicator_->rank() != 0) return;
        for (std::size_t rank = 1; rank < all.size(); ++rank)
            if (!all[rank].empty()) ADD_FAILURE() << "rank " << rank << " failed:\n" << all[rank];
    }

  private:
    std::unique_ptr<Communicator> communicator_;
    std::string failures_;
};

int run(int argc, char** argv) {
    std::vector<char*> arguments;
    for (int i = 0; i < argc; ++i)
        if (session().rank() == 0 || std::string(argv[i]).rfind("--gtest_output", 0) != 0)
            arguments.push_back(argv[i]);
    if (session().rank() != 0) unsetenv("GTEST_OUTPUT");
    arguments.push_back(nullptr);
    int count = static_cast<int>(arguments.size()) - 1;
    testing::InitGoogleTest(&count, arguments.data());

    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    if (session().rank() != 0) delete listeners.Release(listeners.default_result_printer());
    // End events come in reverse order: the last listener still adds to the result that the printer then
    // shows.
    auto* const gather = new GatherFailures(session().world(patience)->duplicate());
    listeners.Append(gather);
    const int status = RUN_ALL_TESTS();
    // GoogleTest would delete it at exit, after MPI has ended.
    delete listeners.Release(gather);
    return status;
}

}  // namespace

MpiSession& session() {
    return *the_session;
}

}  // namespace tutti::test

int main(int argc, char** argv) {
    tutti::MpiSession session;
    tutti::test::the_session = &session;
    try {
        return tutti::test::run(argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %d: %s\n", session.rank(), error.what());
        session.world(0)->abort(tutti::ExitCode::failed);
    }
}
