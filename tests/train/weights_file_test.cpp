#include "tutti/train/weights_file.hpp"

#include <gtest/gtest.h>
#include <hdf5.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "support/error_message.hpp"
#include "support/files.hpp"
#include "support/temp_dir.hpp"
#include "tutti/base/error.hpp"
#include "tutti/train/checkpoint.hpp"
#include "tutti/train/prediction_file.hpp"

namespace tutti {
namespace {

using test::message_of;

template <class T>
std::string raw(const std::vector<T>& values) {
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <class T>
std::vector<T> values_of(const NamedTensor& tensor) {
    std::vector<T> values(tensor.bytes.size() / sizeof(T));
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
    return values;
}

std::vector<std::string> names_of(const std::vector<NamedTensor>& tensors) {
    std::vector<std::string> names;
    for (const NamedTensor& tensor : tensors) names.push_back(tensor.name);
    return names;
}

class WeightsFile : public ::testing::Test {
  protected:
    void write(const std::string& content) const { test::write_file(path_, content); }
    void write_safetensors(const std::string& header, const std::string& data) const {
        const std::uint64_t length = header.size();
        write(raw(std::vector<std::uint64_t>{length}) + header + data);
    }
    std::string refusal() const {
        return message_of<DataError>([&] { read_weights(path_); });
    }
    std::string refusal(const std::string& header, const std::string& data) const {
        write_safetensors(header, data);
        const std::string message = refusal();
        EXPECT_CONTAINS(message, path_);
        return message;
    }

    test::TempDir directory_;
    std::string path_ = directory_.path() + "/weights";
};

TEST_F(WeightsFile, gives_back_what_was_written_in_either_format) {
    const std::vector<float> weights{1, -2, 3e-40F, 4, 5, 6};
    const std::vector<std::int64_t> count{7};
    const auto bytes = [](const std::string& text) {
        const auto* data = reinterpret_cast<const std::byte*>(text.data());
        return std::vector<std::byte>(data, data + text.size());
    };
    for (const std::string ending : {".safetensors", ".h5"}) {
        write_weights(path_ + ending, {{"z.weight", DType::f32, Shape{2, 3}, bytes(raw(weights))},
                                       {"a.num_batches_tracked", DType::i64, Shape{}, bytes(raw(count))}});
        const auto tensors = read_weights(path_ + ending);
        ASSERT_EQ(names_of(tensors), (std::vector<std::string>{"a.num_batches_tracked", "z.weight"}));
        EXPECT_EQ(values_of<std::int64_t>(tensors[0]), count);
        EXPECT_EQ(values_of<float>(tensors[1]), weights);
        EXPECT_EQ(tensors[1].shape, (Shape{2, 3}));
    }
}

TEST_F(WeightsFile, ANameThatSafetensorsCannotHoldIsTold) {
    const std::vector<NamedTensor> tensors{{"w\xff", DType::f32, Shape{1}, std::vector<std::byte>(4)}};
    const auto message = message_of<DataError>([&] { write_weights(path_ + ".safetensors", tensors); });
    EXPECT_CONTAINS(message, "is not UTF-8, which a safetensors file must hold; rename it");
}

using Safetensors = WeightsFile;

TEST_F(Safetensors, TensorsAreReadAndSorted) {
    write_safetensors(R"({"__metadata__": {"format": "pt"},
        "b": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]},
        "a.weight": {"dtype": "F64", "shape": [1], "data_offsets": [8, 16]},
        "n": {"dtype": "I64", "shape": [], "data_offsets": [16, 24]},
        "i": {"dtype": "I32", "shape": [2], "data_offsets": [24, 32]},
        "u": {"dtype": "U8", "shape": [3], "data_offsets": [32, 35]},
        "mask": {"dtype": "BOOL", "shape": [1], "data_offsets": [35, 36]},
        "none": {"dtype": "F32", "shape": [0, 3], "data_offsets": [36, 36]}}   )",
                      raw<float>({1.5F, -2}) + raw<double>({0.1}) + raw<std::int64_t>({-7}) +
                          raw<std::int32_t>({-1, 1 << 30}) + std::string("\1\2\3\1"));
    const auto tensors = read_weights(path_);
    ASSERT_EQ(names_of(tensors), (std::vector<std::string>{"a.weight", "b", "i", "n", "none", "u"}));
    EXPECT_EQ(values_of<double>(tensors[0]), std::vector<double>{0.1});
    EXPECT_EQ(tensors[0].dtype, DType::f64);
    EXPECT_EQ(values_of<float>(tensors[1]), (std::vector<float>{1.5F, -2}));
    EXPECT_TRUE(tensors[1].shape == Shape({2, 1}));
    EXPECT_EQ(values_of<std::int64_t>(tensors[2]), (std::vector<std::int64_t>{-1, 1 << 30}));
    EXPECT_EQ(tensors[2].dtype, DType::i64);
    EXPECT_TRUE(tensors[3].shape == Shape{});
    EXPECT_EQ(values_of<std::int64_t>(tensors[3]), std::vector<std::int64_t>{-7});
    EXPECT_TRUE(tensors[4].shape == Shape({0, 3}));
    EXPECT_EQ(values_of<std::uint8_t>(tensors[5]), (std::vector<std::uint8_t>{1, 2, 3}));
}

