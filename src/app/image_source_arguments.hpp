#pragma once
// The options that `trainer pack images` and `trainer pack clips` have in common.

#include <cstdint>
#include <string>
#include <utility>

#include "option_parser.hpp"
#include "table_options.hpp"
#include "tutti/input/pack.hpp"

namespace tutti {

/// "224" or "224x160": height and width. UsageError: neither.
std::pair<std::int64_t, std::int64_t> parse_size(const std::string& text);

/// --threads; each thread holds what it reads.
void add_threads_option(OptionParser& parser, int& threads, const std::string& what_they_hold);

/// The parser writes here, so it must not live longer.
class ImageSourceArguments {
  public:
    /// thing: "image", "clip".
    ImageSourceArguments(std::string thing, ImageSourceOptions& options)
        : thing_(std::move(thing)), options_(options) {}

    /// What is packed: in_folder says what is in the folder, path what the paths in a list are of.
    void add_source(OptionParser& parser, const std::string& in_folder, const std::string& path);
    /// What images become.
    void add_form(OptionParser& parser);
    /// Where they lie in a picture.
    void add_placements(OptionParser& parser);
    /// Once the arguments are parsed, fills the options in. UsageError: there is no source, a size that is
    /// none, names of classes for folders or for targets, a --keep that is none.
    void finish();

  private:
    /// UsageError: --placements is none.
    PlacementSource placement_source() const;

    const std::string thing_;
    ImageSourceOptions& options_;
    TableOptions table_;
    bool no_labels_ = false;
    std::string size_, placements_;
};

}  // namespace tutti
