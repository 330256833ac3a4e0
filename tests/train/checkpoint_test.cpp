#include "tutti/train/checkpoint.hpp"

#include <gtest/gtest.h>
#include <hdf5.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

#include "support/error_message.hpp"
#include "support/files.hpp"
#include "support/temp_dir.hpp"
#include "tutti/base/atomic_file.hpp"
#include "tutti/base/error.hpp"

/// Read by LeakSanitizer: HDF5 1.10 loses memory over damaged metadata. Identifiers that we forget to close
/// would not be seen either way, as the library's tables refer to them.
extern "C" const char* __lsan_default_suppressions();
const char* __lsan_default_suppressions() {
    return "leak:libhdf5";
}

namespace tutti {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using test::names_in;
using test::read_file;
using test::write_file;

NamedTensor tensor(const std::string& name, DType dtype, Shape shape, unsigned seed = 1) {
    NamedTensor result{name, dtype, shape, {}};
    result.bytes.resize(static_cast<std::size_t>(shape.count()) * size_of(dtype));
    unsigned state = seed;
    for (std::byte& b : result.bytes) {  // any bits, NaN patterns too
        state = state * 1664525U + 1013904223U;
        b = static_cast<std::byte>(state >> 24);
    }
    return result;
}

std::vector<std::string> texts_of(const Checkpoint& of) {
    return {of.config,        of.last_eval,     of.bucket_plan, of.data_fingerprint,
            of.normalisation, of.training_data, of.failed_step};
}

Checkpoint example_checkpoint() {
    Checkpoint checkpoint;
    checkpoint.progress = {.step = 42,
                           .epoch = 3,
                           .position = 1LL << 40,
                           .samples = (1LL << 53) + 1,
                           .world_size = 8,
                           .loss_sum = 0.1 + 0.2,
                           .loss_weight = std::numeric_limits<double>::denorm_min(),
                           .correct = -1,
                           .best_metric = -0.0,
                           .has_best = true,
                           .best_step = 40,
                           .skipped = 5,
                           .stop_metric = 0.75,
                           .has_stop_metric = true,
                           .stale_evals = 2,
                           .unreadable = 7};
    checkpoint.config = "model:\n  name: mlp  # ü\n" + std::string(100'000, 'x');
    checkpoint.last_eval = R"({"type": "eval", "loss": 1e-3})";
    checkpoint.bucket_plan = R"({"ends": [1]})";
    checkpoint.data_fingerprint = "0123456789abcdef";
    checkpoint.normalisation = R"({"mean": [0.1307], "std": [0.3081]})";
    checkpoint.training_data = R"({"shape": [28, 28, 1], "labelled": true, "classes": 10})";
    checkpoint.model = {tensor("model.z.weight", DType::f32, {3, 5, 7}, 1),
                        tensor("fc1.weight", DType::f64, {4, 2}, 2),
                        tensor("bn.num_batches_tracked", DType::i64, {}, 3),
                        tensor("half", DType::bf16, {2, 2, 2, 2, 2, 3}, 4),
                        tensor("mask", DType::u8, {13}, 5),
                        tensor("empty", DType::f32, {0, 4}, 6)};
    checkpoint.optimizer = {tensor("momentum_buffer/fc1.weight", DType::f32, {4, 2}, 7),
                            tensor("momentum_buffer/half", DType::bf16, {0}, 8),
                            tensor("exp_avg/fc1.weight", DType::f32, {4, 2}, 9)};
    checkpoint.ema = {tensor("fc1.weight", DType::f64, {4, 2}, 10)};
    return checkpoint;
}

void expect_equal(const std::vector<NamedTensor>& a, const std::vector<NamedTensor>& b, bool bytes = true) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
        EXPECT_EQ(a[i].name, b[i].name);
        EXPECT_EQ(a[i].dtype, b[i].dtype) << a[i].name;
        EXPECT_TRUE(a[i].shape == b[i].shape) << a[i].name;
        EXPECT_TRUE(!bytes || a[i].bytes == b[i].bytes) << a[i].name;
    }
}