TEST_F(Safetensors, NamesOfAWrappedModelAreThoseOfTheModel) {
    const auto header = [](const std::string& first, const std::string& second) {
        return R"({")" + first + R"(":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},")" + second +
               R"(":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})";
    };
    const std::string data = raw(std::vector<float>{1, 2});
    using Names = std::vector<std::string>;
    for (const std::string wrapper : {"module.", "_orig_mod.", "_orig_mod.module.", "module._orig_mod."}) {
        write_safetensors(header(wrapper + "fc.weight", wrapper + "fc.bias"), data);
        EXPECT_EQ(names_of(read_weights(path_)), (Names{"fc.bias", "fc.weight"})) << wrapper;
    }
    write_safetensors(header("module.fc.weight", "fc.bias"), data);
    EXPECT_EQ(names_of(read_weights(path_)), (Names{"fc.bias", "module.fc.weight"})) << "not all of them";
}

TEST_F(Safetensors, HalfPrecisionBecomesF32Exactly) {
    struct Case {
        std::uint16_t bits;
        float value;
    };
    const float infinity = std::numeric_limits<float>::infinity();
    const std::vector<Case> table = {{0x0000, 0.0F},     {0x8000, -0.0F},         {0x3c00, 1.0F},
                                     {0xc000, -2.0F},    {0x7bff, 65504.0F},      {0x0400, 0x1p-14F},
                                     {0x0001, 0x1p-24F}, {0x83ff, -0x1.ff8p-15F}, {0x3555, 0x1.554p-2F},
                                     {0x7c00, infinity}, {0xfc00, -infinity}};
    std::vector<std::uint16_t> bits;
    for (const Case& c : table) bits.push_back(c.bits);
    bits.push_back(0x7e01);  // NaN
    write_safetensors(R"({"h": {"dtype": "F16", "shape": [12], "data_offsets": [0, 24]}})", raw(bits));
    const auto tensors = read_weights(path_);
    ASSERT_EQ(tensors.size(), 1U);
    EXPECT_EQ(tensors[0].dtype, DType::f32);
    const auto values = values_of<float>(tensors[0]);
    ASSERT_EQ(values.size(), 12U);
    for (std::size_t i = 0; i < table.size(); ++i)
        EXPECT_EQ(std::bit_cast<std::uint32_t>(values[i]), std::bit_cast<std::uint32_t>(table[i].value)) << i;
    EXPECT_TRUE(std::isnan(values.back()));
}

