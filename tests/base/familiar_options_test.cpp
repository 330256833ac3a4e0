// Every row of the table of other trainers' options: what it becomes, or how it is refused.

#include "tutti/base/familiar_options.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "config_helpers.hpp"
#include "tutti/base/error.hpp"

namespace tutti {
namespace {

using Words = std::vector<std::string>;
using Form = FamiliarOption::Form;
using Meaning = FamiliarOption::Meaning;

std::string flag_refusal(const Words& arguments, const std::string& command = "train") {
    try {
        translate_familiar_flags(arguments, command);
        return "accepted";
    } catch (const UsageError& error) {
        return error.what();
    }
}

// What people type, and the settings that it gives. Every accepted flag of the table must be here.
const std::vector<std::pair<Words, Words>> train_lines = {
    {{"--csvfile", "a.h5"}, {"data.train=a.h5"}},
    {{"--dry_run"}, {"train.max_steps=1"}},
    {{"--config", "a.yaml"}, {"-c", "a.yaml"}},
    {{"--train_csv", "a.h5"}, {"data.train=a.h5"}},
    {{"--val_csv=b.h5"}, {"data.val=b.h5"}},
    {{"--log_dir", "logs/x"}, {"run.dir=logs/x"}},
    {{"--epochs", "14"}, {"train.epochs=14"}},
    {{"--bs", "0"}, {"train.batch_size=0"}},  // an explicit 0 is not lost: the config refuses it
    {{"--lr", "1.0"}, {"optim.lr=1.0"}},
    {{"--num_workers", "0"}, {"data.workers=0"}},
    {{"--image_size", "384"}, {"model.image=384"}},
    {{"--heatmap_sigma_px", "6"}, {"train.heatmap_sigma=6"}},
    {{"--best_ckpt_start_epoch", "5"}, {"train.checkpoint.best_from=5"}},
    {{"--batch-size", "64"}, {"train.batch_size=64"}},
    {{"--test-batch-size", "1000"}, {}},
    {{"--gamma", ".7"}, {"schedule.gamma=.7"}},
    {{"--no-cuda"}, {"device=cpu"}},
    {{"--dry-run"}, {"train.max_steps=1"}},
    {{"--seed", "-1"}, {"run.seed=-1"}},
    {{"--log-interval", "10"}, {"train.log_every=10"}},
    {{"--save-model"}, {}},
    {{"--config_path", "a.yaml"}, {"-c", "a.yaml"}},
    {{"--resume", "runs/x/checkpoints/step-00000010.h5"}, {"run.resume=runs/x/checkpoints/step-00000010.h5"}},
    {{"--log-level", "INFO"}, {"run.log_level=info"}},
    {{"--dist_backend", "mpi"}, {"distributed.backend=mpi"}},
};
const std::vector<std::pair<Words, Words>> predict_lines = {
    {{"--csvfile", "a.h5"}, {"--data", "a.h5"}},
    {{"--inference_model", "c.h5"}, {"--checkpoint", "c.h5"}},
    {{"--preds_csv", "o.csv"}, {"--output", "o.csv"}},
    {{"--get_logits"}, {}},
    {{"--get_embeddings"}, {"--embeddings"}},
    {{"--variant", "binary"}, {}},
    {{"--config", "a.yaml"}, {"-c", "a.yaml"}},
    {{"--config_path", "a.yaml"}, {"-c", "a.yaml"}},
};

void check_lines(const std::vector<std::pair<Words, Words>>& lines, const std::string& command) {
    Words seen;
    for (const auto& [given, expected] : lines) {
        EXPECT_EQ(translate_familiar_flags(given, command), expected) << given[0];
        seen.push_back(given[0].substr(0, given[0].find('=')));
    }
    for (const FamiliarOption& option : familiar_options())
        if (option.form == Form::flag && option.meaning != Meaning::refused &&
            (option.command.empty() || option.command == command)) {
            EXPECT_NE(std::find(seen.begin(), seen.end(), option.name), seen.end())
                << option.name << " of trainer " << command << " is not tested";
        }
}

TEST(FamiliarFlags, EachBecomesOurSettingInTraining) {
    check_lines(train_lines, "train");
}

TEST(FamiliarFlags, EachBecomesOurOptionInPrediction) {
    check_lines(predict_lines, "predict");
}

TEST(FamiliarFlags, EachRefusedOneSaysWhatToWriteInstead) {
    for (const FamiliarOption& option : familiar_options()) {
        if (option.form != Form::flag || option.meaning != Meaning::refused) continue;
        const std::string command = option.command.empty() ? "train" : option.command;
        const std::string expected =
            "command line: " + option.name + " (" + option.from + ") is not taken over; " + option.note;
        EXPECT_EQ(flag_refusal({option.name, "x"}, command), expected);
        EXPECT_EQ(flag_refusal({option.name + "=x"}, command), expected);
        EXPECT_FALSE(option.note.empty());
    }
}

TEST(FamiliarFlags, AreOneWordWithDashesAndWithUnderscores) {
    EXPECT_EQ(translate_familiar_flags(Words{"--num-workers", "3", "--Batch_Size=8"}, "train"),
              (Words{"data.workers=3", "train.batch_size=8"}));
    EXPECT_EQ(translate_familiar_flags(Words{"--dist-backend", "gloo"}, "train"),
              (Words{"distributed.backend=gloo"}));
    for (const char* flag : {"--nproc-per-node", "--node-rank", "--world-size", "--dist-url", "--local-rank",
                             "--rdzv-endpoint", "--rdzv-id", "--num-nodes", "--master-port"})
        EXPECT_EQ(flag_refusal({flag, "2"}),
                  std::string("command line: ") + flag +
                      " (PyTorch launchers) is not taken over; it is the launcher's: leave it out here and "
                      "start the ranks with mpirun -np N, srun or jobs/run.sh -n N");
    EXPECT_TRUE(flag_refusal({"--multiprocessing-distributed"}).ends_with("or jobs/run.sh -n N"));
    EXPECT_EQ(flag_refusal({"--num-workers"}),
              "command line: --num-workers needs a value; write --num-workers VALUE");
}

TEST(FamiliarFlags, OurOwnWordsAndTheirOrderStay) {
    const Words words = {"-c", "x.yaml", "train.epochs=2", "--bs=8", "optim.lr=0.1", "--unknown"};
    EXPECT_EQ(translate_familiar_flags(words, "train"),
              (Words{"-c", "x.yaml", "train.epochs=2", "train.batch_size=8", "optim.lr=0.1", "--unknown"}));
}

TEST(FamiliarFlags, AValueIsRequiredWhereThereIsOneAndOnlyThere) {
    EXPECT_EQ(flag_refusal({"--bs"}), "command line: --bs needs a value; write --bs VALUE");
    EXPECT_EQ(flag_refusal({"--bs", "--lr", "1"}), "command line: --bs needs a value; write --bs VALUE");
    EXPECT_EQ(flag_refusal({"--dry-run=1"}), "command line: --dry-run takes no value; write it alone");
    EXPECT_EQ(flag_refusal({"--save-model=1"}), "command line: --save-model takes no value; write it alone");
}

TEST(FamiliarFlags, AListOfFilesIsNotTakenForData) {
    for (const char* name : {"--train_csv", "--val_csv", "--csvfile"})
        EXPECT_EQ(
            flag_refusal({name, "manifests/train.csv"}),
            std::string("command line: ") + name +
                ": manifests/train.csv is a list of files, but samples are read from HDF5; pack them once "
                "(data/README.md), and name the HDF5 file there");
}

// YAML as people have it, the key that it stands for, and the value that must come out; the model that knows
// the key.
struct YamlRow {
    std::string section, key, value, target, expected, model = "mlp";
};
const std::vector<YamlRow> yaml_rows = {
    {"data", "manifest_train", "a.h5", "data.train", "[\"a.h5\"]"},
    {"data", "manifest_val", "b.h5", "data.val", "[\"b.h5\"]"},
    {"train", "num_workers", "0", "data.workers", "0"},
    {"train", "lr", "2e-4", "optim.lr", "0.0002"},
    {"train", "weight_decay", "1e-4", "optim.weight_decay", "0.0001"},
    {"train", "seed", "491", "run.seed", "491"},
    {"train", "amp", "true", "train.precision", "bf16"},
    {"train", "amp", "false", "train.precision", "fp32"},
    {"train", "amp", "True", "train.precision", "bf16"},
    {"train", "amp", "no", "train.precision", "fp32"},
    {"train", "use_aug", "true", "data.transforms", "[horizontal_flip]"},
    {"train", "use_aug", "no", "data.transforms", "[]"},
    {"train", "save_dir", "checkpoints", "run.dir", "checkpoints"},
    {"train", "val_every", "2", "train.eval_every", "2"},
    {"train", "best_ckpt_start_epoch", "5", "train.checkpoint.best_from", "5"},
    {"train", "backbone", "resnet50", "model.backbone", "resnet50", "locator"},
    {"train", "image_size", "384", "model.image", "384", "locator"},
    {"infer", "presence_threshold", "0.4", "train.presence_threshold", "0.4", "locator"},
    {"loss", "heatmap_sigma_px", "6", "train.heatmap_sigma", "6", "locator"},
    {"loss", "w_heatmap", "50", "train.heatmap_weight", "50", "locator"},
    {"loss", "w_presence", "2", "train.presence_weight", "2", "locator"},
    {"model", "d_model", "256", "model.dim", "256", "temporal_transformer"},
    {"model", "self_num_layers", "12", "model.depth", "12", "temporal_transformer"},
    {"model", "text_num_layers", "2", "model.text_depth", "2", "temporal_transformer"},
    {"model", "cross_num_layers", "2", "model.cross_depth", "2", "temporal_transformer"},
    {"model", "num_heads", "4", "model.heads", "4", "temporal_transformer"},
    {"test_cfg", "pre_nms_topk", "500", "train.segments.candidates", "500", "temporal_transformer"},
    {"test_cfg", "pre_nms_thresh", "0.4", "train.segments.threshold", "0.4", "temporal_transformer"},
    {"test_cfg", "duration_thresh", "5", "train.segments.shortest", "5", "temporal_transformer"},
    {"test_cfg", "duration_thresh_max", "60", "train.segments.longest", "60", "temporal_transformer"},
    {"test_cfg", "max_seg_per_min", "0.5", "train.segments.per_minute", "0.5", "temporal_transformer"},
    {"test_cfg", "nms_sigma", "0.3", "train.segments.nms_sigma", "0.3", "temporal_transformer"},
    {"test_cfg", "min_score", "0.02", "train.segments.min_score", "0.02", "temporal_transformer"},
    {"train", "eval_freq", "1", "train.eval_every", "1"},
    {"train", "warmup_epochs", "5", "schedule.warmup_epochs", "5"},
    {"train", "save_epochs", "10", "train.checkpoint.every", "10 epochs"},
    {"distributed", "strategy", "dp", "distributed.strategy", "ddp"},
    {"distributed", "strategy", "ddp", "distributed.strategy", "ddp"},
    {"distributed", "strategy", "auto", "distributed.strategy", "auto"},
    {"distributed", "strategy", "single", "distributed.strategy", "single"},
};

TEST(FamiliarKeys, EachIsTheSameAsOurKeyInAFileAndOnTheCommandLine) {
    std::map<std::string, int> seen;
    for (const YamlRow& row : yaml_rows) {
        SCOPED_TRACE(row.section + "." + row.key);
        ++seen[row.section + "." + row.key];
        const std::string model = "model.name=" + row.model;
        const Config ours = parse("", {model, row.target + "=" + row.expected});
        EXPECT_EQ(parse(row.section + ": {" + row.key + ": " + row.value + "}", {model}), ours);
        EXPECT_EQ(parse("", {model, row.section + "." + row.key + "=" + row.value}), ours);
    }
    for (const FamiliarOption& option : familiar_options()) {
        if (option.form != Form::yaml || option.meaning != Meaning::setting) continue;
        EXPECT_TRUE(seen.contains(option.name)) << option.name << " is not tested";
        const bool changes_name = option.name != option.target;
        EXPECT_TRUE(changes_name || !option.words.empty()) << option.name << " maps to itself";
    }
}

TEST(FamiliarKeys, EachRefusedOneSaysWhereItStandsAndWhatToWriteInstead) {
    for (const FamiliarOption& option : familiar_options()) {
        if (option.form != Form::yaml || option.meaning != Meaning::refused) continue;
        const std::size_t dot = option.name.find('.');
        const std::string yaml =
            option.name.substr(0, dot) + ":\n  " + option.name.substr(dot + 1) + ": data/x";
        EXPECT_EQ(refusal(yaml), "jobs/x.yaml:2: " + option.name + " (" + option.from +
                                     ") is not taken over; " + option.note);
        EXPECT_FALSE(option.note.empty());
    }
}

TEST(FamiliarKeys, SeveralRefusedOnesAreNamedAtOnce) {
    EXPECT_EQ(
        refusal("train_dataset: {label_path: a.json, video_path: b}\ntest_dataset:\n  label_path: c.json"),
        "3 keys of another trainer (clip-selection) are not taken over: jobs/x.yaml:1: "
        "train_dataset.label_path, train_dataset.video_path (features and labels are read from one HDF5 "
        "file (data/README.md): data.train=FILE.h5), jobs/x.yaml:3: test_dataset.label_path (evaluate "
        "afterwards: trainer eval --run RUN_DIR --data FILE.h5)");
}

TEST(FamiliarKeys, NeedlessOnesAreAcceptedWithTheValuesThatHold) {
    const Config plain = parse("", {"model.name=locator"});
    for (const FamiliarOption& option : familiar_options()) {
        if (option.form != Form::yaml || option.meaning != Meaning::needless) continue;
        EXPECT_FALSE(option.note.empty());
        const std::size_t dot = option.name.find('.');
        const auto with = [&](const std::string& value) {
            return option.name.substr(0, dot) + ":\n  " + option.name.substr(dot + 1) + ": " + value;
        };
        const std::string fits = option.words.empty() ? "anything" : option.words.front().first;
        EXPECT_EQ(parse(with(fits), {"model.name=locator"}), plain) << option.name;
        EXPECT_EQ(parse(with("null"), {"model.name=locator"}), plain) << option.name;
        if (option.words.empty()) continue;
        EXPECT_EQ(refusal(with("17")), "jobs/x.yaml:2: " + option.name + " (" + option.from +
                                           ") is not taken over; " + option.note);
    }
}

// Theirs is the model of their program, whose name their files do not give.
TEST(FamiliarKeys, OfAModelThatIsNotNamedSayWhatTheyMeanAndThatItIsToBeNamed) {
    EXPECT_EQ(
        refusal("train:\n  image_size: 128"),
        "jobs/x.yaml:2: model.image: the model mlp does not know this key; train.image_size means it, and "
        "model.name is not given: set it to lenet or mnist or vit or videomae or videomae_pretrain or "
        "locator, which know it");
    EXPECT_EQ(parse("train:\n  image_size: 128", {"model.name=locator"}).model.image, 128);
}

TEST(FamiliarKeys, TheirNameAndOursTogetherAreRefusedInAFile) {
    EXPECT_EQ(refusal("optim: {lr: 0.1}\ntrain: {lr: 0.2}"),
              "jobs/x.yaml:2: train.lr and optim.lr are the same setting; keep one of them");
    EXPECT_EQ(refusal("train: {lr: 0.2}\noptim: {lr: 0.1}"),
              "jobs/x.yaml:2: optim.lr and train.lr are the same setting; keep one of them");
    EXPECT_EQ(parse("train: {lr: 0.2}", {"optim.lr=0.1"}).optim.lr, 0.1);
    EXPECT_EQ(parse("optim: {lr: 0.1}", {"train.lr=0.2"}).optim.lr, 0.2);
}

TEST(FamiliarKeys, AListOfFilesIsNotTakenForData) {
    EXPECT_EQ(
        refusal("data: {manifest_train: manifests/train.csv}"),
        "jobs/x.yaml:1: data.manifest_train: manifests/train.csv is a list of files, but samples are read "
        "from HDF5; pack them once (data/README.md), and name the HDF5 file there");
    // Where the command line names another, the file's does not matter.
    const std::string listed = "data: {manifest_train: manifests/train.csv}";
    for (const char* packed : {"data.train=a.h5", "data.manifest_train=a.h5", "data={train: a.h5}"})
        EXPECT_EQ(parse(listed, {packed}).data.train, std::vector<std::string>{"a.h5"}) << packed;
    EXPECT_EQ(override_refusal("data.manifest_train=b.csv").find("data.manifest_train: b.csv is a list of"),
              0U);
}

TEST(FamiliarKeys, AValueThatOursDoesNotTakeIsRefusedAsOurs) {
    EXPECT_EQ(override_refusal("distributed.strategy=fsdp"),
              "distributed.strategy: fsdp is not one of auto, single, ddp, zero1; did you mean zero1?");
    EXPECT_EQ(override_refusal("train.val_every=often"), override_refusal("train.eval_every=often"));
}

TEST(FamiliarOptions, TargetsExist) {
    const auto keys = config_reference();
    for (const FamiliarOption& option : familiar_options()) {
        if (option.meaning != Meaning::setting) continue;
        EXPECT_TRUE(std::any_of(keys.begin(), keys.end(),
                                [&](const ConfigKey& key) { return key.path == option.target; }))
            << option.name << " -> " << option.target;
    }
}

}  // namespace
}  // namespace tutti
