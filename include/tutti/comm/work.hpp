#pragma once
// A transfer under way.

#include <memory>
#include <utility>

namespace tutti {

/// Handle of an asynchronous collective. It owns what the transfer needs besides the caller's buffer. Until
/// wait() returns, or test() has returned true, the buffer given to the call must neither be read, written
/// nor freed by anybody. A transfer only moves on within calls: test() and wait() of any Work drive all
/// transfers of the process's all-reduces, and whatever MPI has under way. So poll now and then while
/// computing, any pending Work will do. Move-only. Destroying a pending Work waits first. Used by the thread
/// that issued it.
class Work {
  public:
    class Transfer {
      public:
        virtual ~Transfer() = default;
        /// Progresses; true when finished. Throws PeerError when a peer failed or the time-out passed.
        virtual bool test() = 0;
        virtual void wait() = 0;
    };

    /// Already finished.
    Work() = default;
    explicit Work(std::unique_ptr<Transfer> transfer) : transfer_(std::move(transfer)) {}
    Work(Work&&) noexcept = default;
    Work& operator=(Work&& other) {
        if (this != &other) {
            wait();
            transfer_ = std::move(other.transfer_);
        }
        return *this;
    }
    ~Work() {
        // A transfer that fails while its owner unwinds has nobody left to tell; the first error is on its
        // way.
        try {
            wait();
        } catch (...) {
        }
    }

    bool test() {
        if (transfer_ && transfer_->test()) transfer_.reset();
        return !transfer_;
    }
    void wait() {
        if (transfer_) {
            auto transfer = std::move(transfer_);
            transfer->wait();
        }
    }

  private:
    std::unique_ptr<Transfer> transfer_;
};

}  // namespace tutti
