#pragma once
// Texts in HDF5, of fixed and of variable length, as attributes and data sets have them.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "hdf5_support.hpp"

namespace tutti::hdf5 {

/// Of variable length, in UTF-8.
Handle variable_text_type();

/// The texts in `bytes`, as the library reads them of this type, which is of fixed length; without padding.
std::vector<std::string> fixed_texts(hid_t type, std::string_view bytes);

/// Memory for texts of variable length, which the library allocates as it reads them.
class VariableTexts {
  public:
    /// type, space: of what is read, `count` elements; both must outlive this.
    VariableTexts(hid_t type, hid_t space, std::size_t count)
        : type_(type), space_(space), pointers_(count, nullptr) {}
    ~VariableTexts() { H5Dvlen_reclaim(type_, space_, H5P_DEFAULT, pointers_.data()); }
    VariableTexts(const VariableTexts&) = delete;
    VariableTexts& operator=(const VariableTexts&) = delete;

    /// The file's own type, so that its character set is the same in memory: the library does not convert it.
    hid_t type() const { return type_; }
    /// To read into.
    char** pointers() { return pointers_.data(); }
    std::vector<std::string> copy() const;

  private:
    hid_t type_, space_;
    std::vector<char*> pointers_;
};

}  // namespace tutti::hdf5
