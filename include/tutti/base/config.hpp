#pragma once
// The configuration of a run: YAML file + key=value overrides -> typed, validated values.
// Every key, its type, default and meaning is one row of a table in src/base/config_schema.cpp, those of
// models in config_schema_model.cpp; parsing, the resolved dump, suggestions and jobs/configuration.md all
// read it.

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

enum class Tail { exact, pad };
enum class OnError { stop, skip };
enum class NanPolicy { stop, skip };
enum class Precision { fp32, tf32, bf16, fp64 };
enum class CudaGraphChoice { automatic, always, never };
enum class DeviceChoice { automatic, cpu, cuda };
enum class Strategy { automatic, single, ddp, zero1 };
enum class Backend { automatic, nccl, mpi, gloo };
enum class BucketPolicy { ddp, single, per_layer, cost_model, automatic };
enum class AcrossSteps { automatic, yes, no };
enum class Compress { none, bf16 };
enum class WarmUp { linear, power };

/// "1 epoch", "200 steps", "10 min": how often something happens. count 0 means never.
struct Interval {
    enum class Unit { epochs, steps, minutes };
    double count = 1;
    Unit unit = Unit::epochs;
    friend bool operator==(const Interval&, const Interval&) = default;
};

/// Per-channel constants applied after u8 -> [0, 1]: (v - mean) / std. One value serves all channels.
struct Normalize {
    std::vector<double> mean{0.0};
    std::vector<double> std{1.0};
    friend bool operator==(const Normalize&, const Normalize&) = default;
};

/// One entry of `model.layers`: `relu` or `{conv2d: {out: 32, kernel: 3}}`. Argument values keep their YAML
/// text; lists are not nested ("[2, 2]" -> {"2", "2"}).
struct LayerSpec {
    std::string kind;
    std::map<std::string, std::vector<std::string>> arguments;
    std::string where;  ///< "model.layers[3]", for messages
    friend bool operator==(const LayerSpec&, const LayerSpec&) = default;
};

/// One entry of `data.transforms`: `horizontal_flip` or `{random_crop: {size: 32, padding: 4}}`. Names,
/// parameters and defaults are torchvision's (RandomHorizontalFlip, RandomVerticalFlip, RandomCrop,
/// CenterCrop, RandomErasing), and VideoMAE's (GroupMultiScaleCrop). What a kind does not know keeps its
/// default here.
struct TransformSpec {
    enum class Kind {
        horizontal_flip,
        vertical_flip,
        random_crop,
        center_crop,
        multi_scale_crop,
        random_resized_crop,
        random_erasing
    };
    Kind kind = Kind::horizontal_flip;
    double p = 0.5;                                    ///< flips and erasing: how often
    std::int64_t height = 0, width = 0;                ///< crops: of the result, in pixels
    std::int64_t padding = 0;                          ///< random_crop: zeros on each side before
    std::vector<double> scales{1, 0.875, 0.75, 0.66};  ///< multi_scale_crop: of the image's shorter side
    std::array<double, 2> scale{0.02, 0.33};           ///< erasing, random_resized_crop: of the image's area
    std::array<double, 2> ratio{0.3, 3.3};             ///< random_erasing: height over width; of a crop width
                                                       ///< over height
    double center = 0.875;                             ///< random_resized_crop: of the sides, in evaluations
    double value = 0;                                  ///< random_erasing: 0 black to 1 white
    friend bool operator==(const TransformSpec&, const TransformSpec&) = default;
};

/// As the resolved configuration has it: "{random_crop: {size: 32, padding: 4}}".
std::string to_text(const TransformSpec& spec);

struct RunConfig {
    std::string dir;  ///< default: runs/<stem of the config file>; the built-in recipe: runs/quickstart
    std::int64_t seed = 0;
    std::string resume = "auto";  ///< auto | never | path of a checkpoint
    std::string log_level = "info";
    bool deterministic = false;
    std::int64_t virtual_shards = 8;
    bool trace = false;
    std::int64_t trace_steps = 50;
    CudaGraphChoice cuda_graph = CudaGraphChoice::automatic;
    bool autotune = false;
    std::optional<double> walltime;  ///< seconds
    friend bool operator==(const RunConfig&, const RunConfig&) = default;
};

