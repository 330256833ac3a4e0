#include "gloo_uncaught.hpp"

#include <gloo/common/error.h>
#include <gloo/common/logging.h>

#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>

#include "waiting.hpp"

namespace tutti {
namespace {

/// Never freed: gloo's thread may outlive main().
struct Words {
    std::mutex mutex;
    std::function<std::string(const std::exception&)> error;
};
Words& words() {
    static auto* const all = new Words;
    return *all;
}

[[noreturn]] void end_for(const std::exception& error) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    const std::lock_guard lock(words().mutex);
    end_for_lost_peer(words().error(error));
}

std::terminate_handler before = nullptr;

[[noreturn]] void handle() {
    if (const std::exception_ptr thrown = std::current_exception()) {
        try {
            std::rethrow_exception(thrown);
        } catch (const gloo::EnforceNotMet& error) {
            end_for(error);
        } catch (const gloo::Exception& error) {
            end_for(error);
        } catch (...) {
        }
    }
    if (before != nullptr) before();
    std::abort();
}

}  // namespace

void say_what_gloos_thread_throws(std::function<std::string(const std::exception&)> error) {
    const std::lock_guard lock(words().mutex);
    words().error = std::move(error);
    if (std::get_terminate() != handle) before = std::set_terminate(handle);
}

}  // namespace tutti