void expect_equal(const Progress& a, const Progress& b) {
    EXPECT_EQ(a.step, b.step);
    EXPECT_EQ(a.epoch, b.epoch);
    EXPECT_EQ(a.position, b.position);
    EXPECT_EQ(a.samples, b.samples);
    EXPECT_EQ(a.world_size, b.world_size);
    EXPECT_EQ(std::bit_cast<std::uint64_t>(a.loss_sum), std::bit_cast<std::uint64_t>(b.loss_sum));
    EXPECT_EQ(std::bit_cast<std::uint64_t>(a.loss_weight), std::bit_cast<std::uint64_t>(b.loss_weight));
    EXPECT_EQ(a.correct, b.correct);
    EXPECT_EQ(std::bit_cast<std::uint64_t>(a.best_metric), std::bit_cast<std::uint64_t>(b.best_metric));
    EXPECT_EQ(a.has_best, b.has_best);
    EXPECT_EQ(a.best_step, b.best_step);
    EXPECT_EQ(a.skipped, b.skipped);
    EXPECT_EQ(std::bit_cast<std::uint64_t>(a.stop_metric), std::bit_cast<std::uint64_t>(b.stop_metric));
    EXPECT_EQ(a.has_stop_metric, b.has_stop_metric);
    EXPECT_EQ(a.stale_evals, b.stale_evals);
    EXPECT_EQ(a.unreadable, b.unreadable);
}

/// No file of this process may grow beyond `bytes`; a write beyond fails with EFBIG.
class FileSizeLimit {
  public:
    explicit FileSizeLimit(std::size_t bytes) : handler_(signal(SIGXFSZ, SIG_IGN)) {
        getrlimit(RLIMIT_FSIZE, &before_);
        rlimit limit = before_;
        limit.rlim_cur = bytes;
        setrlimit(RLIMIT_FSIZE, &limit);
    }
    ~FileSizeLimit() {
        setrlimit(RLIMIT_FSIZE, &before_);
        signal(SIGXFSZ, handler_);
    }

  private:
    rlimit before_{};
    void (*handler_)(int);
};

class CheckpointFile : public ::testing::Test {
  protected:
    void TearDown() override {
        EXPECT_EQ(H5Fget_obj_count(hid_t{H5F_OBJ_ALL}, H5F_OBJ_ALL), 0) << "left open";
    }

    test::TempDir directory_;
    std::string path_ = directory_.path() + "/step-00000042.h5";
};

TEST_F(CheckpointFile, RoundTripKeepsEveryBit) {
    const Checkpoint saved = example_checkpoint();
    save_checkpoint(path_, saved);
    const Checkpoint loaded = load_checkpoint(path_);
    expect_equal(saved.progress, loaded.progress);
    EXPECT_EQ(texts_of(saved), texts_of(loaded));
    expect_equal(saved.model, loaded.model);
    expect_equal(saved.optimizer, loaded.optimizer);
    expect_equal(saved.ema, loaded.ema);
    EXPECT_EQ(names_in(directory_.path()), std::vector<std::string>{"step-00000042.h5"});
}

TEST_F(CheckpointFile, RoundTripOfNothing) {
    save_checkpoint(path_, Checkpoint{});
    const Checkpoint loaded = load_checkpoint(path_);
    expect_equal(Progress{}, loaded.progress);
    EXPECT_TRUE(loaded.config.empty() && loaded.last_eval.empty());
    EXPECT_TRUE(loaded.model.empty() && loaded.optimizer.empty());
}

