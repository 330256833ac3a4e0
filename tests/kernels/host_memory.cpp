#include <new>

#include "test_memory.hpp"

namespace tutti::test {

void* allocate_memory(std::size_t bytes) {
    return ::operator new(bytes);
}
void free_memory(void* memory) noexcept {
    ::operator delete(memory);
}
void finish_work() {}

}  // namespace tutti::test
