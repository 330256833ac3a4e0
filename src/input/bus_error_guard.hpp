#pragma once
// Reading a mapped file whose pages may be gone.

#include <memory>
#include <type_traits>

namespace tutti {

/// Calls work(argument). Returns false when it touched a mapped page that the system could not bring (SIGBUS:
/// the file was cut, or the disk failed; mmap(2)): the call then ended there, without destructors, so `work`
/// must have nothing to tidy up. Any thread. The first call installs a handler for SIGBUS that stays; what
/// happens outside of such calls goes to the handler that was there before.
bool without_bus_error(void (*work)(void*), void* argument);

template <class Work>
bool without_bus_error(Work& work) {
    static_assert(std::is_trivially_destructible_v<Work>);
    return without_bus_error([](void* self) { (*static_cast<Work*>(self))(); }, std::addressof(work));
}

}  // namespace tutti
