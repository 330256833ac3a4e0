#pragma once
// Where tensors of tests lie: memory that the operators under test and the host can both touch. Each test
// program links one implementation: host_memory.cpp, or on a GPU cuda/pinned_memory.cpp.

#include <cstddef>

namespace tutti::test {

void* allocate_memory(std::size_t bytes);
void free_memory(void* memory) noexcept;
/// Before the host looks: what operators have begun must have ended.
void finish_work();

template <class T>
struct MemoryOfTests {
    using value_type = T;
    MemoryOfTests() = default;
    template <class Other>
    MemoryOfTests(const MemoryOfTests<Other>&) {}
    T* allocate(std::size_t count) { return static_cast<T*>(allocate_memory(count * sizeof(T))); }
    void deallocate(T* memory, std::size_t) noexcept { free_memory(memory); }
    friend bool operator==(const MemoryOfTests&, const MemoryOfTests&) { return true; }
};

}  // namespace tutti::test