TEST_F(Safetensors, EveryHalfEqualsItsDefinition) {
    std::vector<std::uint16_t> bits(65536);
    for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
    write_safetensors(R"({"h": {"dtype": "F16", "shape": [65536], "data_offsets": [0, 131072]}})", raw(bits));
    const auto values = values_of<float>(read_weights(path_)[0]);
    for (std::size_t i = 0; i < bits.size(); ++i) {
        const int exponent = static_cast<int>((i >> 10) & 31);
        const auto fraction = static_cast<double>(i & 1023);
        if (exponent == 31) {
            EXPECT_EQ(std::isnan(values[i]), fraction > 0);
            EXPECT_EQ(std::isinf(values[i]), fraction <= 0);
            continue;
        }
        const double magnitude =
            exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
        ASSERT_EQ(static_cast<double>(values[i]), i < 32768 ? magnitude : -magnitude) << i;
        ASSERT_EQ(std::signbit(values[i]), i >= 32768) << i;
    }
}

TEST_F(Safetensors, Bfloat16BecomesF32Exactly) {
    write_safetensors(R"({"h": {"dtype": "BF16", "shape": [5], "data_offsets": [0, 10]}})",
                      raw<std::uint16_t>({0x3f80, 0x8000, 0x0001, 0xff80, 0x7fc1}));
    const auto values = values_of<std::uint32_t>(read_weights(path_)[0]);
    EXPECT_EQ(values,
              (std::vector<std::uint32_t>{0x3f800000, 0x80000000, 0x00010000, 0xff800000, 0x7fc10000}));
}

TEST_F(Safetensors, MalformedFilesAreRefused) {
    write("");
    EXPECT_CONTAINS(refusal(), "is empty");
    write("abc");
    EXPECT_CONTAINS(refusal(), "is neither HDF5 nor safetensors");
    write("this is a text file of some length\n");
    EXPECT_CONTAINS(refusal(), "is neither HDF5 nor safetensors");
    write(std::string("PK\3\4 a torch.save file"));
    EXPECT_CONTAINS(refusal(), "is a ZIP archive, as torch.save() writes them");
    write(std::string("PK\3\4 data.pkl ctorch.nn.modules.linear\nLinear\n"));
    EXPECT_CONTAINS(refusal(), "save_file(torch.load(FILE, weights_only=False).state_dict(), OUT)");
    write(std::string("PK\3\4 data.pkl state_dict pytorch-lightning_version ctorch.nn.modules.loss\n"));
    EXPECT_CONTAINS(refusal(), "is a checkpoint of Lightning");
    write(raw<std::uint64_t>({~0ULL}) + "{}");
    EXPECT_CONTAINS(refusal(), "cut off");
    write(raw<std::uint64_t>({3}) + "{}");
    EXPECT_CONTAINS(refusal(), "cut off");
    EXPECT_CONTAINS(refusal("[]", ""), "its header is not a JSON object");
    EXPECT_CONTAINS(refusal("", ""), "its header is not a JSON object");
    EXPECT_CONTAINS(refusal(R"({"a": )", ""), "not valid JSON");
    EXPECT_CONTAINS(refusal("{\"\xff\": {}}", ""), "not valid JSON");
    EXPECT_CONTAINS(refusal("{}", ""), "holds no tensor");
    EXPECT_CONTAINS(refusal(R"({"__metadata__": {}})", ""), "holds no tensor");
    EXPECT_CONTAINS(message_of<DataError>([&] { read_weights(path_ + ".none"); }), "does not exist");
    EXPECT_CONTAINS(message_of<DataError>([&] { read_weights(directory_.path()); }), "is a directory");
}

