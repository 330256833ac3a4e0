#include "quickstart_recipe.hpp"

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "tutti/base/cache_directory.hpp"
#include "tutti/base/config.hpp"
#include "tutti/base/error.hpp"
#include "tutti/input/pack.hpp"

namespace tutti {
namespace {

namespace fs = std::filesystem;

const char* const idx_directory = "/usr/share/datasets/fashion-mnist";

std::vector<std::string> class_names() {
    return {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
            "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};
}

bool is_complete(const fs::path& directory) {
    std::error_code ignored;
    return fs::is_regular_file(directory / "train.h5", ignored) &&
           fs::is_regular_file(directory / "test.h5", ignored);
}

void pack(const fs::path& directory) {
    const auto part = [&](const std::string& idx, const std::string& output) {
        PackIdxOptions options;
        options.images = std::string(idx_directory) + "/" + idx + "-images-idx3-ubyte.gz";
        options.labels = std::string(idx_directory) + "/" + idx + "-labels-idx1-ubyte.gz";
        options.output = (directory / output).string();
        options.class_names = class_names();
        pack_idx(options);
    };
    part("train", "train.h5");
    part("t10k", "test.h5");
}

}  // namespace

std::string quickstart_recipe(const std::string& data_directory) {
    std::string recipe =
        "model: {name: lenet}\n"
        "optim: {name: sgd, lr: 0.05, momentum: 0.9}\n"
        "train: {batch_size: 64, epochs: 3}\n";
    if (!data_directory.empty())
        recipe += "data: {train: " + config::quoted_scalar(data_directory + "/train.h5") +
                  ", val: " + config::quoted_scalar(data_directory + "/test.h5") + "}\n";
    return recipe;
}

std::string find_quickstart_data() {
    if (const char* chosen = std::getenv("TUTTI_DATA_DIR"); chosen && *chosen) {
        if (is_complete(chosen)) return chosen;
        throw DataError(
            std::string("TUTTI_DATA_DIR is ") + chosen + ", where there is no train.h5 with a test.h5",
            "set it to a folder with both, or unset it: the quick-start recipe then finds or packs "
            "its data itself");
    }
    std::vector<fs::path> places{"data/fashion_mnist"};
    std::error_code no_proc;
    const fs::path program = fs::read_symlink("/proc/self/exe", no_proc);
    if (!no_proc) places.push_back(program.parent_path().parent_path() / "data" / "fashion_mnist");
    places.push_back(cache_directory() / "fashion_mnist");
    for (const fs::path& place : places)
        if (is_complete(place)) return place.string();
    std::error_code none, reason;
    if (fs::is_directory(idx_directory, none)) {
        fs::create_directories(places.back(), reason);
        if (reason)
            throw DataError("the data of the quick-start recipe are packed to " + places.back().string() +
                                ", which cannot be made: " + reason.message(),
                            "set TUTTI_CACHE to a folder that can be written, or TUTTI_DATA_DIR to one with "
                            "train.h5 and test.h5");
        pack(places.back());
        return places.back().string();
    }
    throw DataError(
        "the data of the quick-start recipe, Fashion-MNIST, are not on this machine",
        "install Debian's package dataset-fashion-mnist, or run jobs/quickstart.sh, or set TUTTI_DATA_DIR "
        "to a folder with train.h5 and test.h5, or give your own recipe: trainer -c FILE.yaml");
}

}  // namespace tutti
