#include "config_schema.hpp"

#include <algorithm>

#include "config_row.hpp"
#include "config_schema_parts.hpp"
#include "tutti/base/bucket_policy.hpp"
#include "tutti/base/lower_case.hpp"
#include "tutti/base/suggest.hpp"

namespace tutti::config {
namespace {

constexpr Unit seconds{"seconds", "3600"};
constexpr Unit mebibytes{"MiB", "25"};

/// Null is the default. An empty text is none: run.dir=$UNSET would go on in another run's folder.
Kind<std::string> folder() {
    Kind<std::string> kind = path("FOLDER", "the default");
    kind.parse = [parse = kind.parse](const Setting& setting) {
        if (setting.node.IsScalar() && setting.node.Scalar().empty())
            setting.fail("no value", "write a FOLDER, or leave the key out");
        return parse(setting);
    };
    return kind;
}

Kind<BucketPolicy> bucket_policy() {
    std::vector<Choice<BucketPolicy>> choices;
    for (const auto& [name, policy] : bucket_policy_names) choices.push_back({name, policy});
    return choice(choices);
}

/// A misspelt choice is not a file: a run should not begin to find that out.
Kind<std::string> resume() {
    Kind<std::string> kind = path("auto | never | FILE");
    kind.parse = [parse = kind.parse](const Setting& setting) {
        const std::vector<std::string> words = {"auto", "never"};
        const std::string value = parse(setting);
        const std::string lower = lower_case(value);
        if (std::ranges::find(words, lower) != words.end()) return lower;
        if (const std::string near = nearest(lower, words); !near.empty())
            setting.fail(value + " is neither auto nor never",
                         "did you mean " + near + "? For a file of this name write ./" + value);
        return value;
    };
    return kind;
}

void add_run(std::vector<Row>& rows) {
    using R = RunConfig;
    const auto run = &Config::run;
    const auto levels = choice<std::string>(
        {{"debug", "debug"}, {"info", "info"}, {"warning", "warning"}, {"error", "error"}});
    rows.insert(
        rows.end(),
        {
            default_is("runs/<stem of the config file>",
                       row("run.dir", at(run, &R::dir), folder(), "folder of this run's files")),
            row("run.seed", at(run, &R::seed), integer(), "seed of everything random"),
            row("run.resume", at(run, &R::resume), resume(),
                "auto goes on in a used folder, never starts anew, FILE goes on from that checkpoint; a job "
                "that Slurm has requeued goes on from its own"),
            row("run.log_level", at(run, &R::log_level), levels, "least important messages that are shown"),
            row("run.deterministic", at(run, &R::deterministic), boolean(),
                "the same bits on any power-of-two number of ranks; device: auto is the CPU then"),
            row("run.virtual_shards", at(run, &R::virtual_shards), power_of_two(65536),
                "pieces of the global batch in deterministic mode, a multiple of the number of ranks"),
            row("run.trace", at(run, &R::trace), boolean(),
                "write trace.json, a time line of all ranks for Perfetto or chrome://tracing"),
            row("run.trace_steps", at(run, &R::trace_steps), integer(1, 10000),
                "updates that the trace holds, from the start or resume of the run on; at most 10000"),
            row("run.cuda_graph", at(run, &R::cuda_graph),
                choice<CudaGraphChoice>({{"auto", CudaGraphChoice::automatic},
                                         {"true", CudaGraphChoice::always},
                                         {"false", CudaGraphChoice::never}}),
                "on a GPU, run forward and backward of a step as CUDA graphs; auto: where they can be, with "
                "a message that says why where not; true: refuse to start without them"),
            row("run.autotune", at(run, &R::autotune), boolean(),
                "on a GPU, take the engines of cuDNN and cuBLASLt that are measured fastest; bits may vary"),
            row("run.walltime", at(run, &R::walltime),
                optional(number({.low = 0, .low_open = true}, seconds)),
                "seconds from the start of the program within which the run saves and stops, with exit code "
                "75"),
        });
    rows.push_back(row(
        "device", at(&Config::device),
        choice<DeviceChoice>(
            {{"auto", DeviceChoice::automatic}, {"cpu", DeviceChoice::cpu}, {"cuda", DeviceChoice::cuda}}),
        "where to compute"));
}

void add_data(std::vector<Row>& rows) {
    using D = DataConfig;
    const auto data = &Config::data;
    rows.insert(
        rows.end(),
        {
            row("data.train", at(data, &D::train), paths(),
                "HDF5 files to train on; also patterns, as shards/*.h5"),
            row("data.val", at(data, &D::val), paths(), "HDF5 files to evaluate on"),
            row("data.workers", at(data, &D::workers), optional(integer(0, 1024), "auto"),
                "threads that load batches, per rank"),
            row("data.prefetch", at(data, &D::prefetch), integer(1, 4096), "batches held ready"),
            row("data.shuffle", at(data, &D::shuffle), boolean(), "a new order each epoch"),
            row("data.drop_last", at(data, &D::drop_last), boolean(),
                "leave out the uneven end of an epoch as PyTorch does: the samples that the ranks cannot "
                "share evenly, then a batch that is not full; with train.accumulate the last update is of "
                "the full batches that are left, with run.deterministic it is left out, too"),
            row("data.tail", at(data, &D::tail), choice<Tail>({{"exact", Tail::exact}, {"pad", Tail::pad}}),
                "uneven end of an epoch: exact counts each sample once, pad repeats samples as PyTorch does"),
            row("data.normalize", at(data, &D::normalize), optional(normalize()),
                "(v - mean) / std after u8 -> [0, 1], per channel or one for all; null: the file's "
                "attribute, or in evaluations of a file without one that of the training data"),
            row("data.transforms", at(data, &D::transforms), transforms(),
                "augmentations of training images, in order, before normalisation: horizontal_flip, "
                "vertical_flip (p: 0.5), random_crop (size, padding: 0), center_crop (size), "
                "random_resized_crop (size, scale: [0.08, 1], ratio: [0.75, 1.3333333333333333], center: "
                "0.875), "
                "multi_scale_crop (size, scales: [1, 0.875, 0.75, 0.66]), random_erasing (p: 0.5, scale: "
                "[0.02, 0.33], ratio: [0.3, 3.3], value: 0 of 1); evaluations crop in the centre and leave "
                "the rest out"),
            row("data.on_error", at(data, &D::on_error),
                choice<OnError>({{"stop", OnError::stop}, {"skip", OnError::skip}}),
                "what a sample that cannot be read does: stop ends the run; skip goes on without it, counts "
                "and names it, and ends the run when more than half of an epoch cannot be read"),
            row("data.latitudes", at(data, &D::latitudes), path("FILE", "none"),
                ".npy file [height, width] with the degrees north of each pixel of the whole picture; with "
                "data.longitudes evaluations and predictions of places have kilometres, too"),
            row("data.longitudes", at(data, &D::longitudes), path("FILE", "none"), "the same, degrees east"),
        });
}

void add_optim(std::vector<Row>& rows) {
    using O = OptimConfig;
    const auto optim = &Config::optim;
    const Range not_negative{.low = 0};
    const Range fraction{.low = 0, .high = 1, .high_open = true};
    const auto names = choice<std::string>(
        {{"sgd", "sgd"}, {"adam", "adam"}, {"adamw", "adamw"}, {"adadelta", "adadelta"}, {"lamb", "lamb"}});
    rows.insert(
        rows.end(),
        {
            row("optim.name", at(optim, &O::name), names, "the update rule"),
            default_is("0.05, adam, adamw and lamb: 0.001, adadelta: 1",
                       row("optim.lr", at(optim, &O::lr), number(not_negative), "learning rate")),
            only({"sgd"},
                 row("optim.momentum", at(optim, &O::momentum), number(fraction), "momentum of SGD")),
            only({"sgd"},
                 row("optim.nesterov", at(optim, &O::nesterov), boolean(), "Nesterov's form of momentum")),
            only({"sgd"}, row("optim.dampening", at(optim, &O::dampening), number({.low = 0, .high = 1}),
                              "dampening of the momentum; 1: the first gradient is all it ever has")),
            default_is("0, adamw and lamb: 0.01", row("optim.weight_decay", at(optim, &O::weight_decay),
                                                      number(not_negative), "weight decay")),
            only({"adam", "adamw", "lamb"},
                 row("optim.betas", at(optim, &O::betas), list_of(number(fraction), 2),
                     "decay rates of the two moments")),
            only({"adadelta"},
                 row("optim.rho", at(optim, &O::rho), number(fraction), "decay rate of the two averages")),
            only({"adam", "adamw", "adadelta", "lamb"},
                 default_is(
                     "1e-08, adadelta and lamb: 1e-06",
                     row("optim.eps", at(optim, &O::eps), number(not_negative), "added to the denominator"))),
            row("optim.decay_1d", at(optim, &O::decay_1d), boolean(),
                "whether weight decay applies to biases and norms, all of one dimension; tokens and "
                "positions "
                "have three"),
            row("optim.layer_decay", at(optim, &O::layer_decay), number({.low = 0, .high = 1}),
                "learning rate of each layer over that of the next one; the last has optim.lr; "
                "0: all but the last stay as they are"),
            row("optim.clip_norm", at(optim, &O::clip_norm), optional(number({.low = 0, .low_open = true})),
                "largest norm of the global gradient; longer ones are scaled down to it"),
        });
}

void add_train(std::vector<Row>& rows) {
    using T = TrainConfig;
    using C = CheckpointConfig;
    using G = SegmentsConfig;
    const auto train = &Config::train;
    const auto checkpoint = &TrainConfig::checkpoint;
    const auto segments = &TrainConfig::segments;
    rows.insert(
        rows.end(),
        {
            row("train.batch_size", at(train, &T::batch_size), integer(1), "samples per rank and step"),
            row("train.epochs", at(train, &T::epochs), integer(0), "passes over the data"),
            row("train.max_steps", at(train, &T::max_steps), optional(integer(0)),
                "stop after this many updates"),
            row("train.accumulate", at(train, &T::accumulate), integer(1),
                "batches per update: the global batch is batch_size x ranks x accumulate"),
            row("train.loss", at(train, &T::loss), loss(),
                "what training minimises; cross_entropy: of classes; mse, l1: the mean squared or absolute "
                "difference from the targets; huber: the mean of half the squared difference up to 1, and of "
                "the absolute difference less 1/2 beyond; reconstruction: the mean squared error of the "
                "hidden pixels that videomae_pretrain predicts; location: the weighted losses of a locator's "
                "heat map and presence; segments: the weighted focal and DIoU losses of a "
                "temporal_transformer; auto: the loss of these three models, mse where the data have "
                "targets, else cross_entropy"),
            row("train.heatmap_sigma", at(train, &T::heatmap_sigma), number({.low = 0.01}),
                "standard deviation of the bell in the target heat map of a locator, in pixels of the image"),
            row("train.heatmap_weight", at(train, &T::heatmap_weight), number({.low = 0}),
                "factor of the mean squared difference of a locator's heat map in its loss"),
            row("train.presence_weight", at(train, &T::presence_weight), number({.low = 0}),
                "factor of the binary cross entropy of a locator's presence in its loss"),
            row("train.soft_argmax", at(train, &T::soft_argmax),
                optional(number({.low = 0, .low_open = true})),
                "where a locator's place is: null: the cell of its heat map with the greatest value; a "
                "temperature T: the mean of all cells, each weighted by exp(value / T); training does not "
                "depend on it"),
            row("train.presence_score", at(train, &T::presence_score),
                choice<PresenceScore>({{"logit", PresenceScore::logit}, {"mean", PresenceScore::mean}}),
                "by what evaluations of a locator tell presence: logit: its sigmoid; mean: the mean of that "
                "and the heat map's peak"),
            row("train.presence_threshold", at(train, &T::presence_threshold), number({.low = 0, .high = 1}),
                "score above which evaluations of a locator take something to be present"),
            row("train.focal_alpha", at(train, &T::focal_alpha), number({.low = 0, .high = 1}),
                "weight of seconds inside a segment in the focal loss of segments; seconds outside weigh 1 - "
                "focal_alpha"),
            row("train.focal_gamma", at(train, &T::focal_gamma), number({.low = 0}),
                "exponent of the focal loss of segments: the greater, the smaller the weight of seconds that "
                "are already predicted well"),
            row("train.focal_weight", at(train, &T::focal_weight), number({.low = 0}),
                "factor of the focal loss of segments"),
            row("train.offset_weight", at(train, &T::offset_weight), number({.low = 0}),
                "factor of the DIoU loss of segments, of where they begin and end"),
            row("train.segments.threshold", at(train, segments, &G::threshold), number({.low = 0, .high = 1}),
                "a second proposes a segment if its predicted probability is above this"),
            row("train.segments.candidates", at(train, segments, &G::candidates), integer(1),
                "at most this many seconds per sample propose one, the most probable ones"),
            row("train.segments.shortest", at(train, segments, &G::shortest), number({.low = 0}, seconds),
                "seconds; shorter segments are left out"),
            row("train.segments.longest", at(train, segments, &G::longest),
                number({.low = 0, .low_open = true}, seconds), "seconds; longer segments are left out"),
            row("train.segments.per_minute", at(train, segments, &G::per_minute),
                number({.low = 0, .low_open = true}),
                "at most this many segments per minute of a sample, rounded up, those with the highest "
                "scores"),
            row("train.segments.nms_sigma", at(train, segments, &G::nms_sigma),
                number({.low = 0, .low_open = true}),
                "soft-NMS: a chosen segment multiplies the scores of others by exp(-IoU^2 / nms_sigma)"),
            row("train.segments.min_score", at(train, segments, &G::min_score), number({.low = 0, .high = 1}),
                "segments whose score falls below are left out"),
            row("train.label_smoothing", at(train, &T::label_smoothing), number({.low = 0, .high = 1}),
                "fraction of the training target that is spread evenly over all classes; evaluations go "
                "without"),
            row("train.class_weights", at(train, &T::class_weights), optional(class_weights()),
                "what samples of each class count in training; balanced: as much as all classes together, "
                "over their number; only ratios count: the mean over the training samples is made 1; 0 "
                "leaves a class out"),
            row("train.precision", at(train, &T::precision),
                choice<Precision>({{"fp32", Precision::fp32},
                                   {"tf32", Precision::tf32},
                                   {"bf16", Precision::bf16},
                                   {"fp64", Precision::fp64}}),
                "type of the arithmetic; fp32: single precision; tf32: as fp32, but products round their "
                "inputs to 10 bits of mantissa (GPUs only); bf16: mixed precision, products of bf16 are "
                "summed in fp32, weights stay fp32 (not on CPUs without AVX-512); fp64: double precision, "
                "the reference mode (CPUs only)"),
            row("train.scale_lr_by_world_size", at(train, &T::scale_lr_by_world_size), boolean(),
                "multiply the learning rate by the number of ranks"),
            row("train.scale_lr_by_batch", at(train, &T::scale_lr_by_batch), optional(integer(1)),
                "the rates are given for updates of so many samples: optim.lr, schedule.min_lr and "
                "schedule.warmup_lr are multiplied by the samples of an update (batch_size x accumulate x "
                "ranks) / this"),
            row("train.recompute", at(train, &T::recompute), boolean(),
                "compute activations again in backward: less memory, more time, the same bits (on a GPU not "
                "with model.gelu: tanh, whose products then have no GELU in them; for transformers on a CPU "
                "without AVX-512 to rounding)"),
            row("train.early_stopping", at(train, &T::early_stopping), optional(early_stopping()),
                "end the run after `patience` evaluations without an improvement of more than min_delta; "
                "defaults: val/accuracy, 3 and 0; only those that train.eval_every asks for count: one that "
                "train.max_steps causes within an epoch does not, though its weights may become those of "
                "train.checkpoint.best"),
            row("train.ema", at(train, &T::ema), optional(ema()),
                "moving average of the weights, which evaluations, predict and export use and say so; a "
                "number alone is the decay, 0.999 by default; warmup, off by default: in update t at most "
                "1 - t^(-2/3); a warning says where much of it will still be the first weights"),
            row("train.topk", at(train, &T::topk), optional(integer(0), "auto"),
                "k of the top-k accuracy in evaluations, at most the model's classes; 0: none; auto: 5 "
                "from 10 classes on"),
            row("train.confusion", at(train, &T::confusion), boolean(),
                "write the confusion matrix of evaluations, of at most 2048 classes: [label][prediction] "
                "counts; also pod and far: the fraction of class 1 that is predicted as class 1, and the "
                "fraction of predictions of class 1 that are wrong, of two classes auprc and roc_auc, too: "
                "how well the scores order the samples"),
            row("train.log_every", at(train, &T::log_every), integer(1),
                "steps between rows of type step in metrics.jsonl; the terminal and log.txt tell the "
                "progress by the clock"),
            row("train.eval_every", at(train, &T::eval_every), evaluation_interval(),
                "epochs, or steps, between evaluations; 0: only at the end"),
            row("train.checkpoint.every", at(train, checkpoint, &C::every), interval(),
                "how often to save; never and 0 of any unit: only when the run ends or is stopped"),
            row("train.checkpoint.keep", at(train, checkpoint, &C::keep), integer(1),
                "newest checkpoints that are kept"),
            row("train.checkpoint.best", at(train, checkpoint, &C::best), best_metric(),
                "also keep the checkpoint that is best in this, which eval, predict and export take with "
                "--best"),
            row("train.checkpoint.best_from", at(train, checkpoint, &C::best_from), integer(0),
                "finished epochs from which on evaluations count for best"),
            row("train.nan_policy", at(train, &T::nan_policy),
                choice<NanPolicy>({{"stop", NanPolicy::stop}, {"skip", NanPolicy::skip}}),
                "what a loss or gradient that is not finite does; stop ends the run: of the gradients it "
                "looks at optim.clip_norm's norm, without that at what they do to the next loss, and no "
                "checkpoint holds such weights; skip looks at the norm of every step (and whether its "
                "square fits, where the optimizer squares gradients) and leaves the update "
                "out: it is no step, but its samples are consumed; a run that has skipped 100 updates one "
                "after the other, counted from its start or resume, ends"),
        });
}

void add_distributed(std::vector<Row>& rows) {
    using D = DistributedConfig;
    const auto distributed = &Config::distributed;
    const Range positive{.low = 0, .low_open = true};
    rows.insert(
        rows.end(),
        {
            row("distributed.strategy", at(distributed, &D::strategy),
                choice<Strategy>({{"auto", Strategy::automatic},
                                  {"single", Strategy::single},
                                  {"ddp", Strategy::ddp},
                                  {"zero1", Strategy::zero1}}),
                "how ranks share the work; zero1: as ddp, with the optimizer's state divided among the "
                "ranks; auto: zero1 where all ranks have memory in common (and optim.clip_norm, "
                "train.nan_policy and what zero1 refuses allow it), else ddp"),
            row("distributed.backend", at(distributed, &D::backend),
                choice<Backend>({{"auto", Backend::automatic},
                                 {"nccl", Backend::nccl},
                                 {"mpi", Backend::mpi},
                                 {"gloo", Backend::gloo}}),
                "what carries the gradients; auto on GPUs: nccl where it is there, else mpi through host "
                "memory"),
            row("distributed.timeout", at(distributed, &D::timeout), number(positive, seconds),
                "seconds to wait for a silent peer; the start of all ranks waits as long, but at least 30; "
                "unless it is given, MPI_Init waits 1800, with a warning after 300, and the rest of the "
                "start 300"),
            row("distributed.bucket_mb", at(distributed, &D::bucket_mb), number(positive, mebibytes),
                "size of a bucket in MiB"),
            row("distributed.first_bucket_mb", at(distributed, &D::first_bucket_mb),
                number(positive, mebibytes), "size of the first bucket in MiB"),
            row("distributed.bucket_policy", at(distributed, &D::bucket_policy), bucket_policy(),
                "how gradients are grouped into buckets; ddp: by bucket_mb, as PyTorch does; single: one "
                "bucket; per_layer: one per layer; cost_model: measured in the first steps, the grouping "
                "with the least predicted exposed communication; auto: the fastest in real steps of that, "
                "one bucket and several sizes"),
            row("distributed.across_steps", at(distributed, &D::across_steps),
                choice<AcrossSteps>({{"auto", AcrossSteps::automatic},
                                     {"true", AcrossSteps::yes},
                                     {"false", AcrossSteps::no}}),
                "whether buckets may stay on the network during the next step's forward, in which each layer "
                "waits for its own; the weights are the same to the bit; auto: between hosts, where it can "
                "be done and the first steps say that it pays"),
            row("distributed.compress", at(distributed, &D::compress),
                choice<Compress>({{"none", Compress::none}, {"bf16", Compress::bf16}}),
                "type of gradients in transit: bf16 sends half of the bytes; rounded to bf16 they are added "
                "in fp32, and the sum is rounded once more, with any number of ranks; refused with fp64 and "
                "zero1, and strategy auto is ddp"),
            row("distributed.find_unused_parameters", at(distributed, &D::find_unused_parameters), boolean(),
                "as in PyTorch, where it lets a step leave out parameters; a model's graph is fixed here, "
                "every parameter has its gradient in every step and there is nothing to find: the same run "
                "with both values"),
            row("distributed.sync_batch_norm", at(distributed, &D::sync_batch_norm), boolean(),
                "batch-norm normalises with the statistics of all ranks' samples, not of its rank's"),
            row("distributed.verify_every", at(distributed, &D::verify_every), integer(0),
                "steps between checks that all ranks hold the same bits of weights and running statistics, "
                "one pass over them each; where they differ the run ends and names the rank, its host and "
                "the tensor; 0: never"),
        });
}

}  // namespace

const std::vector<Row>& rows() {
    static const std::vector<Row> table = [] {
        std::vector<Row> all;
        add_run(all);
        add_data(all);
        add_model(all);
        add_optim(all);
        add_schedule(all);
        add_train(all);
        add_distributed(all);
        return all;
    }();
    return table;
}

const Row* find_row(std::string_view path) {
    const auto found =
        std::find_if(rows().begin(), rows().end(), [=](const Row& row) { return row.path == path; });
    return found == rows().end() ? nullptr : &*found;
}

bool is_section(std::string_view path) {
    const std::string begin = std::string(path) + ".";
    return std::any_of(rows().begin(), rows().end(),
                       [&](const Row& row) { return row.path.starts_with(begin); });
}

bool in_section(const Row& row, std::string_view section) {
    return row.path.starts_with(std::string(section) + ".");
}

bool knows(const Row& row, std::string_view owner) {
    return row.owners.empty() || std::find(row.owners.begin(), row.owners.end(), owner) != row.owners.end();
}

std::string model_of(const Config& config) {
    if (!config.model.layers.empty()) return layers_model;
    return config.model.name.empty() ? "mlp" : config.model.name;
}

}  // namespace tutti::config
