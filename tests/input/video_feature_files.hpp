#pragma once
// Features of videos to pack, and lists of their parts.

#include <cstdint>
#include <string>
#include <vector>

#include "npy_files.hpp"
#include "pack_helpers.hpp"

namespace tutti::test {

class PackVideoFeatures : public Pack {
  protected:
    /// Row r of a file has the values 100 · of + r + c / 10.
    static std::vector<float> values(int of, std::int64_t rows, std::int64_t columns) {
        std::vector<float> all;
        for (std::int64_t r = 0; r < rows; ++r)
            for (std::int64_t c = 0; c < columns; ++c)
                all.push_back(static_cast<float>(100 * of + r) + static_cast<float>(c) / 10);
        return all;
    }
    void write_file(const std::string& name, const std::vector<float>& all, std::int64_t columns) const {
        const auto rows = static_cast<std::int64_t>(all.size()) / columns;
        write(name + ".npy",
              npy("<f4", "(" + std::to_string(rows) + ", " + std::to_string(columns) + ")", all));
    }
    void write_videos() const {
        write("list.json", R"([{"youtube_id": "b", "timeRange": [2, 5], "segments": [[3.5, 4]]},
                               {"youtube_id": "a", "timeRange": [0, 3], "segments": [[0, 0.5], [1, 9]]},
                               {"youtube_id": "b", "timeRange": [0, 1], "segments": []}])");
        write_file("seen/a", values(1, 3, 2), 2);
        write_file("seen/b", values(2, 9, 2), 2);
        write_file("heard/a", values(3, 2, 1), 1);  // a second less
        write_file("heard/b", values(4, 8, 1), 1);
    }
};

}  // namespace tutti::test
