#pragma once
// A trained model and data for it, on all ranks: what eval and predict share.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "job_start.hpp"
#include "model_outputs.hpp"
#include "tutti/base/config.hpp"
#include "tutti/device/device.hpp"
#include "tutti/input/geography.hpp"
#include "tutti/input/loader.hpp"
#include "tutti/model/embedding.hpp"
#include "tutti/train/batch_stage.hpp"

namespace tutti {

class OptionParser;

struct InferenceArguments {
    std::string config, run, checkpoint;
    bool best = false;
    std::vector<std::string> data, overrides;
};

/// -c, --run, --checkpoint, --best, --data and key=value. Call finish after the parsing: it sorts the words
/// that are files of --data from the settings, puts the files in the place of patterns (matching_files), and
/// throws UsageError when no weights are named.
void add_inference_options(OptionParser& parser, InferenceArguments& arguments);
void finish(InferenceArguments& arguments);
/// As that of a config: from the overrides, -c or the run directory's config.
std::optional<double> timeout_before_start(const InferenceArguments& arguments);

/// Whether what the model makes of a sample before it decides is kept.
enum class EmbeddingUse {
    none,
    where_there_is_one,
    needed,  ///< UsageError where the model has none
};

struct Inference {
    Config config;
    std::string weights;         ///< path of the file
    std::string weights_sha256;  ///< of the model's tensors
    std::unique_ptr<Device> device;
    std::vector<std::string> files;  ///< of the data
    std::unique_ptr<Dataset> data;
    std::optional<Geography> geography;  ///< of the data, where data.latitudes is given
    std::unique_ptr<Communicator> control;
    ModelOutputs outputs;
    std::optional<Embedding> embedding;
    std::unique_ptr<Graph> graph;
    std::unique_ptr<Loader> loader;
    std::unique_ptr<BatchStage> stage;
};

/// Opens the data (--data, else data.val), builds the model and loads its weights: rank 0 reads them, the
/// others receive them. Data without labels only for predictions. The config is -c, else that of the run
/// directory, else the one in the checkpoint. Weights that a training removes meanwhile are looked for again
/// (with_weights_in). Collective; throws AgreedError.
Inference open_inference(const JobStart& start, const InferenceArguments& arguments, InferenceUse use,
                         EmbeddingUse embedding = EmbeddingUse::none);

}  // namespace tutti