TEST_F(Safetensors, MalformedTensorsAreRefusedByName) {
    const auto one = [&](const std::string& entry) {
        const std::string message = refusal(R"({"fc.w": )" + entry + "}", "12345678");
        EXPECT_CONTAINS(message, "tensor fc.w: ");
        return message;
    };
    EXPECT_CONTAINS(one("3"), "not an object");
    EXPECT_CONTAINS(one("{}"), "no dtype");
    EXPECT_CONTAINS(one(R"({"dtype": 4})"), "no dtype");
    EXPECT_CONTAINS(one(R"({"dtype": "F32"})"), "no shape");
    EXPECT_CONTAINS(one(R"({"dtype": "F32", "shape": [2]})"), "no pair of data_offsets");
    EXPECT_CONTAINS(one(R"({"dtype": "F32", "shape": [2], "data_offsets": [0]})"), "no pair of data_offsets");
    EXPECT_CONTAINS(one(R"({"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]})"), "a dimension is not");
    EXPECT_CONTAINS(one(R"({"dtype": "F32", "shape": [2.0], "data_offsets": [0, 8]})"), "a dimension is not");
    EXPECT_CONTAINS(one(R"({"dtype": "F32", "shape": [2], "data_offsets": [-8, 8]})"),
                    "a data offset is not");
    EXPECT_CONTAINS(one(R"({"dtype": "F32", "shape": [2], "data_offsets": [1, 9]})"),
                    "not within the file's 8");
    EXPECT_CONTAINS(one(R"({"dtype": "F32", "shape": [2], "data_offsets": [8, 0]})"),
                    "not within the file's 8");
    EXPECT_CONTAINS(one(R"({"dtype": "F32", "shape": [2], "data_offsets": [0, 18446744073709551615]})"),
                    "not within the file's 8");
    EXPECT_CONTAINS(one(R"({"dtype": "F32", "shape": [1], "data_offsets": [0, 8]})"), "F32 [1] needs 4");
    EXPECT_CONTAINS(one(R"({"dtype": "F32", "shape": [4294967296, 4294967298], "data_offsets": [0, 8]})"),
                    "overflows");
    EXPECT_CONTAINS(one(R"({"dtype": "F32", "shape": [18446744073709551615], "data_offsets": [0, 8]})"),
                    "overflows");
    EXPECT_CONTAINS(one(R"({"dtype": "F32", "shape": [1,1,1,1,1,1,2], "data_offsets": [0, 8]})"),
                    "7 dimensions");
    EXPECT_CONTAINS(one(R"({"dtype": "F8_E4M3", "shape": [8], "data_offsets": [0, 8]})"),
                    "its type, F8_E4M3, is not supported");
}

TEST_F(Safetensors, ANameTwiceIsRefused) {
    const std::string entry = R"("a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]})";
    EXPECT_CONTAINS(refusal("{" + entry + ", " + entry + "}", "x"), "two tensors with the name a");
}

TEST_F(Safetensors, TruncationAtAnyByteIsRefused) {
    const std::string header = R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})";
    const std::string whole = raw<std::uint64_t>({header.size()}) + header + "12345678";
    for (std::size_t length = 0; length < whole.size(); ++length) {
        write(whole.substr(0, length));
        EXPECT_THROW(read_weights(path_), DataError) << length;
    }
}

/// A file made with the HDF5 library itself.
class Hdf5Weights : public WeightsFile {
  protected:
    void SetUp() override { file_ = H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT); }
    void TearDown() override { close(); }
    void close() {
        if (file_ >= 0) H5Fclose(file_);
        file_ = -1;
    }
    void add(const std::string& name, hid_t stored, hid_t memory, std::vector<hsize_t> dims, const void* data,
             const char* dtype = nullptr) const {
        const hid_t links = H5Pcreate(H5P_LINK_CREATE);
        H5Pset_create_intermediate_group(links, 1);
        const hid_t space = dims.empty()
                                ? H5Screate(H5S_SCALAR)
                                : H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr);
        const hid_t dataset = H5Dcreate2(file_, name.c_str(), stored, space, links, H5P_DEFAULT, H5P_DEFAULT);
        ASSERT_GE(dataset, 0) << name;
        if (data != nullptr) {
            ASSERT_GE(H5Dwrite(dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, data), 0) << name;
        }
        if (dtype != nullptr) set_text(dataset, "dtype", dtype);
        H5Dclose(dataset);
        H5Sclose(space);
        H5Pclose(links);
    }
    static void set_text(hid_t object, const char* name, const char* value) {
        const hid_t type = H5Tcopy(H5T_C_S1);
        H5Tset_size(type, std::strlen(value));
        const hid_t scalar = H5Screate(H5S_SCALAR);
        const hid_t attribute = H5Acreate2(object, name, type, scalar, H5P_DEFAULT, H5P_DEFAULT);
        H5Awrite(attribute, type, value);
        H5Aclose(attribute);
        H5Sclose(scalar);
        H5Tclose(type);
    }
    void add_float(const std::string& name, float value) const {
        add(name, H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, {1}, &value);
    }
    static hid_t half_type() {
        const hid_t type = H5Tcopy(H5T_IEEE_F32LE);
        H5Tset_fields(type, 15, 10, 5, 0, 10);
        H5Tset_size(type, 2);
        H5Tset_ebias(type, 15);
        return type;
    }

    hid_t file_ = -1;
};

