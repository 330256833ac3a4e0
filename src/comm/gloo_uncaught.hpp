#pragma once
// Private to comm: what gloo's own thread throws.

#include <exception>
#include <functional>
#include <string>

namespace tutti {

/// gloo throws in its thread, where nobody catches it, when a peer has closed a connection that it has not
/// taken yet, or when no more files may be opened; std::terminate would end this process with SIGABRT. From
/// this call on it ends with exit code 5 and what `error` makes of the exception, a second later: who else
/// sees a peer end names it meanwhile. Other exceptions go to the handler that there was. The last call
/// counts; any thread.
void say_what_gloos_thread_throws(std::function<std::string(const std::exception&)> error);

}  // namespace tutti