TEST_F(CheckpointFile, NotANumberKeepsItsBits) {
    Checkpoint checkpoint;
    checkpoint.progress.best_metric = std::bit_cast<double>(0x7ff8'0000'dead'beefULL);
    checkpoint.progress.loss_sum = -std::numeric_limits<double>::infinity();
    save_checkpoint(path_, checkpoint);
    expect_equal(checkpoint.progress, load_checkpoint(path_).progress);
}

TEST_F(CheckpointFile, TensorsLargerThanAPieceRoundTrip) {
    Checkpoint checkpoint;
    checkpoint.model = {tensor("line", DType::f32, {3'000'001}), tensor("rows", DType::f32, {3, 700'001}),
                        tensor("deep", DType::f64, {2, 3, 600'000}),
                        tensor("wide", DType::u8, {2, 2, 4'200'000}),
                        tensor("thin", DType::bf16, {2'500'000, 1, 1})};
    save_checkpoint(path_, checkpoint);
    expect_equal(checkpoint.model, load_checkpoint(path_).model);
}

TEST_F(CheckpointFile, ManyTensorsKeepTheirOrder) {
    Checkpoint checkpoint;
    for (unsigned i = 0; i < 300; ++i)
        checkpoint.model.push_back(tensor("layer" + std::to_string(i) + ".weight", DType::f32, {2, 3}, i));
    save_checkpoint(path_, checkpoint);
    expect_equal(checkpoint.model, load_checkpoint(path_).model);
}

TEST_F(CheckpointFile, IsTheHdf5FileThatTheContractDescribes) {
    save_checkpoint(path_, example_checkpoint());
    const hid_t file = H5Fopen(path_.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
    ASSERT_GE(file, 0);
    const hid_t dataset = H5Dopen2(file, "model/fc1.weight", H5P_DEFAULT);
    const hid_t type = H5Dget_type(dataset);
    EXPECT_GT(H5Tequal(type, H5T_IEEE_F64LE), 0);
    EXPECT_GT(H5Lexists(file, "optimizer/momentum_buffer/fc1.weight", H5P_DEFAULT), 0);
    EXPECT_GT(H5Aexists_by_name(file, "model/half", "dtype", H5P_DEFAULT), 0);
    EXPECT_GT(H5Aexists(file, "tutti_checkpoint_version"), 0);
    EXPECT_GT(H5Aexists(file, "sha256"), 0);
    H5Tclose(type);
    H5Dclose(dataset);
    H5Fclose(file);
}

TEST_F(CheckpointFile, PeekReadsNoTensorBytes) {
    save_checkpoint(path_, example_checkpoint());
    const Checkpoint peeked = peek_checkpoint(path_);
    const Checkpoint saved = example_checkpoint();
    expect_equal(saved.progress, peeked.progress);
    EXPECT_EQ(saved.config, peeked.config);
    EXPECT_EQ(saved.last_eval, peeked.last_eval);
    expect_equal(saved.model, peeked.model, false);
    expect_equal(saved.optimizer, peeked.optimizer, false);
    expect_equal(saved.ema, peeked.ema, false);
    for (const NamedTensor& t : peeked.model) EXPECT_TRUE(t.bytes.empty());
    for (const NamedTensor& t : peeked.optimizer) EXPECT_TRUE(t.bytes.empty());
}

TEST_F(CheckpointFile, AFlippedByteOfATensorIsFound) {
    save_checkpoint(directory_.path() + "/step-00000007.h5", example_checkpoint());
    save_checkpoint(directory_.path() + "/step-00000041.h5", example_checkpoint());
    save_checkpoint(directory_.path() + "/step-00000043.h5", example_checkpoint());
    const Checkpoint checkpoint = example_checkpoint();
    for (const auto* tensors : {&checkpoint.model, &checkpoint.optimizer}) {
        save_checkpoint(path_, checkpoint);
        std::string content = read_file(path_);
        const auto& bytes = (*tensors)[0].bytes;
        const auto at = content.find(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
        ASSERT_NE(at, std::string::npos);
        content[at + 5] = static_cast<char>(content[at + 5] ^ 1);
        write_file(path_, content);
        const std::string message = message_of<DataError>([&] { load_checkpoint(path_); });
        EXPECT_CONTAINS(message,
                        path_ +
                            ": the stored SHA-256 does not match its content; the file is damaged: use "
                            "an older checkpoint (");
        EXPECT_CONTAINS(message, "/step-00000041.h5)");
        EXPECT_EQ(peek_checkpoint(path_).progress.step, 42);
    }
}

TEST_F(CheckpointFile, AFlippedByteOfATextIsFound) {
    Checkpoint checkpoint = example_checkpoint();
    checkpoint.failed_step = R"({"rank": 3})";
    for (std::string Checkpoint::*text :
         {&Checkpoint::config, &Checkpoint::last_eval, &Checkpoint::bucket_plan,
          &Checkpoint::data_fingerprint, &Checkpoint::normalisation, &Checkpoint::failed_step}) {
        save_checkpoint(path_, checkpoint);
        std::string content = read_file(path_);
        const auto at = content.find(checkpoint.*text);
        ASSERT_NE(at, std::string::npos) << checkpoint.*text;
        content[at + 5] = static_cast<char>(content[at + 5] ^ 1);
        write_file(path_, content);
        EXPECT_CONTAINS(message_of<DataError>([&] { load_checkpoint(path_); }),
                        path_ + ": the stored SHA-256 does not match its content");
    }
}

/// Where the contents of a checkpoint lie in its file; nothing where one is not found.
std::vector<bool> bytes_of_contents(const Checkpoint& checkpoint, const std::string& file) {
    std::vector<std::string> contents = texts_of(checkpoint);
    for (const auto* tensors : {&checkpoint.model, &checkpoint.optimizer, &checkpoint.ema})
        for (const NamedTensor& one : *tensors)
            contents.emplace_back(reinterpret_cast<const char*>(one.bytes.data()), one.bytes.size());
    std::vector<bool> result(file.size());
    for (const std::string& content : contents) {
        const auto at = file.find(content);
        if (at == std::string::npos) return {};
        for (std::size_t i = at; i < at + content.size(); ++i) result[i] = true;
    }
    return result;
}

TEST_F(CheckpointFile, AnyFlippedByteIsFoundOrHarmless) {
    // HDF5 notices at the end of the process that it lost memory over damaged metadata, and would print that.
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    Checkpoint checkpoint = example_checkpoint();
    checkpoint.config = "model: {name: mlp}";
    checkpoint.failed_step = R"({"rank": 3, "loss": 1e9})";
    save_checkpoint(path_, checkpoint);
    const std::string content = read_file(path_);
    const std::vector<bool> must_be_found = bytes_of_contents(checkpoint, content);
    ASSERT_FALSE(must_be_found.empty());
    std::fstream file(path_, std::ios::binary | std::ios::in | std::ios::out);
    const auto put = [&](std::size_t at, char byte) {
        file.seekp(static_cast<std::streamoff>(at));
        file.put(byte);
        file.flush();
    };
    std::int64_t contents_found = 0;
    for (std::size_t at = 0; at < content.size(); at += 13) {
        put(at, static_cast<char>(content[at] ^ 0x10));
        try {
            const Checkpoint loaded = load_checkpoint(path_);  // a byte that nothing uses
            EXPECT_FALSE(must_be_found[at]) << at;
            expect_equal(checkpoint.progress, loaded.progress);
            EXPECT_EQ(texts_of(checkpoint), texts_of(loaded)) << at;
            expect_equal(checkpoint.model, loaded.model);
            expect_equal(checkpoint.optimizer, loaded.optimizer);
            expect_equal(checkpoint.ema, loaded.ema);
        } catch (const DataError&) {
            contents_found += must_be_found[at] ? 1 : 0;
        }
        put(at, content[at]);
    }
    EXPECT_GT(contents_found, 40);
    EXPECT_EQ(read_file(path_), content);
}

TEST_F(CheckpointFile, ATruncatedFileIsADataError) {
    save_checkpoint(path_, example_checkpoint());
    const std::string content = read_file(path_);
    std::vector<std::size_t> lengths = {0, 1, 7, 8, 9, 40, 48, 95, 96, 97, 512, content.size() - 1};
    for (std::size_t length = 200; length < content.size(); length += content.size() / 50)
        lengths.push_back(length);
    for (const std::size_t length : lengths) {
        write_file(path_, content.substr(0, length));
        EXPECT_THROW(load_checkpoint(path_), DataError) << length;
        EXPECT_THROW(peek_checkpoint(path_), DataError) << length;
    }
}

TEST_F(CheckpointFile, WhatIsNotACheckpointIsNamed) {
    const auto load = [&] { load_checkpoint(path_); };
    EXPECT_CONTAINS(message_of<DataError>(load), path_ + " does not exist");
    write_file(path_, "");
    EXPECT_CONTAINS(message_of<DataError>(load), "is an empty file");
    write_file(path_, "model: {name: mlp}\n");
    EXPECT_CONTAINS(message_of<DataError>(load), path_ + " is not an HDF5 file");
    const hid_t file = H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    H5Fclose(file);
    EXPECT_CONTAINS(message_of<DataError>(load), "is an HDF5 file but not a checkpoint");
    EXPECT_CONTAINS(message_of<DataError>([&] { load_checkpoint(directory_.path()); }), "is a directory");
}

TEST_F(CheckpointFile, SaysWhetherAFileIsACheckpoint) {
    EXPECT_FALSE(is_checkpoint(path_));
    write_file(path_, "text");
    EXPECT_FALSE(is_checkpoint(path_));
    H5Fclose(H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
    EXPECT_FALSE(is_checkpoint(path_));
    save_checkpoint(path_, Checkpoint{});
    EXPECT_TRUE(is_checkpoint(path_));
}

TEST_F(CheckpointFile, AFailingSaveLeavesTheOldFileAndNoTemporary) {
    Checkpoint checkpoint = example_checkpoint();
    checkpoint.config = "old";
    save_checkpoint(path_, checkpoint);
    const std::string old = read_file(path_);
    checkpoint.config = "new";
    checkpoint.model.push_back(tensor("large", DType::f32, {100'000}));
    std::size_t size = 0;
    {
        const std::string other = directory_.path() + "/other";
        save_checkpoint(other, checkpoint);
        size = fs::file_size(other);
        fs::remove(other);
    }
    // The limits reach every phase: creation, data, and the metadata that are written at close.
    std::vector<std::size_t> limits = {0, 1, 50, 100, 1000, 2000, 4000, 10'000, size / 2, size - 1};
    for (std::size_t back = 100; back < 20'000; back += 700) limits.push_back(size - back);
    for (const std::size_t limit : limits) {
        std::string message;
        {
            const FileSizeLimit limited(limit);
            message = message_of<RunError>([&] { save_checkpoint(path_, checkpoint); });
        }
        EXPECT_CONTAINS(message, "cannot save the checkpoint " + path_ + ": File too large; ");
        ASSERT_EQ(read_file(path_), old) << limit;
        ASSERT_EQ(names_in(directory_.path()), std::vector<std::string>{"step-00000042.h5"}) << limit;
    }
    save_checkpoint(path_, checkpoint);
    EXPECT_EQ(load_checkpoint(path_).config, "new");
}

TEST_F(CheckpointFile, AMissingDirectoryIsNamed) {
    const std::string path = directory_.path() + "/none/step.h5";
    const std::string message = message_of<RunError>([&] { save_checkpoint(path, example_checkpoint()); });
    EXPECT_CONTAINS(message, path + ": No such file or directory");
    EXPECT_CONTAINS(message, "run.dir=");
}

TEST_F(CheckpointFile, AReadOnlyDirectoryIsNamed) {
    if (geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
    fs::permissions(directory_.path(), fs::perms::owner_read | fs::perms::owner_exec);
    const std::string message = message_of<RunError>([&] { save_checkpoint(path_, example_checkpoint()); });
    fs::permissions(directory_.path(), fs::perms::owner_all);
    EXPECT_CONTAINS(message, path_ + ": Permission denied");
}

TEST_F(CheckpointFile, AFullDeviceIsNamed) {
    if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
    // The temporary of this process, made to lead to a device without space.
    const std::string temporary = file::temporary_name(path_);
    fs::create_symlink("/dev/full", temporary);
    EXPECT_CONTAINS(message_of<RunError>([&] { save_checkpoint(path_, example_checkpoint()); }), path_);
    EXPECT_TRUE(names_in(directory_.path()).empty());
}

TEST_F(CheckpointFile, BadTensorsAreRefusedBeforeAnythingIsWritten) {
    const auto refused = [&](const NamedTensor& bad) {
        Checkpoint checkpoint;
        checkpoint.model = {tensor("a", DType::f32, {2}), bad};
        return message_of<RunError>([&] { save_checkpoint(path_, checkpoint); });
    };
    EXPECT_CONTAINS(refused(tensor("a", DType::f32, {2})), "two model tensors have the name a");
    EXPECT_CONTAINS(refused({"b", DType::f32, {2}, {}}), "tensor b has 0 bytes, not the 8 of its shape");
    EXPECT_CONTAINS(refused(tensor("", DType::f32, {2})), "which HDF5 cannot hold");
    EXPECT_CONTAINS(refused(tensor(".", DType::f32, {2})), "which HDF5 cannot hold");
    EXPECT_TRUE(names_in(directory_.path()).empty());
}

TEST(ModelHash, DependsOnTheModelAlone) {
    const std::string hash = model_sha256(example_checkpoint());
    EXPECT_EQ(hash.size(), 64U);
    Checkpoint other = example_checkpoint();
    other.optimizer.clear();
    other.progress.step = 1;
    other.config.clear();
    std::reverse(other.model.begin(), other.model.end());
    EXPECT_EQ(model_sha256(other), hash);
    other.model[0].name += "x";
    EXPECT_NE(model_sha256(other), hash);
}

TEST(ModelHash, SeesNameTypeShapeAndBytes) {
    const auto hash = [](NamedTensor t) {
        Checkpoint checkpoint;
        checkpoint.model = {std::move(t)};
        return model_sha256(checkpoint);
    };
    const std::string base = hash(tensor("a", DType::f32, {2, 3}));
    EXPECT_NE(hash(tensor("b", DType::f32, {2, 3})), base);
    EXPECT_NE(hash(tensor("a", DType::f32, {3, 2})), base);
    EXPECT_NE(hash(tensor("a", DType::f32, {2, 3}, 2)), base);
    EXPECT_NE(hash(tensor("a", DType::f64, {0})), hash(tensor("a", DType::f32, {0})));
}

}  // namespace
}  // namespace tutti
