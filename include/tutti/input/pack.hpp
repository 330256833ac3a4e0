#pragma once
// Makes HDF5 data sets.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tutti/input/dataset.hpp"

namespace tutti {

/// Writes one data set (schema: data/README.md): to a temporary file beside `path`, synced, then renamed, so
/// that `path` is either complete or as before. samples: info.samples · info.sample_bytes(); labels:
/// info.samples. Throws DataError, and RunError where writing fails.
void write_hdf5_dataset(const std::string& path, const DatasetInfo& info, std::span<const std::byte> samples,
                        std::span<const std::int64_t> labels, const std::string& source);

struct PackIdxOptions {
    std::string images, labels, output;
    std::vector<std::string> class_names;  ///< empty: "0", "1", …
    std::vector<float> mean, std;          ///< empty: none in the file
};
/// Packs a pair of IDX files (Y. LeCun's MNIST format; plain or gzip) of u8 images [N, H, W] and u8 labels
/// [N]. Throws DataError: missing, truncated, wrong magic number, numbers of images and labels that differ;
/// UsageError for an output that is one of them; RunError where writing fails or a signal asked to stop.
/// Returns what was written.
DatasetInfo pack_idx(const PackIdxOptions& options);

struct PackImagesOptions {
    std::string folder, output;
    std::int64_t height = 0, width = 0;  ///< 0: the files', which must then be of one size
    std::int64_t channels = 0;           ///< 1: grey, 3: RGB; 0: the first file's
    int threads = 1;                     ///< that read files; the output is the same for any number
    std::vector<float> mean, std;        ///< empty: none in the file
};
/// Packs PNG and JPEG files: a folder per class in `folder`, with images at any depth (torchvision's
/// ImageFolder). Classes are the sorted names of the folders, samples the sorted paths, class by class. With
/// a size each image is scaled until both sides are large enough, and its centre is taken. Holds the paths, a
/// piece of 4 MiB, and of each thread the image that it reads and two samples. What is wrong with files is
/// told in their order. skipped: told of each file that cannot be read, or is of
/// another size or in colour after grey ones, which is left out (all are then read twice); without it such a
/// file is an error. Throws DataError naming the file or folder, UsageError for an output that is one of the
/// images and for a build that reads no images, and RunError where writing fails or a signal asked to stop.
DatasetInfo pack_images(const PackImagesOptions& options,
                        const std::function<void(const std::string&)>& skipped = {});

struct PackCsvOptions {
    std::string csv, output;
    bool labelled = true;           ///< false: the file gets no labels
    std::string label;              ///< name of the column, where labelled
    std::vector<std::string> drop;  ///< names of columns to leave out
    char delimiter = ',';
    std::vector<std::string> class_names;  ///< empty: the labels, or none
    std::vector<float> mean, std;          ///< per feature; empty: none in the file
};
/// Packs a table whose first line names the columns (RFC 4180): all but the label's become f32 features.
/// Labels that are whole numbers are kept, and must be from 0 on; else they are names, numbered in sorted
/// order and stored. Reads the file twice and holds one piece of it. warn: told of labels that are taken as
/// names though some are numbers, and of classes most of which have no sample. Throws DataError naming file,
/// line and column; UsageError for a column that is not there or is both dropped and the label, and for an
/// output that is the table; RunError where writing fails or a signal asked to stop.
DatasetInfo pack_csv(const PackCsvOptions& options, const std::function<void(const std::string&)>& warn = {});

}  // namespace tutti
