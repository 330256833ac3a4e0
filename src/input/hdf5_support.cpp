#include "hdf5_support.hpp"

namespace tutti::hdf5 {
namespace {

herr_t keep_first(unsigned, const H5E_error2_t* error, void* text) {
    auto& result = *static_cast<std::string*>(text);
    if (result.empty() && error->desc != nullptr) result = error->desc;
    return 0;
}

}  // namespace

bool is_thread_safe() {
    hbool_t safe = 0;
    return H5is_library_threadsafe(&safe) >= 0 && safe;
}

std::string last_error() {
    std::string text;
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_first, &text);
    // Messages are one line; some of the library's hold a time with its newline.
    for (char& c : text)
        if (c == '\n') c = ' ';
    // Of "file write failed: time = …, errno = 28, error message = 'No space left on device', buf = …" the
    // begin and the system's words.
    const std::string words = "error message = '";
    const auto time = text.find(": time = "), found = text.find(words);
    if (time < found && found != std::string::npos) {
        const auto begin = found + words.size();
        text = text.substr(0, time) + ": " + text.substr(begin, text.find('\'', begin) - begin);
    }
    return text.empty() ? "no reason given by HDF5" : text;
}

Handle file_access() {
    Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
#if H5_VERSION_GE(1, 10, 7) && !(H5_VERS_MAJOR == 1 && H5_VERS_MINOR == 12 && H5_VERS_RELEASE < 1)
    H5Pset_file_locking(access.get(), false, true);
#endif
    return access;
}

std::string file_of(hid_t object) {
    const ssize_t length = H5Fget_name(object, nullptr, 0);
    std::string name(length > 0 ? static_cast<std::size_t>(length) + 1 : 1, '\0');
    H5Fget_name(object, name.data(), name.size());
    name.pop_back();
    return name;
}

}  // namespace tutti::hdf5
