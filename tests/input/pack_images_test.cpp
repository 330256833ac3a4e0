// Images and tables as data sets.
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>

#include "idx_files.hpp"
#include "input/image_file.hpp"
#include "input/resize.hpp"
#include "support/temp_dir.hpp"
#include "tutti/base/error.hpp"
#include "tutti/input/pack.hpp"

namespace tutti {
namespace {

namespace fs = std::filesystem;

std::string chunk(const std::string& type, const std::string& data) {
    const std::string body = type + data;
    const auto sum = crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
    return test::big_endian({static_cast<std::uint32_t>(data.size())}) + body +
           test::big_endian({static_cast<std::uint32_t>(sum)});
}

struct PngForm {
    int depth = 8, colour = 0, interlace = 0;  ///< colour 0: grey, 2: RGB, 3: palette, 4 and 6: with alpha
    std::string chunks;                        ///< before the pixels
};

/// A PNG by its specification (ISO/IEC 15948) of filtered rows.
std::string png_of_rows(std::uint32_t height, std::uint32_t width, const PngForm& form,
                        const std::string& rows) {
    std::string packed(compressBound(rows.size()), '\0');
    uLongf size = packed.size();
    compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(rows.data()),
             rows.size());
    packed.resize(size);
    return "\x89PNG\r\n\x1a\n" +
           chunk("IHDR", test::big_endian({width, height}) + static_cast<char>(form.depth) +
                             static_cast<char>(form.colour) + std::string(2, '\0') +
                             static_cast<char>(form.interlace)) +
           form.chunks + chunk("IDAT", packed) + chunk("IEND", "");
}

/// Without a filter.
std::string png(std::uint32_t height, std::uint32_t width, const PngForm& form, const std::string& pixels) {
    std::string rows;
    const std::size_t row = pixels.size() / height;
    for (std::uint32_t y = 0; y < height; ++y) rows += '\0' + pixels.substr(y * row, row);
    return png_of_rows(height, width, form, rows);
}
std::string png(std::uint32_t height, std::uint32_t width, int colour, const std::string& pixels) {
    return png(height, width, PngForm{.colour = colour, .chunks = {}}, pixels);
}

std::string from_hex(const std::string& digits) {
    std::string bytes;
    for (std::size_t i = 0; i < digits.size(); i += 2)
        bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
    return bytes;
}

/// A grey JPEG of 8 x 8 pixels that all are 200, or RGB = (200, 200, 200): one coefficient, quantised by 1.
std::string flat_jpeg() {
    std::string ones;
    for (int i = 0; i < 64; ++i) ones += "01";
    const std::string zeros(30, '0');
    return from_hex("ffd8ffdb004300" + ones + "ffc0000b080008000801011100" + "ffc400140001" + zeros +
                    "0affc400141001" + zeros + "00ffda0008010100003f00480fffd9");
}

/// An RGB JPEG of 8 x 8 pixels that all are (200, 0, 64).
std::string red_jpeg() {
    const std::string flat = flat_jpeg();
    const std::size_t frame = flat.find(from_hex("ffc0000b")), tables = flat.find(from_hex("ffc40014"));
    return flat.substr(0, frame) + from_hex("ffc00011080008000803521100471100421100") +
           flat.substr(tables, flat.find(from_hex("ffda")) - tables) +
           from_hex("ffda000c03520047004200003f004800003fefffd9");
}

/// A CMYK JPEG of 8 x 8 pixels that all are (200, 64, 0, 192).
std::string cmyk_jpeg() {
    const std::string flat = flat_jpeg();
    const std::size_t frame = flat.find(from_hex("ffc0000b")), tables = flat.find(from_hex("ffc40014"));
    return flat.substr(0, frame) +
           from_hex("ffc0001408000800080401110002110003110004" + std::string("1100")) +
           flat.substr(tables, flat.find(from_hex("ffda")) - tables) +
           from_hex("ffda000e040100020003000400003f004803fe000400ffd9");
}

class Pack : public testing::Test {
  protected:
    std::string at(const std::string& name) const { return dir_.path() + "/" + name; }
    void write(const std::string& name, const std::string& bytes) const {
        fs::create_directories(fs::path(at(name)).parent_path());
        std::ofstream(at(name), std::ios::binary) << bytes;
    }
    template <class Function>
    static std::string refusal(const Function& function) {
        try {
            function();
        } catch (const Error& error) {
            return std::to_string(static_cast<int>(error.code())) + " " + error.what();
        }
        return "accepted";
    }
    std::vector<int> sample(const Dataset& data, std::int64_t index) const {
        std::vector<std::byte> bytes(static_cast<std::size_t>(data.info().sample_bytes()));
        std::vector<std::int64_t> labels(1);
        data.read(std::vector{index}, bytes, labels);
        std::vector<int> values;
        for (const std::byte byte : bytes) values.push_back(static_cast<int>(byte));
        return values;
    }

