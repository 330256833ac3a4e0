#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "checks.hpp"
#include "deadline.hpp"
#include "gloo_call_code.hpp"
#include "gloo_collectives.hpp"
#include "gloo_context.hpp"
#include "network_interfaces.hpp"
#include "tutti/base/host_name.hpp"
#include "tutti/base/stop_signal.hpp"
#include "tutti/comm/all_reduce_path.hpp"
#include "tutti/comm/gloo.hpp"
#include "waiting.hpp"

namespace tutti {
namespace {

PeerError lost(const GlooPlace& place, const std::string& call, double waited, const std::string& reason) {
    return PeerError(describe_wait(call, place.rank, place.host, waited) + " (" + reason + ")", slow_or_dead);
}

/// `waited` seconds after a call began to wait. Throws PeerError where nobody is to be waited for any more.
void watch(GlooMesh& mesh, const std::string& call, double waited, const Session::Notice& notice) {
    auto& job = mesh.job();
    const GlooPlace& place = mesh.place();
    if (const std::string reason = job.reason(); !reason.empty()) throw lost(place, call, waited, reason);
    if (!notice || waited < 0.3 || StopSignal::seconds_since_term() < 0.3) return;
    {
        const std::lock_guard lock(job.mutex);
        if (job.noticed) return;
        job.noticed = true;
    }
    notice(describe_wait_after_term(call, place.rank, place.host));
}

class GlooTransfer final : public Work::Transfer {
  public:
    GlooTransfer(std::shared_ptr<GlooMesh> mesh, std::shared_ptr<GlooMesh::Operation> operation,
                 std::string call, Session::Notice notice)
        : mesh_(std::move(mesh)),
          operation_(std::move(operation)),
          call_(std::move(call)),
          notice_(std::move(notice)) {}

    bool test() override { return poll(0); }

    void wait() override {
        while (!poll(0.05)) {
        }
    }

  private:
    bool poll(double seconds) {
        std::string error;
        const bool done = mesh_->finished(*operation_, seconds, error);
        if (done && error.empty()) return true;
        const double waited = waited_.now();
        if (!error.empty()) throw lost(mesh_->place(), call_, waited, error);
        watch(*mesh_, call_, waited, notice_);
        return false;
    }

    std::shared_ptr<GlooMesh> mesh_;
    std::shared_ptr<GlooMesh::Operation> operation_;
    std::string call_;
    Session::Notice notice_;
    WaitClock waited_;
};

class GlooCommunicator final : public Communicator {
  public:
    GlooCommunicator(std::shared_ptr<GlooMesh> mesh, double timeout, Session::Notice notice)
        : mesh_(std::move(mesh)), timeout_(timeout), notice_(std::move(notice)) {}

    int rank() const override { return mesh_->place().rank; }
    int size() const override { return mesh_->place().size; }
    std::string backend() const override { return "gloo"; }
    std::string all_reduce_path() const override {
        return mesh_->hosts() ? ways::hosts_then_gloo : ways::gloo;
    }
    bool sums_in_fixed_order() const override { return true; }

    Work all_reduce(const TensorView& buffer, ReduceOp op) override {
        require_reducible("all_reduce", buffer);
        return start(GlooKind::all_reduce, buffer, static_cast<int>(op),
                     [=, hosts = mesh_->hosts()](const GlooCall& call) {
                         if (hosts) return hosts->all_reduce(call, buffer, op);
                         gloo_all_reduce(call, everybody(*call.context), buffer, op);
                     });
    }
    Work reduce_scatter(const TensorView& input, const TensorView& output, ReduceOp op) override {
        require_reducible("reduce_scatter", input);
        require_blocks("reduce_scatter", input, output, size());
        return start(GlooKind::reduce_scatter, input, static_cast<int>(op),
                     [=, hosts = mesh_->hosts()](const GlooCall& call) {
                         if (hosts) return hosts->reduce_scatter(call, input, output, op);
                         gloo_reduce_scatter(call, everybody(*call.context), input, output, op);
                     });
    }
    Work all_gather(const TensorView& input, const TensorView& output) override {
        require_blocks("all_gather", output, input, size());
        return start(GlooKind::all_gather, input, 0, [=, hosts = mesh_->hosts()](const GlooCall& call) {
            if (hosts && hosts->gathers()) return hosts->all_gather(call, input, output);
            gloo_all_gather(call, everybody(*call.context), input, output);
        });
    }
    Work broadcast(const TensorView& buffer, int root) override {
        require_root("broadcast", root, size());
        return start(GlooKind::broadcast, buffer, root,
                     [=](const GlooCall& call) { gloo_broadcast(call, buffer, root); });
    }
    Work exchange(const TensorView& send, const TensorView& receive, int peer) override {
        require_pair(send, receive, peer, rank(), size());
        return start(GlooKind::exchange, send, 0,
                     [=](const GlooCall& call) { gloo_exchange(call, send, receive, peer); });
    }
    void barrier() override {
        submit(code_of(GlooKind::barrier, 0, DType::u8, 0), [](const GlooCall& call) {
            gloo_barrier(call);
        }).wait();
    }

    void watch_peers(const std::string& call, double waited) override {
        watch(*mesh_, call, waited, notice_);
    }

    std::unique_ptr<Communicator> duplicate() override {
        const auto exchange = [&](const std::string& mine) { return all_gather_text(*this, mine); };
        return std::make_unique<GlooCommunicator>(mesh_->duplicate(exchange, timeout_), timeout_, notice_);
    }

    [[noreturn]] void abort(ExitCode code) noexcept override {
        // The system closes the connections; peers see that at their next call.
        std::fflush(nullptr);
        std::_Exit(static_cast<int>(code));
    }

  private:
    template <class Run>
    Work start(GlooKind kind, const TensorView& buffer, int detail, const Run& run) {
        require_whole_job();
        if (buffer.count() == 0) return {};
        return submit(code_of(kind, buffer.count(), buffer.dtype, detail), run);
    }

    template <class Run>
    Work submit(std::uint64_t code, const Run& run) {
        require_whole_job();
        const GlooCall call = mesh_->next_call(code, timeout_);
        auto operation = mesh_->submit([=] {
            call.job->state.last_call = code;
            run(call);
        });
        return Work(
            std::make_unique<GlooTransfer>(mesh_, std::move(operation), describe_call(code), notice_));
    }

    void require_whole_job() const {
        const std::string reason = mesh_->job().reason();
        if (!reason.empty())
            throw PeerError("rank " + std::to_string(rank()) + " on " + mesh_->place().host +
                            " cannot reach its peers: " + reason);
    }

    std::shared_ptr<GlooMesh> mesh_;
    double timeout_;
    Session::Notice notice_;
};

}  // namespace

std::string gloo_absence() {
    return {};
}

std::unique_ptr<Communicator> make_gloo_communicator(std::shared_ptr<GlooMesh> mesh, double timeout,
                                                     Session::Notice notice) {
    return std::make_unique<GlooCommunicator>(std::move(mesh), timeout, std::move(notice));
}

std::unique_ptr<Communicator> make_gloo_communicator(Communicator& control, const std::string& address,
                                                     double timeout, Session::Notice notice) {
    const GlooPlace place{control.rank(), control.size(), host_name(), address, gloo_interface()};
    auto mesh = connect_gloo(place, [&](const std::string& mine) { return all_gather_text(control, mine); },
                             timeout, {});
    return make_gloo_communicator(std::move(mesh), timeout, std::move(notice));
}

}  // namespace tutti
