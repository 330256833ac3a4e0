#include "tutti/input/sample_paths.hpp"

#include <gtest/gtest.h>

#include "hdf5_file.hpp"
#include "input/hdf5_texts.hpp"
#include "support/error_message.hpp"
#include "support/temp_dir.hpp"
#include "tutti/input/dataset.hpp"

namespace tutti {
namespace {

using test::data_error;
using test::Hdf5File;
using test::ImageFile;

using Texts = std::vector<std::string>;
using Layout = std::function<void(hid_t)>;

void add_variable(Hdf5File& file, const std::vector<const char*>& texts, const Layout& layout = {}) {
    const test::Handle type = hdf5::variable_text_type();
    file.table("paths", type.get(), type.get(), {texts.size()}, texts.data(), layout);
}

test::Handle fixed_type(std::size_t width, H5T_str_t padding) {
    test::Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
    H5Tset_size(type.get(), width);
    H5Tset_strpad(type.get(), padding);
    return type;
}

class Paths : public testing::Test {
  protected:
    std::string path(const std::string& name = "data.h5") const { return dir_.path() + "/" + name; }
    std::string write(const std::string& name, hsize_t samples,
                      const std::function<void(Hdf5File&)>& change) const {
        ImageFile{.samples = samples, .change = change}.write(path(name));
        return path(name);
    }
    static Texts all(const Texts& files) {
        const auto paths = open_sample_paths(files);
        return paths ? paths->read(0, paths->samples()) : Texts{"none"};
    }
    /// Of three samples. Training does not look.
    std::string refusal(const std::function<void(Hdf5File&)>& change) const {
        const Texts files{write("data.h5", 3, change)};
        EXPECT_EQ(open_datasets(files)->info().samples, 3);
        const std::string message = data_error([&] { open_sample_paths(files); });
        const std::string begin = path() + ": /paths", remedy =
                                                           "; write it again, or remove it, in h5py "
                                                           "with del file['paths'] (data/README.md)";
        EXPECT_EQ(message.find(begin), 0U) << message;
        EXPECT_TRUE(message.ends_with(remedy)) << message;
        return message.substr(begin.size(), message.size() - begin.size() - remedy.size());
    }