struct DataConfig {
    std::vector<std::string> train;  ///< HDF5 files
    std::vector<std::string> val;
    std::optional<std::int64_t> workers;  ///< empty: auto
    std::int64_t prefetch = 4;            ///< batches held ready
    bool shuffle = true;
    bool drop_last = false;
    Tail tail = Tail::exact;
    std::optional<Normalize> normalize;
    std::vector<TransformSpec> transforms;
    OnError on_error = OnError::stop;
    /// .npy files, of each pixel of the whole picture: where on the earth it is. Both or neither.
    std::string latitudes, longitudes;
    bool has_geography() const { return !latitudes.empty() || !longitudes.empty(); }
    friend bool operator==(const DataConfig&, const DataConfig&) = default;
};

/// Keys that a model does not know are errors; which model knows which is in the same table.
struct ModelConfig {
    std::string name;  ///< mlp | lenet | …; empty when `layers` is given
    std::vector<std::int64_t> hidden{512, 512};
    std::optional<std::int64_t> classes;    ///< default: the data set's
    std::optional<std::int64_t> channels;   ///< default: the data set's
    std::optional<std::int64_t> image;      ///< height = width in pixels; default: the data set's
    std::string stem = "imagenet";          ///< imagenet | cifar
    std::string backbone = "resnet18";      ///< resnet18 | resnet34 | resnet50: locator
    std::int64_t frames = 16, tubelet = 2;  ///< of a clip, and of a token: videomae
    std::int64_t patch = 4;                 ///< these to drop_path: vit and videomae, whose defaults are
    std::int64_t dim = 128, depth = 4, heads = 4;  ///< 16, 384, 12 and 6
    double mlp_ratio = 4;
    std::string gelu = "exact";  ///< exact | tanh
    bool class_token = true;
    double norm_eps = 1e-6;
    double drop_path = 0;
    double mask_ratio = 0.9;  ///< these five: videomae_pretrain
    double decoder_mask_ratio = 0;
    std::optional<std::int64_t> decoder_dim;  ///< default: half of dim
    std::int64_t decoder_depth = 4;
    std::optional<std::int64_t> decoder_heads;  ///< default: half of heads
    std::vector<std::int64_t> features;  ///< widths of the features of a step, side by side; empty: all
                                         ///< together. These four: temporal_transformer
    std::string fusion = "early";        ///< early | cross
    std::int64_t text_depth = 3, cross_depth = 3;  ///< of cross
    std::vector<LayerSpec> layers;
    std::string init_from;
    std::vector<std::string> init_except;  ///< names or their beginnings up to a dot
    /// Weights that are not trained, or all but these, named likewise. One of them at most.
    std::vector<std::string> freeze, freeze_except;
    bool freeze_statistics = false;  ///< of batch norms that are frozen
    friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

struct OptimConfig {
    std::string name = "sgd";  ///< sgd | adam | adamw | adadelta | lamb
    double lr = 0.05;          ///< default of adam, adamw and lamb: 0.001, of adadelta: 1, as in PyTorch
    double momentum = 0;
    bool nesterov = false;
    double dampening = 0;
    double weight_decay = 0;  ///< default of adamw: 0.01, as in PyTorch; of lamb: 0.01, as in timm
    std::vector<double> betas{0.9, 0.999};
    double rho = 0.9;        ///< adadelta
    double eps = 1e-8;       ///< default of adadelta and lamb: 1e-6
    bool decay_1d = true;    ///< false: parameters with one dimension (biases, norms) are not decayed
    double layer_decay = 1;  ///< each layer's learning rate over that of the next one
    std::optional<double> clip_norm;
    friend bool operator==(const OptimConfig&, const OptimConfig&) = default;
};

/// Formulas: train/schedule.hpp.
struct ScheduleConfig {
    std::string name = "constant";  ///< constant | step | multi_step | linear | cosine
    double warmup_epochs = 0;       ///< fractions allowed
    double warmup_lr = 0;           ///< the rate at the beginning of the warm-up
    WarmUp warmup = WarmUp::linear;
    double warmup_power = 2;                    ///< exponent of the power-law warm-up
    double min_lr = 0;                          ///< at the end of cosine and linear
    std::int64_t step_size = 30;                ///< epochs between the steps of step
    double gamma = 0.1;                         ///< factor of each step
    std::vector<std::int64_t> milestones = {};  ///< of multi_step: finished epochs, ascending
    friend bool operator==(const ScheduleConfig&, const ScheduleConfig&) = default;
};

struct CheckpointConfig {
    Interval every;
    std::int64_t keep = 3;
    std::string best;            ///< for example val/accuracy; empty: none
    std::int64_t best_from = 0;  ///< finished epochs; evaluations after fewer do not count for `best`
    friend bool operator==(const CheckpointConfig&, const CheckpointConfig&) = default;
};

/// Moving average of the weights (train/weight_average.hpp).
struct EmaConfig {
    double decay = 0.999;
    bool warmup = false;  ///< smaller decays in the first steps
    friend bool operator==(const EmaConfig&, const EmaConfig&) = default;
};

/// What a sample counts in the training loss, by its class (train/class_weights.hpp).
struct ClassWeightsConfig {
    std::vector<double> weights;  ///< not all 0, only their ratios count; empty: balanced
    friend bool operator==(const ClassWeightsConfig&, const ClassWeightsConfig&) = default;
};

struct EarlyStoppingConfig {
    std::string metric = "val/accuracy";  ///< of `validation_metrics` or `ranking_metrics`
    std::int64_t patience = 3;            ///< evaluations without improvement that end the run
    double min_delta = 0;                 ///< what counts as an improvement must be greater
    friend bool operator==(const EarlyStoppingConfig&, const EarlyStoppingConfig&) = default;
};

/// What evaluations measure, by the names that early stopping and the best checkpoint are given: the loss of
/// all data, the first ones of classes, which are better when higher, as is the last, of segments, and those
/// of targets. They also take those of base/ranking_metric_names.hpp.
inline constexpr std::array<const char*, 9> validation_metrics{
    "val/accuracy", "val/loss", "val/top5", "val/balanced_accuracy", "val/mae", "val/rmse",
    "val/distance", "val/km",   "val/atiou"};
/// Those of targets (EvaluationResult). Better when lower, as val/loss.
inline constexpr std::array<const char*, 4> regression_metrics{"val/mae", "val/rmse", "val/distance",
                                                               "val/km"};

/// What training minimises. automatic: mse where the data have targets, else cross_entropy. reconstruction:
/// what models that see a part of a sample say of the rest, location: what a locator learns, segments: what a
/// temporal_transformer does; these models have no other, and other models not these.
enum class LossChoice { automatic, cross_entropy, mse, l1, huber, reconstruction, location, segments };
/// Whether a loss compares each output with a target. automatic does not: the config of a run that does says
/// so (config_with_objective). Pure.
constexpr bool is_regression(LossChoice loss) {
    return loss == LossChoice::mse || loss == LossChoice::l1 || loss == LossChoice::huber;
}

/// Which segments are predicted, of what each second says of its own (train/segments.hpp).
struct SegmentsConfig {
    double threshold = 0.5;              ///< probability above which a second counts
    std::int64_t candidates = 1000;      ///< the most probable ones
    double shortest = 10, longest = 90;  ///< seconds
    double per_minute = 0.3;             ///< at most so many segments
    double nms_sigma = 0.5;              ///< of the Gaussian that lowers the scores of overlapping ones
    double min_score = 0.01;
    friend bool operator==(const SegmentsConfig&, const SegmentsConfig&) = default;
};

/// By what a locator says that something is present: the sigmoid of its logit, or the mean of that and the
/// peak of its heat map.
enum class PresenceScore { logit, mean };

struct TrainConfig {
    std::int64_t batch_size = 64;  ///< per rank
    std::int64_t epochs = 3;
    std::optional<std::int64_t> max_steps;
    std::int64_t accumulate = 1;  ///< micro-batches of batch_size per update
    LossChoice loss = LossChoice::automatic;
    double heatmap_sigma = 8;  ///< pixels; these three: of the loss location (device/location_loss.hpp)
    double heatmap_weight = 100, presence_weight = 1;
    std::optional<double> soft_argmax;  ///< of a heat map: temperature; empty: the greatest cell
    PresenceScore presence_score = PresenceScore::logit;
    double presence_threshold = 0.5;            ///< of a locator's score, from which on it is present
    double focal_alpha = 0.7, focal_gamma = 2;  ///< these four: of segments (device/segment_loss.hpp)
    double focal_weight = 0.2, offset_weight = 0.8;
    SegmentsConfig segments;
    double label_smoothing = 0;
    std::optional<ClassWeightsConfig> class_weights;
    Precision precision = Precision::fp32;
    bool scale_lr_by_world_size = false;
    std::optional<std::int64_t> scale_lr_by_batch;  ///< samples of an update that the rates are given for
    bool recompute = false;
    std::optional<EmaConfig> ema;
    std::optional<EarlyStoppingConfig> early_stopping;
    std::optional<std::int64_t> topk;  ///< k of the top-k accuracy, 0: none; empty: 5 from 10 classes on
    bool confusion = false;            ///< the confusion matrix in the rows of evaluations
    std::int64_t log_every = 50;
    Interval eval_every;  ///< in epochs or steps; 0: only at the end
    CheckpointConfig checkpoint;
    NanPolicy nan_policy = NanPolicy::stop;
    friend bool operator==(const TrainConfig&, const TrainConfig&) = default;
};

struct DistributedConfig {
    Strategy strategy = Strategy::automatic;
    Backend backend = Backend::automatic;
    double timeout = 1800;  ///< seconds
    double bucket_mb = 25;  ///< MiB
    double first_bucket_mb = 1;
    BucketPolicy bucket_policy = BucketPolicy::ddp;
    AcrossSteps across_steps = AcrossSteps::automatic;
    Compress compress = Compress::none;
    bool find_unused_parameters = false;
    bool sync_batch_norm = false;
    std::int64_t verify_every = 0;
    friend bool operator==(const DistributedConfig&, const DistributedConfig&) = default;
};

struct Config {
    RunConfig run;
    DeviceChoice device = DeviceChoice::automatic;
    DataConfig data;
    ModelConfig model;
    OptimConfig optim;
    ScheduleConfig schedule;
    TrainConfig train;
    DistributedConfig distributed;
    friend bool operator==(const Config&, const Config&) = default;
};

/// Parses YAML text. `source` names it in messages and gives the default of run.dir ("jobs/lenet.yaml" ->
/// "runs/lenet"). `overrides` are "key=value" with dotted keys and YAML values, applied in order after the
/// file; a list or map value replaces the whole. Range and combination checks are included. Throws
/// UsageError: file and line, key, what is wrong, and the nearest valid key or the allowed values.
Config parse_config(std::string_view yaml_text, const std::string& source,
                    std::span<const std::string> overrides);

/// Where a file was written for another trainer, as its keys show, and leaves the model or the optimizer to
/// the default, which there it was not: a warning that says so; else nothing. What parse_config accepts.
std::string doubt_about_translation(std::string_view yaml_text, const std::string& source,
                                    std::span<const std::string> overrides);

/// given: by a person, as text in UTF-8. of_run: written by to_yaml, which keeps the bytes of paths.
enum class ConfigText { given, of_run };

/// The text of a file or pipe. UsageError where none can be read, and, of what is given, where it is not
/// UTF-8, with line and column; RunError for a StopSignal while it waits.
std::string read_config_text(const std::string& path, ConfigText kind = ConfigText::given);

/// Reads `path` and parses it.
Config load_config(const std::string& path, std::span<const std::string> overrides);

namespace config {
/// `text` as a YAML scalar, quoted where it must be.
std::string quoted_scalar(std::string_view text);
}  // namespace config

/// The resolved configuration as YAML, every key with its value; parse_config(to_yaml(c), …) gives c again.
std::string to_yaml(const Config& config);

/// One row of the reference: "train.batch_size", "integer", "64", "samples per rank and step".
struct ConfigKey {
    std::string path, type, default_value, help;
};
/// All keys in the order of the reference.
std::vector<ConfigKey> config_reference();

/// The key that has the letters and digits of `text`, capitals or not, whatever stands between them
/// (train.max-steps, data_train, rundir); or an empty string.
std::string key_written_as(std::string_view text);

/// The keys whose values differ between two configurations and that change what is trained: model.* and
/// optim.*, but model.init_from and model.init_except only where `now` has the first; train.loss where one of
/// both is of regression and the other is not; where both are deterministic, run.virtual_shards and, with
/// `auto` as the CPU, device. "optim.lr: 0.05 -> 0.1". Used to refuse a resume.
std::vector<std::string> training_differences(const Config& before, const Config& now);

/// The same of all keys.
std::vector<std::string> all_differences(const Config& before, const Config& now);

/// The same for keys that change the course of the training or what evaluations measure and decide, but not
/// what a checkpoint can be loaded into: schedule.*, run.seed, run.deterministic, distributed.compress and
/// sync_batch_norm; of data, the files, how samples are ordered, changed and skipped, and where they lie on
/// the earth; of train, what an update does with samples (train.epochs only with a schedule that ends with
/// it; not train.batch_size), losses, segments, averages, early stopping and the best checkpoint. A resume
/// goes on and warns of them.
std::vector<std::string> course_differences(const Config& before, const Config& now);

}  // namespace tutti
