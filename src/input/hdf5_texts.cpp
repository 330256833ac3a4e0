#include "hdf5_texts.hpp"

namespace tutti::hdf5 {

Handle variable_text_type() {
    Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
    H5Tset_size(type.get(), H5T_VARIABLE);
    H5Tset_cset(type.get(), H5T_CSET_UTF8);
    return type;
}

std::vector<std::string> fixed_texts(hid_t type, std::string_view bytes) {
    const std::size_t width = H5Tget_size(type);
    const bool padded_with_spaces = H5Tget_strpad(type) == H5T_STR_SPACEPAD;
    std::vector<std::string> texts;
    for (std::size_t at = 0; at < bytes.size(); at += width) {
        std::string_view text = bytes.substr(at, width);
        text = text.substr(0, text.find('\0'));
        if (padded_with_spaces) text = text.substr(0, text.find_last_not_of(' ') + 1);
        texts.emplace_back(text);
    }
    return texts;
}

std::vector<std::string> VariableTexts::copy() const {
    std::vector<std::string> texts;
    for (const char* const pointer : pointers_) texts.emplace_back(pointer == nullptr ? "" : pointer);
    return texts;
}

}  // namespace tutti::hdf5