  private:
    test::TempDir dir_;
};

TEST_F(Paths, OfAnyKindOfTextAreRead) {
    using namespace std::string_literals;
    EXPECT_EQ(all({write("a.h5", 3,
                         [](Hdf5File& file) {
                             add_variable(file, {"a/1.png", "", "ä, \"b\".png"});
                         })}),
              (Texts{"a/1.png", "", "ä, \"b\".png"}));
    const std::pair<H5T_str_t, std::string> kinds[] = {{H5T_STR_NULLPAD, "a\0\0bcd\xc3\xa4\0"s},
                                                       {H5T_STR_NULLTERM, "a\0?bcd\xc3\xa4\0"s},
                                                       {H5T_STR_SPACEPAD, "a  bcd\xc3\xa4 "s}};
    for (const auto& [padding, bytes] : kinds) {
        const test::Handle type = fixed_type(3, padding);
        const auto with = [&](const Layout& layout) {
            return write("b.h5", 3, [&](Hdf5File& file) {
                file.table("paths", type.get(), type.get(), {3}, bytes.data(), layout);
            });
        };
        const Layout compressed = [](hid_t creation) {
            const hsize_t chunk = 2;
            H5Pset_chunk(creation, 1, &chunk);
            H5Pset_deflate(creation, 1);
        };
        EXPECT_EQ(all({with({})}), (Texts{"a", "bcd", "ä"}));
        EXPECT_EQ(all({with(compressed)}), (Texts{"a", "bcd", "ä"}));
    }
}

TEST_F(Paths, OfPartsOfManyAreThoseOfTheirSamples) {
    constexpr std::int64_t samples = 10000;  // more than are read at once
    const Texts files{write("many.h5", samples, [](Hdf5File& file) {
        Texts texts;
        for (std::int64_t i = 0; i < samples; ++i) texts.push_back("clip " + std::to_string(i));
        std::vector<const char*> pointers;
        for (const std::string& text : texts) pointers.push_back(text.c_str());
        add_variable(file, pointers);
    })};
    const auto paths = open_sample_paths(files);
    ASSERT_TRUE(paths);
    EXPECT_EQ(paths->samples(), samples);
    for (const std::int64_t first : {std::int64_t{0}, std::int64_t{17}, std::int64_t{5000}})
        for (const std::int64_t count : {std::int64_t{0}, std::int64_t{1}, std::int64_t{5000}}) {
            const Texts texts = paths->read(first, count);
            ASSERT_EQ(texts.size(), static_cast<std::size_t>(count));
            for (std::int64_t i = 0; i < count; ++i)
                ASSERT_EQ(texts[static_cast<std::size_t>(i)], "clip " + std::to_string(first + i));
        }
}

TEST_F(Paths, OfSeveralFilesAreEmptyWhereAFileHasNone) {
    const std::string with = write("with.h5", 2, [](Hdf5File& file) { add_variable(file, {"a", "b"}); });
    const std::string without = write("without.h5", 3, {});
    const std::string none = write("none.h5", 0, [](Hdf5File& file) { add_variable(file, {}); });
    EXPECT_EQ(open_sample_paths(Texts{without, without}), nullptr);
    EXPECT_EQ(all({with, without, none, with}), (Texts{"a", "b", "", "", "", "a", "b"}));
    EXPECT_EQ(open_sample_paths(Texts{without, with})->read(2, 2), (Texts{"", "a"}));
    EXPECT_EQ(open_sample_paths(Texts{none})->samples(), 0);
}

TEST_F(Paths, ThatAreNotOneForEachSampleAreRefused) {
    EXPECT_EQ(refusal([](Hdf5File& file) {
                  add_variable(file, {"a", "b"});
              }),
              " has 2 entries, but /samples has 3");
}

TEST_F(Paths, links_that_lead_nowhere_are_refused) {
    EXPECT_CONTAINS(refusal([](Hdf5File& file) {
                        H5Lcreate_soft("/none", file.id(), "paths", H5P_DEFAULT, H5P_DEFAULT);
                    }),
                    " cannot be opened: ");
    EXPECT_CONTAINS(refusal([](Hdf5File& file) {
                        H5Lcreate_external("none.h5", "/p", file.id(), "paths", H5P_DEFAULT, H5P_DEFAULT);
                    }),
                    "none.h5");
}

TEST_F(Paths, WhatElseHasThatNameIsLeftAlone) {
    const auto table = [](hid_t type, const std::vector<hsize_t>& dims) {
        return [=](Hdf5File& file) { file.table("paths", type, type, dims, nullptr); };
    };
    const test::Handle text = hdf5::variable_text_type();
    EXPECT_EQ(all({write("a.h5", 3, table(H5T_STD_I64LE, {3}))}), Texts{"none"});
    EXPECT_EQ(all({write("b.h5", 3, table(text.get(), {3, 1}))}), Texts{"none"});
    EXPECT_EQ(all({write("c.h5", 3,
                         [](Hdf5File& file) {
                             H5Gclose(H5Gcreate2(file.id(), "paths", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
                         })}),
              Texts{"none"});
}

TEST_F(Paths, BytesThatAreNoUtf8AreShown) {
    EXPECT_EQ(all({write("a.h5", 3,
                         [](Hdf5File& file) {
                             add_variable(file, {"a", "b", "caf\xe9.png"});
                         })}),
              (Texts{"a", "b", "caf\xef\xbf\xbd.png"}));
    const test::Handle fixed = fixed_type(2, H5T_STR_NULLPAD);
    EXPECT_EQ(all({write("b.h5", 3,
                         [&](Hdf5File& file) {
                             file.table("paths", fixed.get(), fixed.get(), {3}, "a\0\xff\0b");
                         })}),
              (Texts{"a", "\xef\xbf\xbd", "b"}));
}

TEST_F(Paths, ThatAreLongAreReadInSmallPieces) {
    Texts texts;
    for (std::size_t i = 0; i < 300; ++i)
        texts.push_back(std::string(i % 7 * 10000, 'x') + std::to_string(i));
    EXPECT_EQ(all({write("a.h5", 300,
                         [&](Hdf5File& file) {
                             std::vector<const char*> pointers;
                             for (const std::string& text : texts) pointers.push_back(text.c_str());
                             add_variable(file, pointers);
                         })}),
              texts);
}

TEST_F(Paths, ThatWereNotWrittenAreNotTakenForEmptyOnes) {
    const test::Handle fixed = fixed_type(1000, H5T_STR_NULLPAD), text = hdf5::variable_text_type();
    EXPECT_EQ(refusal([&](Hdf5File& file) { file.table("paths", fixed.get(), fixed.get(), {3}, nullptr); }),
              " is text [3], 3000 bytes, of which 0 were written");
    const Layout chunked = [](hid_t creation) {
        const hsize_t chunk = 2;
        H5Pset_chunk(creation, 1, &chunk);
    };
    EXPECT_EQ(refusal([&](Hdf5File& file) {
                  file.table("paths", text.get(), text.get(), {3}, nullptr, chunked);
                  const char* const texts[] = {"a", "b"};
                  file.first_rows("paths", text.get(), 2, texts);
              }),
              " is text [3], 2 chunks, of which 1 was written");
}

TEST_F(Paths, OfWhatIsNoDataSetAreRefused) {
    EXPECT_CONTAINS(data_error([&] { open_sample_paths(Texts{path("gone.h5")}); }), "No such file");
    Hdf5File(path()).integer("x", 1);
    EXPECT_CONTAINS(data_error([&] { open_sample_paths(Texts{path()}); }), "not a Tutti data set");
}

}  // namespace
}  // namespace tutti
