#pragma once
// A GPU for tests on machines that have none. It takes the place of the CUDA runtime, cuBLASLt and cuDNN when
// a test is linked with it: their functions, as the real headers declare them, computed on the CPU (kernels
// through tests/support/kcpu). Work is done when it is issued, unless its stream is held back; what was
// issued to which stream is recorded. Device memory can be touched by kernels,
// copies and library calls only: the host's own access ends the process (SIGSEGV), as it does with a real
// GPU.
//
// A capture keeps what is issued for the launches of its graph, with the arguments of that time, and refuses
// what CUDA refuses meanwhile.
//
// What it cannot show: speed, numerics of NVIDIA's kernels, what they refuse.

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace tutti::fake_gpu {

/// Forgets the record, pending failures and refusals; streams and events are counted from 1 again. Call it
/// before anything of the test lives on the GPU.
void reset();

/// What was issued since the last reset or clear, one line each: "stream 1: launch relu_forward",
/// "stream 1: copy 64 bytes to the device", "stream 2: record event 1", "stream 1: wait for event 1",
/// "host: wait for stream 1". Stream 0 is the default stream.
const std::vector<std::string>& record();
void clear_record();

/// From now on these streams are as late as may be: their copies, launches and fills are done when the host
/// or another stream waits for them, and one at each time that the host asks for an event. So a wait that is
/// missing shows in the data. Library calls are not kept: they come at once, after what their stream had
/// before.
void hold_back(const std::set<int>& streams);
/// Waits whose line in the record contains this have no effect: for the proof that data would show it. Empty:
/// none.
void forget_waits(const std::string& line);

/// The next call of this function gives `code` and does nothing: fail_next("cudaMalloc", 2).
void fail_next(const std::string& function, int code);

/// GPUs that cudaGetDeviceCount reports; 1 after a reset.
void set_device_count(int count);

/// What cudnnGetVersion says; 91900 after a reset.
void set_cudnn_version(std::size_t version);

/// What a block may have of it, bytes; 227 KiB after a reset.
void set_shared_memory(int bytes);

/// From now on they have different numbers of multiprocessors.
void make_devices_unlike();

/// From now on each run of the engine, "convolution engine 1" or "product choice 0", takes so many seconds
/// more by the GPU's clock, which nobody waits for; until a reset.
void slow_down(const std::string& engine, double seconds);
/// Of a convolution's engine, bytes; 1024 after a reset.
void set_workspace(const std::string& engine, std::int64_t bytes);
/// What slow engines have taken since the last reset, seconds.
double spent();

/// Allocations that were not freed.
std::size_t live_allocations();
/// What they take, each in whole pages of the host.
std::size_t live_bytes();

// For the parts of the fake.

std::int64_t workspace_of(const std::string& engine);

/// Does `work` as the next of the stream, with device memory open to it; or, while the stream is captured,
/// keeps it for the graph's launches. Gives 0, or the cudaError_t of a capture that is broken. `work` owns
/// what it needs.
int issue(const void* stream, const std::string& what, std::function<void()> work);
/// The same of a stream that is not captured. The record shows it as work of the stream `shown_as`.
void enqueue(const void* stream, const void* shown_as, const std::string& what, std::function<void()> work);

void note_host(const std::string& what);
/// The engine runs once.
void spend(const std::string& engine);
std::size_t cudnn_version();
std::string name_of_stream(const void* stream);
/// 0, or what fail_next has asked of this function.
int failure_of(const std::string& function);
/// Gives the cudaError_t back, and keeps it for cudaGetLastError.
int kept(int code);

/// While one lives, device memory may be touched.
class Access {
  public:
    Access();
    ~Access();
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;
};

}  // namespace tutti::fake_gpu
