#include <fmt/format.h>
#include <omp.h>
#include <signal.h>

#include <cstring>
#include <fstream>
#include <optional>

#include "amx_products.hpp"
#include "computing_threads.hpp"
#include "core_watch.hpp"
#include "eigen_ops.hpp"
#include "host_memory.hpp"
#include "host_progress.hpp"
#include "host_upload_lane.hpp"
#include "onednn_ops.hpp"
#include "parallel.hpp"
#include "thread_team.hpp"
#include "tutti/base/error.hpp"
#include "tutti/device/device.hpp"

namespace tutti {
namespace {

/// "AMD EPYC 9654 96-Core Processor"; "CPU" where the kernel does not tell.
std::string processor_name() {
    std::ifstream cpuinfo("/proc/cpuinfo");
    for (std::string line; std::getline(cpuinfo, line);) {
        const std::size_t colon = line.find(": ");
        if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
    }
    return "CPU";
}

/// Signals that ask the process to stop are for the thread that has a stack for them (StopSignal), not for
/// those that compute with it.
void start_threads(int threads) {
    omp_set_num_threads(threads);
    sigset_t stops;
    sigemptyset(&stops);
    for (const int number : {SIGUSR1, SIGTERM, SIGINT}) sigaddset(&stops, number);
#pragma omp parallel
    {
        if (omp_get_thread_num() != 0) pthread_sigmask(SIG_BLOCK, &stops, nullptr);
        note_computing_thread();
    }
}

class CpuDevice final : public Device {
  public:
    explicit CpuDevice(int threads) : threads_(threads) {
        start_threads(threads);
        if (threads == 1) return;  // it has nobody to wait for
        watch_.emplace(threads);
        team_.emplace(threads);
    }
    ~CpuDevice() override { set_host_progress({}); }

    std::string kind() const override { return "cpu"; }
    int threads() const override { return threads_; }

    void begin_step() override {
        if (team_) team_->begin_step();
    }
    void run_lanes(int lanes, const std::function<void(int lane)>& body) override {
        if (lanes > 1) return for_lanes(lanes, body);
        const OneThread alone;
        if (lanes > 0) body(0);
    }
    std::unique_ptr<Device> make_lane() override {
        // Its making sets the calling thread's number.
        const OneThread alone;
        return std::make_unique<CpuDevice>(1);
    }

    std::string description() const override {
        return fmt::format("{}, {} thread{}, {}{}", processor_name(), threads_, threads_ == 1 ? "" : "s",
                           fp32_library(), has_amx_products() ? ", AMX" : "");
    }

    Buffer allocate(std::size_t bytes, const std::string& purpose) override {
        return tutti::allocate_host(bytes, purpose);
    }

    void copy_from_host(const TensorView& device, const void* host) override {
        if (device.bytes() > 0) std::memcpy(device.data, host, device.bytes());
    }
    void copy_to_host(void* host, const TensorView& device) override {
        if (device.bytes() > 0) std::memcpy(host, device.data, device.bytes());
    }

    Buffer allocate_host(std::size_t bytes, const std::string& purpose) override {
        return allocate(bytes, purpose);
    }
    bool uploads_ahead() const override { return false; }
    std::unique_ptr<UploadLane> make_upload_lane(std::span<const UploadPart> parts) override {
        return std::make_unique<HostUploadLane>(parts.size());
    }

    Ops& ops(Arithmetic arithmetic) override {
        if (arithmetic.rounds_to_tf32)
            throw UsageError("the CPU has no tf32", "set train.precision to fp32 or bf16, or device: cuda");
        if (arithmetic == Arithmetic(DType::f32, DType::bf16)) {
            if (!bf16_) bf16_ = make_onednn_bf16_ops();
            return *bf16_;
        }
        if (arithmetic.products != arithmetic.compute) refuse(arithmetic.products);
        switch (arithmetic.compute) {
            case DType::f32:
                if (!f32_) f32_ = make_onednn_ops();
                if (!f32_) f32_ = std::make_unique<EigenOps<float>>();
                return *f32_;
            case DType::f64:
                if (!f64_) f64_ = std::make_unique<EigenOps<double>>();
                return *f64_;
            case DType::bf16:
            case DType::u8:
            case DType::i64:
                break;
        }
        refuse(arithmetic.compute);
    }

    void set_progress(std::function<void()> poll) override { set_host_progress(std::move(poll)); }

    void set_notice(std::function<void(const std::string&)> notice) override {
        if (watch_) watch_->set_notice(std::move(notice));
    }

  private:
    [[noreturn]] static void refuse(DType type) {
        throw UsageError(
            fmt::format("arithmetic in {} on the CPU is not available in this version", name_of(type)),
            "set train.precision to fp32, bf16 or fp64");
    }

    int threads_;
    std::optional<CoreWatch> watch_;
    std::optional<ThreadTeam> team_;
    std::unique_ptr<Ops> f32_, bf16_, f64_;
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(int threads) {
    if (threads < 1)
        throw UsageError(fmt::format("a CPU device with {} threads", threads), "ask for at least one");
    return std::make_unique<CpuDevice>(threads);
}

std::string cpu_arithmetic() {
    return fp32_library();
}

}  // namespace tutti
