#pragma once
// Where the tests are root's: acting as somebody whom permissions keep out.

#include <unistd.h>

#include <stdexcept>

namespace tutti::test {

/// While it lives root is nobody (65534), of root's group still; who is not root stays who he is. It concerns
/// the whole process.
class Unprivileged {
  public:
    Unprivileged() { change_to(65534); }
    ~Unprivileged() {
        if (was_root_ && ::seteuid(0) != 0) ::_exit(70);  // the tests that follow would fail for nothing
    }
    Unprivileged(const Unprivileged&) = delete;
    Unprivileged& operator=(const Unprivileged&) = delete;

  private:
    void change_to(uid_t user) const {
        if (was_root_ && ::seteuid(user) != 0) throw std::runtime_error("root cannot act as another user");
    }

    bool was_root_ = ::geteuid() == 0;
};

}  // namespace tutti::test