TEST_F(Hdf5Weights, GroupsBecomeDottedNames) {
    add_float("b/c/weight", 1);
    add_float("conv1/weight", 2);
    add_float("conv1.bias", 3);
    add_float("top", 4);
    H5Gclose(H5Gcreate2(file_, "empty", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    close();
    const auto tensors = read_weights(path_);
    EXPECT_EQ(names_of(tensors),
              (std::vector<std::string>{"b.c.weight", "conv1.bias", "conv1.weight", "top"}));
    EXPECT_EQ(values_of<float>(tensors[2]), std::vector<float>{2});
}

TEST_F(Hdf5Weights, TypesAreConverted) {
    const std::vector<float> floats = {1.5F, -0x1p-24F, 65504};
    const std::vector<double> doubles = {0.1, 1e300};
    const std::vector<std::int32_t> ints = {-5, 6};
    const std::vector<std::uint8_t> pixels = {0, 255};
    const std::vector<std::uint16_t> brain = {0x3f80, 0xc000};
    const hid_t half = half_type();
    add("f32be", H5T_IEEE_F32BE, H5T_NATIVE_FLOAT, {3, 1}, floats.data());
    add("f64be", H5T_IEEE_F64BE, H5T_NATIVE_DOUBLE, {2}, doubles.data());
    add("f16", half, H5T_NATIVE_FLOAT, {3}, floats.data());
    add("i32", H5T_STD_I32BE, H5T_NATIVE_INT32, {2}, ints.data());
    add("u8", H5T_STD_U8LE, H5T_NATIVE_UINT8, {2}, pixels.data());
    add("bf16", H5T_STD_U16LE, H5T_NATIVE_UINT16, {2}, brain.data(), "bf16");
    add("u16", H5T_STD_U16LE, H5T_NATIVE_UINT16, {2}, brain.data());
    add("scalar", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, {}, doubles.data());
    add("none", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, {0, 5}, nullptr);
    H5Tclose(half);
    close();
    const auto tensors = read_weights(path_);
    ASSERT_EQ(names_of(tensors),
              (std::vector<std::string>{"bf16", "f16", "f32be", "f64be", "i32", "none", "scalar", "u8"}));
    EXPECT_EQ(values_of<float>(tensors[0]), (std::vector<float>{1, -2}));
    EXPECT_EQ(tensors[0].dtype, DType::f32);
    EXPECT_EQ(values_of<float>(tensors[1]), floats);
    EXPECT_EQ(values_of<float>(tensors[2]), floats);
    EXPECT_TRUE(tensors[2].shape == Shape({3, 1}));
    EXPECT_EQ(values_of<double>(tensors[3]), doubles);
    EXPECT_EQ(values_of<std::int64_t>(tensors[4]), (std::vector<std::int64_t>{-5, 6}));
    EXPECT_TRUE(tensors[5].shape == Shape({0, 5}));
    EXPECT_TRUE(tensors[6].shape == Shape{});
    EXPECT_EQ(tensors[7].dtype, DType::u8);
}

TEST_F(Hdf5Weights, TheSameNameByTwoPathsIsRefused) {
    add_float("conv1/weight", 1);
    add_float("conv1.weight", 2);
    close();
    EXPECT_CONTAINS(refusal(), "two tensors with the name conv1.weight");
}

TEST_F(Hdf5Weights, ATiedWeightHasBothNames) {
    add_float("embedding.weight", 3);
    H5Lcreate_hard(file_, "embedding.weight", file_, "head.weight", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/embedding.weight", file_, "soft.weight", H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_soft("/nowhere", file_, "dangling.weight", H5P_DEFAULT, H5P_DEFAULT);
    close();
    EXPECT_EQ(names_of(read_weights(path_)),
              (std::vector<std::string>{"embedding.weight", "head.weight", "soft.weight"}));
}

TEST_F(Hdf5Weights, ALoopOfGroupsEnds) {
    add_float("a/weight", 3);
    H5Lcreate_hard(file_, "/", file_, "a/loop", H5P_DEFAULT, H5P_DEFAULT);
    close();
    EXPECT_EQ(names_of(read_weights(path_)), (std::vector<std::string>{"a.weight"}));
}

TEST_F(Hdf5Weights, OtherFloatingTypesAreRefusedByName) {
    const long double value = 1;
    add("block/odd", H5T_NATIVE_LDOUBLE, H5T_NATIVE_LDOUBLE, {1}, &value);
    close();
    EXPECT_CONTAINS(refusal(), "data set block/odd: its type, 128-bit floating point, is not supported");
}

TEST_F(Hdf5Weights, AShapeWithoutDataIsRefused) {
    add("ghost", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, {1ULL << 40}, nullptr);
    close();
    EXPECT_CONTAINS(refusal(), "data set ghost: its shape claims more data than the file holds");
}

TEST_F(Hdf5Weights, NoWeightsAreRefused) {
    close();
    EXPECT_CONTAINS(refusal(), "holds no tensor");
}

TEST_F(Hdf5Weights, data_sets_and_predictions_are_refused_as_what_they_are) {
    const std::string remedy =
        ", not weights; give a checkpoint (RUN_DIR/checkpoints/step-….h5), safetensors, or HDF5 with a "
        "tensor for each parameter";
    add_float("samples", 1);
    set_text(file_, "tutti_schema", "samples");
    close();
    EXPECT_EQ(refusal(), "weights file " + path_ + " is a data set of samples" + remedy);
    SetUp();
    add_float("fc.weight", 1);
    set_text(file_, "tutti_schema", "something else");
    close();
    EXPECT_EQ(names_of(read_weights(path_)), std::vector<std::string>{"fc.weight"});

    const std::string predictions = path_ + ".h5";
    make_prediction_writer(predictions, {}, {})->commit();
    EXPECT_EQ(message_of<DataError>([&] { read_weights(predictions); }),
              "weights file " + predictions + " is a file of predictions" + remedy);
}

TEST_F(Hdf5Weights, ACutOffFileIsRefused) {
    add_float("a", 1);
    close();
    const std::string whole = test::read_file(path_);
    for (std::size_t length = 0; length < whole.size(); length += 13) {
        write(whole.substr(0, length));
        EXPECT_THROW(read_weights(path_), DataError) << length;
    }
}

TEST_F(WeightsFile, OfACheckpointOnlyTheModelIsRead) {
    Checkpoint checkpoint;
    const std::string brain = raw<std::uint16_t>({0x4000});
    const auto bytes = [](const std::string& text) {
        const auto* begin = reinterpret_cast<const std::byte*>(text.data());
        return std::vector<std::byte>(begin, begin + text.size());
    };
    checkpoint.config = "seed: 0";
    checkpoint.model = {{"fc.weight", DType::f32, {1}, bytes(raw<float>({0.123456789F}))},
                        {"fc.bias", DType::bf16, {}, bytes(brain)}};
    checkpoint.optimizer = {{"momentum_buffer/fc.weight", DType::f32, {1}, bytes("opti")}};
    save_checkpoint(path_, checkpoint);
    const auto tensors = read_weights(path_);
    ASSERT_EQ(names_of(tensors), (std::vector<std::string>{"fc.bias", "fc.weight"}));
    EXPECT_EQ(values_of<float>(tensors[0]), std::vector<float>{2});
    EXPECT_EQ(values_of<float>(tensors[1]), std::vector<float>{0.123456789F});

    std::string whole = test::read_file(path_);
    const auto at = whole.find(raw<float>({0.123456789F}));
    ASSERT_NE(at, std::string::npos);
    whole[at] = static_cast<char>(whole[at] ^ 1);
    write(whole);
    EXPECT_CONTAINS(refusal(), "the stored SHA-256 does not match its content; the file is damaged");
}

}  // namespace
}  // namespace tutti
