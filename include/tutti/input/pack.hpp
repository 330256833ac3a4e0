#pragma once
// Makes HDF5 data sets.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tutti/input/dataset.hpp"
#include "tutti/input/fit.hpp"

namespace tutti {

/// Told of each sample, in order, where it comes from: a path, and of a clip's range its ends; a video and
/// its second; a line of a table. Empty: nobody wants to know.
using PackedFrom = std::function<void(const std::vector<std::string>& where)>;

struct PackIdxOptions {
    std::string images, labels, output;
    std::vector<std::string> class_names;  ///< empty: "0", "1", …
    std::vector<float> mean, std;          ///< for all channels, or each; empty: none in the file
};
/// Packs a pair of IDX files (Y. LeCun's MNIST format; plain or gzip) of u8 images [N, H, W] and u8 labels
/// [N]. Throws DataError: missing, truncated, wrong magic number, numbers of images and labels that differ;
/// UsageError for an output that is one of them and for means or deviations that do not fit the samples, as
/// below; RunError where writing fails or a signal asked to stop. Returns what was written.
DatasetInfo pack_idx(const PackIdxOptions& options);

/// Rows of a table that are packed have this value in this column: the same text but for blanks around it, or
/// an equal number (1 and 1.0). Of several values for one column any will do; several columns must all have
/// theirs.
struct KeptValue {
    std::string column, value;
};

/// Rows of a table that were not packed, or not as they are.
struct RowCounts {
    std::int64_t not_kept = 0;        ///< left out: have other values than those to keep
    std::int64_t without_target = 0;  ///< left out of the others: a target is empty or not finite
    std::int64_t filled = 0;          ///< packed with another number for such a target
    std::int64_t outside = 0;         ///< packed, but a place of target_pixels is outside of the sample
    bool unread_range = false;        ///< there are columns start and end, and no frame_range
};

/// By what is known where an image lies in a larger picture.
struct PlacementSource {
    enum class From {
        image,   ///< it is the whole picture
        name,    ///< the last two numbers in the name of its file, or of the clip's folder: ..._X_Y
        columns  ///< x and y of the list
    } from = From::image;
    std::string x, y;  ///< names of columns
};

/// What packers of images and of clips have in common. A list is a table whose first line names the columns,
/// of which the ones named here are read. Labels are numbers from 0 on, or names, which get their places in
/// class_names or, where there are none, in sorted order. A row without a target, or not to keep, is left out
/// and counted. Tables throw DataError naming file, line and column, or that no row is left, and UsageError
/// for a column that is named and not there.
struct ImageSourceOptions {
    std::string folder;       ///< of class folders; with csv: where relative paths begin (empty: here)
    std::string csv;          ///< a list; empty: what is in `folder`
    char delimiter = ',';     ///< of csv, as all up to class_names
    std::string path_column;  ///< empty: path, and where there is none image_path
    bool labelled = true;     ///< false: the file gets no labels
    std::string label;        ///< name of the column; empty: label
    std::vector<std::string> targets;        ///< names of columns; then there are no labels
    std::vector<std::string> target_pixels;  ///< those of targets that are x and y, by turns, of a place in
                                             ///< the file's image, in pixels from the centre of the first;
                                             ///< stored as that place in the sample, which may be outside
    std::optional<float> fill_targets;     ///< stored for a target that is absent; none: the row is left out
    std::vector<KeptValue> keep;           ///< empty: all rows
    std::vector<std::string> class_names;  ///< empty: the labels', or none
    /// Of clips: columns with the first and the last of their frames, by the number that their names end in;
    /// empty: all. Both belong to a clip.
    std::vector<std::string> frame_range;
    std::optional<PlacementSource> placements;  ///< stored for each sample (/placements); none: not
    std::string output;
    std::int64_t height = 0, width = 0;  ///< 0: the files', which must then be of one size
    std::int64_t channels = 0;           ///< 1: grey, 3: RGB; 0: the first file's
    Fit fit = Fit::crop;                 ///< how images get height and width
    int threads = 1;                     ///< that read; the output is the same for any number
    std::vector<float> mean, std;  ///< for all channels, each of a frame, or each; empty: none in the file
    PackedFrom from;
};

struct PackImagesOptions : ImageSourceOptions {
    /// Told of each file in a folder of a class whose name is no image's, hidden ones apart; may be empty.
    std::function<void(const std::string& path)> passed_over;
};
/// Packs PNG and JPEG files: a folder per class in `folder`, with images at any depth (torchvision's
/// ImageFolder), whose classes are the sorted names of the folders and whose samples are the sorted paths,
/// class by class; or those that `csv` lists, in its order. The file gets the path of each sample (/paths).
/// Holds the list, a piece of 4 MiB, and of each thread the image that it reads and two samples. What is
/// wrong with files is told in their order. skipped: told of each file that cannot be read, or is of another
/// size or in colour after grey ones, which is left out (all are then read twice); without it such a file is
/// an error. rows, unless null: what became of the list. Throws DataError naming the file or folder,
/// UsageError for an output that is one of the images and for a build that reads no images, and RunError
/// where writing fails or a signal asked to stop.
DatasetInfo pack_images(const PackImagesOptions& options,
                        const std::function<void(const std::string&)>& skipped = {},
                        RowCounts* rows = nullptr);

struct PackCsvOptions {
    std::string csv, output;
    bool labelled = true;  ///< false: the file gets no labels
    std::string label;     ///< name of the column, where labelled
    std::vector<std::string>
        targets;                    ///< names of columns; then there are no labels, whatever `labelled` says
    std::vector<KeptValue> keep;    ///< empty: all rows
    std::vector<std::string> drop;  ///< names of columns to leave out
    char delimiter = ',';
    std::vector<std::string> class_names;  ///< empty: the labels, or none
    std::vector<float> mean, std;          ///< for all features, or each; empty: none in the file
    PackedFrom from;
};
/// Packs a table whose first line names the columns (RFC 4180): all but the label's or the targets' become
/// f32 features. Rows without a target, and those not to keep, are left out, and counted in `rows` unless
/// null. Labels that are whole numbers are kept, and must be from 0 on; else they are names, numbered in
/// sorted order and stored. Reads the file twice and holds one piece of it. warn: told of labels that are
/// taken as names though some are numbers, of classes most of which have no sample, and of features without a
/// name. Throws DataError naming file, line and column, or that no row is left; UsageError for a column that
/// is not there, is named twice as a target, or is both dropped and the label or a target, and for an output
/// that is the table; RunError where writing fails or a signal asked to stop.
DatasetInfo pack_csv(const PackCsvOptions& options, const std::function<void(const std::string&)>& warn = {},
                     RowCounts* rows = nullptr);

struct PackClipsOptions : ImageSourceOptions {
    std::int64_t frames = 16;
};
/// Packs clips, which are folders of PNG and JPEG files: a frame each, in the order of their names, of which
/// the first `frames` are taken; a shorter clip repeats its last one. A sample is u8 [H, W, frames ·
/// channels]: at each pixel the channels of the first frame, then of the second … (the early fusion of A.
/// Karpathy et al., "Large-scale Video Classification with Convolutional Neural Networks", 2014). Clips are
/// the sorted folders in the folder of each class, classes the sorted names of these; or those that `csv`
/// lists, in its order. The file gets the folder of each sample (/paths). `skipped` (a clip of which a frame
/// cannot be read, or with target_pixels has another size than the first, is left out), `rows` and what is
/// thrown are pack_images()'. Holds the list, a piece of 4 MiB or a clip, and of each thread three clips and
/// an image.
DatasetInfo pack_clips(const PackClipsOptions& options,
                       const std::function<void(const std::string&)>& skipped = {},
                       RowCounts* rows = nullptr);

struct PackFeaturesOptions {
    std::string labels;                ///< JSON
    std::vector<std::string> folders;  ///< of .npy files, one for each kind of features
    std::string output;
    bool labelled = true;          ///< false: segments are not read, the file gets no labels or targets
    int threads = 1;               ///< that read files; the output is the same for any number
    std::vector<float> mean, std;  ///< for all features of all kinds, or each; empty: none in the file
    PackedFrom from;
};
/// Packs features of the seconds of videos. `labels` lists parts of videos: {"youtube_id": ID, "timeRange":
/// [begin, end], "segments": [[begin, end], …]}, in seconds of the video; each folder has a file ID.npy
/// [seconds, features] of f16, f32 or f64. A sample is a second of a part, in the order of the list: the rows
/// of all folders side by side, as f32, with the label 1 ("inside") where a segment has a share in the
/// second, else 0 ("outside").
/// A part ends where the shortest of its files does, at most one second early. skipped: told of
/// each part whose files are missing, damaged, too short, of other widths than the first part's, or not
/// finite; the part is left out (all are then read twice); without it such a file is an error. Holds the list
/// and, of each thread, three pieces of 4 MiB. Throws DataError naming file and place, UsageError for an
/// output that is one of the files, and RunError where writing fails or a signal asked to stop.
DatasetInfo pack_features(const PackFeaturesOptions& options,
                          const std::function<void(const std::string&)>& skipped = {});

struct PackSequencesOptions : PackFeaturesOptions {
    std::int64_t length = 0;  ///< steps of a sample; 0: the seconds of the longest part
};
/// What became of the parts and segments of a list.
struct SequenceCounts {
    std::int64_t seconds = 0, padding = 0;  ///< steps that exist, and those that do not
    std::int64_t missed = 0;                ///< segments in which no second of their part begins
};
/// Packs parts of videos: of `labels` and the folders as pack_features(), but a sample is a part, f32
/// [length, features + 1]: step t has the features of the part's second t and a 1; steps behind its last
/// second are 0. Targets are of the kind target_kinds::segments, of which the file says so. The path of a
/// sample is its youtube_id, and where that is in the list several times "ID FIRST-LAST", the part's
/// timeRange in whole seconds. `from` is told the id and the first second. mean and std are for features; the
/// last one, which says whether there is a step, gets 0 and 1. A part that is longer than `length` is one
/// that cannot be packed. Memory, `skipped` and what is thrown are pack_features()'. counts: unless null.
DatasetInfo pack_sequences(const PackSequencesOptions& options,
                           const std::function<void(const std::string&)>& skipped = {},
                           SequenceCounts* counts = nullptr);

}  // namespace tutti
