#pragma once
// The way that gradients take between the ranks' GPUs, as training would go it.

#include <exception>

#include "../job_start.hpp"
#include "../select.hpp"
#include "facts.hpp"

namespace tutti::doctor {

/// The device that training with `device: auto` takes. Where it would end instead, because ranks share a GPU
/// or one cannot be opened, facts.refusal says so, and there is none. Collective.
SelectedDevice select_as_training(const JobStart& start, GpuFacts& facts);

/// Sums of the memory of the GPUs that several ranks have taken, checked as check_all_reduce says, by what
/// `distributed.backend: auto` takes. What ends that becomes facts.failure: the report is to be made all the
/// same. Returns the error, where it may have left the ranks at different places, so that they can agree on
/// nothing any more; null where all ranks know of it, or all is well. Collective.
std::exception_ptr check_gpu_sums(const JobStart& start, const SelectedDevice& selected, GpuFacts& facts);

}  // namespace tutti::doctor
