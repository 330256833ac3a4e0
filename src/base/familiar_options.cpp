#include "tutti/base/familiar_options.hpp"

#include <algorithm>

namespace tutti {
namespace {

using Form = FamiliarOption::Form;
using Meaning = FamiliarOption::Meaning;
using Value = FamiliarOption::Value;

FamiliarOption flag(const char* from, const char* name, const char* target, Value value = Value::as_given) {
    return {.from = from,
            .name = name,
            .form = Form::flag,
            .meaning = target[0] == '-' ? Meaning::option : Meaning::setting,
            .target = target,
            .note = value == Value::hdf5 ? "an HDF5 file" : "",
            .command = target[0] == '-' ? "" : "train",
            .value = value};
}
FamiliarOption switched(const char* from, const char* name, const char* target, const char* fixed) {
    FamiliarOption option = flag(from, name, target, Value::switch_on);
    option.fixed = fixed;
    return option;
}
FamiliarOption key(const char* from, const char* path, const char* target, Value value = Value::as_given) {
    FamiliarOption option = flag(from, path, target, value);
    option.form = Form::yaml;
    return option;
}
FamiliarOption only_in(const char* command, FamiliarOption option) {
    option.command = command;
    return option;
}
FamiliarOption without(Meaning meaning, FamiliarOption option, const char* note) {
    option.meaning = meaning;
    option.note = note;
    return option;
}
FamiliarOption needless(FamiliarOption option, const char* note) {
    return without(Meaning::needless, std::move(option), note);
}
FamiliarOption refused(FamiliarOption option, const char* note) {
    return without(Meaning::refused, std::move(option), note);
}
/// With another value it is refused.
FamiliarOption needless_if(const char* value, FamiliarOption option, const char* note) {
    option.words = {{value, ""}};
    return needless(std::move(option), note);
}
FamiliarOption called(std::vector<std::pair<std::string, std::string>> words, const char* note,
                      FamiliarOption option) {
    option.words = std::move(words);
    option.note = note;
    return option;
}

constexpr const char* cyclone = "cyclone-video";
constexpr const char* locator = "cyclone-locator";
constexpr const char* mnist = "mnist";
constexpr const char* clips = "clip-selection";
constexpr const char* torch = "PyTorch launchers";

constexpr const char* test_set = "evaluate afterwards: trainer eval --run RUN_DIR --data FILE.h5";
constexpr const char* features =
    "features and labels are read from one HDF5 file (data/README.md): data.train=FILE.h5";
constexpr const char* val_features =
    "features and labels are read from one HDF5 file (data/README.md): data.val=FILE.h5";
constexpr const char* widths =
    "leave it out with model.fusion: early; with cross give all three: model.features=[512, 2048, 384]";
constexpr const char* columns = "columns are named when the data are packed: trainer pack images --csv";
constexpr const char* stored = "what images are is stored in the HDF5 file: trainer pack images --size 384";
constexpr const char* only_4 = "the locator's heat map has a quarter of the image's resolution: 4";
constexpr const char* predicts = "trainer predict --run RUN_DIR -o FILE writes one row per image";
constexpr const char* from_launcher =
    "it is the launcher's: leave it out here and start the ranks with mpirun -np N, srun or jobs/run.sh -n N";
constexpr const char* rank_per_gpu =
    "leave it out here and start one rank for each GPU, with mpirun -np N, srun or jobs/run.sh -n N";
constexpr const char* takes_gpu =
    "leave it out: each rank takes a GPU of its own, of those that CUDA_VISIBLE_DEVICES names where it is "
    "set";
constexpr const char* always_ddp =
    "leave it out: several ranks always train data-parallel; start them with mpirun -np N, srun or "
    "jobs/run.sh -n N";

void add_flags(std::vector<FamiliarOption>& all) {
    const FamiliarOption rows[] = {
        only_in("train", flag(cyclone, "--csvfile", "data.train", Value::hdf5)),
        only_in("predict", flag(cyclone, "--csvfile", "--data", Value::hdf5)),
        only_in("predict", flag(cyclone, "--inference_model", "--checkpoint")),
        only_in("train", refused(flag(cyclone, "--inference_model", ""),
                                 "predict with it: trainer predict --checkpoint FILE -o OUT.csv")),
        only_in("predict", flag(cyclone, "--preds_csv", "--output")),
        only_in("train", refused(flag(cyclone, "--preds_csv", ""),
                                 "predict after the training: trainer predict --run RUN_DIR -o OUT.csv")),
        only_in("predict", needless(switched(cyclone, "--get_logits", "", ""),
                                    "logits are written unless --no-logits is given")),
        only_in("predict", switched(cyclone, "--get_embeddings", "--embeddings", "")),
        only_in("predict", needless(flag(cyclone, "--variant", ""), "the run says what it was trained for")),
        refused(flag(cyclone, "--variant", ""),
                "choose the recipe: -c jobs/cyclone_video/classify.yaml (binary) or "
                "-c jobs/cyclone_video/neighbouring.yaml"),
        only_in("train", switched(cyclone, "--dry_run", "train.max_steps", "1")),
        only_in("predict",
                refused(switched(cyclone, "--dry_run", "", ""),
                        "leave it out: settings and data are checked before anything is computed")),
        flag(locator, "--config", "-c"),
        flag(locator, "--train_csv", "data.train", Value::hdf5),
        flag(locator, "--val_csv", "data.val", Value::hdf5),
        only_in("train", refused(flag(locator, "--test_csv", ""), test_set)),
        flag(locator, "--log_dir", "run.dir"),
        flag("cyclone-locator, mnist", "--epochs", "train.epochs"),
        flag(locator, "--bs", "train.batch_size"),
        flag("cyclone-locator, mnist", "--lr", "optim.lr"),
        flag(locator, "--num_workers", "data.workers"),
        only_in("train", flag(locator, "--image_size", "model.image")),
        only_in("train", flag(locator, "--heatmap_sigma_px", "train.heatmap_sigma")),
        only_in("train", flag(locator, "--best_ckpt_start_epoch", "train.checkpoint.best_from")),
        only_in("train", refused(flag(locator, "--heatmap_stride", ""), only_4)),
        flag(mnist, "--batch-size", "train.batch_size"),
        only_in("train", needless(flag(mnist, "--test-batch-size", ""),
                                  "evaluation is exact with any batch, and uses train.batch_size")),
        flag(mnist, "--gamma", "schedule.gamma"),
        switched(mnist, "--no-cuda", "device", "cpu"),
        switched(mnist, "--dry-run", "train.max_steps", "1"),
        flag(mnist, "--seed", "run.seed"),
        flag(mnist, "--log-interval", "train.log_every"),
        only_in("train", needless(switched(mnist, "--save-model", "", ""), "checkpoints are always saved")),
        flag(clips, "--config_path", "-c"),
        flag(clips, "--resume", "run.resume"),
        flag(clips, "--log-level", "run.log_level", Value::lower_case),
        refused(flag(torch, "--rank", ""), from_launcher),
        refused(flag(torch, "--local_rank", ""), from_launcher),
        refused(flag(torch, "--world_size", ""), from_launcher),
        refused(flag(torch, "--nnodes", ""), from_launcher),
        refused(flag(torch, "--num_nodes", ""), from_launcher),
        refused(flag(torch, "--node_rank", ""), from_launcher),
        refused(flag(torch, "--nproc_per_node", ""), from_launcher),
        refused(flag(torch, "--standalone", ""), from_launcher),
        refused(flag(torch, "--master_addr", ""), from_launcher),
        refused(flag(torch, "--master_port", ""), from_launcher),
        refused(flag(torch, "--dist_url", ""), from_launcher),
        refused(flag(torch, "--rdzv_backend", ""), from_launcher),
        refused(flag(torch, "--rdzv_endpoint", ""), from_launcher),
        refused(flag(torch, "--rdzv_id", ""), from_launcher),
        refused(flag(torch, "--gpus", ""), rank_per_gpu),
        refused(flag(torch, "--devices", ""), rank_per_gpu),
        refused(flag(torch, "--gpu", ""), takes_gpu),
        refused(flag(torch, "--ddp", ""), always_ddp),
        refused(flag(torch, "--multiprocessing_distributed", ""), always_ddp),
        only_in("train", flag(torch, "--dist_backend", "distributed.backend")),
    };
    all.insert(all.end(), std::begin(rows), std::end(rows));
}

void add_keys(std::vector<FamiliarOption>& all) {
    const FamiliarOption rows[] = {
        key(locator, "data.manifest_train", "data.train", Value::hdf5),
        key(locator, "data.manifest_val", "data.val", Value::hdf5),
        refused(key(locator, "data.manifest_test", ""), test_set),
        key(locator, "train.num_workers", "data.workers"),
        key("cyclone-locator, clip-selection", "train.lr", "optim.lr"),
        key("cyclone-locator, clip-selection", "train.weight_decay", "optim.weight_decay"),
        key("cyclone-locator, clip-selection", "train.seed", "run.seed"),
        called({{"true", "bf16"}, {"false", "fp32"}}, "true: bf16, false: fp32",
               key(locator, "train.amp", "train.precision")),
        key(locator, "train.save_dir", "run.dir"),
        key(locator, "train.backbone", "model.backbone"),
        key(locator, "train.image_size", "model.image"),
        needless(key(locator, "data.image_col", ""), columns),
        needless(key(locator, "data.presence_col", ""), columns),
        needless(key(locator, "data.cx_col", ""), columns),
        needless(key(locator, "data.cy_col", ""), columns),
        needless(key(locator, "data.use_pre_letterboxed", ""), stored),
        needless(key(locator, "data.letterbox_meta_csv", ""), stored),
        needless(key(locator, "data.letterbox_size_assert", ""), stored),
        needless_if("4", key(locator, "train.heatmap_stride", ""), only_4),
        called({{"true", "[horizontal_flip]"}, {"false", "[]"}}, "true: [horizontal_flip], false: []",
               key(locator, "train.use_aug", "data.transforms")),
        key(locator, "loss.heatmap_sigma_px", "train.heatmap_sigma"),
        key(locator, "loss.w_heatmap", "train.heatmap_weight"),
        key(locator, "loss.w_presence", "train.presence_weight"),
        key(locator, "infer.presence_threshold", "train.presence_threshold"),
        needless(key(locator, "infer.batch_size", ""), "evaluations use train.batch_size"),
        needless_if("1", key(locator, "infer.topk_peaks", ""), "one place is predicted: 1"),
        needless(key(locator, "infer.roi_base_radius_px", ""), "regions are not cut out"),
        needless(key(locator, "infer.roi_sigma_multiplier", ""), "regions are not cut out"),
        needless(key(locator, "infer.out_dir", ""), predicts),
        key(locator, "train.val_every", "train.eval_every"),
        key(locator, "train.best_ckpt_start_epoch", "train.checkpoint.best_from"),
        key(clips, "model.d_model", "model.dim"),
        key(clips, "model.self_num_layers", "model.depth"),
        key(clips, "model.text_num_layers", "model.text_depth"),
        key(clips, "model.cross_num_layers", "model.cross_depth"),
        key(clips, "model.num_heads", "model.heads"),
        refused(key(clips, "model.vis_dim", ""), widths),
        refused(key(clips, "model.aud_dim", ""), widths),
        refused(key(clips, "model.text_dim", ""), widths),
        key(clips, "test_cfg.pre_nms_topk", "train.segments.candidates"),
        key(clips, "test_cfg.pre_nms_thresh", "train.segments.threshold"),
        key(clips, "test_cfg.duration_thresh", "train.segments.shortest"),
        key(clips, "test_cfg.duration_thresh_max", "train.segments.longest"),
        key(clips, "test_cfg.max_seg_per_min", "train.segments.per_minute"),
        key(clips, "test_cfg.nms_sigma", "train.segments.nms_sigma"),
        key(clips, "test_cfg.min_score", "train.segments.min_score"),
        key(clips, "train.eval_freq", "train.eval_every"),
        key(clips, "train.warmup_epochs", "schedule.warmup_epochs"),
        called({}, "in epochs", key(clips, "train.save_epochs", "train.checkpoint.every", Value::epochs)),
        refused(key(clips, "train_dataset.label_path", ""), features),
        refused(key(clips, "train_dataset.video_path", ""), features),
        refused(key(clips, "train_dataset.audio_path", ""), features),
        refused(key(clips, "train_dataset.text_path", ""), features),
        refused(key(clips, "val_dataset.label_path", ""), val_features),
        refused(key(clips, "val_dataset.video_path", ""), val_features),
        refused(key(clips, "val_dataset.audio_path", ""), val_features),
        refused(key(clips, "val_dataset.text_path", ""), val_features),
        refused(key(clips, "test_dataset.label_path", ""), test_set),
        refused(key(clips, "test_dataset.video_path", ""), test_set),
        refused(key(clips, "test_dataset.audio_path", ""), test_set),
        refused(key(clips, "test_dataset.text_path", ""), test_set),
        called({{"dp", "ddp"}}, "dp means ddp: one rank per GPU",
               key(clips, "distributed.strategy", "distributed.strategy")),
    };
    all.insert(all.end(), std::begin(rows), std::end(rows));
}

}  // namespace

const std::vector<FamiliarOption>& familiar_options() {
    static const std::vector<FamiliarOption> table = [] {
        std::vector<FamiliarOption> all;
        add_flags(all);
        add_keys(all);
        return all;
    }();
    return table;
}

}  // namespace tutti
