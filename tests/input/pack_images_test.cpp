// Folders of PNG and JPEG files as data sets.
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "idx_files.hpp"
#include "input/image_file.hpp"
#include "pack_helpers.hpp"
#include "png_files.hpp"
#include "support/files.hpp"
#include "tutti/base/error.hpp"
#include "tutti/input/pack.hpp"
#include "tutti/input/sample_paths.hpp"

namespace tutti {
namespace {

namespace fs = std::filesystem;
using test::chunk;
using test::PackImages;
using test::png;
using test::png_of_rows;
using test::PngForm;

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

TEST_F(PackImages, ClassesAreTheSortedFoldersAndSamplesTheSortedFiles) {
    write("in/dog/b.png", png(1, 2, 0, "\x03\x04"));
    write("in/dog/deep/a.PNG", png(1, 2, 0, "\x05\x06"));
    write("in/cat/z.png", png(1, 2, 0, "\x01\x02"));
    write("in/cat/notes.txt", "not an image");
    write("in/.hidden/x.png", "");
    write("in/dog/.ipynb_checkpoints/deep/b.png", "");
    write("in/dog/._b.png", "");
    write("in/dog/deep/c.bmp", "an image, but none that is read");
    std::vector<std::string> passed_over;
    options_.passed_over = [&](const std::string& path) { passed_over.push_back(path); };
    const DatasetInfo info = pack_images(options_);
    EXPECT_EQ(passed_over, (std::vector{at("in/cat/notes.txt"), at("in/dog/deep/c.bmp")}));
    EXPECT_EQ(info.samples, 3);
    const auto data = open_hdf5_dataset(options_.output);
    EXPECT_EQ(data->info().class_names, (std::vector<std::string>{"cat", "dog"}));
    EXPECT_EQ(data->info().sample_shape, (Shape{1, 2, 1}));
    EXPECT_EQ(sample(*data, 0), (std::vector{1, 2}));
    EXPECT_EQ(sample(*data, 1), (std::vector{3, 4}));
    EXPECT_EQ(sample(*data, 2), (std::vector{5, 6}));
    EXPECT_EQ(count_labels(*data), (std::vector<std::int64_t>{1, 2}));
}

TEST_F(PackImages, TheFileSaysWhereEachSampleComesFrom) {
    write("in/b/2.png", png(1, 2, 0, "\x03\x04"));
    write("in/b/deep/caf\xe9.png", png(1, 2, 0, "\x05\x06"));
    write("in/a/1.png", "broken");
    write("in/a/\xc3\xa4.png", png(1, 2, 0, "\x01\x02"));
    const std::vector<std::string> files{options_.output};
    std::string bytes;
    for (const int threads : {1, 3}) {
        options_.threads = threads;
        std::vector<std::string> told;
        options_.from = [&told](const std::vector<std::string>& where) { told.push_back(where.front()); };
        pack_images(options_, [](const std::string&) {});
        EXPECT_EQ(told,
                  (std::vector{at("in/a/\xc3\xa4.png"), at("in/b/2.png"), at("in/b/deep/caf\xe9.png")}));
        // Of a name that is no UTF-8, characters that are.
        told.back() = at("in/b/deep/caf\xef\xbf\xbd.png");
        EXPECT_EQ(open_sample_paths(files)->read(0, 3), told);
        const std::string again = test::read_file(options_.output);
        EXPECT_TRUE(bytes.empty() || bytes == again) << "other bytes of the same input";
        bytes = again;
    }
}

TEST_F(PackImages, PathsOfMoreThanOnePieceAreInOrder) {
    // Pieces of 4 MiB: two images each.
    const std::string pixels(std::size_t{2} << 20, '\7');
    std::vector<std::string> names;
    for (const char* name : {"1", "2", "3", "4", "5"}) {
        names.push_back(at("in/a/") + name + ".png");
        write(std::string("in/a/") + name + ".png", png(1024, 2048, 0, pixels));
    }
    pack_images(options_);
    EXPECT_EQ(open_sample_paths(std::vector{options_.output})->read(0, 5), names);
}

TEST_F(PackImages, MeansThatDoNotFitAreRefusedBeforeTheOthersAreRead) {
    write("in/a/1.png", png(1, 1, 2, "\x01\x02\x03"));
    write("in/a/2.png", "broken");
    options_.mean = options_.std = {1, 2};
    std::vector<std::string> skipped;
    EXPECT_EQ(
        refusal([&] { pack_images(options_, [&](const std::string& why) { skipped.push_back(why); }); }),
        "2 --mean and --std have 2 numbers, but samples have 3 channels; give one number, or 3 of each");
    EXPECT_TRUE(skipped.empty());
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

TEST_F(PackImages, AnyNumberOfThreadsGivesTheSameFileAndNamesTheSameFiles) {
    const auto path = [](int i) {
        return "in/" + std::string(i < 20 ? "a/" : "b/") + std::to_string(100 + i) + ".png";
    };
    for (int i = 0; i < 50; ++i)
        write(path(i), png(2, 1 + static_cast<std::uint32_t>(i) % 4, 0,
                           std::string(2 * (1 + static_cast<std::size_t>(i) % 4), static_cast<char>(5 * i))));
    const auto content = [this] {
        std::ifstream file(options_.output, std::ios::binary);
        return std::string(std::istreambuf_iterator<char>(file), {});
    };
    options_.height = 3;
    options_.width = 2;
    pack_images(options_);
    const std::string one = content();
    for (const int threads : {2, 3, 8}) {
        options_.threads = threads;
        pack_images(options_);
        EXPECT_TRUE(content() == one) << threads << " threads";
    }
    // The first one as well: the shape is then another's.
    std::vector<std::string> bad;
    for (const int i : {0, 1, 17, 18, 40, 49}) {
        write(path(i), "no image");
        bad.push_back(at(path(i)));
    }
    for (const int threads : {1, 2, 8}) {
        options_.threads = threads;
        std::vector<std::string> skipped;
        const DatasetInfo info = pack_images(
            options_, [&](const std::string& why) { skipped.push_back(why.substr(0, why.find(": "))); });
        EXPECT_EQ(info.samples, 44);
        EXPECT_EQ(skipped, bad) << threads << " threads";
    }
    write(path(0), png(1, 1, 0, "x"));
    write(path(1), png(1, 1, 0, "x"));
    fs::remove(options_.output);
    for (const int threads : {1, 2, 8}) {
        options_.threads = threads;
        const std::string said = refusal([&] { pack_images(options_); });
        EXPECT_TRUE(said.starts_with("4 " + at(path(17)))) << threads << " threads: " << said;
        EXPECT_FALSE(fs::exists(options_.output));
    }
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

TEST_F(PackImages, ALinkThatGoesRoundInACircleBringsNothingTwice) {
    const std::string image = png(1, 1, 0, "\x01");
    write("in/a/1.png", image);
    write("in/a/below/2.png", image);
    write("else/3.png", image);
    fs::create_directory_symlink(at("in/a"), at("in/a/below/up"));
    fs::create_directory_symlink(at("in/a/below"), at("in/a/below/itself"));
    fs::create_directory_symlink(at("else"), at("in/a/other"));
    EXPECT_EQ(pack_images(options_).samples, 3);
    // Nor through what lies above: there are the other classes, too.
    fs::create_directory_symlink(at("in"), at("in/a/all"));
    fs::create_directory_symlink(at(""), at("in/a/below/above"));
    fs::create_directory_symlink("..", at("in/a/near"));
    write("in/b/1.png", image);
    EXPECT_EQ(pack_images(options_).samples, 4);
}

TEST_F(PackImages, AnOutputThatIsNoFileIsRefused) {
    write("in/a/1.png", png(1, 1, 0, "\x01"));
    const std::string pipe = at("pipe.h5");
    ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
    options_.output = pipe;
    EXPECT_NE(refusal([&] { pack_images(options_); }).find("there is something else than a file"),
              std::string::npos);
    EXPECT_TRUE(fs::is_fifo(pipe));
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

}  // namespace
}  // namespace tutti
