#pragma once
// What a model's samples are normalised by, and what a run remembers of it.

#include <optional>
#include <string>
#include <vector>

#include "tutti/base/config.hpp"
#include "tutti/input/dataset.hpp"

namespace tutti {

/// (v − mean) / std, a value for each channel, which is the last dimension of a sample; pixels of u8 after
/// their division by 255.
struct Normalisation {
    std::vector<float> mean, std;
    /// Whether it leaves all values as they are.
    bool is_none() const;
    friend bool operator==(const Normalisation&, const Normalisation&) = default;
};

/// data.normalize, else what the data say, else {0, 1}. Throws UsageError where data.normalize does not fit
/// the data (check_normalize). Pure.
Normalisation normalisation_of(const DataConfig& config, const DatasetInfo& data);

/// `config` for other data of a model that was `trained` so: where neither it nor `others` say how they are
/// normalised, data.normalize is `trained`. (Not where files that are read as one differ in it, nor where
/// their channels are of another number, which the model refuses.) Pure.
DataConfig as_trained(DataConfig config, const Normalisation& trained, const DatasetInfo& others);

/// Where `others`, for which as_trained gives no data.normalize, are normalised otherwise than what the model
/// was `trained` on: how, and what to do; else nothing. Pure.
std::string doubt_about_normalisation(const DataConfig& config, const Normalisation& trained,
                                      const DatasetInfo& others);

/// Where images of a model of which nothing says how its own were normalised are read as they are: that, and
/// what to do; else nothing. Pure.
std::string doubt_about_raw_images(const DataConfig& config, const DatasetInfo& data);

/// "mean 0.1307, std 0.3081"; of more than four channels that differ their range, "mean 0 to 0.5, …". Pure.
std::string describe(const Normalisation& normalisation);

/// One line of JSON, {"mean": […], "std": […]}, whose numbers are read as the same floats again; empty where
/// one is not finite, which JSON cannot say. Pure.
std::string to_json(const Normalisation& normalisation);
/// Nothing of an empty text, as older checkpoints have it. Throws DataError, which names `source`, for what
/// is not such a line. Pure.
std::optional<Normalisation> normalisation_from(const std::string& json, const std::string& source);

}  // namespace tutti