  private:
    test::TempDir dir_;
};

class PackImages : public Pack {
  protected:
    void SetUp() override {
        if (!no_image_files().empty()) GTEST_SKIP() << no_image_files();
        options_.folder = at("in");
        options_.output = at("out.h5");
    }
    PackImagesOptions options_;
};

TEST_F(PackImages, ClassesAreTheSortedFoldersAndSamplesTheSortedFiles) {
    write("in/dog/b.png", png(1, 2, 0, "\x03\x04"));
    write("in/dog/deep/a.PNG", png(1, 2, 0, "\x05\x06"));
    write("in/cat/z.png", png(1, 2, 0, "\x01\x02"));
    write("in/cat/notes.txt", "not an image");
    write("in/.hidden/x.png", "");
    const DatasetInfo info = pack_images(options_);
    EXPECT_EQ(info.samples, 3);
    const auto data = open_hdf5_dataset(options_.output);
    EXPECT_EQ(data->info().class_names, (std::vector<std::string>{"cat", "dog"}));
    EXPECT_EQ(data->info().sample_shape, (Shape{1, 2, 1}));
    EXPECT_EQ(sample(*data, 0), (std::vector{1, 2}));
    EXPECT_EQ(sample(*data, 1), (std::vector{3, 4}));
    EXPECT_EQ(sample(*data, 2), (std::vector{5, 6}));
    EXPECT_EQ(count_labels(*data), (std::vector<std::int64_t>{1, 2}));
}

TEST_F(PackImages, ColourIsKeptAndGreyBecomesIt) {
    write("in/a/1.png", png(1, 2, 2, "\x01\x02\x03\x04\x05\x06"));
    write("in/a/2.png", png(1, 2, 0, "\x07\x08"));
    pack_images(options_);
    const auto data = open_hdf5_dataset(options_.output);
    EXPECT_EQ(data->info().sample_shape, (Shape{1, 2, 3}));
    EXPECT_EQ(sample(*data, 0), (std::vector{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(sample(*data, 1), (std::vector{7, 7, 7, 8, 8, 8}));
}

TEST_F(PackImages, JpegsAreReadInGreyAndColour) {
    write("in/a/1.jpg", flat_jpeg());
    pack_images(options_);
    EXPECT_EQ(sample(*open_hdf5_dataset(options_.output), 0), std::vector<int>(64, 200));
    options_.channels = 3;
    pack_images(options_);
    EXPECT_EQ(sample(*open_hdf5_dataset(options_.output), 0), std::vector<int>(192, 200));
    // Half a file would come out as grey pixels.
    write("in/a/2.jpg", flat_jpeg().substr(0, flat_jpeg().size() - 4));
    EXPECT_TRUE(refusal([&] { pack_images(options_); }).starts_with("4 " + at("in/a/2.jpg")));
}

TEST_F(PackImages, PngValuesAreTheFilesWhateverItsGamma) {
    const auto packed = [&](const std::string& file, std::int64_t channels = 0) {
        write("in/a/1.png", file);
        options_.channels = channels;
        pack_images(options_);
        return sample(*open_hdf5_dataset(options_.output), 0);
    };
    using Values = std::vector<int>;
    const std::string deep("\0\xff\1\x80\2\0\3\x7f", 8);
    EXPECT_EQ(packed(png(1, 4, {.depth = 16, .chunks = {}}, deep)), (Values{0, 1, 2, 3}));
    const std::string linear = chunk("gAMA", test::big_endian({100000}));
    EXPECT_EQ(packed(png(1, 2, {.chunks = linear}, "\x01\x64")), (Values{1, 100}));
    EXPECT_EQ(packed(png(1, 2, {.chunks = linear}, "\x01\x64"), 3), (Values{1, 1, 1, 100, 100, 100}));
    EXPECT_EQ(packed(png(1, 1, {.colour = 2, .chunks = linear}, "\x0a\x64\xc8")), (Values{10, 100, 200}));
    // Pillow's luma.
    EXPECT_EQ(packed(png(1, 2, 2, std::string("\xff\0\0\x0a\x64\xc8", 6)), 1), (Values{76, 84}));
    // Alpha over black: of colour, grey, in grey, by a transparent colour, in a palette.
    EXPECT_EQ(packed(png(1, 1, 6, std::string("\xc8\x64\0\x80", 4))), (Values{100, 50, 0}));
    EXPECT_EQ(packed(png(1, 2, 4, std::string("\xc8\x80\xc8\0", 4))), (Values{100, 0}));
    EXPECT_EQ(packed(png(1, 1, 6, std::string("\xc8\x64\0\x80", 4)), 1), (Values{59}));
    const std::string clear = chunk("tRNS", std::string("\0\7", 2));
    EXPECT_EQ(packed(png(1, 2, {.chunks = clear}, "\x07\x08")), (Values{0, 8}));
    const std::string palette = chunk("PLTE", "\x0a\x14\x1e\xc8\x64\x28") + chunk("tRNS", "\xff\x80");
    EXPECT_EQ(packed(png(1, 2, {.depth = 4, .colour = 3, .chunks = palette}, "\x01")),
              (Values{10, 20, 30, 100, 50, 20}));
    EXPECT_EQ(packed(png(1, 4, {.depth = 2, .chunks = {}}, "\x1b")), (Values{0, 85, 170, 255}));
    // Adam7: the corner, the pixel beside it, the second row.
    EXPECT_EQ(packed(png_of_rows(2, 2, {.interlace = 1, .chunks = {}}, std::string("\0\1\0\2\0\3\4", 7))),
              (Values{1, 2, 3, 4}));
}

TEST_F(PackImages, AnImageLargerThanItsFileCanHoldIsRefused) {
    std::string jpeg = flat_jpeg();
    jpeg.replace(jpeg.find(from_hex("ffc0000b")) + 5, 4, from_hex("fde8fde8"));
    write("in/a/1.png", png_of_rows(1'000'000, 1'000'000, {}, std::string(1000, '\0')));
    write("in/a/2.jpg", jpeg);
    write("in/a/3.jpg", flat_jpeg());
    std::vector<std::string> skipped;
    pack_images(options_, [&](const std::string& why) { skipped.push_back(why); });
    ASSERT_EQ(skipped.size(), 2u);
    for (const std::string& why : skipped)
        EXPECT_NE(why.find("the file is too short for so many pixels"), std::string::npos) << why;
}

TEST_F(PackImages, JpegsInCmykBecomeRgbAndGreyIsTheLuma) {
    write("in/a/1.jpg", cmyk_jpeg());
    pack_images(options_);
    std::vector<int> values = sample(*open_hdf5_dataset(options_.output), 0);
    // Inverted: cyan times black / 255.
    EXPECT_EQ(values.size(), 192u);
    EXPECT_EQ((std::vector(values.end() - 3, values.end())), (std::vector{151, 48, 0}));
    write("in/a/1.jpg", red_jpeg());
    pack_images(options_);
    values = sample(*open_hdf5_dataset(options_.output), 0);
    EXPECT_EQ((std::vector(values.end() - 3, values.end())), (std::vector{200, 0, 64}));
    options_.channels = 1;
    pack_images(options_);
    EXPECT_EQ(sample(*open_hdf5_dataset(options_.output), 0), std::vector<int>(64, 67));
}

TEST_F(PackImages, StrayBytesBetweenAJpegsMarkersAreNoDamage) {
    const std::string good = flat_jpeg();
    const std::size_t frame = good.find(from_hex("ffc0000b"));
    write("in/a/1.jpg", good.substr(0, frame) + std::string(5, '\0') + good.substr(frame));
    pack_images(options_);
    EXPECT_EQ(sample(*open_hdf5_dataset(options_.output), 0), std::vector<int>(64, 200));
    // A marker where pixels are expected.
    write("in/a/1.jpg", good.substr(0, good.size() - 4) + from_hex("ffd9"));
    EXPECT_TRUE(refusal([&] { pack_images(options_); }).starts_with("4 " + at("in/a/1.jpg")));
}

TEST_F(PackImages, WhatDiffersIsRefusedWithTheRemedy) {
    write("in/a/1.png", png(1, 2, 0, "\x01\x02"));
    write("in/a/2.png", png(1, 2, 2, "\x01\x02\x03\x04\x05\x06"));
    EXPECT_EQ(refusal([&] { pack_images(options_); }),
              "4 " + at("in/a/2.png") +
                  " is in colour, but the files before it are grey; give --channels 3, or 1 for all in grey");
    std::vector<std::string> skipped;
    const auto note = [&](const std::string& why) { skipped.push_back(why); };
    EXPECT_EQ(pack_images(options_, note).samples, 1);
    options_.channels = 3;
    EXPECT_EQ(refusal([&] { pack_images(options_); }), "accepted");
    write("in/a/3.png", png(2, 1, 0, "\x01\x02"));
    EXPECT_EQ(refusal([&] { pack_images(options_); }), "4 " + at("in/a/3.png") + " has 2 x 1 pixels, but " +
                                                           at("in/a/1.png") +
                                                           " has 1 x 2; give --size, for example --size 1x2");
    EXPECT_EQ(pack_images(options_, note).samples, 2);
    ASSERT_EQ(skipped.size(), 2u);
    EXPECT_TRUE(skipped[0].starts_with(at("in/a/2.png"))) << skipped[0];
    EXPECT_TRUE(skipped[1].starts_with(at("in/a/3.png"))) << skipped[1];
    options_.height = options_.width = 1;
    EXPECT_EQ(refusal([&] { pack_images(options_); }), "accepted");
}

TEST_F(PackImages, AFileThatCannotBeReadIsNamedAndLeavesNoOutput) {
    const std::string good = png(2, 2, 0, "\x01\x02\x03\x04");
    write("in/a/1.png", good);
    write("in/a/2.png", good.substr(0, good.size() - 20));
    write("in/b/3.jpg", "\xff\xd8\xff\xe0 this is no JPEG");
    write("in/b/4.jpeg", "neither");
    write("in/b/5.png", good);
    const std::string message = refusal([&] { pack_images(options_); });
    EXPECT_TRUE(message.starts_with("4 " + at("in/a/2.png") + ": cannot be read as an image: ")) << message;
    EXPECT_FALSE(fs::exists(options_.output));
    std::vector<std::string> skipped;
    const DatasetInfo info = pack_images(options_, [&](const std::string& why) { skipped.push_back(why); });
    EXPECT_EQ(info.samples, 2);
    ASSERT_EQ(skipped.size(), 3u);
    EXPECT_TRUE(skipped[1].starts_with(at("in/b/3.jpg"))) << skipped[1];
    EXPECT_EQ(open_hdf5_dataset(options_.output)->info().samples, 2);
}

TEST_F(PackImages, AnOutputThatIsAnImageIsRefused) {
    const std::string good = png(1, 1, 0, "\x01");
    write("in/a/1.png", good);
    write("in/b/2.png", good);
    fs::create_hard_link(at("in/b/2.png"), options_.output);
    EXPECT_EQ(refusal([&] { pack_images(options_); }),
              "2 -o " + options_.output + " would overwrite " + at("in/b/2.png") + "; give another name");
    EXPECT_EQ(fs::file_size(at("in/b/2.png")), good.size());
}

TEST_F(PackImages, FoldersWithoutImagesAreNamed) {
    EXPECT_TRUE(refusal([&] { pack_images(options_); }).starts_with("4 " + at("in") + ": cannot be listed"));
    write("in/x.png", "");
    EXPECT_EQ(refusal([&] { pack_images(options_); }),
              "4 " + at("in") +
                  ": there is no folder in it; put the images of each class into a folder of its name");
    fs::create_directories(at("in/empty"));
    EXPECT_TRUE(
        refusal([&] { pack_images(options_); }).starts_with("4 " + at("in/empty") + ": there is no image"));
}

Image grey(std::int64_t height, std::int64_t width, const std::vector<int>& values) {
    Image image{height, width, 1, {}};
    for (const int value : values) image.pixels.push_back(static_cast<std::byte>(value));
    return image;
}

std::vector<int> values_of(const Image& image) {
    std::vector<int> values;
    for (const std::byte byte : image.pixels) values.push_back(static_cast<int>(byte));
    return values;
}

TEST(Resize, ShrinksByTrianglesAndGrowsBilinearly) {
    // A triangle as wide as two pixels to either side, cut at the edge: 4 -> 2 has the weights 3, 3, 1 of 7.
    EXPECT_EQ(values_of(resize(grey(1, 4, {0, 70, 140, 210}), 1, 2)), (std::vector{50, 160}));
    EXPECT_EQ(values_of(resize(grey(4, 1, {0, 70, 140, 210}), 2, 1)), (std::vector{50, 160}));
    EXPECT_EQ(values_of(resize(grey(1, 2, {0, 100}), 1, 4)), (std::vector{0, 25, 75, 100}));
    EXPECT_EQ(values_of(resize(grey(2, 2, {0, 100, 100, 200}), 1, 1)), (std::vector{100}));
    EXPECT_EQ(values_of(resize(grey(2, 2, {1, 2, 3, 4}), 2, 2)), (std::vector{1, 2, 3, 4}));
    for (const int value : values_of(resize(grey(7, 5, std::vector<int>(35, 93)), 3, 4)))
        EXPECT_EQ(value, 93);
}

TEST(Resize, TakesTheCentreOfTheScaledImage) {
    const Image cut = resize_and_crop(grey(1, 5, {1, 2, 3, 4, 5}), 1, 3);
    EXPECT_EQ(values_of(cut), (std::vector{2, 3, 4}));
    const Image grown = resize_and_crop(grey(1, 3, {0, 100, 200}), 2, 2);
    EXPECT_EQ(grown.height, 2);
    EXPECT_EQ(values_of(grown), (std::vector{75, 125, 75, 125}));
}

TEST(Resize, TheCentreIsThatOfTheWholeScaledImage) {
    std::vector<int> values;
    for (int i = 0; i < 9 * 31; ++i) values.push_back(i * 37 % 256);
    const Image image = grey(9, 31, values), whole = resize(image, 5, 17);
    const Image cut = resize_and_crop(image, 5, 4);
    ASSERT_EQ(cut.pixels.size(), 20u);
    for (std::size_t y = 0; y < 5; ++y)
        for (std::size_t x = 0; x < 4; ++x)
            EXPECT_EQ(cut.pixels[y * 4 + x], whole.pixels[y * 17 + 6 + x]) << y << " " << x;
}

TEST(Resize, ALongLineNeedsNoMemoryForWhatIsCutOff) {
    // Scaled whole it had 4096 x 268435456 pixels.
    std::vector<int> values(65536, 7);
    std::fill(values.begin(), values.begin() + 32768, 9);
    const Image cut = resize_and_crop(grey(1, 65536, values), 4096, 2);
    EXPECT_EQ(cut.height, 4096);
    EXPECT_EQ(values_of(cut), std::vector<int>(8192, 8));
}

class PackCsv : public Pack {
  protected:
    void SetUp() override {
        options_.csv = at("in.csv");
        options_.output = at("out.h5");
        options_.label = "y";
    }
    std::string refused(const std::string& text) {
        write("in.csv", text);
        return refusal([&] { pack_csv(options_); });
    }
    std::vector<float> features(const Dataset& data, std::int64_t index) const {
        std::vector<float> values(static_cast<std::size_t>(data.info().sample_shape.count()));
        std::vector<std::int64_t> labels(1);
        data.read(std::vector{index}, std::as_writable_bytes(std::span(values)), labels);
        return values;
    }
    std::vector<std::int64_t> labels(const Dataset& data) const {
        std::vector<std::int64_t> indices, result(static_cast<std::size_t>(data.info().samples));
        for (std::int64_t i = 0; i < data.info().samples; ++i) indices.push_back(i);
        data.read_labels(indices, result);
        return result;
    }
    PackCsvOptions options_;
};

TEST_F(PackCsv, ColumnsBecomeFeaturesAndNamesClasses) {
    write("in.csv",
          "\xef\xbb\xbf"
          "a,y,\"b,c\",id\r\n1.5,wolf,-2e3,x\r\n\r\n+3,\"ape\n\",4,\"y\"\"\"\r\n 0 ,wolf,7,z");
    options_.drop = {"id"};
    pack_csv(options_);
    const auto data = open_hdf5_dataset(options_.output);
    EXPECT_EQ(data->info().sample_shape, (Shape{2}));
    EXPECT_EQ(data->info().dtype, DType::f32);
    EXPECT_EQ(data->info().class_names, (std::vector<std::string>{"ape\n", "wolf"}));
    EXPECT_EQ(labels(*data), (std::vector<std::int64_t>{1, 0, 1}));
    EXPECT_EQ(features(*data, 0), (std::vector{1.5F, -2000.F}));
    EXPECT_EQ(features(*data, 1), (std::vector{3.F, 4.F}));
    EXPECT_EQ(features(*data, 2), (std::vector{0.F, 7.F}));
}

TEST_F(PackCsv, WholeNumbersAreLabelsAsTheyAre) {
    write("in.csv", "y;x\n10;1\n2;2\n");
    options_.delimiter = ';';
    const DatasetInfo info = pack_csv(options_);
    EXPECT_EQ(info.classes, 11);
    EXPECT_EQ(labels(*open_hdf5_dataset(options_.output)), (std::vector<std::int64_t>{10, 2}));
    write("in.csv", "y;x\n1;1\n0;2\n");
    options_.class_names = {"no", "yes"};
    EXPECT_EQ(pack_csv(options_).class_names, (std::vector<std::string>{"no", "yes"}));
    options_.class_names = {"no"};
    EXPECT_EQ(
        refusal([&] { pack_csv(options_); }),
        "2 --class-names gives 1 names, but the column y has 2 classes; give one name per class, or none");
}

TEST_F(PackCsv, WhatIsWrongIsNamedWithItsLine) {
    EXPECT_EQ(refused("x,y\n1,0\nabc,1\n"),
              "4 " + at("in.csv") +
                  ":3: column x: 'abc' is not a number; leave the column out with "
                  "--drop x, or correct it");
    EXPECT_FALSE(fs::exists(options_.output));
    EXPECT_EQ(
        refused("x,y\n1,0\n\n1\n"),
        "4 " + at("in.csv") +
            ":4: 1 fields, but the first line names 2 columns; correct the line; a field that holds the "
            "delimiter must be in \"quotes\"");
    EXPECT_EQ(refused("x,y\n1,\n"), "4 " + at("in.csv") +
                                        ":2: column y: there is no label; give the row one, leave it out, or "
                                        "pack without labels: --no-labels");
    EXPECT_EQ(refused("x,y\n\"1\"2,0\n"),
              "4 " + at("in.csv") +
                  ":2: there is text after a closing quote; double the quotes inside a quoted field");
    EXPECT_EQ(
        refused("x,y\ninf,0\n"),
        "4 " + at("in.csv") + ":2: column x: inf is not a finite number of 32 bits; features must be finite");
    EXPECT_EQ(refused("x,y\n\"1,0\n"),
              "4 " + at("in.csv") + ":2: a quote is not closed; close it, or double it");
    EXPECT_EQ(refused("width,Label\n1,0\n"),
              "2 --label: " + at("in.csv") +
                  " has no column y; its first line names 2 columns, the first is width");
    EXPECT_EQ(refused("y\n1\n"),
              "4 " + at("in.csv") + ": there is no column beside the label; give data with features");
    EXPECT_EQ(refused("x,y\n"), "4 " + at("in.csv") + ": there are no rows; give data that have some");
    EXPECT_EQ(refused(""), "4 " + at("in.csv") + ": the file is empty; its first line must name the columns");
    fs::remove(at("in.csv"));
    EXPECT_EQ(
        refusal([&] { pack_csv(options_); }),
        "4 " + at("in.csv") + ": cannot be read: No such file or directory; check the path given with --csv");
}

TEST_F(PackCsv, ATableWithAnotherDelimiterSaysWhich) {
    const std::string remedy = "its fields seem to be separated otherwise: give --delimiter ';'";
    EXPECT_EQ(refused("x;y\n1;0\n"), "2 --label: " + at("in.csv") + " has no column y; " + remedy);
    options_.labelled = false;
    EXPECT_EQ(refused("x;y\n1;0\n"),
              "4 " + at("in.csv") + ":2: column x;y: '1;0' is not a number; " + remedy);
    EXPECT_EQ(refused("x;y\n1,5;0\n"),
              "4 " + at("in.csv") + ":2: 2 fields, but the first line names 1 columns; " + remedy);
}

TEST_F(PackCsv, ColumnsThatAreNamedTwiceOrDroppedAsLabelsAreRefused) {
    EXPECT_EQ(refused("x,y,x\n1,0,2\n"),
              "4 " + at("in.csv") + ":1: two columns have the name 'x'; give each column a name of its own");
    options_.drop = {"y"};
    EXPECT_EQ(refused("x,y\n1,0\n"),
              "2 --drop y leaves out the column of --label; drop another column, or pack without labels: "
              "--no-labels");
}

TEST_F(PackCsv, NumbersThatAreNoClassesAreRefused) {
    const std::string remedy =
        "; labels are classes from 0 on, at most 999999; number them so, or give names";
    EXPECT_EQ(refused("x,y\n1,1\n2,-1\n3,-1\n"),
              "4 " + at("in.csv") + ":3: the column y has the label -1" + remedy);
    EXPECT_EQ(refused("x,y\n1,0\n2,1000000\n"),
              "4 " + at("in.csv") + ":3: the column y has the label 1000000" + remedy);
    EXPECT_EQ(refused("x,y\n1,99999999999999999999\n2,0\n"),
              "4 " + at("in.csv") + ":2: the column y has the label 99999999999999999999" + remedy);
}

TEST_F(PackCsv, LabelsThatSurpriseAreWarnedOf) {
    std::vector<std::string> said;
    const auto note = [&](const std::string& text) { said.push_back(text); };
    write("in.csv", "x,y\n1,0\n2,b\n3,-1\n");
    EXPECT_EQ(pack_csv(options_, note).class_names, (std::vector<std::string>{"-1", "0", "b"}));
    write("in.csv", "x,y\n1,0\n2,1000\n");
    EXPECT_EQ(pack_csv(options_, note).classes, 1001);
    EXPECT_EQ(said,
              (std::vector{at("in.csv") + ": 2 of the 3 labels of the column y are numbers, but not all "
                                          "are whole ones: they are taken as names",
                           at("in.csv") + ": the column y has labels up to 1000, but only 2 of these "
                                          "classes have samples"}));
    write("in.csv", "x,y\n1,0\n2,1\n3,3\n");
    pack_csv(options_, note);
    EXPECT_EQ(said.size(), 2U);
}

TEST_F(PackCsv, WithoutLabelsTheFileHasNone) {
    write("in.csv", "x,y\n1,0\n2,5\n");
    options_.labelled = false;
    pack_csv(options_);
    EXPECT_EQ(
        refusal([&] { open_hdf5_dataset(options_.output); }),
        "4 " + options_.output +
            ": there is no data set /labels; data without labels can only be predicted (trainer predict)");
    const auto data = open_hdf5_dataset(options_.output, mapped_limit, Labels::optional);
    EXPECT_FALSE(data->info().labelled);
    EXPECT_EQ(data->info().classes, 0);
    EXPECT_EQ(data->info().samples, 2);
    EXPECT_EQ(features(*data, 1), (std::vector{2.F, 5.F}));
    options_.class_names = {"no", "yes"};
    EXPECT_EQ(pack_csv(options_).classes, 2);
}

}  // namespace
}  // namespace tutti
